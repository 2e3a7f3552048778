"""A method has one colour in reports, in the theory lab and in the figures of the documentation."""

import re
from importlib import resources

from reproduction.draw import COLOURS as IN_RESULTS

from polychromic.report.page import COLOURS as ORDER
from polychromic.theory import figures


def in_reports():
    css = (resources.files("polychromic.report") / "template/page.css").read_text(encoding="utf-8")
    pairs = {int(at): pair for at, *pair in re.findall(r"--c(\d): light-dark\((#\w+), (#\w+)\)", css)}
    return {method: pairs[at] for at, (method, own) in enumerate(ORDER) if not own}


def test_the_figures_of_results_have_the_colours_of_reports():
    assert {method: in_reports()[method][0] for method in IN_RESULTS} == IN_RESULTS


def test_the_theory_lab_has_them_on_both_backgrounds():
    known = in_reports()
    assert (figures.GREEN, figures.BLUE, figures.ORANGES[1]) == tuple(
        known[method][0] for method in ("reinforce", "ppo", "poly-ppo")
    )
    html = (resources.files("polychromic.theory") / "bandit.html").read_text(encoding="utf-8")
    for method, name in (("reinforce", "reinforce"), ("ppo", "ppo"), ("poly-ppo", "polychromic")):
        assert re.findall(rf"--{name}: (#\w+);", html) == known[method]

"""The demo from a policy to its report, in small."""

import pytest

from polychromic.cli import main
from polychromic.demo import DEMO, parts
from polychromic.tasks.triangle.report import in_sentences


def test_the_demo_ends_in_a_report_and_plain_words(results):
    printed, out = results["printed"], results["demo"]
    for part in (
        "pretrained at its best temperature",
        "One attempt: ",
        "8 attempts: ",
        "Distinct room sets: ",
        "Coverage: of the ",
    ):
        assert part in printed
    assert str(out.resolve() / "report.html") in printed
    page = (out / "report.html").read_text()
    for label in ('"pretrained"', '"pretrained, best temperature', '"ppo"', '"poly-ppo"'):
        assert f'"label":{label}' in page
    assert "fourrooms" in (out / "tables.md").read_text()


def test_what_it_plays_can_be_changed(results):
    assert parts() == list(DEMO)
    (part,) = parts(str(results["policy"]))
    assert part.policy == str(results["policy"])
    assert part.settings == DEMO[0].settings


@pytest.mark.parametrize("option", ["--iterations", "--attempts", "--seed"])
def test_negative_numbers_are_one_line(tmp_path, capsys, option):
    assert main(["demo", option, "-1", "--out", str(tmp_path / "demo")]) == 2
    error = capsys.readouterr().err
    assert f"{option[2:]} is -1" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "demo").exists()


def test_an_unknown_policy_is_one_line(tmp_path, capsys):
    assert main(["demo", "--policy", "nobody", "--out", str(tmp_path / "demo")]) == 2
    assert "policy is 'nobody'" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_triangles_in_words():
    """Two graphs and two answers of each; the policies name 3, 1 and 2 different triangles."""

    def metrics(distinct):
        curve = {name: [[0.0], [0.0]] for name in ("diff_at_k", "creative_at_k")}
        strict = {"validity": [0.5, 1.0], "distinct": distinct, **curve}
        return {"attempts": 2, "ks": [2], "ceiling": {"triangles": [9, 9], "undiscovered": [4, 4]}, "strict": strict}

    found = {"pretrained": metrics([2, 1]), "ppo": metrics([1, 0]), "poly-ppo": metrics([1, 1])}
    lines = in_sentences(found, "pretrained", "ppo", "poly-ppo")
    assert lines[0].startswith("pretrained: validity 0.750")
    assert "In 4 answers poly-ppo names 2 different triangles and ppo 1, where pretrained named 3." in lines[-1]

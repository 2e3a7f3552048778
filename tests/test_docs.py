"""The code in the documentation runs, and prints what the documentation says it prints."""

import difflib
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from polychromic.theory.collapse import Bandit
from polychromic.theory.figures import bandit_curves

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


LONG = {"own-environment.md": pytest.mark.slow}


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.name, marks=LONG.get(p.name, ())) for p in PAGES if python_blocks(p)]
)
def test_python_blocks_run_one_after_another(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for what they write
    names: dict[str, object] = {}
    for block in python_blocks(page):
        exec(compile(block, page.name, "exec"), names)


def test_the_advantages_in_the_readme_are_what_its_code_gives():
    names: dict[str, object] = {}
    block, *_ = python_blocks(ROOT / "README.md")
    code, call = (
        block[: block.index("poly.polychromic_advantages")],
        block[block.index("poly.polychromic_advantages") :],
    )
    exec(compile(code, "README.md", "exec"), names)
    expression, comment = call.split("# ")
    shown = [float(number) for number in re.findall(r"-?\d\.\d+", comment)]
    np.testing.assert_allclose(eval(expression.strip(), names), shown, atol=5e-4)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_tour_lists_the_folder_and_names_what_is_there():
    tour = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
    files = {path.name for path in (ROOT / "src/polychromic/finetuning").glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"^\| `(\w+\.py)` \|", tour, flags=re.MULTILINE)) == files
    modules = {name.removesuffix(".py") for name in files}
    named = {(module, name) for module, name in re.findall(r"`(\w+)\.(\w+)[`(]", tour) if module in modules} - {
        (module, "py") for module in modules
    }
    assert named
    for module, name in named:
        assert hasattr(importlib.import_module(f"polychromic.finetuning.{module}"), name), f"{module}.{name}"


def test_an_own_environment_takes_at_most_20_lines():
    first, *_ = python_blocks(ROOT / "docs" / "own-environment.md")
    assert len([line for line in first.splitlines() if line.strip()]) <= 20
    assert "poly.Policy(" in first  # a network of one's own
    assert "clone" in first
    assert "write_report" in first


def test_the_readme_shows_what_changes_in_a_script_for_trl():
    """`tests_trl` runs both scripts; here the README is held against them."""
    stock, ours = (
        (ROOT / f"examples/trl/{name}_grpo.py").read_text().splitlines() for name in ("stock", "polychromic")
    )
    changed = [
        line[0] + line[2:] for line in difflib.ndiff(stock, ours) if line[:2] in ("+ ", "- ") and line[2:].strip()
    ]
    [shown] = re.findall(r"```diff\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert sorted(line for line in shown.splitlines() if line[0] in "+-") == sorted(changed)
    assert sum(line[0] == "+" for line in changed) == 6


# Pages that are easy to read and to find


def prose(page):
    """Paragraphs and items of lists, without code, tables, headings and what is made from results."""
    text = re.sub(
        r"^<!-- [a-z-]+ -->.*?^<!-- end -->", "\n", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    text = re.sub(r"^```.*?^```", "\n", text, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if not re.match(r"    \S|[|#<!]|:::|---", line)]
        for part in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(lines)):
            yield part.split()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_paragraphs_are_short(page):
    for words in prose(page):
        assert len(words) <= 80, f"{len(words)} words: {' '.join(words[:12])} …"


def test_every_page_is_in_the_navigation_once():
    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        return [page for below in (entry.values() if isinstance(entry, dict) else entry) for page in pages(below)]

    sections = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    names = [name for section in sections for name in section]
    assert names == ["Start", "Extend it", "Language models", "How it works", "Results", "Reference"]
    assert sorted(pages(sections)) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_start_page_leads_to_everything_a_user_needs():
    start = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    needed = (
        "finetuning evaluation report sweeps own-environment extend language-models tasks results errata paper-map tour"
    )
    for name in needed.split():
        assert f"]({name}.md)" in start, name


def test_each_extension_takes_at_most_ten_lines():
    for block in python_blocks(ROOT / "docs/extend.md"):
        assert len([line for line in block.splitlines() if line.strip()]) <= 10


def test_the_theory_page_shows_what_the_bandit_gives():
    shown = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    for curve in bandit_curves(Bandit()):
        start, end = curve.distinct_right[[0, -1]]
        assert f"| {curve.name} | {curve.success[-1]:.3f} | {start:.1f} → {end:.1f} |" in shown
    assert f"settles at {bandit_curves(Bandit())[-1].success[-1]:.3f}" in shown
    one_right = {method: Bandit(right=1).train(method).success[-1] for method in ("ppo", "polychromic")}
    assert f"cost {100 * (one_right['ppo'] - one_right['polychromic']):.0f} points" in shown
    slight, tied = (Bandit(unevenness=lead).train("ppo").distinct_right[-1] for lead in (0.1, 0))
    assert slight < 1.1 < 4.8 < tied

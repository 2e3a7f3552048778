"""The code in the documentation runs, and prints what the documentation says it prints."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=lambda p: p.name)
def test_python_blocks_run_one_after_another(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for what they write
    names: dict[str, object] = {}
    for block in python_blocks(page):
        exec(compile(block, page.name, "exec"), names)


def test_the_advantages_in_the_readme_are_what_its_code_gives():
    names: dict[str, object] = {}
    (block,) = python_blocks(ROOT / "README.md")
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
    assert "clone" in first
    assert "write_report" in first

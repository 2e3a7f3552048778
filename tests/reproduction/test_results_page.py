"""From files of results to the page and its figures."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import made_up, searched
from reproduction.__main__ import main
from reproduction.draw import save
from reproduction.figures import draw_figures
from reproduction.lines import Line, Stored
from reproduction.page import (
    command_of,
    fill,
    results_blocks,
    scale_blocks,
    skeletons,
    write_page,
)
from reproduction.pictures import pictures
from reproduction.plan import expand
from reproduction.plans import FULL, PLAIN, SEARCH, STUDY, TABLES, UCB
from reproduction.records import Results
from reproduction.search import search_chains
from reproduction.words import WIDTH, gap

from polychromic.sweep.cells import PRETRAINED

ROOT = Path(__file__).parents[2]
RATES = {"actor_learning_rate": 1e-5, "critic_learning_rate": 1e-4}
CHOSEN = {
    method: {**RATES, **SEARCH.start[method.removesuffix("-ucb")], **({"ucb": 0.1} if method in UCB else {})}
    for method in (*PLAIN, *UCB)
}
ONLY_GOTO = replace(FULL, tasks={"goto": FULL.tasks["goto"]})
TASK = ("goto",)
CHANCES = {"ppo": 0.5, "poly-ppo": 0.7, PRETRAINED: 0.3}


@pytest.fixture
def few_resamples(monkeypatch):
    """For tests that look at words and not at figures."""
    monkeypatch.setattr("reproduction.intervals.RESAMPLES", 400)
    monkeypatch.setattr("reproduction.intervals.DIFFERENCE_RESAMPLES", 400)


def results(path, plan):
    found = Results(path)
    for one in plan:
        found.add([made_up(one.cell, CHANCES.get(one.cell.method, 0.4))])
        if one.cell.method == PRETRAINED:
            found.add([made_up(one.cell, 0.35, best=True)])
    return found


def whole(folder, *, without=(), bases=("goto-memory",)):
    """Everything there is to run, with made-up results; `without`: (method, seed) that are missing."""
    stored = Stored(folder, ONLY_GOTO)
    searching = stored.search
    searching.notes["chosen"] = {"goto": CHOSEN}
    for one in [one for chain in search_chains({}, SEARCH, ONLY_GOTO) for one in chain.missing]:
        searching.add([searched(one.cell, 0.5)])
    files = {base: f"x/{base}/policy" for base in bases}
    chosen = stored.chosen
    plan = [*expand(TABLES, ONLY_GOTO, chosen), *expand(STUDY, ONLY_GOTO, chosen, only=STUDY.parts, bases=files)]
    left = [one for one in plan if (one.cell.method, one.cell.seed) not in without]
    stored.files["runs"] = results(folder / "runs.json", left)
    return stored


def test_a_file_of_results_is_merged_and_read_back(tmp_path):
    found = whole(tmp_path)
    assert not (tmp_path / "runs.json").exists()
    runs = found.files["runs"]
    runs.write()
    read = Results(tmp_path / "runs.json")
    assert read.cells == runs.cells
    cell = expand(TABLES, ONLY_GOTO, found.chosen)[-1].cell
    assert not read.add([runs.cells[key] for key in list(read.cells)[:3]])
    more = made_up(replace(cell, seed=7))
    assert read.add([more])
    read.write()
    assert len(Results(tmp_path / "runs.json").cells) == len(runs.cells) + 1
    (tmp_path / "runs.json").write_text("{}")
    with pytest.raises(ValueError, match="not a results file"):
        Results(tmp_path / "runs.json")


@pytest.mark.usefixtures("few_resamples")
def test_tables_say_what_is_in_them_and_what_is_not(tmp_path):
    found = whole(tmp_path, without={("ppo", 2), ("ppo", 3), ("ppo", 4)})
    made = results_blocks(found, {})
    table = made["first-goto"]
    assert "| Poly-PPO − PPO | +" in table  # PPO has two seeds: nothing is in bold
    assert re.search(r"\| Poly-PPO − pretrained \| \*\*\+", table)
    assert "Not run: PPO (seeds 2, 3, 4)." in table
    assert "| pretrained, best temperature (0.2) |" in table
    assert re.search(r"\| Poly-PPO \| 5 \| \d\d\.\d \[\d\d\.\d, \d\d\.\d\] \| 80\.2 \|", table)
    assert "`python -m reproduction tables`" in table
    assert "commits `0123abcd`" in table
    study = made["study-goto"]
    assert "| window: W = 0 | Poly-PPO |" in study
    assert "goto-memory, ppo" in study
    assert re.search(r"\| length: Poly-PPO, 2 times as long \| Poly-PPO \|", study)
    assert "| learning rate: 0.0003 | 1,000 |" in study
    assert re.search(r"\| learning rate: 0.0003 \|.*\(a\) not resolved", study)
    assert "| set size: n = 32, no forks | none, all subsets |" in study
    assert "| the settings of the search, half-way; set size: n = 32, no forks | 1,000 |" in study
    assert re.search(r"\| the paper's literal settings \|.*\(a\) not resolved", study)  # two seeds of PPO
    assert "0 of 6 searches are finished; 9 runs of their current stages are missing." in made["search"]
    assert made["search"].count("**0.500**") == 3


@pytest.mark.usefixtures("few_resamples")
def test_other_base_policies_are_named_if_they_were_not_even_begun(tmp_path):
    study = results_blocks(whole(tmp_path, bases=()), {})["study-goto"]
    assert "Not run: goto-memory, pretrained (seeds 0); goto-memory, poly-ppo (seeds 0, 1, 2)" in study


def test_a_difference_that_rounds_to_nothing_is_not_in_bold():
    def line(values):
        return Line("", "", "ppo", [{"entropy": values}] * 3, (0, 1, 2))

    flat = [0.5] * 6
    assert gap(line([0.5002] * 6), line(flat), "entropy") == "+0.0 [+0.0, +0.0]"
    assert gap(line([0.51] * 6), line(flat), "entropy") == "**+1.0 [+1.0, +1.0]**"
    assert (
        gap(Line("", "", "ppo", [{"entropy": [0.51] * 6}] * 3, (0, 1, 2), diverged=(3,)), line(flat), "entropy")[0]
        == "+"
    )


@pytest.mark.usefixtures("few_resamples")
def test_runs_that_diverged_are_named(tmp_path):
    found = whole(tmp_path)
    runs = found.files["runs"]
    diverged = next(one for one in runs.cells.values() if one["method"] == "poly-ppo" and one["seed"] == 1)
    gone = {name: diverged[name] for name in ("task", "method", "base", "settings", "seed", "parameters", "config")}
    runs.add([{**gone, "commits": [], "cpu_seconds": {}, "failed": "a loss is no longer finite"}])
    line = next(line for plan in (TABLES, STUDY) for line in found.lines(plan, "goto") if line.diverged)
    assert line.missing == []
    assert line.seeds == f"{len(line.records)} (1 more diverged)"
    said = "".join(results_blocks(found, {}).values())
    assert "Diverged and excluded from the metrics: " in said


def test_without_results_nothing_is_claimed(tmp_path):
    empty = Stored(tmp_path, FULL)
    made = results_blocks(empty, {})
    verdict, searched = made.pop("verdict"), made.pop("credit")
    assert verdict.count("| – | not run yet | – |") == verdict.count("not run yet") - 1 == 21
    assert "**Of 21 rows: 21 not run yet.**" in verdict
    assert searched == "Not run yet."
    nothing = {name: text for name, text in made.items() if "ot run yet" not in text}
    assert nothing == {"cost": "Nothing was run yet."}
    assert not re.search(r"\d\.\d", "".join(made.values()))
    assert made["paper-goto"] == f"Not run yet: `{command_of('tables --only paper')}`."
    assert draw_figures(empty, tmp_path / "figures") == {}


@pytest.mark.usefixtures("few_resamples")
def test_the_pages_keep_the_words_around_their_tables(tmp_path):
    found = whole(tmp_path)
    figures = draw_figures(found, tmp_path / "figures")
    compared = {f"{kind}-{part}goto" for kind in ("passk", "curves") for part in ("", "paper-")}
    asked = {"best", "attempts", "perturbed", "strategies", "decides", "cost"}
    assert set(figures) == {*compared, *asked, "study-goto"}
    blocks = results_blocks(found, figures)
    for suffix, skeleton in skeletons(found).items():
        page = tmp_path / f"page{suffix}.md"
        page.write_text(skeleton.replace("\n\n## ", "\n\nWords of mine.\n\n## ", 1))
        write_page(page, blocks)
        first = page.read_text()
        assert "Words of mine." in first
        assert first.count("<!-- end -->") == skeleton.count("<!-- end -->")
        write_page(page, blocks)
        assert page.read_text() == first
        for link in re.findall(r"!\[.*?\]\((.*?)\)", first):
            assert (tmp_path / link).read_text().startswith("<?xml")
    assert fill("no marks", "search", "text") == "no marks"
    # Drawn again it is the same bytes.
    save(pictures(found)["best"], tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / figures["best"]).read_bytes()


PAGES = ("results", "results-tables", "results-study", "results-method")


@pytest.mark.slow
def test_the_documentation_shows_the_results_of_the_repository(tmp_path, monkeypatch, capsys):
    for name in (*PAGES, "triangle"):
        shutil.copy(ROOT / "docs" / f"{name}.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["page", "--results", str(ROOT / "results"), "--page", str(tmp_path / "results.md")]) == 0
    capsys.readouterr()
    for name in (*PAGES, "triangle"):
        assert (tmp_path / f"{name}.md").read_text() == (ROOT / "docs" / f"{name}.md").read_text(), name
    for figure in (tmp_path / "figures").iterdir():
        assert figure.read_bytes() == (ROOT / "docs" / "figures" / figure.name).read_bytes(), figure.name


def test_the_documentation_has_a_place_for_every_block():
    stored = Stored(ROOT / "results", FULL)
    for suffix, skeleton in skeletons(stored).items():
        page = (ROOT / "docs" / f"results{suffix}.md").read_text()
        marks = re.compile(r"<!-- ([a-z-]+) -->")
        assert set(marks.findall(skeleton)) <= set(marks.findall(page))
    for path in sorted((ROOT / "results").glob("*.json")):
        assert not re.search(r"/(tmp|home|root|work|Users)/", path.read_text()), path


def in_words(page):
    """The text of a page beside its tables, figures and code."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->|!\[.*?\]\(.*?\)", "", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


def test_the_results_page_is_short():
    text = in_words((ROOT / "docs" / "results.md").read_text())
    assert len(text.split()) <= 1500
    for paragraph in re.split(r"\n\n|\n(?=- )", text):
        assert len(paragraph.split()) < 80, paragraph


def test_no_table_has_more_columns_than_fit():
    for name in PAGES:
        for line in (ROOT / "docs" / f"{name}.md").read_text().splitlines():
            if line.startswith("| ---"):
                assert line.count("---") <= WIDTH, name


def test_the_page_of_scale_says_what_is_computed():
    page = (ROOT / "docs" / "scale.md").read_text()
    for table in scale_blocks(Stored(ROOT / "results", FULL).chosen).values():
        assert table in page


WITH_INTERVALS = [
    *(f"docs/{name}.md" for name in PAGES),
    "docs/finetuning.md",
    "docs/set-credit.md",
    "docs/index.md",
    "README.md",
]


@pytest.mark.parametrize("page", WITH_INTERVALS)
def test_every_interval_in_words_is_in_a_table(page):
    """Words are written by hand; when tables are made again, they must follow: the mean and both ends."""
    marked = re.compile(r"<!-- [a-z-]+ -->.*?<!-- end -->", re.DOTALL)
    number = r"([−+-]?\d+\.\d+)"
    interval = re.compile(rf"{number}\s+\[{number},\s+{number}\]")

    def found_in(text):
        return {tuple(float(part.replace("−", "-")) for part in found) for found in interval.findall(text)}

    pages = [(ROOT / "docs" / f"{name}.md").read_text() for name in (*PAGES, "triangle")]
    known = found_in(" ".join(text for text in pages for text in marked.findall(text)))
    said = found_in(marked.sub("", (ROOT / page).read_text()))
    assert sorted(said - known) == []

"""The README says what was measured, in few words."""

import re
from pathlib import Path

import numpy as np
import pytest
from reproduction.convergence import convergence_lines
from reproduction.effect import effect
from reproduction.intervals import difference, metric_of
from reproduction.lines import Stored
from reproduction.plans import CHOSEN, FULL, PAPER, TABLES, TASKS, TRIANGLE
from reproduction.triangles import MATCHED_VALIDITY, at_temperature, at_validity
from reproduction.words import points

from polychromic.files import read_json
from polychromic.sweep.cells import PRETRAINED
from polychromic.tasks.grids import paper_results
from polychromic.theory.claims import all_claims

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
METHODS = ("ppo", "poly-ppo")


def row(claim):
    [found] = re.findall(rf"^\| {re.escape(claim)} \|(.*)\|$", README, flags=re.MULTILINE)
    return [cell.strip() for cell in found.split(" | ")]


def compared(task, part, metric, methods=METHODS):
    """The records of two methods, and the difference of the second minus the first."""
    lines = Stored(ROOT / "results", FULL).lines(TABLES, task)
    records = {line.method: line.records for line in lines if line.part == part}
    first, second = (records[method] for method in methods)
    return first, second, difference(second, first, metric)


def measured(task, part, metric):
    first, second, gap = compared(task, part, metric)
    means = [f"{100 * metric_of(records, metric).mean:.1f}" for records in (first, second)]
    told = f"**{points(gap)}**" if gap.clear else points(gap)
    return f"{'→'.join(means)}: {told}"


def printed(table, task):
    paper = paper_results()
    by_method = dict(zip(paper["methods"], paper[table][task], strict=True))
    return "→".join(str(np.atleast_1d(by_method[method])[-1]) for method in METHODS)


def test_it_is_short():
    assert len(README.split()) <= 700


@pytest.mark.parametrize("task", TABLES.tasks(FULL))
def test_the_grids_have_the_measured_numbers(task):
    columns = {"success": "reward_and_success_percent", "perturbed": "perturbed_start_success_percent"}
    expected = [(printed(table, task), measured(task, CHOSEN, metric)) for metric, table in columns.items()]
    assert row(TASKS[task].title) == [cell for pair in expected for cell in pair]


def test_the_words_about_grids_are_what_was_measured():
    start = " ".join((ROOT / "docs/index.md").read_text(encoding="utf-8").split())
    [said] = re.findall(r"beat PPO from perturbed starts by (\d\.\d)", start)
    assert f": **+{said} [+" in measured("fourrooms", CHOSEN, "perturbed")
    tasks = TABLES.tasks(FULL)
    gaps = {task: compared(task, CHOSEN, "success")[2] for task in tasks}
    assert [TASKS[task].title for task, gap in gaps.items() if gap.high < 0] == ["GoTo", "Pickup", "BossLevel"]
    assert not [task for task, gap in gaps.items() if gap.low > 0]
    assert "behind PPO on three of five tasks, ahead on none" in " ".join(README.split())
    assert "behind PPO on GoTo, Pickup and BossLevel at equal trajectories" in start
    assert all(compared(task, CHOSEN, "perturbed", (PRETRAINED, "ppo"))[2].low > 0 for task in tasks)
    lines, base = convergence_lines(Stored(ROOT / "results", FULL), "goto")
    [ppo] = [line for line in lines if line.method == "ppo"]
    gap = difference(ppo.records, base.records, "perturbed", alike=[line.records for line in lines])
    assert gap.low > 0
    said = (
        "From perturbed starts PPO beats the pretrained policy on all five, even after 4,000 iterations with the "
        "paper's settings (GoTo)."
    )
    assert said in " ".join(README.split())
    lines = Stored(ROOT / "results", FULL).lines(TABLES, "fourrooms")
    literal = [line for line in lines if line.part == PAPER]
    [ours] = [line.records for line in literal if line.method == "poly-ppo"]
    [cooler] = [line.records for line in literal if "best temperature" in line.label]
    gap = difference(ours, cooler, "success")
    assert gap.low < 0 < gap.high  # "a lower temperature does as well"


def test_the_triangles_have_the_measured_numbers():
    lines = {line.label: line.records for line in Stored(ROOT / "results", FULL).lines(TRIANGLE, "triangle")}
    labels = (PRETRAINED, "PPO", "Poly-PPO, one group of 136, n = 64")

    def mean(label, name):
        return np.mean([at_temperature(record["points"], 1.0)[name] for record in lines[label]])

    assert row("distinct of 1,000 (validity)") == [
        f"{mean(label, 'distinct_of_1000'):.0f} ({mean(label, 'validity'):.2f})" for label in labels
    ]
    matched = [
        [at_validity(record["points"], MATCHED_VALIDITY, "distinct_of_1000") for record in lines[label]]
        for label in labels
    ]
    assert row(f"at validity {MATCHED_VALIDITY}, by temperature") == [f"{np.mean(values):.0f}" for values in matched]


def test_the_number_of_errata():
    errata = (ROOT / "docs/errata.md").read_text(encoding="utf-8")
    mistaken = errata.split("## Where the paper is mistaken")[1].split("\n## ")[0]
    rows = [line for line in mistaken.splitlines() if line.startswith("|")][2:]
    assert f"[{len(rows)} errata](docs/errata.md)" in README
    failing = [claim.where for claim in all_claims() if not claim.holds]
    readings = [line for line in rows if line.rpartition("| reading")[1]]
    assert (len(failing), len(rows) - len(readings), len(readings)) == (12, 11, 4)  # as errata.md and theory.md say
    assert [where for where in failing if where.startswith("Prop.")] == ["Prop. 5.5", "Prop. 5.5, proof"]


def test_the_picture_is_drawn_from_its_file(tmp_path):
    (tmp_path / "triangles.json").write_bytes((ROOT / "docs/figures/triangles.json").read_bytes())
    effect(folder=tmp_path)
    assert (tmp_path / "triangles.svg").read_bytes() == (ROOT / "docs/figures/triangles.svg").read_bytes()
    policies = read_json(tmp_path / "triangles.json")["policies"]
    counts = {name: len(policy["triangles"]) for name, policy in policies.items()}
    assert counts["ppo"] <= 2
    assert counts["poly-ppo"] > 100
    assert policies["poly-ppo"]["validity"] > 0.8

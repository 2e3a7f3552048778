"""Triangle discovery through the machinery: cells, scores by temperature, results."""

from dataclasses import replace
from pathlib import Path

import pytest
from reproduction.lines import Stored
from reproduction.plans import FULL, QUICK, TASKS, TRIANGLE
from reproduction.temperatures import POINTS, score_cell

from polychromic.files import read_json
from reproduction import __main__ as command

ROOT = Path(__file__).parents[2]


def points_in(folder):
    return read_json(folder / POINTS)["points"]


def test_the_base_policy_scores_what_its_stored_result_says(tmp_path):
    [stored] = Stored(ROOT / "results", FULL).lines(TRIANGLE, "triangle")[0].records
    score_cell(tmp_path, "triangle", "", [1.0], seed=0)
    [point] = points_in(tmp_path)
    assert point == pytest.approx(stored["points"][0])
    score_cell(tmp_path, "triangle", "", [1.0], seed=1)  # it is there: nothing is scored again
    assert points_in(tmp_path) == [point]


@pytest.mark.slow
def test_a_cell_is_run_scored_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    base, *_ = TRIANGLE.runs
    ppo = next(runs for runs in TRIANGLE.runs if runs.label == "PPO")
    small = {**ppo.changes, "budget": 4, "configurations_per_iteration": 1}
    few = [replace(base, temperatures=(1.0,)), replace(ppo, changes=small, temperatures=(1.0, 0.5))]
    plan = replace(TRIANGLE, runs=tuple(few))
    scale = replace(QUICK, tasks={"triangle": replace(TASKS["triangle"], lengths={"triangle": 1})})
    monkeypatch.setitem(command.PLANS, "triangle", plan)
    monkeypatch.setattr(command, "TRIANGLE", plan)
    monkeypatch.setattr("reproduction.page.TRIANGLE", plan)
    given = command.Arguments("triangle", quick=True, workers=1)
    assert command.reproduce(given, scale) == 0
    assert "2 of 2 cells to run" in capsys.readouterr().out
    results = Stored(given.results_folder, scale).files["triangle"]
    by_method = {record["method"]: record for record in results.cells.values()}
    assert [point["temperature"] for point in by_method["ppo"]["points"]] == [1.0, 0.5]
    assert by_method["ppo"]["attempts"] == 1000
    page = (given.results_folder / "triangle.md").read_text()
    assert "| PPO | 1 |" in page
    assert (given.results_folder / "figures" / "triangle.svg").exists()
    assert command.reproduce(given, scale) == 0
    assert "0 of 2 cells to run" in capsys.readouterr().out

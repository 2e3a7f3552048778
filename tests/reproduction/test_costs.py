"""Estimates, and what the documentation says of them."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from reproduction.estimates import needs_table
from reproduction.tables_command import FULL, ITEMS, METHODS, QUICK, TRIANGLE, cells_of

from polychromic import available_policies
from polychromic.cli import main
from polychromic.sweep.cells import Cell, Evaluation
from polychromic.sweep.costs import Estimate, cell_bytes, cell_seconds, estimate, measured, pace_here
from polychromic.sweep.progress import Status

ROOT = Path(__file__).parents[2]
COSTS = {
    "attempts": 160,
    "tasks": {
        "goto": {
            "iteration_seconds": {"ppo": 2.0, "ppo-ucb": 3.0},
            "bytes_per_iteration": {"ppo": 0, "ppo-ucb": 7},
            "brief_evaluation_seconds": 10.0,
            "evaluation_seconds": 40.0,
            "sweep_seconds": 60.0,
            "perturbed_seconds": 5.0,
            "log_bytes_per_iteration": 100,
            "fixed_bytes": 1000,
        }
    },
}


def test_costs_add_up():
    own = {"iterations": 100, "configurations_per_iteration": 1, "evaluate_every": 50}
    ppo = Cell("goto", "ppo", 0, own)
    # 100 iterations, two brief evaluations of 32 rollouts, one of 160 attempts.
    assert cell_seconds(ppo, COSTS) == 100 * 2 + 2 * 10 + 40
    half = replace(ppo, settings={**own, "budget": 68}, evaluation=Evaluation(80, perturbed=True))
    assert cell_seconds(half, COSTS) == 100 * 1 + 2 * 10 + 20 + 5
    assert cell_seconds(Cell("goto", "pretrained", 0), COSTS) == 40 + 60 + 40
    assert cell_bytes(ppo, COSTS) == 1000 + 100 * 100
    assert cell_bytes(replace(ppo, method="ppo-ucb"), COSTS) == 1000 + 100 * 107
    # What was never measured costs what the dearest does; a task is told.
    assert cell_seconds(replace(ppo, method="grpo"), COSTS) == 100 * 3 + 2 * 10 + 40
    assert estimate([ppo, ppo, Cell("pickup", "ppo", 0, {**own, "iterations": 500})], COSTS) == Estimate(
        2 * 260.0 + 1000 + 10 * 10 + 40, 2 * 11000 + 51000, ("pickup",)
    )


def test_the_pace_of_this_machine_is_learnt_from_cells_that_ran():
    cell = Cell("goto", "ppo", 0, {"configurations_per_iteration": 1})
    status = Status("x", ("goto", "ppo"), "running", 3, 500)
    assert pace_here([cell], [status], COSTS) == 1.0
    assert pace_here([cell], [replace(status, iteration_seconds=5.0)], COSTS) == 2.5


def test_the_cells_of_an_item():
    tasks = [task for task in ITEMS["table1"][0] if task in available_policies()]
    cells = cells_of("table1", FULL)
    assert len(cells) == len(tasks) * (1 + 3 * len(METHODS))
    assert all(cell.evaluation.perturbed for cell in cells)
    assert {cell.evaluation.recordings for cell in cells if cell.seed} == {False}
    assert [cell.name for cell in cells] == [cell.name for cell in cells_of("table2", FULL)]
    assert {cell.name for cell in cells_of("passk", FULL)} < {cell.name for cell in cells}


@pytest.mark.parametrize("what", [name for name in ITEMS if name not in ("all", TRIANGLE)])
def test_quick_is_quick(what):
    found = estimate(cells_of(what, QUICK), measured())
    # Two cores; a third is left for loading, compiling and slower machines.
    assert found.core_seconds / 2 < 10 * 60


def test_a_task_that_is_not_there_costs_one_line(capsys, monkeypatch):
    monkeypatch.setattr("reproduction.tables_command.available_policies", lambda: ["fourrooms"])
    assert main(["reproduce", "triangle"]) == 2
    shown = capsys.readouterr().err
    assert "triangle: no base policy for triangle is shipped" in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(("option", "value"), [("workers", "-3"), ("retries", "-1")])
def test_what_cannot_be_counted_is_refused_before_anything_is_written(option, value, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for what in ("table1", "study"):
        assert main(["reproduce", what, "--quick", f"--{option}", value]) == 2
        shown = capsys.readouterr()
        assert f"{option} is {value}" in shown.err
        assert not shown.out
    assert not list(tmp_path.iterdir())


def test_triangles_are_evaluated_as_polychromic_evaluate_does_it():
    for scale, attempts in ((FULL, 1000), (QUICK, 200)):
        cells = cells_of("all", replace(scale, seeds=1))
        assert {cell.evaluation.attempts for cell in cells if cell.task == TRIANGLE} == {attempts}
        assert {cell.evaluation.attempts for cell in cells if cell.task != TRIANGLE} == {scale.attempts}


def test_an_estimate_can_be_had_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table1", "--quick", "--estimate-only"]) == 0
    shown = capsys.readouterr().out
    assert "15 of 15 cells to run: about" in shown
    assert "| all | 15 |" in shown
    assert not list(tmp_path.iterdir())


def test_the_documentation_says_what_is_computed():
    spec = importlib.util.spec_from_file_location("scale", ROOT / "benchmarks" / "scale.py")
    scale = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scale)
    page = (ROOT / "docs" / "scale.md").read_text()
    for how in scale.SCALES.values():
        assert scale.table_of(how) in page
    assert len(needs_table(cells_of("table1", FULL)).rows) == 6

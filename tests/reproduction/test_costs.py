"""Estimates."""

from dataclasses import replace

import pytest
from reproduction.__main__ import main
from reproduction.costs import Estimate, cell_bytes, cell_seconds, estimate, measured, pace_here, scan_seconds
from reproduction.estimates import needs_table
from reproduction.page import everything
from reproduction.plan import Chosen, expand
from reproduction.plans import CHOSEN, FULL, METHOD_NAMES, QUICK, STAND_IN, STUDY, TABLES, TASKS, TRIANGLE

from polychromic import available_policies
from polychromic.sweep.cells import Cell, Evaluation
from polychromic.sweep.progress import Status

ANYTHING = Chosen(dict.fromkeys(TASKS, STAND_IN), tasks=TASKS)
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
    # What was never measured costs what the most expensive does; a task is named.
    assert cell_seconds(replace(ppo, method="grpo"), COSTS) == 100 * 3 + 2 * 10 + 40
    assert estimate([ppo, ppo, Cell("pickup", "ppo", 0, {**own, "iterations": 500})], COSTS) == Estimate(
        2 * 260.0 + 1000 + 10 * 10 + 40, 2 * 11000 + 51000, ("pickup",)
    )


def test_the_pace_of_this_machine_is_learnt_from_cells_that_ran():
    cell = Cell("goto", "ppo", 0, {"configurations_per_iteration": 1})
    status = Status("x", ("goto", "ppo"), "running", 3, 500)
    assert pace_here([cell], [status], COSTS) == 1.0
    assert pace_here([cell], [replace(status, iteration_seconds=5.0)], COSTS) == 2.5


def test_scoring_at_temperatures_is_counted():
    assert scan_seconds(Cell("goto", "ppo", 0), 9, 320, COSTS) == 9 * 2 * 40


def test_the_cells_of_the_tables():
    cells = [one.cell for one in expand(TABLES, replace(FULL, pair_seeds=3), ANYTHING, only=(CHOSEN,))]
    tasks = TABLES.tasks(FULL)
    assert set(tasks) == {"goto", "pickup", "synthseq", "bosslevel", "fourrooms"} <= set(available_policies())
    assert len(cells) == len(tasks) * (1 + 3 * (len(METHOD_NAMES) - 1))
    assert all(cell.evaluation.perturbed for cell in cells)
    assert {(cell.task, cell.method) for cell in cells} == {(task, method) for task in tasks for method in METHOD_NAMES}
    # The study begins with cells of the tables: the base policy and both methods with all seeds, on two tasks.
    shared = {one.cell.name for one in expand(STUDY, FULL, ANYTHING)} & {cell.name for cell in cells}
    assert len(shared) >= 2 * (1 + 2 * 3)


@pytest.mark.parametrize("plan", [TABLES, STUDY, TRIANGLE], ids=lambda plan: plan.name)
def test_quick_is_quick(plan):
    found = estimate([one.cell for one in expand(plan, QUICK, ANYTHING)], measured())
    # Two cores; a third is left for loading, compiling and slower machines.
    assert found.core_seconds / 2 < 10 * 60


@pytest.mark.parametrize(("option", "value"), [("workers", "-3"), ("retries", "-1"), ("seeds", "-1")])
def test_what_cannot_be_counted_is_refused_before_anything_is_written(option, value, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for what in ("tables", "study"):
        assert main([what, "--quick", f"--{option}", value]) == 2
        shown = capsys.readouterr()
        assert f"{option} is {value}" in shown.err
        assert not shown.out
    assert not list(tmp_path.iterdir())


def test_an_estimate_can_be_had_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tables", "--quick", "--only", "chosen", "--estimate-only"]) == 0
    shown = capsys.readouterr().out
    assert "35 of 35 cells to run: about" in shown
    assert "| all | 35 |" in shown
    assert not list(tmp_path.iterdir())


def test_a_table_of_needs_has_a_row_for_every_task_and_one_for_all():
    rows = needs_table(everything(FULL, ANYTHING)).rows
    assert [row[0] for row in rows] == [*TASKS, "all"]
    assert int(rows[-1][1]) == sum(int(row[1]) for row in rows[:-1])

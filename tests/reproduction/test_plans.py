"""Plans are data: tasks, rows and whole plans can be added without code."""

from dataclasses import replace

import pytest
from made_up import made_up
from reproduction.lines import Stored
from reproduction.plan import Chosen, Plan, Runs, Task, expand
from reproduction.plans import FULL, GRID_READINGS, STAND_IN, TABLES, TASKS
from reproduction.records import records_of

from polychromic.sweep.cells import PRETRAINED, write_cells
from polychromic.sweep.run_cell import note
from reproduction import __main__ as command

OWN = Plan(
    "own",
    "a study of one's own",
    "own",
    (
        Runs("base", (PRETRAINED,), "own"),
        Runs("sizes", ("ppo",), "own", settings="literal"),
        *(
            Runs("sizes", ("poly-ppo",), "own", f"n = {size}", changes={"set_size": size}, seeds="pair")
            for size in (4, 6)
        ),
    ),
    GRID_READINGS,
)
SCALE = replace(FULL, tasks={"pickup": Task("Pickup", {"own": 80}, settings_of="goto"), "goto": TASKS["goto"]})


def test_a_new_plan_on_a_new_task_is_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert OWN.tasks(SCALE) == ("pickup",)
    planned = expand(OWN, SCALE, Chosen({"goto": STAND_IN}, tasks=SCALE.tasks))
    labels = [one.label for one in planned]
    assert {label: labels.count(label) for label in labels} == {"pretrained": 1, "ppo": 3, "n = 4": 5, "n = 6": 5}
    sizes = {one.label: one.cell.config().set_size for one in planned if one.cell.method == "poly-ppo"}
    assert sizes == {"n = 4": 4, "n = 6": 6}
    assert {one.cell.iterations for one in planned} == {0, 80}
    # Rows with and without results, and what is missing, by the name of the plan.
    stored = Stored(tmp_path / "results", SCALE)
    stored.search.notes["chosen"] = {"goto": STAND_IN}
    stored.search.write()
    stored.files["runs"].add([made_up(one.cell) for one in planned if one.label == "n = 6"])
    stored.files["runs"].write()
    lines = {line.label: line for line in stored.lines(OWN, "pickup")}
    assert len(lines["n = 6"].records) == 5
    assert lines["n = 4"].missing == [0, 1, 2, 3, 4]
    monkeypatch.setitem(command.PLANS, "own", OWN)
    monkeypatch.setitem(command.KNOWN, "own", OWN.about)
    assert command.reproduce(command.Arguments("own", estimate_only=True), SCALE) == 0
    shown = capsys.readouterr().out
    assert "9 of 14 cells to run" in shown
    assert "| pickup | 9 |" in shown


def test_tasks_without_a_search_begin_with_the_settings_of_another():
    searched = {"goto": STAND_IN, "pickup": {"ppo": {**STAND_IN["ppo"], "kl_coefficient": 0.05}}}
    chosen = Chosen(searched, tasks=TASKS)
    assert chosen.of("synthseq", "poly-ppo") == STAND_IN["poly-ppo"]
    assert chosen.of("pickup", "ppo")["kl_coefficient"] == 0.05
    assert chosen.of("pickup", "reinforce") == STAND_IN["reinforce"]
    with pytest.raises(ValueError, match="no settings are chosen for ppo on fourrooms yet"):
        chosen.of("fourrooms", "ppo")
    cells = [one.cell for one in expand(TABLES, FULL, chosen, ("synthseq", "bosslevel"))]
    assert {cell.task for cell in cells} == {"synthseq", "bosslevel"}
    assert sorted({cell.seed for cell in cells if cell.method == "ppo"}) == [0, 1, 2, 3, 4]
    assert sorted({cell.seed for cell in cells if cell.method == "reinforce-ucb"}) == [0, 1, 2]


@pytest.mark.parametrize(
    ("lines", "diverged"),
    [
        ([{"state": "failed", "kind": "diverged", "message": "a loss is not a number"}], True),
        ([{"state": "failed", "message": "a loss is no longer finite; the last good checkpoint is 3"}], True),
        ([{"state": "failed", "kind": "mistake", "message": "x is no longer finite"}], False),
        ([{"state": "failed", "message": "no space left"}], False),
        ([{"state": "error", "kind": "diverged", "message": ""}], False),  # it may be tried again
    ],
)
def test_a_run_that_diverged_is_a_result_by_the_kind_of_its_error(tmp_path, lines, diverged):
    planned = next(one for one in expand(TABLES, FULL, Chosen({"goto": STAND_IN}), ("goto",)) if one.label == "ppo")
    [folder] = write_cells(tmp_path, [planned.cell])
    for line in lines:
        note(folder, line)
    found = records_of(folder, planned)
    assert bool(found) == diverged
    if diverged:
        assert "; the last good" not in found[0]["failed"]

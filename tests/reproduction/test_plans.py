"""Plans are data: tasks, rows and whole plans can be added without code."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from made_up import made_up
from reproduction.lines import Line, Stored
from reproduction.plan import Chosen, Plan, Runs, Scale, Task, expand
from reproduction.plans import (
    CONVERGENCE,
    CREDIT,
    FULL,
    GRID_READINGS,
    QUICK,
    RATES,
    SCREENING,
    STAND_IN,
    TABLES,
    TASKS,
)
from reproduction.records import records_of
from reproduction.screening import finalists, scores

from polychromic.sweep.cells import PRETRAINED, write_cells
from polychromic.sweep.run_cell import note, run_cell
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


# What may differ from PPO in the study of set credit: the advantages, and what is varied.
OF_SETS = {"method", "polychromic", "set_credit", "set_size", "num_sets", "objective", "window", "polychromic_schedule"}
OF_RATES = {"actor_learning_rate", "critic_learning_rate"}


OF_PPO = {"kl_coefficient", "entropy_coefficient"}


def test_the_study_of_set_credit_differs_from_ppo_in_its_advantages_alone():
    chosen = Chosen({"goto": STAND_IN}, tasks=TASKS)
    planned = expand(SCREENING, FULL, chosen)
    assert {one.cell.task for one in planned} == {"goto", "synthseq"}
    assert {one.cell.seed for one in planned} == {100}  # of no comparison
    first = {one.label: one for one in planned if one.cell.task == "synthseq"}
    ppo = asdict(first["ppo"].cell.config())
    for label, one in first.items():
        config = asdict(one.cell.config())
        differs = {name for name, value in config.items() if value != ppo[name]}
        assert differs <= OF_RATES | (OF_SETS if one.cell.method == "poly-ppo" else OF_PPO), label
        assert bool(differs & OF_RATES) == ("learning rate" in label)
        assert bool(differs) == (label != "ppo")
        assert config["actor_learning_rate"] == pytest.approx(1e-4 * (3 if "learning rate" in label else 1))
        assert config["critic_learning_rate"] == pytest.approx(10 * config["actor_learning_rate"])
        if one.cell.method == "poly-ppo":
            assert config["set_credit"] == label.partition(",")[0]
            assert one.cell.config().group_size == 136
        assert one.against == ("ppo" if label != "ppo" else "")
    sizes = {(one.cell.config().set_size, one.cell.config().set_credit) for one in first.values()}
    assert sizes >= {(size, rule) for size in (4, 16, 64) for rule in ("control-variate", "critic")}
    assert len({one.cell.name for one in planned}) == len(planned)


def test_what_the_screening_chose_is_run_with_the_seeds_of_the_comparison():
    kept = ("critic, n = 16", "ppo, KL × 10")
    chosen = Chosen({"goto": STAND_IN}, tasks=TASKS, finalists=kept)
    planned = expand(CREDIT, FULL, chosen)
    seeds: dict[tuple[str, str], list[int]] = {}
    for one in planned:
        seeds.setdefault((one.cell.task, one.label), []).append(one.cell.seed)
    assert {label for _, label in seeds} == {"ppo", *kept}
    for task in ("goto", "synthseq", "bosslevel"):
        assert seeds[task, "critic, n = 16"] == [*range(5)]
        assert seeds[task, "ppo, KL × 10"] == [*range(3)]
    assert seeds["goto", "ppo"] == [*range(10)]
    assert seeds["bosslevel", "ppo"] == [*range(5)]
    of_tables = {one.cell.name for one in expand(TABLES, FULL, chosen, ("bosslevel",))}
    assert {one.cell.name for one in planned if one.label == "ppo" and one.cell.task == "bosslevel"} <= of_tables
    assert {one.label for one in expand(CREDIT, FULL, replace(chosen, finalists=()))} == {"ppo"}


def curve(success, strategies, passed=0.9):
    """A run whose success rises evenly to this value, with this many strategies at its end."""
    rising = [0.4 + (success - 0.4) * step / 9 for step in range(10)]
    falling = [12 + (strategies - 12) * step / 9 for step in range(10)]
    return {
        "iteration": [*range(1, 11)],
        "success": rising,
        "distinct_successful_strategies": falling,
        "pass@8": [passed] * 10,
    }


def screened(**changed):
    """Rows of the screening on two tasks, all like PPO but for those given: (success, strategies, pass@8)."""
    known = {"ppo": (0.75, 5), "ppo, KL × 10": (0.6, 8), "ppo, learning rate × 3": (0.7, 5)}
    known |= {f"critic, n = {size}": (0.6, 7) for size in (4, 16, 64)} | {"control-variate": (0.7, 5.5)}
    lines = []
    for label, ends in {**known, **changed}.items():
        method = "ppo" if label.startswith("ppo") else "poly-ppo"
        records = [{"seed": 100, "curve": curve(*ends)}] if ends else []
        lines.append(Line("", label, method, records, (100,)))
    return {"goto": lines, "synthseq": lines}


def test_the_screening_chooses_by_its_rule():
    # The one with most strategies at equal success, and of those near PPO's success the one with most.
    many = {"critic, n = 16": (0.6, 9), "critic, n = 64": (0.6, 8.5)}
    assert finalists(screened(**many)) == ("ppo, KL × 10", "critic, n = 16", "control-variate")
    # Strategies do not count if they cost pass@8.
    lost = {**many, "critic, n = 16": (0.6, 9, 0.87)}
    assert finalists(screened(**lost)) == ("ppo, KL × 10", "critic, n = 64", "control-variate")
    # If one setting is both, the next by strategies is chosen as well.
    assert finalists(screened(**{"control-variate": (0.74, 11)})) == (
        "ppo, KL × 10",
        "critic, n = 4",
        "control-variate",
    )
    assert finalists(screened(**{"critic, n = 4": None})) == ()  # not finished
    found = {one.label: one for one in scores(screened(**many))}
    assert found["ppo"].strategies == pytest.approx(1)
    assert found["control-variate"].success == pytest.approx(-0.05, abs=0.01)
    # In the top quarter of the common range, at 0.575 on average, they have 9.375 and 8.5.
    assert found["critic, n = 16"].strategies == pytest.approx(9.375 / 8.5)


def test_runs_to_convergence_are_literal_and_scored_along_the_way():
    planned = expand(CONVERGENCE, FULL, Chosen({"goto": STAND_IN}, tasks=TASKS))
    assert sorted((one.cell.method, one.cell.seed) for one in planned) == [
        (method, seed) for method in ("poly-ppo", "ppo", "reinforce") for seed in (0, 1)
    ]
    literal = {
        one.cell.method: one.cell for one in expand(TABLES, FULL, Chosen({"goto": STAND_IN}), ("goto",), ("paper",))
    }
    for one in planned:
        config, short = asdict(one.cell.config()), asdict(literal[one.cell.method].config())
        assert config["iterations"] == 4000
        assert (config["checkpoint_every"], config["kept_policies"], config["evaluate_every"]) == (200, 19, 50)
        watching = {"iterations", "seed", "checkpoint_every", "kept_policies", "evaluate_every"}
        assert {name for name in config if config[name] != short[name]} <= watching
        assert one.cell.evaluation.along_the_way


def test_policies_along_the_way_are_scored_in_full(tmp_path):
    few = {"budget": 4, "configurations_per_iteration": 1, "evaluation_rollouts": 2}
    scale = Scale({"fourrooms": Task("FourRooms", {"own": 4})}, seeds=1, pair_seeds=1, attempts=4, rollouts=2, points=2)
    plan = Plan("own", "", "own", (Runs("own", ("ppo",), "own", settings="none", changes=few, along=3),))
    [planned] = expand(plan, scale, Chosen({}))
    [folder] = write_cells(tmp_path, [planned.cell])
    assert run_cell(folder).state == "done"
    [record] = records_of(folder, planned)
    assert [point["iteration"] for point in record["along"]] == [1, 2, 3, 4]
    assert record["averaged_after"] == [3, 4]
    for point in record["along"]:
        assert len(point["successes"]) == 1
        assert len(point["entropy"]) == len(point["perturbed"]["success"]) == 50
    # All policies are scored from the same perturbed starts.
    assert record["along"][0]["perturbed"]["starts"] == record["perturbed"]["starts"]
    late = record["along"][-2:]
    assert record["successes"] == [*late[0]["successes"], *late[1]["successes"]]
    means = np.mean([point["perturbed"]["success"] for point in late], axis=0)
    assert record["perturbed"]["success"] == pytest.approx(means.tolist(), abs=1e-4)
    assert "distinct_successful_strategies" in record["curve"]


def test_new_plans_have_a_quick_look():
    for plan in (RATES, SCREENING, CREDIT, CONVERGENCE):
        cells = [one.cell for one in expand(plan, QUICK, Chosen({"goto": STAND_IN}, tasks=TASKS))]
        assert max(cell.iterations for cell in cells) <= 48

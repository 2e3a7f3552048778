"""Real cells, as small as can be, from the command to the page."""

import json
import threading
from dataclasses import replace

import pytest
from made_up import made_up
from reproduction.__main__ import Arguments, main, reproduce
from reproduction.costs import estimate, measured
from reproduction.lines import lines_of
from reproduction.plan import Chosen, Planned, expand, identity, make_cell
from reproduction.plans import FULL, GRID_READINGS, QUICK, STUDY, TABLES, TASKS
from reproduction.records import Results, check_same, records_of, resolved

from polychromic.finetuning.run import kept_policies
from polychromic.sweep.cells import Evaluation, write_cells
from polychromic.sweep.run_cell import run_cell

SHORT = {"fourrooms": replace(TASKS["fourrooms"], lengths={"tables": 4, "literal": 4})}
TINY = replace(QUICK, tasks=SHORT, points=2, rollouts=4, attempts=8, kept=2, settings={"budget": 55})


def tiny_cell(method, seed, own, **more):
    return make_cell("fourrooms", method, seed, own, 4, TINY, readings=GRID_READINGS, **more)


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """A cell of Poly-PPO that has run."""
    own = {"actor_learning_rate": 1e-4, "configurations_per_iteration": 1}
    planned = tiny_cell("poly-ppo", 1, own, scored="greedily too")
    [folder] = write_cells(tmp_path_factory.mktemp("cells"), [planned])
    assert run_cell(folder).state == "done"
    return folder


def test_what_is_kept_of_a_cell(cell):
    assert list(kept_policies(cell)) == [2, 3]
    [record] = records_of(cell)
    assert record["averaged_after"] == [2, 3, 4]
    assert {len(row) for row in record["successes"]} == {50}
    # The last row is the evaluation of the final policy; the others have random numbers of their own.
    last = json.loads((cell / "evaluation.json").read_text())["result"]["configurations"]
    assert record["successes"][-1] == last["successes"]
    assert len({tuple(row) for row in record["successes"]}) == 3
    assert record["trajectories"] == 4 * 55
    assert record["curve"]["trajectories"] == [2 * 55, 4 * 55]
    assert record["cpu_seconds"]["training"] > 0 < record["cpu_seconds"]["evaluation"]
    assert (record["task"], record["method"], record["seed"]) == ("fourrooms", "poly-ppo", 1)
    assert str(cell.parent) not in json.dumps(record)
    assert 0 < record["exact"]["success"] < 1
    assert set(record["greedy"]) == {0.0, 1.0}  # the same at every attempt, as levels are not random
    assert len(record["greedy"]) == 50


def test_a_command_runs_what_has_no_result_and_writes_the_page(tmp_path, cell, capsys):
    results = tmp_path / "results"
    given = Arguments(
        "tables", quick=True, tasks=("fourrooms",), only=("chosen",), out=tmp_path / "cells", results=results, workers=1
    )
    # All but the pretrained policy were run before, and their folders are gone.
    known = Results(results / "runs.json")
    [template] = records_of(cell)
    for method in ("reinforce", "ppo", "poly-ppo", "reinforce-ucb", "ppo-ucb", "poly-ppo-ucb"):
        own = {"actor_learning_rate": 1e-4, "critic_learning_rate": 1e-3, "configurations_per_iteration": 1}
        own |= {} if method.startswith("reinforce") else {"kl_coefficient": 0.01}
        own |= {"ucb": 0.1} if method.endswith("-ucb") else {}
        known_cell = tiny_cell(method, 0, own)
        known.add([{**template, **identity(known_cell), **resolved(known_cell)}])
    known.write()
    assert reproduce(given, TINY) == 0
    shown = capsys.readouterr()
    assert "1 of 7 cells to run" in shown.out
    assert len(list((tmp_path / "cells").glob("*/figures.json"))) == 1
    assert len(Results(results / "runs.json").cells) == 8  # the best temperature is one of its own
    page = (results / "results-tables.md").read_text()
    table = page.split("<!-- first-fourrooms -->")[1].split("<!-- end -->")[0]
    assert "All planned runs are complete." in table
    assert "| Poly-PPO − PPO |" in page
    assert reproduce(given, TINY) == 0
    assert "0 of 7 cells to run" in capsys.readouterr().out


def test_what_cannot_be_done_costs_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tables"]) == 2
    assert "run `python -m reproduction search`" in capsys.readouterr().err
    assert main(["study", "--only", "windows"]) == 2
    assert "only has 'windows'; choose from reference" in capsys.readouterr().err
    assert main(["table1"]) == 2
    assert (
        "what has 'table1'; choose from search, rates, bonuses, nearby, tables, checks, study"
        in capsys.readouterr().err
    )
    assert main(["study", "--tasks", "pickup"]) == 2
    assert main(["search", "--tasks", "pickup"]) == 2
    assert main(["all", "--tasks", "goto"]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("item", ["search", "tables", "study"])
def test_estimates_need_no_search(item, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([item, "--estimate-only"]) == 0
    assert "| all |" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_plans_spend_the_same_trajectories_on_every_method():
    own = {"actor_learning_rate": 1e-5, "configurations_per_iteration": 8}
    methods = ("ppo", "poly-ppo", "reinforce", "ppo-ucb", "poly-ppo-ucb", "reinforce-ucb")
    settings = {m: {**own, **({"ucb": 0.1} if m.endswith("ucb") else {})} for m in methods}
    chosen = Chosen(dict.fromkeys(("goto", "fourrooms"), settings), tasks=TASKS)
    for task in TABLES.tasks(FULL):
        runs = [one.cell for one in expand(TABLES, FULL, chosen, (task,)) if one.label != "pretrained"]
        spent = {cell.config().iterations * cell.config().configurations_per_iteration for cell in runs}
        assert spent == {TASKS[task].lengths["tables"]}
        assert {cell.config().kept_policies for cell in runs} == {4}
        # Late policies lie in the last tenth, wherever configurations are played together.
        assert all(4 * cell.config().checkpoint_every <= 0.1 * cell.iterations for cell in runs)
        pairs = [cell.seed for cell in runs if cell.method == "ppo" and cell.settings["actor_learning_rate"] == 1e-5]
        assert sorted(set(pairs)) == [0, 1, 2, 3, 4]
    study = [one for one in expand(STUDY, FULL, chosen) if one.label != "pretrained"]
    late = [one.cell for one in study]
    assert all(4 * cell.config().checkpoint_every <= max(4, 0.1 * cell.iterations) for cell in late)
    names = [one.cell.name for one in study if "as in the comparison" not in one.label]
    assert len(names) == len(set(names))
    labels = {one.label for one in study}
    assert all(one.against in labels for one in study if one.against)
    compared = {one.label.split(",")[0] for one in study if one.against.endswith("as in the comparison")}
    assert compared == {"ppo", "poly-ppo"}
    assert estimate([one.cell for one in expand(TABLES, QUICK, chosen)], measured()).core_seconds < 30 * 60


def test_results_of_other_defaults_are_not_taken_for_ours(cell):
    [record] = records_of(cell)
    again = tiny_cell("poly-ppo", 1, record["settings"])
    check_same(record, again)
    assert record["config"]["clip"] == 0.2
    record["config"]["clip"] = 0.3
    with pytest.raises(ValueError, match=r"was run with clip 0\.3; this version would run it with 0\.2"):
        check_same(record, again)
    with pytest.raises(ValueError, match="was run with attempts 8; this version would run it with 160"):
        check_same({**record, "config": {**record["config"], "clip": 0.2}}, replace(again, evaluation=Evaluation(160)))
    with pytest.raises(ValueError, match="base policy"):
        check_same({**record, "config": {**record["config"], "clip": 0.2}, "parameters": "another"}, again)


def test_many_that_write_the_same_file_lose_nothing(tmp_path, cell):
    [record] = records_of(cell)
    path = tmp_path / "runs.json"

    def write(task):
        for seed in range(20):
            own = Results(path)
            own.add([{**record, "task": task, "seed": seed}])
            own.notes["chosen"] = {task: {"ppo": {"seed": seed}}}
            own.write()

    threads = [threading.Thread(target=write, args=(task,)) for task in ("goto", "fourrooms", "pickup")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    found = Results(path)
    assert len(found.cells) == 60
    assert found.notes["chosen"] == {task: {"ppo": {"seed": 19}} for task in ("goto", "fourrooms", "pickup")}


def test_what_others_changed_meanwhile_stays(tmp_path, cell):
    [record] = records_of(cell)
    first = Results(tmp_path / "runs.json")
    first.add([record])
    first.write()
    late = Results(tmp_path / "runs.json")
    first.add([{**record, "greedy": [1.0] * 50}])
    first.write()
    late.add([{**record, "seed": 2}])
    late.write()
    found = {one["seed"]: one for one in Results(tmp_path / "runs.json").cells.values()}
    assert found[1]["greedy"] == [1.0] * 50
    assert set(found) == {1, 2}


def test_results_of_a_line_that_are_not_alike_are_not_averaged(tmp_path, cell):
    [record] = records_of(cell)
    results = Results(tmp_path / "runs.json")
    results.add([record, {**record, "seed": 2, "config": {**record["config"], "clip": 0.3}}])
    plan = [Planned("chosen", "poly-ppo", tiny_cell("poly-ppo", 1, record["settings"]))]
    with pytest.raises(ValueError, match=r"poly-ppo has clip 0\.2 with seed 1 and 0\.3 with seed 2"):
        lines_of(plan, results)


def test_a_base_policy_is_made_only_for_what_has_no_result(tmp_path, monkeypatch, capsys):
    """A clone has the results of other base policies, but not the policies."""
    own = {"actor_learning_rate": 1e-4, "configurations_per_iteration": 1}
    chosen = {"fourrooms": {"ppo": own, "poly-ppo": own}}
    given = Arguments(
        "study",
        tasks=("fourrooms",),
        only=("observation",),
        out=tmp_path / "cells",
        results=tmp_path / "results",
        base_policies=tmp_path / "bases",
        workers=1,
    )
    assert f"--base-policies {tmp_path / 'bases'}" in given.command
    searched = Results(tmp_path / "results" / "search.json")
    searched.notes["chosen"] = chosen
    searched.write()
    runs = Results(tmp_path / "results" / "runs.json")
    bases = {"fourrooms-full": str(tmp_path / "bases" / "fourrooms-full" / "policy.safetensors")}
    plan = expand(STUDY, FULL, Chosen(chosen), ("fourrooms",), ("observation",), bases)
    runs.add([{**made_up(one.cell), "parameters": "of another day"} for one in plan])
    runs.write()
    asked = []
    monkeypatch.setattr(
        "polychromic.tasks.grids.pretrain.make_base_policy", lambda name, *, out: asked.append((name, out))
    )
    assert reproduce(given) == 0
    assert "0 of 7 cells to run" in capsys.readouterr().out
    assert not asked
    missing = Results(tmp_path / "results" / "runs.json")
    missing.path.unlink()
    monkeypatch.setattr("reproduction.cells.run", lambda *_, **__: 1)
    assert reproduce(given) == 1
    assert asked == [("fourrooms-full", tmp_path / "bases")]


def test_what_cannot_be_kept_is_said_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    first = ["tables", "--only", "paper", "--tasks", "fourrooms"]
    assert main([*first, "--results", "file"]) == 2
    assert "results: file/runs.json cannot be written" in capsys.readouterr().err
    assert main([*first, "--page", "file/page.md"]) == 2
    assert "page: file/page.md cannot be written" in capsys.readouterr().err
    assert main(["page"]) == 2
    assert "results has no results file" in capsys.readouterr().err
    assert main(["page", "--tasks", "goto"]) == 2
    assert "tasks is for plans that run cells" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    (tmp_path / "results").mkdir()
    for cells in ("[{}]", '["x"]'):
        (tmp_path / "results" / "runs.json").write_text(f'{{"format": "polychromic-results-1", "cells": {cells}}}')
        assert main(["page"]) == 2
        assert "is not a results file" in capsys.readouterr().err
    (tmp_path / "results" / "runs.json").unlink()
    (tmp_path / "results" / "search.json").write_text(
        '{"format": "polychromic-results-1", "cells": [], "chosen": ["goto"]}'
    )
    assert main(["page"]) == 2
    assert "is not a results file" in capsys.readouterr().err
    (tmp_path / "results" / "search.json").write_text('{"format": "polychromic-results-1", "cells": []}')
    (tmp_path / "page.md").write_bytes(b"\xff\xfe")
    assert main(["page", "--page", "page.md"]) == 2
    assert "page.md is not UTF-8 text" in capsys.readouterr().err


def test_the_command_that_resumes_has_everything_that_was_given():
    given = Arguments("tables", quick=True, retries=0, seeds=2, only=("paper",), slurm=("a=1", "b=2"))
    assert given.command == (
        "python -m reproduction tables --quick --seeds 2 --only paper --retries 0 --slurm a=1 --slurm b=2"
    )
    assert Arguments("tables").cells_folder != given.cells_folder


def test_seeds_that_are_given_are_the_seeds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tables", "--tasks", "goto", "--seeds", "1", "--estimate-only"]) == 0
    assert "10 of 10 cells to run" in capsys.readouterr().out  # six methods, three of them twice, the pretrained one


def test_one_configuration_an_iteration_has_settings_of_its_own():
    own = {"actor_learning_rate": 1e-4, "configurations_per_iteration": 8}
    chosen = {"goto": {"ppo": own, "poly-ppo": own}}
    best = {"goto": {"ppo": {"1": {"actor_learning_rate": 3e-5, "configurations_per_iteration": 1}}}}
    plan = expand(STUDY, FULL, Chosen(chosen, best), ("goto",), ("configurations",))
    rates = {one.cell.method: one.cell.settings["actor_learning_rate"] for one in plan}
    assert rates == {"ppo": 3e-5, "poly-ppo": 1e-4}
    assert {one.label for one in plan} == {"ppo, 1 an iteration", "poly-ppo, 1 an iteration"}

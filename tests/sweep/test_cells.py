"""Which cells a sweep has, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest

from polychromic import UserError
from polychromic.cli import main
from polychromic.finetuning.config import make_config
from polychromic.policies.files import load_policy, read_identity, save_policy
from polychromic.policies.tensors import parameters_hash
from polychromic.sweep.cells import Cell, Evaluation, find_cells, make_cells, read_cell, write_cells
from polychromic.sweep.lock import holding
from polychromic.sweep.plan import parse_seeds


def test_every_combination_is_a_cell_and_the_first_seed_comes_first():
    cells = make_cells(["goto", "pickup"], ["pretrained", "ppo"], [3, 4], vary={"kl_coefficient": [0.01, 0.1]})
    assert [(cell.task, cell.method, cell.seed, cell.settings.get("kl_coefficient")) for cell in cells] == [
        ("goto", "pretrained", 0, None),
        ("goto", "ppo", 3, 0.01),
        ("goto", "ppo", 3, 0.1),
        ("pickup", "pretrained", 0, None),
        ("pickup", "ppo", 3, 0.01),
        ("pickup", "ppo", 3, 0.1),
        ("goto", "ppo", 4, 0.01),
        ("goto", "ppo", 4, 0.1),
        ("pickup", "ppo", 4, 0.01),
        ("pickup", "ppo", 4, 0.1),
    ]
    assert len({cell.name for cell in cells}) == len(cells)


def test_a_folder_is_named_after_what_decides_the_results():
    plain = Cell("goto", "ppo", 0)
    # A default that is spelled out is the same run.
    assert Cell("goto", "ppo", 0, {"iterations": 60}).name == plain.name
    assert Cell("goto", "ppo", 0, evaluation=Evaluation(attempts=8)).name == plain.name
    assert Cell("goto", "ppo", 0, {"preset": "paper"}).config() == make_config("ppo", "goto", preset="paper")
    others = [
        Cell("goto", "ppo", 1),
        Cell("goto", "ppo", 0, {"iterations": 61}),
        Cell("goto", "ppo", 0, horizon=50),
        Cell("goto", "ppo", 0, policy="goto"),
        Cell("pickup", "ppo", 0),
    ]
    assert len({plain.name, *(cell.name for cell in others)}) == 6


def test_another_policy_under_the_same_name_is_another_cell(tmp_path):
    saved = load_policy("fourrooms")
    path = tmp_path / "mine.safetensors"
    names = set()
    for scale, configurations in ((1.0, saved.info.configurations), (2.0, saved.info.configurations), (2.0, (0, 1))):
        params = {**saved.params, "actor": {**saved.params["actor"]}}
        head = params["actor"]["head"]
        params["actor"]["head"] = {**head, "kernel": head["kernel"] * np.float32(scale)}
        save_policy(path, saved.policy, params, replace(saved.info, configurations=configurations))
        assert read_identity(path)[1] == parameters_hash(load_policy(path).params)
        names.add(Cell("fourrooms", "ppo", 0, policy=str(path)).name)
    assert len(names) == 3
    assert read_identity("fourrooms")[1] == parameters_hash(saved.params)


def test_nothing_is_written_if_one_cell_has_another_evaluation(tmp_path):
    write_cells(tmp_path, make_cells(["goto"], ["ppo"], [1]))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match="evaluation attempts = 160, now it is 8"):
        write_cells(tmp_path, make_cells(["goto"], ["ppo"], [0, 1], evaluation=Evaluation(attempts=8)))
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_kill_left_of_a_description_goes_as_soon_as_it_is_written_again(tmp_path):
    (cell,) = make_cells(["goto"], ["ppo"], [1])
    left = tmp_path / cell.name / ".cell.json.abc.partial"
    left.parent.mkdir()
    left.touch()
    write_cells(tmp_path, [cell])
    assert not left.exists()
    assert read_cell(left.parent) == cell


def test_a_cell_that_another_sweep_is_writing_is_waited_for(tmp_path, monkeypatch):
    (cell,) = make_cells(["goto"], ["ppo"], [1])
    folder = tmp_path / cell.name
    folder.mkdir()
    monkeypatch.setattr("polychromic.sweep.cells.STALE_SECONDS", 0.2)
    with holding(folder), pytest.raises(UserError, match="another process holds"):
        write_cells(tmp_path, [cell])
    write_cells(tmp_path, [cell])
    assert read_cell(folder) == cell


def test_cells_are_written_once_and_read_back(tmp_path):
    cells = make_cells(["goto"], ["ppo"], [0, 1], settings={"return_range": [0, 2]})
    folders = write_cells(tmp_path, cells)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert write_cells(tmp_path, cells) == folders
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before
    assert sorted(folders) == find_cells(tmp_path)
    assert [read_cell(folder) for folder in folders] == cells
    other = make_cells(["goto"], ["ppo"], [0], settings={"return_range": [0, 2]}, evaluation=Evaluation(attempts=8))
    with pytest.raises(UserError, match=r"evaluation attempts = 160, now it is 8"):
        write_cells(tmp_path, other)


def test_seeds_may_be_ranges():
    assert parse_seeds(["3", "0-2", 2]) == [3, 0, 1, 2]
    for wrong in ("a", "1-", "-1", "1.5", "²"):
        with pytest.raises(UserError, match="seeds has"):
            parse_seeds([wrong])


GOTO = ["--tasks", "goto", "--methods", "ppo", "--seeds", "0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "goto", "--methods", "ppo"], "seeds is empty"),
        (["--tasks", "gato", "--methods", "ppo", "--seeds", "0"], "there is no task 'gato'; did you mean 'goto'?"),
        (["--tasks", "goto", "--methods", "pppo", "--seeds", "0"], "'pppo'"),
        (["--tasks", "goto", "--methods", "ppo", "--seeds", "0", "--set", "iterations"], "give NAME=VALUE"),
        (["--tasks", "goto", "--methods", "ppo", "--seeds", "0", "--set", "iteration=3"], "iteration"),
        (["--tasks", "goto", "--methods", "ppo", "--seeds", "0", "--set", "iterations=0"], "at least 1"),
        (["--tasks", "goto", "--methods", "ppo", "--seeds", "0", "--retries", "-1"], "retries is -1"),
        (["--tasks", "goto", "--methods", "ppo", "--seeds", "0", "--workers", "-1"], "workers is -1"),
        ([*GOTO, "--set", "method=poly-ppo"], "give --methods instead"),
        ([*GOTO, "--set", "seed=7"], "give --seeds instead"),
        ([*GOTO, "--attempts", "-1"], "attempts is -1"),
        ([*GOTO, "--horizon", "-1"], "horizon is -1"),
        ([*GOTO, "--policy", "pickup"], "made for BabyAI-Pickup-v0; it cannot be used for the task goto"),
        (["--tasks", "goto", "--methods", "pretrained", "--seeds", "0", "--policy", "pickup"], "cannot be used"),
        (["--file", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["--out", ".", "--set", "iterations=50"], "--set is given without tasks"),
        (["--out", ".", "--time-penalty", "0.5"], "--time-penalty is given without tasks"),
        (["--out", ".", "--no-recordings"], "--recordings is given without tasks"),
        ([], "tasks is missing"),
        (["status", "nowhere"], "nowhere is not a folder"),
    ],
)
def test_mistakes_cost_one_line_and_leave_nothing(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": '"goto"'}, "'tasks' is a string; it must be a list"),
        ({"tasks": "[3]"}, "'tasks[0]' is a whole number; it must be a string"),
        ({"seeds": "0"}, "'seeds' is a whole number; it must be a list"),
        ({"settings": "3"}, "'settings' is a whole number; it must be a table"),
        ({"evaluation": "4"}, "'evaluation' is a whole number; it must be a table"),
        ({"evaluation": "{attempt = 4}"}, "evaluation has 'attempt'; did you mean 'attempts'?"),
        ({"evaluation": "{attempts = 1.5}"}, "attempts is 1.5; it must be a whole number"),
        ({"vary": "{kl_coefficient = 0.1}"}, "'vary[...]' is a number; it must be a list"),
        ({"policy": "3"}, "'policy' is a whole number; it must be a string"),
        ({"horizon": '"x"'}, "'horizon' is a string; it must be a whole number"),
        ({"task": '["goto"]'}, "has 'task'; did you mean 'tasks'?"),
    ],
)
def test_mistakes_in_a_file_cost_one_line(changes, message, tmp_path, capsys):
    plan = {"tasks": '["goto"]', "methods": '["ppo"]', "seeds": "[0]", **changes}
    (tmp_path / "plan.toml").write_text("".join(f"{name} = {value}\n" for name, value in plan.items()))
    out = tmp_path / "sweep"
    assert main(["sweep", "--file", str(tmp_path / "plan.toml"), "--out", str(out)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("engine", ["ray", "slurm"])
def test_an_engine_that_is_not_installed_is_told_before_anything_is_written(engine, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    out = tmp_path / "sweep"
    assert main(["sweep", *GOTO, "--engine", engine, "--out", str(out)]) == 2
    assert f"pip install 'polychromic[{engine}]'" in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_that_cannot_be_written_is_refused_before_anything_starts(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    choices = ["--tasks", "goto", "--methods", "ppo", "--seeds", "0"]
    assert main(["sweep", *choices, "--out", str(tmp_path / "file" / "sweep")]) == 2
    shown = capsys.readouterr().err
    assert "cannot write to" in shown
    assert "nothing has been started" in shown
    assert shown.count("\n") == 1


def test_a_file_describes_a_sweep_and_the_command_line_wins(tmp_path, policy_file):
    from polychromic.sweep.command import _cells, _given

    plan = tmp_path / "plan.toml"
    plan.write_text(
        'tasks = ["fourrooms"]\nmethods = ["ppo"]\nseeds = ["0-3"]\nhorizon = 50\n'
        "[settings]\niterations = 7\n[vary]\nkl_coefficient = [0.01, 0.1]\n[evaluation]\nattempts = 12\n"
    )
    typed = ["--file", str(plan), "--seeds", "5", "--policy", str(policy_file), "--set", "epochs=3", "--greedy"]
    given = _given(typed)
    cells = _cells(*given)
    assert all(cell.evaluation.greedy for cell in cells)
    assert [(cell.seed, cell.horizon, cell.evaluation.attempts) for cell in cells] == [(5, 50, 12)] * 2
    assert [dict(cell.settings) for cell in cells] == [
        {"iterations": 7, "epochs": 3, "kl_coefficient": value} for value in (0.01, 0.1)
    ]
    plan.write_text(json.dumps({"task": ["goto"]}))
    with pytest.raises(UserError, match="TOML"):
        _cells(*given)
    plan.write_text("task = 3")
    with pytest.raises(UserError, match="has 'task'"):
        _cells(*given)

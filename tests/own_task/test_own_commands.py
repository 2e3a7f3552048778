"""What commands do for tasks of one's own: options, sweeps in reports, missing libraries, help."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import polychromic as poly
from polychromic.cli import main
from polychromic.errors import missing
from polychromic.sweep.cells import Evaluation, make_cells, write_cells
from polychromic.sweep.run_cell import run_cell
from polychromic.trust import EVERYTHING

SMALL = ["--iterations", "1", "--budget", "6", "--evaluation-rollouts", "2"]
DRY = ["--option", "is_slippery=false", "--option", "map_name=4x4"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copy(Path(__file__).with_name("own_envs.py"), tmp_path / "own_envs.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own_envs", None)


@pytest.mark.slow
def test_options_of_an_environment_go_through_every_command(folder, capsys):
    assert main(["pretrain", "FrozenLake-v1", *DRY]) == 0
    assert main(["finetune", "FrozenLake-v1", "--method", "ppo", *SMALL, *DRY, "--out", "run"]) == 0
    described = json.loads((folder / "run/config.json").read_text())
    assert described["options"] == {"is_slippery": False, "map_name": "4x4"}
    assert described["environment_arguments"]["is_slippery"] == "False"
    assert main(["evaluate", "run", "--attempts", "2"]) == 0  # with the options of the run
    assert main(["watch", "run"]) == 0
    capsys.readouterr()
    assert main(["finetune", "FrozenLake-v1", "--method", "ppo", *SMALL, "--out", "run"]) == 2
    assert "is_slippery" in capsys.readouterr().err
    for command in (
        ["finetune", "FrozenLake-v1", "--method", "ppo"],
        ["evaluate", "base-policies/FrozenLake-v1/policy.safetensors"],
    ):
        assert main([*command, "--option", "slippery=1"]) == 2
        assert (
            "slippery is 1, which FrozenLake-v1 does not know; it has horizon, desc, map_name"
            in capsys.readouterr().err
        )
    assert main(["pretrain", "fourrooms", "--option", "rooms=9"]) == 2
    assert "fourrooms has no such option" in capsys.readouterr().err
    assert main(["finetune", "FrozenLake-v1", "--option", "is_slippery"]) == 2
    assert "option has 'is_slippery'; give NAME=VALUE" in capsys.readouterr().err


def test_a_world_is_made_again_from_what_a_run_records():
    world = poly.make("FrozenLake-v1", seeds=[0], is_slippery=False)
    state = world.start([0] * 8)
    world.step(state, [2] * 8)
    assert len(np.unique(world.observe(state)["observation"])) == 1  # it does not slip
    assert "options" not in poly.make("CartPole-v1", seeds=[0], horizon=5).describe()


@pytest.fixture
def sweep(folder):
    """A sweep of an own task with its control, as `polychromic sweep` writes it."""
    assert main(["pretrain", "own_envs:rooms", "--episodes", "10", "--epochs", "2", "--trust"]) == 0
    cells = make_cells(
        ["own_envs:rooms"],
        ["pretrained", "ppo"],
        [0, 1],
        settings={"iterations": 1, "budget": 6, "evaluation_rollouts": 2},
        evaluation=Evaluation(attempts=2),
    )
    for cell in write_cells(folder / "sw", cells):
        outcome = run_cell(cell, EVERYTHING)
        assert outcome.state == "done", outcome
    return folder / "sw"


@pytest.mark.slow
def test_a_report_takes_the_folder_of_a_sweep_with_its_control(sweep, folder, capsys):
    tables = []
    for given in ([str(sweep)], [str(path) for path in sorted(sweep.iterdir())]):  # sw, and sw/*
        capsys.readouterr()
        assert main(["report", *given, "--markdown", "report.md", "--trust"]) == 0
        assert "left out" not in capsys.readouterr().err
        tables.append((folder / "report.md").read_text())
    assert tables[0] == tables[1]
    lines = [line.lower() for line in tables[0].splitlines() if line.startswith("|")]
    assert any("pretrained" in line for line in lines)  # the control
    assert any("ppo" in line and line.rstrip("| ").endswith("| 2") for line in lines)  # two runs
    for words in ("paper", "minigrid", "1 − "):
        assert words not in tables[0]
    (folder / "empty").mkdir()
    assert main(["report", "empty"]) == 2
    assert "empty is not a run directory: it has no config.json, and no runs are in it" in capsys.readouterr().err


def test_a_missing_library_of_ones_own_is_not_blamed_on_an_extra(folder, capsys, monkeypatch):
    own = missing("this command", ModuleNotFoundError("No module named 'mujoco'", name="mujoco.viewer"), "rl")
    assert str(own).startswith("mujoco is not installed, which code of your own imports")
    ours = missing("this command", ModuleNotFoundError("No module named 'optax'", name="optax"), "rl")
    assert "needs optax, which is not installed: pip install 'polychromic[rl]'" in str(ours)
    (folder / "needy.py").write_text("def rule(trunk, forks):\n    import no_such_library\n")
    monkeypatch.delitem(sys.modules, "needy", raising=False)
    run = [
        "finetune",
        "fourrooms",
        "--fork-rule",
        "needy:rule",
        "--preset",
        "vines",
        "--iterations",
        "1",
        "--out",
        "run",
    ]
    assert main([*run, "--configurations-per-iteration", "1"]) == 2
    told = capsys.readouterr().err
    assert "no_such_library is not installed" in told
    assert "polychromic[" not in told


def test_help_says_whose_defaults_it_shows(capsys):
    shown = []
    for args in (["--help"], ["goto", "--method", "ppo", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(["finetune", *args])
        assert ended.value.code == 0
        shown.append(" ".join(capsys.readouterr().out.replace("│", " ").split()))
    why = "Defaults belong to a task and a method: this help shows those of the TASK and --method that stand before"
    assert all(why in text for text in shown)
    assert "(default: 500)" in shown[0]
    assert "(default: 500)" not in shown[1]


def test_a_wrong_number_of_demonstrations_is_refused_before_anything_is_shown(tmp_path, capsys):
    assert main(["demos", "fourrooms", "--out", str(tmp_path / "d.npz"), "--episodes", "-1"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "polychromic demos: episodes is -1; it must be at least 1\n"

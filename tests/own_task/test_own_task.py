"""A task that is registered from outside the package goes through every command by its name."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import polychromic as poly
from polychromic.cli import main
from polychromic.envs.registry import find_spec, short_name

NAME = "sums:task"
SMALL = ["--iterations", "2", "--budget", "24", "--evaluation-rollouts", "8", "--actor-learning-rate", "1e-3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with the module in it and the base policy made."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(Path(__file__).with_name("sums.py"), folder / "sums.py")
    command(folder, "pretrain", NAME, "--steps", "250")
    return folder


def command(folder, *args, code=0):
    """A command as a user types it in that folder."""
    source = str(Path(poly.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-m", "polychromic.cli", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    return run.stdout + run.stderr


@pytest.mark.slow
def test_every_command_takes_its_name(folder):
    command(folder, "finetune", NAME, "--method", "ppo", *SMALL, "--out", "runs/ppo")
    command(folder, "finetune", NAME, "--method", "poly-ppo", *SMALL, "--set-size", "2", "--out", "runs/poly")
    config = json.loads((folder / "runs/poly/config.json").read_text())
    assert config["task"] == NAME
    assert config["config"]["window"] == -1  # from the task's own settings
    told = command(folder, "evaluate", "runs/poly", "--trust")
    assert "begin with an odd digit" in told
    evaluation = json.loads((folder / "runs/poly/evaluation.json").read_text())
    assert evaluation["result"]["attempts"] == 24  # from its spec
    assert 0 <= evaluation["result"]["parity"]["odd"] <= 1
    command(folder, "evaluate", "runs/ppo", f"--trust={NAME}")
    command(folder, "report", "runs/ppo", "runs/poly", "--out", "report.html", "--trust")
    page = (folder / "report.html").read_text()
    assert NAME in page
    assert "paper %" not in page
    assert "episode 1:" in command(folder, "watch", "runs/poly", "--trust")


@pytest.mark.slow
def test_sweeps_take_its_name(folder):
    told = command(
        folder,
        *("sweep", "--tasks", NAME, "--methods", "pretrained", "ppo", "--seeds", "0", "--attempts", "8"),
        *("--set", "iterations=1", "--set", "budget=12", "--set", "evaluation_rollouts=4", "--workers", "1"),
    )
    assert len(list((folder / "sweep").glob("*/figures.json"))) == 2, told


@pytest.mark.slow
def test_what_a_run_names_is_not_imported_without_a_word(folder):
    """The run was made by somebody else: its task is code."""
    command(folder, "finetune", NAME, "--method", "ppo", *SMALL, "--out", "runs/theirs")
    told = command(folder, "evaluate", "runs/theirs", code=2)
    assert NAME in told
    assert "--trust" in told


def test_a_task_that_does_not_exist_is_refused_in_one_line(capsys):
    for name, hint in (("fouroms", "did you mean 'fourrooms'?"), ("nowhere:task", "cannot be imported")):
        assert main(["finetune", name]) == 2
        assert hint in capsys.readouterr().err


def test_names_in_files_are_found_again():
    assert find_spec("BabyAI-GoTo-v0") is find_spec("goto")
    assert short_name("BabyAI-GoTo-v0") == "goto"
    assert find_spec("no such task") is None
    with pytest.raises(poly.UserError, match="registered already"):
        poly.register(poly.TaskSpec(name="goto", make=poly.make))

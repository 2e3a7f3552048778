"""`polychromic finetune`: what it refuses, in one line and before anything is written; files of settings; resuming."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import polychromic
from polychromic.cli import main
from polychromic.finetuning.command import parse

SHORT = [
    "--iterations",
    "2",
    "--configurations-per-iteration",
    "1",
    "--evaluation-rollouts",
    "2",
    "--budget",
    "21",
    "--set-size",
    "2",
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(capsys, *args):
    """The one line with which a command is refused; nothing may have been written."""
    before = sorted(Path().rglob("*"))
    assert main(["finetune", *args]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("polychromic finetune: ")
    assert sorted(Path().rglob("*")) == before
    return line.removeprefix("polychromic finetune: ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["fourrooms", "--method", "polyppo"], "method is 'polyppo'; did you mean 'poly-ppo'?"),
        (["fourrooms", "--preset", "vines", "--set-size", "8"], "set_size is 8, but a group has 8 rollouts"),
        (
            ["fourrooms", "--forks-per-rollout", "2", "--budget", "100", "--rollouts-per-state", "8"],
            "what fits is forks_per_rollout ≤ 1 or",
        ),
        (["fourrooms", "--forks-per-rollout", "0", "--no-initial-states-form-groups"], "no group is left"),
        (["fourrooms", "--objective", "bestof"], "objective is 'bestof'; did you mean 'best-of'?"),
        (["fourrooms", "--objective", "nowhere.at:all"], "objective is 'nowhere.at:all', which cannot be imported"),
        (["fourrooms", "--fork-rule", "none"], "fork_rule is 'none'; for rollouts without vines give"),
        (["fourrooms", "--seed", "-1"], "seed is -1; it must be at least 0"),
        (["fourrooms", "--preset", "papr"], "preset is 'papr'; did you mean 'paper'?"),
        (["fouroms"], "task: there is no task 'fouroms'; did you mean 'fourrooms'?"),
        ([], "TASK is missing"),
        (["--method", "ppo"], "TASK is missing"),
        (["fourrooms", "--settings", "nothing.toml"], "settings: nothing.toml cannot be read"),
        (["fourrooms", "--policy", "goto"], "task is BabyAI-GoTo-v0, the world runs MiniGrid-FourRooms-v0"),
        (["fourrooms", "--observation", "full"], "observation is 'partial', the world shows 'full'"),
        (["fourrooms", "--wandb", "mine"], "wandb is not installed; pip install 'polychromic[wandb]'"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_one_line(capsys, args, message):
    assert message in refused(capsys, *args)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('normalise = "joit"', "normalise is 'joit'; did you mean 'joint'?"),
        ('polychromic = "no"', "polychromic is 'no'; it must be true or false"),
        ("iterations = true", "iterations is True; it must be a whole number"),
        ('iterations = "ten"', "iterations is 'ten'; it must be a whole number"),
        ("iterations = 2.5", "iterations is 2.5; it must be a whole number"),
        ("return_range = 3", "return_range is 3; it must be 2 numbers"),
        ("horizon = 'long'", "horizon is 'long'; it must be a number"),
        ("set_sise = 3", "set_sise is not a setting; did you mean 'set_size'?"),
        ("iterations =", "settings: s.toml is not TOML"),
    ],
)
def test_a_file_of_settings_is_read_strictly(capsys, text, message):
    Path("s.toml").write_text(text)
    assert message in refused(capsys, "fourrooms", "--settings", "s.toml")


def test_a_json_file_must_be_a_table(capsys):
    Path("s.json").write_text("[1, 2]")
    assert "settings: s.json holds a list; it must be a table" in refused(capsys, "fourrooms", "--settings", "s.json")


def test_the_command_line_wins_over_the_file_and_the_file_over_the_method():
    Path("s.toml").write_text(
        'method = "ppo"\nepochs = 7\nseed = 5\nhorizon = 40\ntime_penalty = 0.9\nreturn_range = [0, 2]'
    )
    found, config = parse(["fourrooms", "--settings", "s.toml"])
    assert (config.method, config.epochs, config.polychromic) == ("ppo", 7, False)
    assert (found.horizon, found.time_penalty, config.return_range) == (40, 0.9, (0.0, 2.0))
    found, config = parse(["fourrooms", "--settings=s.toml", "--method", "reinforce", "--seed", "6", "--horizon", "50"])
    assert (config.method, config.epochs, config.seed, found.horizon) == ("reinforce", 7, 6, 50)
    assert config.advantage == "return"


def test_the_task_may_stand_behind_the_options():
    found, config = parse(["--method", "poly-ppo", "--polychromic", "--return-range", "0", "2", "fourrooms"])
    assert (found.task, config.method, config.return_range) == ("fourrooms", "poly-ppo", (0.0, 2.0))


def test_what_is_given_moves_what_follows_from_it(capsys):
    config = parse(["goto", "--configurations-per-iteration", "1"])[1]
    assert (config.iterations, config.evaluate_every) == (480, 24)
    config = parse(["goto", "--configurations-per-iteration=1", "--iterations", "60", "--no-polychromic"])[1]
    assert (config.iterations, config.evaluate_every, config.polychromic) == (60, 3, False)
    Path("wrong.toml").write_text("configurations_per_iteration = 0.5\n")
    said = refused(capsys, "goto", "--settings", "wrong.toml")
    assert "configurations_per_iteration is 0.5; it must be a whole number" in said
    Path("s.toml").write_text("configurations_per_iteration = 2\n")
    assert parse(["goto", "--settings", "s.toml"])[1].iterations == 240
    assert parse(["goto", "--settings", "s.toml", "--evaluate_every", "7"])[1].evaluate_every == 7


def test_presets_and_forks():
    paper = parse(["fourrooms", "--preset", "paper"])[1]
    assert (paper.credit, paper.initial_states_form_groups) == ("last", False)
    assert parse(["fourrooms", "--forks-per-rollout", "0"])[1].group_size == 136


def test_a_run_is_made_continued_read_and_described(capsys):
    command = ["finetune", "fourrooms", *SHORT, "--out", "run", "--time-penalty", "0.9"]
    assert main(command) == 0
    first = capsys.readouterr()
    assert first.out.startswith("success ")
    assert "run: run" in first.out
    described = json.loads(Path("run/config.json").read_text())
    assert (described["time_penalty"], described["observation"], described["horizon"]) == (0.9, "partial", 100)
    before = {file: file.read_bytes() for file in Path("run").iterdir() if file.is_file()}
    # Only read, and the same figures again.
    assert main(command) == 0
    assert capsys.readouterr().out == first.out
    # Ended early: the same command goes on, to the same bytes.
    for name in ("done.json", "policy.safetensors"):
        Path("run", name).unlink()
    assert main(command) == 0
    assert {file: file.read_bytes() for file in before} == before
    capsys.readouterr()
    # Another reward is another run, and is refused before any bar is drawn.
    assert "time_penalty = 0.9, now it is 0.5" in refused(capsys, "fourrooms", *SHORT, "--out", "run")
    # What evaluates it sees the reward that it was trained on.
    from polychromic.evaluate.targets import find_target, world_of

    assert world_of(find_target("run")).time_penalty == 0.9


def test_a_function_in_the_working_directory_is_found_by_the_installed_script():
    Path("mine.py").write_text("def objective(returns, diversity):\n    return returns.mean(axis=-1) * diversity\n")
    script = shutil.which("polychromic", path=str(Path(sys.executable).parent))
    assert script
    command = [script, "finetune", "fourrooms", *SHORT, "--objective", "mine:objective", "--out", "run"]
    environment = {**os.environ, "PYTHONPATH": str(Path(polychromic.__file__).parents[1])}
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(Path("run/config.json").read_text())["config"]["objective"] == "mine:objective"

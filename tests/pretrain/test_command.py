"""The commands, end to end on a small FourRooms."""

import json

import numpy as np
import pytest

import polychromic
from polychromic.cli import main
from polychromic.evaluate.attempts import play_tasks
from polychromic.policies.inference import Evaluator
from polychromic.policies.tensors import named_arrays
from polychromic.pretrain.split import load_split


def test_from_nothing_to_a_scored_policy_and_again(tmp_path, capsys):
    demos = tmp_path / "demos.npz"
    assert main(["demos", "fourrooms", "--episodes", "250", "--out", str(demos), "--workers", "1"]) == 0
    assert "250 episodes of MiniGrid-FourRooms-v0" in capsys.readouterr().out
    command = ["pretrain", "fourrooms", "--out", str(tmp_path / "out"), "--demonstrations", str(demos)]
    command += ["--episodes", "250", "--epochs", "2", "--network", '{"hidden": [8]}']
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "fourrooms: success" in out
    assert "(paper 70.4%)" in out
    folder = tmp_path / "out" / "fourrooms"
    saved = polychromic.load_policy(folder / "policy.safetensors")
    split = load_split(folder / "configurations.json")
    assert saved.info.configurations == split.configurations
    assert saved.policy.architecture["hidden"] == [8]
    report = json.loads((folder / "report.json").read_text())
    assert [epoch["epoch"] for epoch in report["epochs"]] == [1, 2]
    world = polychromic.make("fourrooms", seeds=split.configurations)
    evaluator = Evaluator(saved.policy, saved.params, world.mission_tokens)
    played = play_tasks(evaluator, world, np.random.default_rng(0), attempts=report["scores"]["rollouts"])
    assert saved.info.made["scores"]["success"] == report["scores"]["success"] == float(played.success.mean())
    assert main(command) == 0
    again = polychromic.load_policy(folder / "policy.safetensors")
    assert again.info == saved.info
    for name, array in named_arrays(saved.params).items():
        np.testing.assert_array_equal(named_arrays(again.params)[name], array)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "gotto"], "did you mean 'goto'"),
        (["pretrain", "all", "--demonstrations", "x.npz"], "demonstrations: give a file for one task"),
        (["pretrain", "goto", "--demonstrations", "absent.npz"], "absent.npz: no such file"),
        (["pretrain", "goto", "--rollouts", "3"], "rollouts: expected 100 or more"),
        (["pretrain", "goto", "--episodes", "0"], "episodes: expected 1 or more"),
        (["pretrain", "goto", "--network", "[1]"], "network: expected a JSON object"),
        (["demos", "goto", "--episodes", "0", "--out", "x.npz"], "episodes: expected 1 or more"),
        (["import-minari", "a/b-v0", "--out", "x.npz"], "Minari"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert message in error[-1]
    assert not any(tmp_path.rglob("*.npz"))

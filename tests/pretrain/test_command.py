"""The commands, end to end on a small FourRooms."""

import dataclasses
import json
import os
import subprocess

import numpy as np
import pytest

import polychromic
from polychromic.cli import main
from polychromic.envs.grid.missions import mission_words
from polychromic.files import alone_in
from polychromic.finetuning.attempts import attempt_all
from polychromic.policies.inference import Evaluator
from polychromic.policies.tensors import named_arrays
from polychromic.pretrain.demonstrations import save_demonstrations
from polychromic.pretrain.split import split_episodes


def test_from_demonstrations_to_a_scored_policy_and_again(recorded, tmp_path, capsys):
    demos = tmp_path / "demos.npz"
    # Two words that only episodes of the test part have: the policy has not seen them.
    strange = set(split_episodes(recorded[1]).test)
    missions = tuple("avoid lava" if k in strange else mission for k, mission in enumerate(recorded[1].missions))
    save_demonstrations(demos, dataclasses.replace(recorded[1], missions=missions))
    command = ["pretrain", "fourrooms", "--out", str(tmp_path / "out"), "--demonstrations", str(demos)]
    command += ["--episodes", "250", "--epochs", "2", "--network", '{"hidden": [8]}']
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "fourrooms: success" in out
    assert "(paper 70.4%)" in out
    folder = tmp_path / "out" / "fourrooms"
    saved = polychromic.load_policy(folder / "policy.safetensors")
    split = json.loads((folder / "configurations.json").read_text())
    assert list(saved.info.configurations) == split["configurations"]
    assert saved.policy.architecture["hidden"] == [8]
    report = json.loads((folder / "report.json").read_text())
    assert [epoch["epoch"] for epoch in report["epochs"]] == [1, 2]
    assert report["epoch_kept"] == 2
    assert report["validation_loss"] == report["epochs"][1]["validation_loss"]
    assert report["validation_accuracy"] == report["epochs"][1]["validation_accuracy"]
    words = {word for k in split["train"] for word in mission_words(missions[k])}
    assert set(saved.info.words_seen) == words
    assert "lava" not in words
    world = polychromic.make("fourrooms", seeds=split["configurations"])
    evaluator = Evaluator(saved.policy, saved.params, world.tables())
    played = attempt_all(evaluator, world, np.random.default_rng(0), attempts=report["scores"]["rollouts"])
    assert saved.info.made["scores"]["success"] == report["scores"]["success"] == float(played.success.mean())
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main([*command, "--entropy", "0.5"]) == 2
    assert main([*command[:-3], "1", *command[-2:]]) == 2
    assert "checkpoint has 2 epochs, a run with epochs = 1 ends after 1" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert main(command) == 0
    again = polychromic.load_policy(folder / "policy.safetensors")
    assert again.info == saved.info
    for name, array in named_arrays(saved.params).items():
        np.testing.assert_array_equal(named_arrays(again.params)[name], array)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pretrain", "gotto"], "did you mean 'goto'"),
        (["pretrain", "all", "--demonstrations", "x.npz"], "demonstrations is x.npz; give a file for one task"),
        (["pretrain", "goto", "--demonstrations", "absent.npz"], "absent.npz: no such file"),
        (["pretrain", "goto", "--rollouts", "3"], "rollouts is 3; pass@100 needs 100 or more"),
        (["pretrain", "goto", "--episodes", "0"], "episodes is 0; it must be at least 1"),
        (["pretrain", "goto", "--network", "[1]"], "network is [1]; it must be a JSON object"),
        (["demos", "goto", "--episodes", "0", "--out", "x.npz"], "episodes is 0; it must be at least 1"),
        (["import-minari", "a/b-v0", "--out", "x.npz"], "Minari"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert message in error[-1]
    assert not any(tmp_path.rglob("*.npz"))


@pytest.mark.parametrize("room", [4096, 40960])
def test_a_full_disk_costs_one_line_and_nothing_else(recorded, tmp_path, capsys, room):
    """Of demonstrations and of checkpoints; with space the same commands resume."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no right to mount a file system here: full disks are not tested")
    commands = [
        ["demos", "fourrooms", "--episodes", "250", "--workers", "1", "--out", str(disk / "demos.npz")],
        ["pretrain", "fourrooms", "--out", str(disk), "--demonstrations", str(recorded[0]), "--episodes", "250",
         "--epochs", "1", "--network", '{"hidden": [8]}'],
    ]  # fmt: skip
    try:
        for command in commands:
            assert main(command) == 2
            said = capsys.readouterr().err.splitlines()[-1]
            assert said.startswith(f"polychromic {command[0]}: cannot write {disk}")
            assert said.endswith("(No space left on device); free some space; the same command then resumes")
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        for command in commands:
            assert main(command) == 0
        assert (disk / "demos.npz").read_bytes() == recorded[0].read_bytes()
        assert not [path for path in disk.rglob("*") if "partial" in path.name or "parts" in path.name]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_two_processes_do_not_write_to_the_same_place(recorded, tmp_path, capsys):
    commands = {
        tmp_path / "d.npz.parts": ["demos", "fourrooms", "--episodes", "60", "--out", str(tmp_path / "d.npz")],
        tmp_path / "fourrooms": ["pretrain", "fourrooms", "--out", str(tmp_path), "--demonstrations", str(recorded[0])],
        tmp_path / "triangle": ["pretrain", "triangle", "--out", str(tmp_path)],
    }
    commands[tmp_path / "fourrooms"] += ["--episodes", "250"]
    for folder, command in commands.items():
        with alone_in(folder):
            assert main(command) == 2
        assert f"out: another process is writing to {folder}\n" in capsys.readouterr().err
        assert [path.name for path in folder.iterdir()] == [".lock"]

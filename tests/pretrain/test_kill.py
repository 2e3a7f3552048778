"""Processes that are killed with SIGKILL leave nothing half-written and nobody behind, and go on to the same bytes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from safetensors import safe_open

from polychromic.cli import main
from polychromic.tasks.grids.record import CHUNK


def start(folder, arguments):
    """The command in a process of its own, with the compiler's settings of this one."""
    environment = {**os.environ, "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")}
    return subprocess.Popen(
        [sys.executable, "-m", "polychromic.cli", *arguments], cwd=folder, env=environment, stderr=subprocess.DEVNULL
    )


def kill_when(process, happened):
    """SIGKILL as soon as something has happened, while the process is still at work; returns its children."""
    while not happened():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)
    children = [pid for pid, parent, _ in processes() if parent == process.pid]
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    return children


def processes():
    """(id, id of the parent, state) of every process that has not ended."""
    rows = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    found = [row.split() for row in rows.splitlines()]
    return [(int(pid), int(parent), state) for pid, parent, state in found if not state.startswith("Z")]


def test_a_killed_recording_goes_on_to_the_same_bytes(recorded, tmp_path, monkeypatch, capsys):
    undisturbed, _ = recorded
    arguments = ["demos", "fourrooms", "--episodes", "250", "--out", "killed.npz"]
    process = start(tmp_path, arguments)
    parts = tmp_path / "killed.npz.parts"
    children = kill_when(process, lambda: any(parts.glob("chunk-*.npz")))
    assert len(children) >= 2
    for _ in range(600):
        if not {pid for pid, _, _ in processes()} & set(children):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the workers outlive the process that started them")
    assert not (tmp_path / "killed.npz").exists()
    assert 0 < len(list(parts.glob("chunk-*.npz"))) < 250 // CHUNK
    assert json.loads((parts / "recording.json").read_text())["task"] == "MiniGrid-FourRooms-v0"
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--workers", "1"]) == 0
    assert "250 episodes of MiniGrid-FourRooms-v0" in capsys.readouterr().out
    assert (tmp_path / "killed.npz").read_bytes() == undisturbed.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["killed.npz"]


def test_a_killed_pretraining_goes_on_to_the_same_bytes(recorded, tmp_path, monkeypatch):
    epochs = 60
    arguments = ["pretrain", "fourrooms", "--out", "out", "--demonstrations", str(recorded[0]), "--episodes", "250"]
    arguments += ["--epochs", str(epochs), "--network", '{"hidden": [8]}']
    (tmp_path / "killed").mkdir()
    (tmp_path / "whole").mkdir()
    process = start(tmp_path / "killed", arguments)
    folder = tmp_path / "killed" / "out" / "fourrooms"
    kill_when(process, (folder / "checkpoint.safetensors").exists)
    assert not (folder / "policy.safetensors").exists()
    with safe_open(str(folder / "checkpoint.safetensors"), framework="numpy") as file:
        assert 0 < len(json.loads(file.metadata()["header"])["epochs"]) < epochs
    # The header of a policy has the command that made it.
    monkeypatch.setattr(sys, "argv", ["polychromic", *arguments])
    for folder_name in ("killed", "whole"):
        monkeypatch.chdir(tmp_path / folder_name)
        assert main(arguments) == 0
    for name in ("policy.safetensors", "checkpoint.safetensors", "configurations.json"):
        whole = tmp_path / "whole" / "out" / "fourrooms" / name
        assert (folder / name).read_bytes() == whole.read_bytes(), name

"""`polychromic finetune --wandb` with the real package, without a network."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from polychromic.cli import main

SHORT = [
    "--iterations",
    "4",
    "--configurations-per-iteration",
    "1",
    "--evaluation-rollouts",
    "2",
    "--budget",
    "21",
    "--set-size",
    "2",
    "--checkpoint-every",
    "2",
]


def stored(content: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: a header of 7 bytes, then LevelDB's log format in blocks of 32 KiB."""
    position, parts = 7, b""
    while position + 7 <= len(content):
        left = 32768 - position % 32768
        if left < 7:  # the end of a block that has no room for a record
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, position)
        if kind == 0:
            break
        parts += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def records(folder: Path) -> list:
    """Everything in the offline files of a W&B folder."""
    from wandb.proto import wandb_internal_pb2

    found = []
    for file in sorted(folder.rglob("*.wandb")):
        for data in stored(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            found.append(record)
    return found


@pytest.mark.filterwarnings("default")
def test_an_offline_run_holds_every_iteration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert main(["finetune", "fourrooms", *SHORT, "--out", "runs/one", "--wandb", "mine"]) == 0
    import wandb

    wandb.teardown()  # as at the end of the process: until then W&B's service may still be writing
    assert not list(Path("runs/one").rglob("*.wandb"))  # a run directory holds nothing but its run
    found = records(Path("runs/one-wandb"))
    (run,) = [record.run for record in found if record.WhichOneof("record_type") == "run"]
    assert run.project == "mine"
    settings = {item.key: item.value_json for item in run.config.update}
    assert settings["method"] == '"poly-ppo"'
    history = [record.history for record in found if record.WhichOneof("record_type") == "history"]
    steps = [{item.key or ".".join(item.nested_key): item.value_json for item in line.item} for line in history]
    assert [int(step["_step"]) for step in steps] == [0, 1, 2, 3]
    assert all("policy_loss" in step and "polychromic_std" in step for step in steps)
    assert "success" in steps[-1]

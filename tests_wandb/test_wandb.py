"""`polychromic finetune --wandb` with the real package, without a network."""

from pathlib import Path

import pytest

from polychromic.cli import main

SHORT = [
    "--iterations",
    "4",
    "--evaluation-rollouts",
    "2",
    "--budget",
    "21",
    "--set-size",
    "2",
    "--checkpoint-every",
    "2",
]


def records(folder: Path) -> list:
    """Everything in the offline files of a W&B folder."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    found = []
    for file in sorted(folder.rglob("*.wandb")):
        store = DataStore()
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            found.append(record)
    return found


@pytest.mark.filterwarnings("default")
def test_an_offline_run_holds_every_iteration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert main(["finetune", "fourrooms", *SHORT, "--out", "runs/one", "--wandb", "mine"]) == 0
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

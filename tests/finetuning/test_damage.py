"""Runs whose files are damaged, and disks that are full: one line, or the same bytes as an undisturbed run."""

import json
import os
import random
import shutil
import subprocess

import jax
import numpy as np
import pytest
from safetensors import safe_open
from small_worlds import cross, table_policy

from polychromic import UserError
from polychromic.cli import main
from polychromic.errors import Diverged
from polychromic.files import write_json
from polychromic.finetuning.config import make_config
from polychromic.finetuning.loop import finetune
from polychromic.finetuning.run import is_done, kept_policies
from polychromic.policies.files import load_policy, save_policy
from polychromic.policies.networks import mlp_policy
from polychromic.policies.tensors import read_tensors, write_tensors

CHECKPOINT = "polychromic-checkpoint-1"
WORLD = cross()
POLICY = table_policy(WORLD)
SETTINGS = {
    "method": "poly-ppo-ucb", "iterations": 12, "checkpoint_every": 4, "evaluate_every": 5,
    "evaluation_rollouts": 8, "actor_learning_rate": 1e-2, "seed": 3,
}  # fmt: skip
COMPARED = ("metrics.jsonl", "evaluations.jsonl", "policy.safetensors", "checkpoint.safetensors", "done.json")


def content(folder):
    """The bytes of a run's results."""
    return {name: (folder / name).read_bytes() for name in COMPARED}


class Stop(Exception):
    pass


def stop_after(iteration):
    def watch(now, _figures):
        if now == iteration:
            raise Stop

    return watch


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage") / "whole"
    finetune(WORLD, POLICY, out=folder, **SETTINGS)
    return folder


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A run that was stopped in iteration 9, after a checkpoint at 8."""
    folder = tmp_path_factory.mktemp("damage") / "half"
    with pytest.raises(Stop):
        finetune(WORLD, POLICY, out=folder, watch=stop_after(9), **SETTINGS)
    return folder


@pytest.fixture
def run(half, tmp_path):
    """A copy of the half run, to be damaged."""
    shutil.copytree(half, tmp_path / "run")
    return tmp_path / "run"


def resumed(run):
    finetune(WORLD, POLICY, out=run, **SETTINGS)
    return content(run)


def test_no_flipped_bit_in_a_file_of_a_run_changes_its_results(run, half, whole):
    """A flip is refused in one line, or the run ends in the same bytes."""
    rng = random.Random(0)
    names = ("checkpoint.safetensors", "config.json", "metrics.jsonl", "evaluations.jsonl", "timing.jsonl")
    expected, refused = content(whole), []
    for number in range(60):
        shutil.rmtree(run)
        shutil.copytree(half, run)
        path = run / names[number % len(names)]
        damaged = bytearray(path.read_bytes())
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            found = resumed(run)
        except UserError as error:
            refused.append((path.name, str(error)))
        else:
            assert found == expected, (number, path.name)
    assert len(refused) > 30
    assert all("\n" not in said and name != "timing.jsonl" for name, said in refused)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"iteration": 99}, "claims 99 iterations of 12, but .*metrics.jsonl has 8"),
        ({"iteration": 4}, "claims 4 iterations of 12, but .*metrics.jsonl has 8"),
        ({"iteration": -1}, "header: 'iteration' is out of range"),
        ({"iteration": "8"}, "header: 'iteration' is a string; it must be a whole number"),
        ({"log_bytes": []}, "header: 'log_bytes' is a list; it must be a table"),
        ({"log_bytes": {"metrics.jsonl": 10**9}}, "metrics.jsonl is shorter than at the last checkpoint"),
    ],
)
def test_counters_of_a_checkpoint_must_agree_with_the_logs(run, header, message):
    path = run / "checkpoint.safetensors"
    tensors, metadata = read_tensors(path, CHECKPOINT)
    changed = {**json.loads(metadata["header"]), **header}
    write_tensors(path, tensors, {**metadata, "header": json.dumps(changed)})
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match=message):
        resumed(run)
    assert (run / "metrics.jsonl").read_bytes() == before


def test_checkpoints_without_checksums_are_resumed(run, whole):
    """As earlier versions wrote them."""
    from safetensors.numpy import save_file

    path = run / "checkpoint.safetensors"
    tensors, metadata = read_tensors(path, CHECKPOINT)
    header = {name: value for name, value in json.loads(metadata["header"]).items() if name != "log_sha256"}
    save_file(tensors, path, {"format": CHECKPOINT, "header": json.dumps(header)})
    described = json.loads((run / "config.json").read_text())
    del described["checksum"]
    (run / "config.json").write_text(json.dumps(described))
    assert resumed(run) == content(whole)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused_in_checkpoints(run, number):
    path = run / "checkpoint.safetensors"
    tensors, metadata = read_tensors(path, CHECKPOINT)
    name = next(name for name, value in tensors.items() if value.dtype == np.float32 and value.size)
    tensors[name].flat[0] = number
    write_tensors(path, tensors, metadata)
    with pytest.raises(UserError, match="has numbers that are infinite or NaN"):
        resumed(run)


@pytest.mark.parametrize(
    "damage", [b"\xff\xfe", b"[]\n", b'{"iteration": "x"}\n', b"{}\n", b"[" * 100_000 + b"\n", b'{"iteration": 0'],
    ids=["bytes", "list", "text", "empty", "deep", "torn"],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_damaged_timings_stop_nothing(run, whole, damage, first):
    log = run / "timing.jsonl"
    log.write_bytes(damage + log.read_bytes() if first else log.read_bytes() + damage)
    assert resumed(run) == content(whole)


def test_a_damaged_mark_of_completeness_is_made_again(whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    for text in ("", "[]", "{}", '{"iterations": "12"}'):
        (run / "done.json").write_text(text)
        assert not is_done(run)
        assert resumed(run) == content(whole)


@pytest.mark.parametrize("name", ["tensorboard", "checkpoint.safetensors", "metrics.jsonl", "timing.jsonl", ".lock"])
def test_a_file_where_a_folder_should_be_and_the_other_way_round_is_one_line(run, name):
    path = run / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.write_text("in the way") if name == "tensorboard" else path.mkdir()
    with pytest.raises(UserError, match=name) as raised:
        resumed(run)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl", "evaluations.jsonl", "timing.jsonl"])
def test_links_in_a_run_are_not_written_through(run, name, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine\n" * 1000)
    (run / name).unlink()
    (run / name).symlink_to(precious)
    with pytest.raises(UserError, match=f"{name} (is a symbolic link|was changed|is shorter)"):
        resumed(run)
    assert precious.read_text() == "mine\n" * 1000


def test_other_files_named_like_kept_policies_are_left_alone(tmp_path):
    for name in ("policy-8.safetensors", "policy-best.safetensors", "policy-12.safetensors"):
        (tmp_path / name).touch()
    assert list(kept_policies(tmp_path)) == [8, 12]


def test_divergence_is_an_error_of_its_own():
    with pytest.raises(Diverged):
        finetune(WORLD, POLICY, **{**SETTINGS, "method": "ppo", "actor_learning_rate": 1e38})
    assert issubclass(Diverged, UserError)


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system here: full disks are not tested")
    short = ["--iterations", "6", "--configurations-per-iteration", "1", "--evaluation-rollouts", "2"]
    command = ["finetune", "fourrooms", *short, "--checkpoint-every", "1", "--out"]
    try:
        assert main([*command, str(disk / "run")]) == 2
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert said.startswith("polychromic finetune: out: cannot write to ")
        assert "No space left on device" in said
        assert "free some space" in said
        assert not list((disk / "run").glob(".*.partial"))
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        assert main([*command, str(disk / "run")]) == 0
        assert main([*command, str(tmp_path / "other")]) == 0
        assert content(disk / "run") == content(tmp_path / "other")
    finally:
        subprocess.run(["umount", disk], check=True)


# ---------------------------------------------------------------------- policies


@pytest.fixture
def policy_file(tmp_path):
    policy = mlp_policy(cells=9, code_triples=[[0, 0, 0], [1, 0, 0]], hidden=(4,))
    save_policy(tmp_path / "policy.safetensors", policy, policy.init(jax.random.key(0)))
    return tmp_path / "policy.safetensors"


def test_a_flipped_bit_of_a_weight_is_found(policy_file):
    with safe_open(str(policy_file), framework="numpy") as file:
        assert len(file.metadata()["checksum"]) == 64
    whole = policy_file.read_bytes()
    for back in range(1, 200, 7):
        damaged = bytearray(whole)
        damaged[-back] ^= 4
        policy_file.write_bytes(damaged)
        with pytest.raises(UserError, match=r"policy\.safetensors: the checksum does not match"):
            load_policy(policy_file)


def test_weights_that_are_not_finite_are_refused(policy_file):
    tensors, metadata = read_tensors(policy_file, "polychromic-policy-1")
    tensors["actor/head/bias"][0] = np.nan
    write_tensors(policy_file, tensors, metadata)
    with pytest.raises(UserError, match="'actor/head/bias' has numbers that are infinite or NaN"):
        load_policy(policy_file)
    assert main(["evaluate", str(policy_file)]) == 2


@pytest.mark.parametrize(
    "architecture",
    [
        {"network": "transformer", "num_tokens": 9, "context": 9, "layers": 100_000},
        {"network": "transformer", "num_tokens": 9, "context": 9, "critic_layers": 100_000},
        {"network": "mlp", "cells": 9, "code_triples": [[0, 0, 0]], "hidden": [4] * 100_000},
    ],
)
def test_a_file_that_claims_many_layers_is_refused_at_once(policy_file, architecture):
    tensors, metadata = read_tensors(policy_file, "polychromic-policy-1")
    header = {**json.loads(metadata["header"]), "architecture": architecture}
    write_tensors(policy_file, tensors, {**metadata, "header": json.dumps(header)})
    with pytest.raises(UserError, match="makes 100000 layers, the file has"):
        load_policy(policy_file)


def test_a_run_with_another_description_is_named_and_not_the_checksum(whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    described = json.loads((run / "config.json").read_text())
    described.pop("checksum")
    write_json(run / "config.json", {**described, "horizon": 1})
    with pytest.raises(UserError, match="holds a run with horizon = 1, now it is 8"):
        finetune(WORLD, POLICY, make_config(**SETTINGS), out=run)

"""verl's own trainer, from its configuration to a checkpoint and on from there; only what generates is a stand-in."""

import json
import subprocess
import sys
from pathlib import Path

import drive
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from polychromic import polychromic_advantages


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One step and its checkpoint, then a second run that resumes and takes another one."""
    folder = tmp_path_factory.mktemp("verl")
    script = Path(drive.__file__)
    done = subprocess.run(
        [sys.executable, str(script), str(folder), "1", "2"],
        env=drive.environment(folder), cwd=folder, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def metrics(folder, steps):
    [entry] = lines(folder / "metrics" / "polychromic" / f"steps-{steps}.jsonl")
    return entry["step"], entry["data"]


@pytest.mark.parametrize("step", [1, 2])
def test_advantages_of_real_steps(folder, step):
    rows = lines(folder / "rollouts" / f"{step}.jsonl")
    assert len(rows) == 32  # four prompts, eight responses each
    advantages = polychromic_advantages(
        [row["score"] for row in rows],
        [row["output"][:1] or None for row in rows],
        group_ids=[row["input"] for row in rows],
        set_size=4,
        homogeneous_zero=False,
    )
    found_step, found = metrics(folder, step)
    assert found_step == step
    assert found["polychromic/raw_reward"] == pytest.approx(np.mean([row["score"] for row in rows]), abs=1e-6)
    assert found["polychromic/advantage_std"] == pytest.approx(advantages.std(), abs=1e-6)
    assert found["critic/advantages/max"] == pytest.approx(advantages.max(), abs=1e-6)
    assert found["critic/advantages/min"] == pytest.approx(advantages.min(), abs=1e-6)
    assert found["actor/grad_norm"] > 0


def test_the_key_sees_prompts_and_columns(folder):
    seen = lines(folder / "seen.jsonl")
    rows = {(row["input"], row["output"]) for step in (1, 2) for row in lines(folder / "rollouts" / f"{step}.jsonl")}
    assert len(seen) > 40
    for entry in seen:
        assert (entry["prompt"], entry["text"]) in rows
        first, second = int(entry["prompt"][0]), int(entry["prompt"][1])
        assert entry["level"] == (10 * second + first) % 3


def test_every_step_moves_the_weights_and_is_saved(folder):
    start = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).state_dict()
    name = "model.layers.0.self_attn.q_proj.weight"
    first, second = (checkpoint_weight(folder, step, name) for step in (1, 2))
    assert (first - start[name]).abs().max() > 1e-4
    assert (second - first).abs().max() > 1e-4
    assert (folder / "checkpoints" / "latest_checkpointed_iteration.txt").read_text() == "2"


def checkpoint_weight(folder, step, name):
    value = torch.load(
        folder / "checkpoints" / f"global_step_{step}" / "actor" / "model_world_size_1_rank_0.pt", weights_only=False
    )[name]
    return value.to_local() if hasattr(value, "to_local") else value

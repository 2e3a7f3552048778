"""Run by test_seeds.py with two virtual devices: several seeds at once against one after another."""

import contextlib
import sys
from pathlib import Path

import jax
import numpy as np

import polychromic
from polychromic import finetune, finetune_seeds
from walkers import walker

SETTINGS = {
    "method": "poly-ppo-ucb", "iterations": 6, "budget": 20, "rollouts_per_state": 4, "forks_per_rollout": 1,
    "set_size": 2, "evaluation_rollouts": 4, "evaluate_every": 4, "checkpoint_every": 2, "actor_learning_rate": 1e-3,
}  # fmt: skip
FILES = (
    "config.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "policy.safetensors",
    "checkpoint.safetensors",
    "done.json",
)


class Enough(Exception):
    """Stands for a kill."""


def stop(iteration, _):
    if iteration == 3:
        raise Enough


def main(folder):
    assert len(jax.devices()) == 2
    world = polychromic.make("fourrooms", seeds=range(4), horizon=20)
    saved = walker(world)
    for seed in (0, 1):
        finetune(world, saved, out=folder / f"apart-{seed}", seed=seed, **SETTINGS)

    # One seed a device: the same bytes, also where a run alone was interrupted and goes on in company.
    with contextlib.suppress(Enough):
        finetune(world, saved, out=folder / "two" / "1", seed=1, watch=stop, **SETTINGS)
    finetune_seeds(world, saved, seeds=(0, 1), out=folder / "two", **SETTINGS)
    for seed in (0, 1):
        for name in FILES:
            same = (folder / f"apart-{seed}" / name).read_bytes() == (folder / "two" / str(seed) / name).read_bytes()
            assert same, (seed, name)

    # Two seeds a device are batched by vmap, which rounds otherwise. Over iterations the smallest difference grows (one
    # action drawn otherwise is enough), so what is compared is one iteration.
    once = {**SETTINGS, "iterations": 1}
    together = finetune_seeds(world, saved, seeds=(0, 1, 2, 3), out=folder / "four", **once)
    changed = 0.0
    for seed, found in enumerate(together):
        expected = finetune(world, saved, out=folder / f"once-{seed}", seed=seed, **once)
        for name in ("steps", "configurations", "return", "successes"):
            assert [line[name] for line in found.metrics] == [line[name] for line in expected.metrics], (seed, name)
        pairs = zip(*map(jax.tree.leaves, (found.policy.params, expected.policy.params, saved.params)), strict=True)
        for one, other, before in pairs:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
            changed = max(changed, float(np.abs(one - before).max()))
    assert changed > 1e-3  # a thousand times more than what is let pass
    print("equal")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

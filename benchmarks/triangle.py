"""What triangle discovery costs: sampling with and without a key–value cache, an iteration and its parts, pretraining.

    XLA_FLAGS=--xla_cpu_multi_thread_eigen=false taskset -c 1 python -m benchmarks.triangle [--out FILE]

The network of the base policy (2 layers of width 128); 136 rollouts on each of three graphs an iteration.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import polychromic as poly
from polychromic.finetuning.advantages import estimate
from polychromic.finetuning.attempts import attempt_all
from polychromic.finetuning.collect import collect
from polychromic.finetuning.config import Config, make_config
from polychromic.finetuning.loop import ActiveRun, iterate, update_one_by_one
from polychromic.finetuning.run import Checkpoint, Unsaved
from polychromic.finetuning.update import Coefficients, init_learner, update
from polychromic.policies.files import SavedPolicy
from polychromic.policies.inference import Evaluator
from polychromic.pretrain.sequences import SequenceCloning, learn_sequences
from polychromic.tasks.triangle.pretrain import corpora_of

SEQUENCES = {"cached": 10_002, "uncached": 1536}  # together, on three graphs
METHODS = {
    "ppo": make_config("ppo", "triangle", configurations_per_iteration=3, iterations=10**6, evaluate_every=0),
    "poly-ppo": make_config("poly-ppo", "triangle", configurations_per_iteration=3, iterations=10**6, evaluate_every=0),
}


def median_seconds(work: Callable[[], Any], repeats: int) -> float:
    """The median of several calls, after one that compiles."""
    work()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds))


def sampling(saved: SavedPolicy, world: Any, repeats: int) -> dict[str, float]:
    """Answers per second with the cache, and without it (every step reads the whole prefix); seconds for 10,000."""
    plain = poly.Policy("plain", saved.policy.init, lambda params, obs: saved.policy.apply(params, obs), {})
    rates = {}
    for name, policy in (("cached", saved.policy), ("uncached", plain)):
        evaluator = Evaluator(policy, saved.params, sizes=(512,))
        each = SEQUENCES[name] // world.num_configurations
        seconds = median_seconds(
            lambda evaluator=evaluator, each=each: attempt_all(
                evaluator, world, np.random.default_rng(0), attempts=each
            ),
            repeats,
        )
        rates[f"{name}_per_second"] = SEQUENCES[name] / seconds
    return {**rates, "seconds_for_10000": 10_000 / rates["cached_per_second"]}


def iteration(saved: SavedPolicy, world: Any, config: Config, repeats: int) -> dict[str, float]:
    """Seconds of an iteration, and of collecting, advantages and update on their own."""
    learner = init_learner(saved.params, config)
    evaluator = Evaluator(saved.policy, learner.params)
    configurations = np.arange(config.configurations_per_iteration)

    def play() -> Any:
        return collect(
            evaluator,
            world,
            configurations,
            np.random.default_rng(0),
            rollouts_per_state=config.group_size,
            forks_per_rollout=config.forks_per_rollout,
        )

    rollouts = play()
    targets = estimate(rollouts, config, np.random.default_rng(0))

    def learn() -> Any:
        return update(
            saved.policy, learner, rollouts, targets, config, Coefficients(0.01, 0.0), np.random.default_rng(0)
        )

    def whole() -> None:
        active = ActiveRun(config, Unsaved(), Checkpoint(0, learner, {}))
        iterate(world, saved, [active], update_one_by_one, None)

    return {
        "seconds": median_seconds(whole, repeats),
        "collect": median_seconds(play, repeats),
        "advantages": median_seconds(lambda: estimate(rollouts, config, np.random.default_rng(0)), repeats),
        "update": median_seconds(learn, repeats),
        "steps": rollouts.num_steps,
        "trajectories": rollouts.num_trajectories,
    }


def pretraining(saved: SavedPolicy) -> dict[str, float]:
    """Gradient steps per second: the second of two calls; the first one compiles."""
    times: list[float] = []
    settings = SequenceCloning(steps=200, steps_per_call=100)
    learn_sequences(saved.policy, corpora_of((0,)), settings, on_call=lambda *_: times.append(time.perf_counter()))
    return {"steps_per_second": 100 / (times[1] - times[0])}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/triangle.json"))
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    saved = poly.load_policy("triangle")
    world = poly.make("triangle", seeds=saved.info.configurations)
    results = {
        "command": "python -m benchmarks.triangle",
        "sampling": sampling(saved, world, chosen.repeats),
        "iteration": {name: iteration(saved, world, config, chosen.repeats) for name, config in METHODS.items()},
        "pretraining": pretraining(saved),
        "versions": {"jax": jax.__version__, "numpy": np.__version__, "python": platform.python_version()},
    }
    print(json.dumps(results, indent=1))
    chosen.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

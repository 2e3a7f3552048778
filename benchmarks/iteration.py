"""One iteration of polychromic PPO on BossLevel: ours, the naive way, and Stable-Baselines3's PPO, side by side.

    python -m benchmarks.iteration [--out FILE]        (make bench-iteration sets up what it needs)

8 trunks + 128 vines, H = 100, the CNN + GRU policy, 2 epochs, minibatches of 64, one core. The naive way is what
one writes first: minigrid itself, one world at a time, forked by deepcopy, the same policy called for each step, every
sample with its own mission, and a jitted gradient step called minibatch by minibatch. Beside it the same collection
with our update, to separate the two halves. Stable-Baselines3 runs its own PPO on 8 minigrid environments
with a network of the same sizes. What is compared is measured in turns; medians are held against each other.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import platform
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import jax
import minigrid  # noqa: F401  (registers its levels)
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

from polychromic.envs.grid.missions import WORDS
from polychromic.envs.grid.world import make
from polychromic.finetuning.advantages import estimate
from polychromic.finetuning.collect import collect, spaced
from polychromic.finetuning.config import Config, make_config
from polychromic.finetuning.loop import ActiveRun, iterate, update_one_by_one
from polychromic.finetuning.run import Checkpoint, Unsaved
from polychromic.finetuning.update import Coefficients, init_learner, update
from polychromic.policies.distributions import CATEGORICAL
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.inference import Evaluator
from polychromic.policies.networks import cnn_policy

LEVEL, SEEDS = "BabyAI-BossLevel-v0", range(50)
CONFIG = make_config("poly-ppo", preset="vines", iterations=10**6, evaluate_every=0)


def start() -> tuple[Any, SavedPolicy]:
    """The world and an untrained policy of the size that the base policies have."""
    world = make("bosslevel", seeds=SEEDS)
    policy = cnn_policy(
        width=7,
        height=7,
        code_triples=world.code_triples.tolist(),
        num_words=len(WORDS),
        mission_units=128,
        word_units=32,
    )
    return world, SavedPolicy(policy, jax.tree.map(np.asarray, policy.init(jax.random.key(0))), PolicyInfo())


def iteration_seconds(world: Any, saved: SavedPolicy, config: Config = CONFIG) -> Iterator[tuple[float, float]]:
    """Seconds and steps of one iteration after another; the first two, which compile, are left out.

    Every iteration begins with the same policy, so that the lengths of episodes do not drift.
    """
    learner, unsaved = init_learner(saved.params, config), Unsaved()
    active = ActiveRun(config, unsaved, Checkpoint(0, learner, {}))
    for index in itertools.count():
        active.learner = learner
        began = time.perf_counter()
        iterate(world, saved, [active], update_one_by_one, None)
        if index > 1:
            yield time.perf_counter() - began, unsaved.metrics[-1]["steps"]


def bare_parts(world: Any, saved: SavedPolicy, repeats: int, config: Config = CONFIG) -> dict[str, float]:
    """The same work without the loop around it: world steps, forward passes, advantages, gradient steps."""
    learner = init_learner(saved.params, config)
    rng = np.random.default_rng(0)
    evaluator = Evaluator(saved.policy, learner.params, world.tables(), remember=True)
    rollouts = collect(evaluator, world, np.array([0]), rng, rollouts_per_state=8, forks_per_rollout=2)
    targets = estimate(rollouts, config, rng)
    seconds: dict[str, list[float]] = {"bare_world": [], "bare_forward": [], "bare_advantages": [], "bare_update": []}
    for _ in range(repeats):
        # As many world steps and forward passes, at the same batch sizes: 8 rows for H steps, 128 for what is left.
        world_time = forward_time = 0.0
        evaluator = Evaluator(saved.policy, learner.params, world.tables(), remember=True)
        for rows, length in ((8, 100), (128, int(np.ceil((rollouts.num_steps - 800) / 128)))):
            state = world.start(np.zeros(rows, int))
            for _ in range(length):
                began = time.perf_counter()
                obs = world.inputs(state)
                middle = time.perf_counter()
                outputs = evaluator(obs)
                actions, _ = CATEGORICAL.sample(outputs.logits, rng)
                after = time.perf_counter()
                world.step(state, actions)
                world.places(state)
                world_time += middle - began + time.perf_counter() - after
                forward_time += after - middle
        seconds["bare_world"].append(world_time)
        seconds["bare_forward"].append(forward_time)
        began = time.perf_counter()
        estimate(rollouts, config, rng)
        seconds["bare_advantages"].append(time.perf_counter() - began)
        began = time.perf_counter()
        update(saved.policy, learner, rollouts, targets, config, Coefficients(0.01, 0.0), rng)
        seconds["bare_update"].append(time.perf_counter() - began)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def naive_seconds(world: Any, saved: SavedPolicy) -> Iterator[tuple[float, float, float]]:
    """Seconds of collecting and of updating the naive way, and steps, one iteration after another.

    minigrid, one world at a time, forked by deepcopy; the same policy, called for one row; then gradient steps called
    one by one from Python, in which every sample brings its own mission (as its observation does).
    """
    code_of = {tuple(triple): code for code, triple in enumerate(world.code_triples.tolist())}
    evaluator = Evaluator(saved.policy, saved.params, world.tables())
    rng = np.random.default_rng(0)
    gradient_step, optimiser = naive_gradient_step(saved)
    params = jax.tree.map(jax.numpy.asarray, saved.params)

    def see(observation: dict[str, Any]) -> dict[str, np.ndarray]:
        cells = [code_of.get(tuple(cell), 0) for cell in observation["image"].reshape(-1, 3).tolist()]
        return {
            "codes": np.array([cells], np.uint8),
            "direction": np.array([observation["direction"]], np.int32),
            "mission": np.zeros(1, np.int32),
        }

    def play(env: Any, observation: dict[str, Any]) -> list[int]:
        taken = []
        while True:
            outputs = evaluator(see(observation))
            actions, _ = CATEGORICAL.sample(outputs.logits, rng)
            taken.append(int(actions[0]))
            observation, _, terminated, truncated, _ = env.step(taken[-1])
            if terminated or truncated:
                return taken

    def at_fork(taken: list[int]) -> tuple[Any, dict[str, Any]]:
        """The world after these actions; replaying them is cheaper than a copy at every step."""
        env = gymnasium.make(LEVEL, max_steps=100)
        observation, _ = env.reset(seed=0)
        for action in taken:
            observation, *_ = env.step(action)
        return env, observation

    # What the naive update sees is the same data as ours, so that both take the same number of gradient steps.
    rollouts = collect(evaluator, world, np.array([0]), rng, rollouts_per_state=8, forks_per_rollout=2)
    targets = estimate(rollouts, CONFIG, rng)
    samples = {
        **rollouts.obs,
        "tokens": np.repeat(rollouts.tables["missions"][:1], rollouts.num_steps, axis=0),
        "actions": rollouts.actions,
        "log_probs": rollouts.log_probs,
        "logits": rollouts.logits,
        "advantages": targets.advantages,
        "value_targets": targets.value_targets,
    }
    while True:
        began = time.perf_counter()
        total = 0
        for _ in range(8):
            taken = play(*at_fork([]))
            total += len(taken)
            for fork in spaced(taken, 2):  # type: ignore[arg-type]
                env, observation = at_fork(taken[:fork])
                for _ in range(8):
                    total += len(play(copy.deepcopy(env), observation))
        collected = time.perf_counter()
        learned, state = params, optimiser.init(params)
        for _ in range(CONFIG.epochs):
            shuffled = rng.permutation(rollouts.num_steps)
            for first in range(0, rollouts.num_steps - CONFIG.minibatch_size + 1, CONFIG.minibatch_size):
                chosen = shuffled[first : first + CONFIG.minibatch_size]
                learned, state = gradient_step(learned, state, {name: rows[chosen] for name, rows in samples.items()})
        jax.block_until_ready(learned)
        yield collected - began, time.perf_counter() - collected, float(total)


def naive_gradient_step(saved: SavedPolicy) -> tuple[Any, Any]:
    """A jitted PPO step on one minibatch whose samples each bring their own mission; and its optimiser."""
    optimiser = optax.chain(optax.clip_by_global_norm(CONFIG.max_grad_norm), optax.adam(CONFIG.actor_learning_rate))

    def loss(params: Any, rows: dict[str, Any]) -> Any:
        mission = jax.numpy.arange(CONFIG.minibatch_size)
        obs = {"codes": rows["codes"], "direction": rows["direction"], "mission": mission, "missions": rows["tokens"]}
        logits, value = saved.policy.apply(params, obs)
        log_probs, old = jax.nn.log_softmax(logits), jax.nn.log_softmax(rows["logits"])
        chosen = jax.numpy.take_along_axis(log_probs, rows["actions"][:, None], axis=1)[:, 0]
        ratio = jax.numpy.exp(chosen - rows["log_probs"])
        clipped = jax.numpy.clip(ratio, 1 - CONFIG.clip, 1 + CONFIG.clip)
        gain = jax.numpy.minimum(ratio * rows["advantages"], clipped * rows["advantages"]).mean()
        kl = (jax.numpy.exp(old) * (old - log_probs)).sum(axis=-1).mean()
        return -gain + ((value - rows["value_targets"]) ** 2).mean() + CONFIG.kl_coefficient * kl

    @jax.jit
    def step(params: Any, state: Any, rows: dict[str, Any]) -> Any:
        changes, state = optimiser.update(jax.grad(loss)(params, rows), state, params)
        return optax.apply_updates(params, changes), state

    return step, optimiser


def measure_stable_baselines(num_steps: int = 4096) -> dict[str, float] | None:
    """Transitions per second of Stable-Baselines3's PPO through collection and update; None where it is missing."""
    try:
        from benchmarks.stable_baselines import ppo_seconds
    except ImportError:
        return None
    return {"seconds": ppo_seconds(LEVEL, num_steps), "steps": float(num_steps)}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/iteration.json"))
    parser.add_argument("--repeats", type=int, default=15, help="iterations of ours; a fifth of them the naive way")
    options = parser.parse_args()
    world, saved = start()
    ours_now, naive_now = iteration_seconds(world, saved), naive_seconds(world, saved)
    ours_seen, naive_seen = [next(ours_now)], [next(naive_now)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    naive_seen.clear()  # it compiled
    for _ in range(max(1, options.repeats // 5)):
        naive_seen.append(next(naive_now))
        ours_seen += [next(ours_now) for _ in range(5)]
    seconds, steps = (float(value) for value in np.median(ours_seen, axis=0))
    results: dict[str, Any] = {
        "ours": {"seconds": seconds, "steps": steps, **bare_parts(world, saved, options.repeats)}
    }
    results["peak_memory_mb"] = peak
    collecting, updating, naive_steps = (float(value) for value in np.median(naive_seen, axis=0))
    ours = results["ours"]
    results["naive"] = {"seconds": collecting + updating, "steps": naive_steps}
    results["naive collection, our update"] = {"seconds": collecting + ours["bare_update"], "steps": naive_steps}
    results["naive_parts"] = {"collection": collecting, "update": updating}
    baselines = measure_stable_baselines()
    if baselines:
        results["stable_baselines3"] = baselines
    parts = {name: value for name, value in ours.items() if name.startswith("bare_")}
    table = Table(title="One iteration on BossLevel")
    for column in ("", "seconds", "steps", "steps/s", "ours is faster"):
        table.add_column(column, justify="right")
    for name in ("ours", "naive", "naive collection, our update", "stable_baselines3"):
        if name in results:
            row = results[name]
            rate = row["steps"] / row["seconds"]
            ratio = ours["steps"] / ours["seconds"] / rate
            table.add_row(name, f"{row['seconds']:.3f}", f"{row['steps']:.0f}", f"{rate:,.0f}", f"{ratio:.1f} ×")
    console = Console()
    console.print(table)
    console.print(
        "its parts: " + ", ".join(f"{name.removeprefix('bare_')} {value:.3f} s" for name, value in parts.items())
    )
    results["whole_over_parts"] = ours["seconds"] / sum(parts.values())
    console.print(f"whole iteration / sum of its bare parts: {results['whole_over_parts']:.2f}")
    console.print(f"peak memory: {results['peak_memory_mb']:.0f} MB")
    results["command"] = "python -m benchmarks.iteration"
    results["versions"] = {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()

"""What a call of a policy costs, what a training step costs, and what evaluating distinct rows saves.

    python -m benchmarks.policies [--out FILE]

Three measurements on one core; the sides of each take turns in one run:
1. inference through a jitted function, host arrays in and out: plain dicts of arrays against an Equinox module (where
   Equinox is installed) with the same MLP;
2. one minibatch of behaviour cloning inside the jitted epoch, data gathering included, against the same network's bare
   jitted gradient step on a batch that is already on the device;
3. the calls of one iteration of vines (8 rollouts, then 128 forks of them, 100 steps) with and without evaluating
   distinct rows only.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np
import optax

import polychromic
from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.policies import inference
from polychromic.policies.distributions import CATEGORICAL
from polychromic.policies.inference import Evaluator
from polychromic.pretrain.batches import device_steps, epoch_batches, gather
from polychromic.pretrain.cloning import Cloning, _train_epoch, cloning_loss
from polychromic.tasks.grids.presets import PRESETS, preset_policy
from polychromic.tasks.grids.record import Recording, record_demonstrations


def in_turns(sides: dict[str, Callable[[], Any]], rounds: int = 15) -> dict[str, float]:
    """The median CPU seconds of each side; the sides take turns, so that all see the same machine.

    CPU time of the whole process (one thread computes): other processes on the machine do not count.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for call in sides.values():
        jax.block_until_ready(call())
    for _ in range(rounds):
        for name, call in sides.items():
            start = time.process_time()
            jax.block_until_ready(call())
            times[name].append(time.process_time() - start)
    return {name: float(np.median(values)) for name, values in times.items()}


def call_overhead() -> list[dict[str, Any]]:
    """Milliseconds per call of the FourRooms MLP, written as plain dicts and as an Equinox module."""
    rows = []
    for batch in (8, 128):
        codes = np.random.default_rng(0).integers(0, 51, (batch, 49)).astype(np.uint8)
        sides = {name: _repeat(functools.partial(call, codes)) for name, call in _mlps().items()}
        for name, seconds in in_turns(sides).items():
            rows.append({"batch": batch, "side": name, "ms": 1e3 * seconds / 100})
    return rows


def _mlps() -> dict[str, Callable[[Any], Any]]:
    """The same network written in several ways: codes [B, 49] on the host -> logits on the host."""
    policy = preset_policy(PRESETS["fourrooms"], (7, 7))
    params = policy.init(jax.random.key(0))
    plain = jax.jit(lambda p, obs: policy.apply(p, obs)[0])
    calls: dict[str, Callable[[Any], Any]] = {"plain dicts": lambda codes: np.asarray(plain(params, {"codes": codes}))}
    if importlib.util.find_spec("equinox"):
        import equinox as eqx

        table = jnp.asarray(CODE_TRIPLES / 10, jnp.float32)
        net = eqx.nn.MLP(147, 7, 64, 2, activation=jnp.tanh, key=jax.random.key(0))

        def run(net: Any, codes: Any) -> Any:
            return jax.vmap(net)(table[codes].reshape(codes.shape[0], -1))

        filtered = eqx.filter_jit(run)
        arrays, static = eqx.partition(net, eqx.is_array)
        split = jax.jit(lambda arrays, codes: run(eqx.combine(arrays, static), codes))
        calls["Equinox, filter_jit"] = lambda codes: np.asarray(filtered(net, codes))
        calls["Equinox, partitioned"] = lambda codes: np.asarray(split(arrays, codes))
    return calls


def _repeat(call: Callable[[], Any], times: int = 100) -> Callable[[], Any]:
    def many() -> Any:
        for _ in range(times):
            last = call()
        return last

    return many


def training_step(folder: Path) -> list[dict[str, Any]]:
    """Milliseconds of a minibatch in the jitted epoch and of the bare gradient step."""
    rows = []
    for name, episodes in (("fourrooms", 300), ("goto", 120)):
        preset = PRESETS[name]
        path = folder / f"{name}.npz"
        demos = (
            polychromic.load_demonstrations(path)
            if path.exists()
            else record_demonstrations(Recording(name, episodes), path, 1)
        )
        policy = preset_policy(preset, demos.image_size)
        settings = preset.cloning
        steps, params = device_steps(demos), policy.init(jax.random.key(0))
        batches = epoch_batches(demos.offsets, settings.pieces, settings.piece_steps, np.random.default_rng(0))
        optimizer = optax.adamw(settings.learning_rate, weight_decay=settings.weight_decay)
        opt_state = optimizer.init(params["actor"])
        ready = jax.tree.map(lambda part: part[0], gather(steps, batches))
        bare = jax.jit(functools.partial(_bare_step, policy, settings, optimizer))
        count = len(batches.steps)
        repeated = functools.partial(_bare_steps, bare, params, opt_state, ready, count)
        epoch = functools.partial(_train_epoch, policy, settings, params, opt_state, steps, batches)
        seconds = in_turns({"bare gradient steps": repeated, "jitted epoch": epoch}, rounds=9)
        rows.append(
            {
                "network": name,
                "minibatch": settings.pieces * settings.piece_steps,
                "bare_ms": 1e3 * seconds["bare gradient steps"] / count,
                "epoch_ms": 1e3 * seconds["jitted epoch"] / count,
                "ratio": seconds["jitted epoch"] / seconds["bare gradient steps"],
            }
        )
    return rows


def _bare_steps(bare: Any, params: Any, state: Any, batch: Any, count: int) -> Any:
    actor = params["actor"]
    for _ in range(count):
        actor, state = bare(actor, params["critic"], state, batch)
    return actor


def _bare_step(policy: Any, settings: Cloning, optimizer: Any, actor: Any, critic: Any, state: Any, batch: Any) -> Any:
    gradient = jax.grad(functools.partial(cloning_loss, policy, settings), has_aux=True)
    grads, _ = gradient(actor, critic, batch)
    updates, state = optimizer.update(grads, state, actor)
    return optax.apply_updates(actor, updates), state


def distinct_rows() -> list[dict[str, Any]]:
    """Seconds of all policy calls of an iteration of vines, and how many rows were distinct."""
    rows = []
    for name in ("fourrooms", "goto"):
        saved = polychromic.load_policy(name)
        world = polychromic.make(
            saved.info.task, seeds=saved.info.configurations[:1], observation=saved.info.observation
        )
        observations = list(_vines(saved, world))
        share = np.mean([_distinct(obs) / len(obs["codes"]) for obs in observations])
        together = {name: np.concatenate([obs[name] for obs in observations]) for name in observations[0]}
        sides = {}
        for side, remember in (("all rows", False), ("new rows", True)):
            sides[side] = functools.partial(_evaluate_all, saved, world, observations, remember)
        seconds = in_turns(sides, rounds=7)
        rows.append(
            {
                "policy": name,
                "calls": len(observations),
                "rows": int(sum(len(obs["codes"]) for obs in observations)),
                "distinct_share_within_calls": float(share),
                "distinct_share_over_all_calls": _distinct(together) / len(together["codes"]),
                "all_ms": 1e3 * seconds["all rows"],
                "remembering_ms": 1e3 * seconds["new rows"],
                "ratio": seconds["all rows"] / seconds["new rows"],
            }
        )
    return rows


def _distinct(obs: Any) -> int:
    return len(np.unique(inference.row_hashes(obs)))


def _evaluate_all(saved: Any, world: Any, observations: Any, remember: bool) -> Any:
    evaluate = Evaluator(saved.policy, saved.params, world.tables(), remember=remember)
    return [evaluate(obs).logits for obs in observations]


def _vines(saved: Any, world: Any) -> Any:
    """What the policy sees in 8 rollouts and in 8 vines from each of 16 states on them, call by call."""
    rng = np.random.default_rng(0)
    evaluate = Evaluator(saved.policy, saved.params, world.tables())
    state = world.start([0] * 8)
    forks = []
    for step in range(world.horizon):
        if step in (10, 30):
            forks.append(state[np.repeat(np.arange(8), 8)])
        yield (obs := world.inputs(state))
        world.step(state, CATEGORICAL.sample(evaluate(obs).logits, rng)[0])
    state = world.concatenate(forks)
    while not world.ended(state).all():
        state = state[~world.ended(state)]
        yield (obs := world.inputs(state))
        world.step(state, CATEGORICAL.sample(evaluate(obs).logits, rng)[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "policies.json")
    parser.add_argument("--demonstrations", type=Path, default=Path("base-policies/benchmark"))
    options = parser.parse_args()
    report = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "jax": jax.__version__},
        "call_overhead": call_overhead(),
        "training_step": training_step(options.demonstrations),
        "distinct_rows": distinct_rows(),
    }
    for name in ("call_overhead", "training_step", "distinct_rows"):
        print(name)
        for row in report[name]:
            print("  ", {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

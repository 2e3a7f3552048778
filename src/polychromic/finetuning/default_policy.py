"""A network for a world, from what the world says of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from polychromic.envs.protocol import Arrays, World, task_name
from polychromic.errors import UserError
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.spaces import spaces_policy

WIDEST = 1e6  # bounds beyond say nothing about what is seen
ROWS = 64  # episodes of random actions that tell what unbounded numbers look like


def policy_for(world: World, *, hidden: Sequence[int] = (64, 64), seed: int = 0) -> SavedPolicy:
    """A fresh policy for a world: numbers are normalised, classes looked up, images go through convolutions.

    Numbers with bounds are normalised by them, others by what random actions see. The policy is saved and loaded by
    `polychromic.save_policy` and `polychromic.load_policy` without code of yours.

    Args:
        world: any world whose inputs are arrays by themselves (`polychromic.from_gymnasium`, or your own).
        hidden: units of the hidden layers.
        seed: of the weights, and of the random actions.
    """
    if world.tables():
        raise UserError(
            f"world is {world!r}, which shows tables ({', '.join(world.tables())}); it needs its own network"
        )
    kinds = world.input_kinds()
    first = world.inputs(world.start(np.zeros(1, np.int64)))
    known = {name: kinds.get(name, {"kind": "numbers", "low": [-np.inf], "high": [np.inf]}) for name in first}
    seen: Arrays = {}
    if any(kind["kind"] == "numbers" and not _bounded(kind).all() for kind in known.values()):
        seen = _seen(world, [name for name, kind in known.items() if kind["kind"] == "numbers"], seed)
    inputs = [{"name": name, **_input(kind, first[name][0], seen.get(name))} for name, kind in known.items()]
    policy = spaces_policy(inputs=inputs, hidden=tuple(hidden), **world.actions.head())
    params = jax.tree.map(np.asarray, policy.init(jax.random.key(seed)))
    info = PolicyInfo(task=task_name(world), configurations=tuple(world.level_seeds), made={"seed": seed})
    return SavedPolicy(policy, params, info)


def _bounded(kind: dict[str, Any]) -> NDArray[np.bool_]:
    low, high = np.asarray(kind["low"]), np.asarray(kind["high"])
    return np.asarray((np.abs(low) < WIDEST) & (np.abs(high) < WIDEST) & (low < high))


def _input(kind: dict[str, Any], example: Any, seen: NDArray[Any] | None) -> dict[str, Any]:
    if kind["kind"] != "numbers":
        return kind
    size = int(np.asarray(example).size)
    low, high, bounded = (np.broadcast_to(part, size) for part in (kind["low"], kind["high"], _bounded(kind)))
    centre, scale = np.zeros(size), np.ones(size)
    centre[bounded], scale[bounded] = (low[bounded] + high[bounded]) / 2, (high[bounded] - low[bounded]) / 2
    if seen is not None:
        rows = seen.reshape(len(seen), size).astype(np.float64)
        centre[~bounded], scale[~bounded] = rows.mean(axis=0)[~bounded], np.maximum(rows.std(axis=0), 1e-2)[~bounded]
    return {"kind": "numbers", "size": size, "centre": _short(centre), "scale": _short(scale)}


def _short(values: NDArray[np.float64]) -> float | list[float]:
    """One number where all are the same."""
    rounded = [float(f"{value:.6g}") for value in values]
    return rounded[0] if len(set(rounded)) == 1 else rounded


def _seen(world: World, names: Sequence[str], seed: int) -> Arrays:
    """What some episodes of random actions show of these inputs."""
    rng = np.random.default_rng(seed)
    if world.has_noise:
        world.reseed(seed)
    state = world.start(np.arange(ROWS) % world.num_configurations)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for _ in range(min(int(world.horizon), 200)):
        inputs = world.inputs(state)
        for name in names:
            parts[name].append(np.asarray(inputs[name]))
        result = world.step(state, world.actions.random(rng, len(state)))
        going = ~(result.terminated | result.truncated)
        if not going.any():
            break
        state = state[going]
    return {name: np.concatenate(values) for name, values in parts.items()}

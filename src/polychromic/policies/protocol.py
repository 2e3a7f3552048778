"""A policy: a pair of pure functions on a pytree of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from polychromic.policies.distributions import CATEGORICAL, Distribution

Params = Any  # a pytree of arrays with the top-level keys "actor" and "critic"
Observation = Mapping[str, Any]  # arrays with one row per episode, and the tables that they index


@dataclass(frozen=True, eq=False)
class Policy:
    """A network as functions. Policies are compared by identity, so that jit can cache by them.

    `init(key) -> params`: a pytree with the top-level keys "actor" and "critic", two groups that the optimiser may
    treat differently (no array belongs to both).

    `apply(params, obs) -> (logits float32 [B, A], value float32 [B])`: pure and jittable. Logits are the parameters of
    `distribution`, which actions are drawn from: a choice, unless another is given (`polychromic.Normal()` for vectors
    of numbers takes means and log standard deviations, [B, 2 d]). `obs` is a dict of arrays: what the world's `inputs`
    give, one row per episode, and its `tables`, which are shared. A grid world gives

    - `codes` uint8 [B, cells], one code per cell (7 × 7 or the whole grid),
    - `direction` [B], 0 … 3,
    - `mission` int32 [B], the row of each episode's mission in the table
    - `missions` int32 [M, length], token ids padded with 0, so that each distinct mission is encoded once.

    With memory over time (`memory_size` > 0): `apply(params, obs, memory) -> (logits, value, memory)`, where memory is
    float32 [B, memory_size], zeros at the start of an episode; an episode forks by copying its row.

    `encode(params, tables) -> tables`, where given, computes once for many calls what depends on the tables alone;
    `apply` takes its result in their place.

    `begin(params, obs) -> memory [B, memory_size]`, where given, makes the memory from an observation alone: it is a
    cache (of keys and values, say) that saves work. It is not stored with the steps; training uses instead

    `sequences(params, obs) -> (logits [K, T, A], value [K, T])`: all T steps of K trajectories at once, from their
    observations [K, T, …]. Steps past the end of a trajectory show what its first step shows.
    """

    name: str
    init: Callable[[Any], Params]
    apply: Callable[..., tuple[Any, ...]]
    architecture: Mapping[str, Any] = field(default_factory=dict)  # JSON-serialisable; rebuilds the network from a file
    encode: Callable[[Params, Any], Any] | None = None
    memory_size: int = 0
    begin: Callable[[Params, Observation], Any] | None = None
    sequences: Callable[[Params, Observation], tuple[Any, Any]] | None = None
    distribution: Distribution = CATEGORICAL

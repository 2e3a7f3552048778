"""Calling a policy from the host: fixed shapes, host arrays in and out, tables encoded once."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from polychromic.policies.protocol import Params, Policy

# Batches are padded to one of these sizes, larger ones are cut into pieces of the last: few shapes are compiled.
SIZES = (8, 32, 128, 512, 2048)
CACHED_ROWS = 512  # maximum rows per call of a policy with a key–value cache


class Outputs(NamedTuple):
    """logits float32 [B, A], value float32 [B], memory float32 [B, memory_size] (None for a memoryless policy).

    Logits are the parameters of the policy's distribution.
    """

    logits: NDArray[np.float32]
    value: NDArray[np.float32]
    memory: NDArray[np.float32] | None


class Evaluator:
    """A policy with fixed parameters, called many times.

    tables: shared by all rows (`World.tables`); encoded once, here, if the policy can.
    remember: cache the outputs for every distinct row (memoryless policies only). Rollouts that share a start see the
        same rows again and again: only a tenth of the rows of an iteration on a grid are distinct.
        benchmarks/policies.py measures how much this saves (little, with small networks).
    """

    def __init__(
        self,
        policy: Policy,
        params: Params,
        tables: Mapping[str, Any] | None = None,
        *,
        remember: bool = False,
        sizes: Sequence[int] = SIZES,
    ) -> None:
        self.policy = policy
        self.params = jax.device_put(params)
        # A key–value cache of thousands of rows exceeds the processor's cache; smaller pieces are faster.
        self.sizes = tuple(size for size in sizes if size <= CACHED_ROWS) if policy.begin is not None else tuple(sizes)
        self.known = _Known() if remember and not policy.memory_size else None
        given = dict(tables or {})
        self.tables: dict[str, Any] = jax.device_put(given)
        if given and policy.encode is not None:
            self.tables = dict(_encoder(policy)(self.params, given))

    def __call__(self, obs: Mapping[str, Any], memory: NDArray[Any] | None = None) -> Outputs:
        """Logits, values and (with memory over time) the next memory, one row per row of `obs`, as NumPy arrays."""
        rows = {name: np.asarray(value) for name, value in obs.items()}
        batch = len(next(iter(rows.values())))
        if self.policy.memory_size:
            if memory is None:
                memory = self.first_memory(rows)
            return self._run(rows, batch, memory)
        if self.known is None:
            return self._run(rows, batch, None)
        keys = row_hashes(rows)
        new = self.known.first_unknown(keys)
        if len(new):
            outputs = self._run({name: value.take(new, axis=0) for name, value in rows.items()}, len(new), None)
            self.known = self.known.with_rows(keys[new], outputs)
        return self.known.look_up(keys)

    def first_memory(self, obs: Mapping[str, Any]) -> NDArray[np.float32] | None:
        """The memory of an episode that starts at `obs`: zeros, or a cache of it; None for a memoryless policy."""
        if not self.policy.memory_size:
            return None
        rows = {name: np.asarray(value) for name, value in obs.items()}
        batch, largest = len(next(iter(rows.values()))), self.sizes[-1]
        if self.policy.begin is None or not batch:
            return np.zeros((batch, self.policy.memory_size), np.float32)
        # Attempts at one configuration begin with the same observation: each distinct one is computed once.
        _, distinct, which = np.unique(row_hashes(rows), return_index=True, return_inverse=True)
        memories = []
        for first in range(0, len(distinct), largest):
            chosen = distinct[first : first + largest]
            size = next(size for size in self.sizes if len(chosen) <= size)
            padded = {name: pad_rows(value.take(chosen, axis=0), size) for name, value in rows.items()}
            memories.append(np.asarray(_beginner(self.policy)(self.params, padded))[: len(chosen)])
        return np.concatenate(memories).take(which, axis=0)

    def _run(self, rows: dict[str, Any], batch: int, memory: Any) -> Outputs:
        largest = self.sizes[-1]
        if batch > largest:
            cuts = [slice(first, min(first + largest, batch)) for first in range(0, batch, largest)]
            parts = [
                self._run(
                    {name: value[cut] for name, value in rows.items()},
                    cut.stop - cut.start,
                    None if memory is None else memory[cut],
                )
                for cut in cuts
            ]
            return Outputs(
                np.concatenate([part.logits for part in parts]),
                np.concatenate([part.value for part in parts]),
                None if memory is None else np.concatenate([part.memory for part in parts if part.memory is not None]),
            )
        size = next(size for size in self.sizes if batch <= size)
        padded = {name: pad_rows(value, size) for name, value in rows.items()}
        call = _caller(self.policy)
        if memory is None:
            logits, value = call(self.params, {**padded, **self.tables})
            return Outputs(np.asarray(logits)[:batch], np.asarray(value)[:batch], None)
        logits, value, after = call(self.params, {**padded, **self.tables}, pad_rows(memory, size))
        return Outputs(np.asarray(logits)[:batch], np.asarray(value)[:batch], np.asarray(after)[:batch])


class _Known(NamedTuple):
    """The outputs for the rows seen so far, sorted by the 64-bit hash of the row."""

    keys: NDArray[np.uint64] = np.empty(0, np.uint64)
    logits: NDArray[np.float32] = np.empty((0, 0), np.float32)
    value: NDArray[np.float32] = np.empty(0, np.float32)

    def first_unknown(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The first index of every distinct key that is not known."""
        if len(self.keys):
            places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
            unknown = np.flatnonzero(self.keys[places] != keys)
        else:
            unknown = np.arange(len(keys))
        return unknown[np.unique(keys[unknown], return_index=True)[1]] if len(unknown) else unknown

    def with_rows(self, keys: NDArray[np.uint64], outputs: Outputs) -> _Known:
        """The same with these rows added."""
        all_keys = np.concatenate([self.keys, keys])
        order = np.argsort(all_keys, kind="stable")
        logits = np.concatenate([self.logits, outputs.logits]) if len(self.keys) else outputs.logits
        return _Known(all_keys[order], logits[order], np.concatenate([self.value, outputs.value])[order])

    def look_up(self, keys: NDArray[np.uint64]) -> Outputs:
        """The outputs of rows that are all known."""
        places = np.searchsorted(self.keys, keys)
        return Outputs(self.logits[places], self.value[places], None)


def row_hashes(rows: Mapping[str, NDArray[Any]]) -> NDArray[np.uint64]:
    """A 64-bit hash of the bytes of each row of several arrays together, uint64 [B].

    The chance that two of a thousand different rows collide is below 10⁻¹³.
    """
    batch = len(next(iter(rows.values())))
    parts = [np.ascontiguousarray(rows[name]).view(np.uint8).reshape(batch, -1) for name in sorted(rows)]
    width = sum(part.shape[1] for part in parts)
    words = -(-width // 8)
    packed = np.zeros((batch, words * 8), np.uint8)
    np.concatenate(parts, axis=1, out=packed[:, :width])
    mixed = packed.view(np.uint64) * _multipliers(words)
    # The high bits of a product depend on all bits of the factors; fold them down before the sum.
    hashes: NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(32))).dot(_multipliers(words)[::-1])
    return hashes


def pad_rows(rows: NDArray[Any], size: int) -> NDArray[Any]:
    """The same rows with zeros below, [size, ...]."""
    if len(rows) == size:
        return rows
    padded = np.zeros((size, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return padded


@functools.lru_cache(maxsize=64)
def _caller(policy: Policy) -> Any:
    return jax.jit(policy.apply)


@functools.lru_cache(maxsize=64)
def _beginner(policy: Policy) -> Any:
    return jax.jit(policy.begin)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=64)
def _encoder(policy: Policy) -> Any:
    return jax.jit(policy.encode)  # type: ignore[arg-type]


@functools.cache
def _multipliers(words: int) -> NDArray[np.uint64]:
    drawn = np.random.default_rng(0).integers(0, 1 << 63, words, np.uint64) << np.uint64(1) | np.uint64(1)
    drawn.setflags(write=False)
    return drawn

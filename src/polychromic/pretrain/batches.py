"""Demonstrations as minibatches: index arrays for a whole epoch, so that an epoch is one jitted scan.

A batch consists of pieces, each a few steps of one episode: the mission is encoded once per piece. Pieces of one step
are the usual independent samples. A policy with memory gets whole episodes in order.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid.missions import token_table
from polychromic.pretrain.demonstrations import Demonstrations


class Steps(NamedTuple):
    """All steps on the device, with the mission of each episode."""

    codes: jax.Array  # uint8 [steps, cells]
    directions: jax.Array  # uint8 [steps]
    actions: jax.Array  # uint8 [steps]
    missions: jax.Array  # int32 [episodes, length]


class Minibatch(NamedTuple):
    """One minibatch, or with a leading axis all minibatches of an epoch."""

    codes: jax.Array  # uint8 [pieces, piece_steps, cells]
    directions: jax.Array  # uint8 [pieces, piece_steps]
    actions: jax.Array  # uint8 [pieces, piece_steps]
    missions: jax.Array  # int32 [pieces, length]
    lengths: jax.Array  # int32 [pieces], steps of each piece that count, from its start


class Batches(NamedTuple):
    """An epoch: which steps, of which episodes; padding has weight 0."""

    steps: NDArray[np.int32]  # [batches, pieces, piece_steps]
    episodes: NDArray[np.int32]  # [batches, pieces]
    lengths: NDArray[np.int32]  # [batches, pieces], steps of each piece that count, from its start


def device_steps(demos: Demonstrations) -> Steps:
    """Put the demonstrations on the device."""
    return Steps(
        jnp.asarray(demos.codes),
        jnp.asarray(demos.directions),
        jnp.asarray(demos.actions),
        jnp.asarray(token_table(demos.missions)),
    )


def gather(steps: Steps, batches: Batches) -> Minibatch:
    """The contents of all minibatches of an epoch (before the scan: gathering inside it slows the network down)."""
    return Minibatch(
        steps.codes[batches.steps],
        steps.directions[batches.steps],
        steps.actions[batches.steps],
        steps.missions[batches.episodes],
        jnp.asarray(batches.lengths),
    )


def epoch_batches(
    offsets: NDArray[np.int64],
    pieces: int,
    piece_steps: int,
    rng: np.random.Generator | None,
    *,
    in_order: bool = False,
) -> Batches:
    """Cut every episode into pieces, and the pieces into batches.

    offsets: [episodes + 1]. rng: shuffles the steps within each episode and the pieces among each other; None keeps
    the order. in_order: the steps of a piece stay consecutive (for memory over time).
    """
    lengths = np.diff(offsets)
    total = int(offsets[-1])
    steps = np.arange(total)
    if rng is not None and not in_order:
        episode = np.repeat(np.arange(len(lengths)), lengths)
        steps = np.lexsort((rng.random(total), episode))
    counts = -(-lengths // piece_steps)
    episodes = np.repeat(np.arange(len(lengths)), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = offsets[:-1][episodes] + within * piece_steps
    sizes = np.minimum(piece_steps, offsets[1:][episodes] - starts)
    order = np.arange(len(starts)) if rng is None else rng.permutation(len(starts))
    batches = -(-len(starts) // pieces)
    padded = np.zeros(batches * pieces, np.int64)
    padded[: len(starts)] = order
    chosen_sizes = np.where(np.arange(len(padded)) < len(starts), sizes[padded], 0)
    places = starts[padded][:, None] + np.minimum(np.arange(piece_steps), np.maximum(chosen_sizes[:, None] - 1, 0))
    return Batches(
        steps[places].reshape(batches, pieces, piece_steps).astype(np.int32),
        episodes[padded].reshape(batches, pieces).astype(np.int32),
        chosen_sizes.reshape(batches, pieces).astype(np.int32),
    )

"""The few layers the networks need: the shapes of their parameters, and functions on plain dicts of arrays."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array
Weights = dict[str, Any]


class Normal(NamedTuple):
    """A parameter to be drawn: normal with this standard deviation (0 for zeros)."""

    shape: tuple[int, ...]
    deviation: float = 0.0


def draw(key: Array, tree: Any) -> Any:
    """Arrays in place of the `Normal` leaves of a tree, all cut from one draw (small draws compile for seconds)."""
    leaves, treedef = jax.tree.flatten(tree, is_leaf=lambda leaf: isinstance(leaf, Normal))
    ends = list(itertools.accumulate(math.prod(leaf.shape) for leaf in leaves))
    numbers = jax.random.normal(key, (ends[-1],))
    parts = zip(leaves, [0, *ends], ends, strict=False)
    drawn = [numbers[a:b].reshape(leaf.shape) * leaf.deviation for leaf, a, b in parts]
    return jax.tree.unflatten(treedef, drawn)


def dense_shape(inputs: int, outputs: int, scale: float = 2.0**0.5) -> Weights:
    """Of a dense layer: kernel [inputs, outputs] with deviation scale / √inputs, and a bias of zeros."""
    return {"kernel": Normal((inputs, outputs), scale / inputs**0.5), "bias": Normal((outputs,))}


def dense(weights: Weights, x: Array) -> Array:
    """x W + b."""
    outputs: Array = x @ weights["kernel"] + weights["bias"]
    return outputs


def conv2x2(weights: Weights, x: Array) -> Array:
    """A 2 × 2 convolution without padding, [B, w, h, C] -> [B, w − 1, h − 1, D], as one matrix product.

    The four cells of each place lie side by side in the last axis; the kernel is that of a dense layer, [4 C, D].
    """
    patches = jnp.concatenate([x[:, :-1, :-1], x[:, :-1, 1:], x[:, 1:, :-1], x[:, 1:, 1:]], axis=-1)
    # Without the barrier the compiler fuses the joining into the product inside a scan, which makes both slower.
    return dense(weights, jax.lax.optimization_barrier(patches))  # type: ignore[no-untyped-call]


def max_pool2(x: Array) -> Array:
    """2 × 2 maxima, [B, w, h, C] -> [B, w // 2, h // 2, C]; an odd last row or column is dropped.

    The gradient of tied maxima is shared equally. Behind a ReLU the frequent ties are at 0, where it is 0 anyway.
    Two maxima of pairs take a quarter of the time of one over a reshaped array.
    """
    w, h = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    rows = jnp.maximum(x[:, 0:w:2], x[:, 1:w:2])
    return jnp.maximum(rows[:, :, 0:h:2], rows[:, :, 1:h:2])


def gru_shape(inputs: int, units: int) -> Weights:
    """Of a GRU cell: input kernel [inputs, 3 units], recurrent kernel [units, 3 units], biases (reset, update, new)."""
    return {
        "kernel": Normal((inputs, 3 * units), inputs**-0.5),
        "recurrent": Normal((units, 3 * units), units**-0.5),
        "bias": Normal((3 * units,)),
        "recurrent_bias": Normal((3 * units,)),
    }


def gru_inputs(weights: Weights, x: Array) -> Array:
    """The part of a GRU step that does not depend on the state, for all time steps at once: [..., 3 units]."""
    return dense(weights, x)


def gru_step(weights: Weights, projected: Array, state: Array) -> Array:
    """One step: projected = `gru_inputs` of this step [B, 3 units], state [B, units] -> the next state.

    r = σ(x_r + h_r), z = σ(x_z + h_z), n = tanh(x_n + r · h_n), h' = (1 − z) n + z h.
    """
    reset_x, update_x, new_x = jnp.split(projected, 3, axis=-1)
    hidden = state @ weights["recurrent"] + weights["recurrent_bias"]
    reset_h, update_h, new_h = jnp.split(hidden, 3, axis=-1)
    update = jax.nn.sigmoid(update_x + update_h)
    new = jnp.tanh(new_x + jax.nn.sigmoid(reset_x + reset_h) * new_h)
    return (1 - update) * new + update * state


def gru_sentence(weights: Weights, embedding: Array, tokens: Array) -> Array:
    """The last state of a GRU over each sentence: embedding [words, E], tokens [M, length], 0 is padding -> [M, units].

    Padding leaves the state as it is, so the length a table is padded to changes nothing.
    """
    units = weights["recurrent"].shape[0]
    projected = gru_inputs(weights, embedding[tokens.T])  # [length, M, 3 units]

    def step(state: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
        inputs, present = at
        return jnp.where(present[:, None], gru_step(weights, inputs, state), state), None

    first = jnp.zeros((tokens.shape[0], units), projected.dtype)
    last, _ = jax.lax.scan(step, first, (projected, tokens.T != 0))
    return last

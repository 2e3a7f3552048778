"""The few layers the networks need, as (parameters, function) pairs on plain dicts of arrays."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Array = jax.Array
Weights = dict[str, Any]


def init_dense(key: Array, inputs: int, outputs: int, scale: float = 2.0**0.5) -> Weights:
    """An orthogonal kernel [inputs, outputs] of the given scale, and a bias of zeros."""
    return {"kernel": jax.nn.initializers.orthogonal(scale)(key, (inputs, outputs)), "bias": jnp.zeros(outputs)}


def dense(weights: Weights, x: Array) -> Array:
    """x W + b."""
    outputs: Array = x @ weights["kernel"] + weights["bias"]
    return outputs


def conv2x2(weights: Weights, x: Array) -> Array:
    """A 2 × 2 convolution without padding, [B, w, h, C] -> [B, w − 1, h − 1, D], as one matrix product.

    The four shifted copies of the input lie side by side in the last axis (on a CPU, for these sizes, this is several
    times as fast as the general convolution and its gradient). The kernel is that of a dense layer, [4 C, D].
    """
    patches = jnp.concatenate([x[:, :-1, :-1], x[:, :-1, 1:], x[:, 1:, :-1], x[:, 1:, 1:]], axis=-1)
    return dense(weights, patches)


def max_pool2(x: Array) -> Array:
    """2 × 2 maxima, [B, w, h, C] -> [B, w // 2, h // 2, C]; an odd last row or column is dropped.

    The gradient of tied maxima is shared equally. Behind a ReLU the frequent ties are at 0, where it is 0 anyway.
    """
    batch, w, h, channels = x.shape
    w, h = w // 2, h // 2
    return x[:, : 2 * w, : 2 * h].reshape(batch, w, 2, h, 2, channels).max(axis=(2, 4))


def init_gru(key: Array, inputs: int, units: int) -> Weights:
    """A GRU cell: input kernel [inputs, 3 units], recurrent kernel [units, 3 units], biases (reset, update, new)."""
    key_inputs, *keys = jax.random.split(key, 4)
    recurrent = [jax.nn.initializers.orthogonal()(one, (units, units)) for one in keys]
    return {
        "kernel": jax.nn.initializers.glorot_uniform()(key_inputs, (inputs, 3 * units)),
        "recurrent": jnp.concatenate(recurrent, axis=1),
        "bias": jnp.zeros(3 * units),
        "recurrent_bias": jnp.zeros(3 * units),
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

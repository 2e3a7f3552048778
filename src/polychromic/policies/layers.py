"""The layers of the networks: the shapes of their parameters, and functions on plain dicts of arrays."""

from __future__ import annotations

import functools
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


def pick_rows(table: Array, rows: Array) -> Array:
    """table[rows], [T, E] and [B] -> [B, E]. For a small table as a product, whose gradient needs no scatter."""
    if table.shape[0] > 16:
        return table[rows]
    return jax.nn.one_hot(rows, table.shape[0], dtype=table.dtype) @ table


def conv2x2(weights: Weights, x: Array) -> Array:
    """A 2 × 2 convolution without padding, [w, h, B, C] -> [w − 1, h − 1, B, D], as one matrix product.

    The kernel is that of a dense layer on `patches2x2`, [4 C, D]. Here and below the cells come before the batch: what
    is cut out of an image, and the gradients that are put back, are then long contiguous pieces.
    """
    patches = patches2x2(x)
    # As a matrix: the gradient of a product of more axes is transposed piece by piece.
    outputs = dense(weights, patches.reshape(-1, patches.shape[-1]))
    return outputs.reshape(*patches.shape[:-1], -1)


@jax.custom_vjp
def patches2x2(x: Array) -> Array:
    """The four cells of each 2 × 2 patch side by side, [w, h, B, C] -> [w − 1, h − 1, B, 4 C]."""
    return jnp.concatenate(_corners(x), axis=-1)


def _corners(x: Array) -> list[Array]:
    return [x[:-1, :-1], x[:-1, 1:], x[1:, :-1], x[1:, 1:]]


def _patches2x2_gradient(_: None, outputs: Array) -> tuple[Array]:
    first, second, third, fourth = jnp.split(outputs, 4, axis=-1)
    upper, lower = _overlap(first, second, axis=1), _overlap(third, fourth, axis=1)
    return (_overlap(upper, lower, axis=0),)


def _overlap(x: Array, y: Array, axis: int) -> Array:
    """x, and added to it y shifted by one. Joined from pieces: a sum of two padded arrays asks for every entry whether
    it is padding."""
    size = x.shape[axis]
    cut = functools.partial(jax.lax.slice_in_dim, axis=axis)
    return jnp.concatenate([cut(x, 0, 1), cut(x, 1, size) + cut(y, 0, size - 1), cut(y, size - 1, size)], axis=axis)


patches2x2.defvjp(lambda x: (patches2x2(x), None), _patches2x2_gradient)


@jax.custom_vjp
def lookup_conv2x2(features: Array, kernel: Array, codes: Array) -> Array:
    """`conv2x2` (without its bias) of `features[codes]`: features [codes, C], kernel [4 C, D], codes [w, h, B].

    With few codes, what each of them adds from each of the four cells is a small table, and the convolution is four
    lookups in it. Only the gradient needs the patches. A gradient step of the grid network takes 0.6 × the time.
    """
    return _lookup_conv2x2(features, kernel, codes)[0]


def _lookup_conv2x2(features: Array, kernel: Array, codes: Array) -> tuple[Array, tuple[Array, Array]]:
    tables = _apart(features @ kernel.reshape(4, features.shape[1], -1))
    first, second, third, fourth = (table[corner] for table, corner in zip(tables, _corners(codes), strict=True))
    return first + second + third + fourth, (features, codes)


def _lookup_conv2x2_gradient(kept: tuple[Array, Array], outputs: Array) -> tuple[None, Array, None]:
    features, codes = kept
    patches = _apart(patches2x2(features[codes]))
    outputs = _apart(outputs)
    return None, patches.reshape(-1, patches.shape[-1]).T @ outputs.reshape(-1, outputs.shape[-1]), None


lookup_conv2x2.defvjp(_lookup_conv2x2, _lookup_conv2x2_gradient)


def _apart(x: Array) -> Array:
    """x, kept apart: inside a scan the compiler would fuse its computation into the next product and slow both down."""
    same: Array = jax.lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
    return same


@jax.custom_vjp
def max_pool2(x: Array) -> Array:
    """2 × 2 maxima, [w, h, B, C] -> [w // 2, h // 2, B, C]; an odd last row or column is dropped.

    Tied maxima, which are frequent where equal cells are side by side, share the gradient equally. A reduction is
    computed once; maxima of pairs would be, again and again, inside every loop that reads them.
    """
    return _max_pool2(x)[0]


def _max_pool2(x: Array) -> tuple[Array, tuple[Array, Array]]:
    maxima = _blocks2x2(x).max(axis=(1, 3))
    return maxima, (x, maxima)


def _blocks2x2(x: Array) -> Array:
    """[w, h, B, C] -> [w // 2, 2, h // 2, 2, B, C]."""
    w, h = x.shape[0] // 2, x.shape[1] // 2
    return x[: 2 * w, : 2 * h].reshape(w, 2, h, 2, *x.shape[2:])


def _max_pool2_gradient(kept: tuple[Array, Array], outputs: Array) -> tuple[Array]:
    x, maxima = kept
    hits = (_blocks2x2(x) == maxima[:, None, :, None]).astype(x.dtype)
    ties = hits[:, 0, :, 0] + hits[:, 0, :, 1] + hits[:, 1, :, 0] + hits[:, 1, :, 1]
    width, height = 2 * maxima.shape[0], 2 * maxima.shape[1]
    inputs = (hits * (outputs / ties)[:, None, :, None]).reshape(width, height, *x.shape[2:])
    return (jnp.pad(inputs, ((0, x.shape[0] - width), (0, x.shape[1] - height), (0, 0), (0, 0))),)


max_pool2.defvjp(_max_pool2, _max_pool2_gradient)


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

    Padding leaves the state unchanged, so the padded length of a table does not matter.
    """
    by_time = jnp.asarray(tokens).T
    projected = gru_inputs(weights, jnp.asarray(embedding)[by_time])  # [length, M, 3 units]
    return _gru_over_time(projected, weights["recurrent"], weights["recurrent_bias"], by_time != 0)


@jax.custom_vjp
def _gru_over_time(projected: Array, recurrent: Array, bias: Array, present: Array) -> Array:
    """`gru_step` over time: projected [length, M, 3 units], present bool [length, M] -> the last state [M, units].

    The derivative is written out for two reasons, which together halve the time of a short sentence in a long table:
    the loops may end with the longest sentence (a loop whose length is not fixed has no automatic reverse), and
    everything but the recursion itself is done for all steps at once, outside of the loops.
    """
    return _gru_forward(projected, recurrent, bias, present)[0]


def _gru_forward(projected: Array, recurrent: Array, bias: Array, present: Array) -> tuple[Array, tuple[Array, ...]]:
    length, rows, _ = projected.shape
    units = recurrent.shape[0]

    def step(time: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        state, states, hiddens = carry
        hidden = state @ recurrent
        _, update, new, _ = _gru_gates(_at(projected, time), hidden + bias)
        following = jnp.where(_at(present, time)[:, None], (1 - update) * new + update * state, state)
        return following, _put(states, state, time), _put(hiddens, hidden, time)

    end = jnp.max(jnp.where(present.any(axis=1), jnp.arange(1, length + 1), 0))
    zeros = [jnp.zeros(shape, projected.dtype) for shape in ((rows, units), (length, rows, units), projected.shape)]
    last, states, hiddens = jax.lax.fori_loop(0, end, step, tuple(zeros))
    return last, (projected, recurrent, bias, present, states, hiddens, end)


def _gru_backward(kept: tuple[Array, ...], last: Array) -> tuple[Array, Array, Array, None]:
    projected, recurrent, bias, present, states, hiddens, end = kept
    units = states.shape[-1]
    reset, update, new, new_h = _gru_gates(projected, hiddens + bias)
    here = present[..., None]
    # By how much the gradient of a state is multiplied on its way to each of the three, and to the state before it.
    to_new = (1 - update) * (1 - new**2)
    to_update = (states - new) * update * (1 - update)
    to_reset = to_new * new_h * reset * (1 - reset)
    to_hidden = jnp.where(here, jnp.concatenate([to_reset, to_update, to_new * reset], axis=-1), 0)
    to_before = jnp.where(here, update, 1)

    def step(index: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        after, gradients = carry
        time = end - 1 - index
        hidden = jnp.concatenate([after, after, after], axis=-1) * _at(to_hidden, time)
        # Contracting the second axes of both reads the kernel row by row; `hidden @ recurrent.T` does not.
        through = jax.lax.dot_general(hidden, recurrent, (((1,), (1,)), ((), ())))
        return after * _at(to_before, time) + through, _put(gradients, after, time)

    _, gradients = jax.lax.fori_loop(0, end, step, (last, jnp.zeros_like(states)))
    three = jnp.concatenate([gradients, gradients, gradients], axis=-1)
    hidden = three * to_hidden
    inputs = three * jnp.where(here, jnp.concatenate([to_reset, to_update, to_new], axis=-1), 0)
    kernel = states.reshape(-1, units).T @ hidden.reshape(-1, 3 * units)
    return inputs, kernel, hidden.sum(axis=(0, 1)), None


_gru_over_time.defvjp(_gru_forward, _gru_backward)


def _gru_gates(projected: Array, hidden: Array) -> tuple[Array, Array, Array, Array]:
    """reset, update, new, and the part of the latter that comes from the state."""
    reset_x, update_x, new_x = jnp.split(projected, 3, axis=-1)
    reset_h, update_h, new_h = jnp.split(hidden, 3, axis=-1)
    reset, update = jax.nn.sigmoid(reset_x + reset_h), jax.nn.sigmoid(update_x + update_h)
    return reset, update, jnp.tanh(new_x + reset * new_h), new_h


def _at(x: Array, time: Array) -> Array:
    """x[time] without the checks of an index."""
    row: Array = jax.lax.dynamic_index_in_dim(x, time, keepdims=False)
    return row


def _put(x: Array, row: Array, time: Array) -> Array:
    """`x.at[time].set(row)` without the checks of an index."""
    changed: Array = jax.lax.dynamic_update_index_in_dim(x, row, time, 0)
    return changed

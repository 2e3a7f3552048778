"""A network for what Gymnasium environments show: numbers, classes, texts and images, in any combination.

It is built from a JSON-able description of its inputs, so a file needs no code of its user's. Every input adds its part
to one hidden layer; actor and critic have no weight in common.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from polychromic.errors import UserError
from polychromic.policies import layers
from polychromic.policies.distributions import CATEGORICAL, Categoricals, Distribution, Normal
from polychromic.policies.layers import Array, Weights
from polychromic.policies.protocol import Policy

FARTHEST = 5.0  # normalised numbers are cut here
TEXT_ROWS = 512  # tokens share rows beyond so many
CHANNELS = (16, 32, 32, 32)
LOWEST_SPREAD = -4.0  # log standard deviation, in units of half the range of an action
SMALLEST_SIDE = 4  # of an image, after which it is not halved any more


def spaces_policy(
    *,
    inputs: Sequence[Mapping[str, Any]],
    num_actions: int = 0,
    hidden: Sequence[int] = (64, 64),
    actions: Mapping[str, Any] | None = None,
) -> Policy:
    """tanh layers on all inputs together.

    inputs: one entry per array that the world shows, each with `name`, `kind` and what the kind needs:

    - `numbers`: `size`, `centre`, `scale` (a number or one for each): (x − centre) / scale;
    - `classes`: `sizes` (how many classes each entry has), `firsts` (the number of the first one);
    - `text`: `length`, token ids padded with 0;
    - `image`: `shape` (height, width, channels), `channels_first`, `highest` (its brightest value).

    num_actions: how many actions there are to choose from; or instead of it
    actions: what else they are, `kind` and what the kind needs:

    - `categoricals`: `sizes` (how many choices each part of an action has);
    - `normal`: `centre`, `scale` (of each number): means are centre + scale · output. Standard deviations are
      parameters of their own, the same for all observations; they begin at `scale` and stay above e^`LOWEST_SPREAD`
      times it.

    hidden: sizes of the hidden layers.
    """
    described = [dict(entry) for entry in inputs]
    if not described or not hidden:
        raise UserError("inputs and hidden must not be empty")
    parts = [_PARTS[entry["kind"]](entry) for entry in described]
    names = [str(entry["name"]) for entry in described]
    head = _HEADS[actions["kind"]](actions) if actions else _Logits(num_actions)

    def shapes(outputs: int, scale: float) -> Weights:
        body = [layers.dense_shape(one, other) for one, other in itertools.pairwise(hidden)]
        return {
            "inputs": {name: part.shapes(hidden[0], len(parts)) for name, part in zip(names, parts, strict=True)},
            "bias": layers.Normal((hidden[0],)),
            "body": body,
            "head": layers.dense_shape(hidden[-1], outputs, scale),
        }

    def run(weights: Weights, obs: Mapping[str, Any]) -> Array:
        x = weights["bias"]
        for name, part in zip(names, parts, strict=True):
            x = x + part.apply(weights["inputs"][name], obs[name])
        x = jnp.tanh(x)
        for layer in weights["body"]:
            x = jnp.tanh(layers.dense(layer, x))
        return layers.dense(weights["head"], x)

    def apply(params: Weights, obs: Mapping[str, Any]) -> tuple[Array, Array]:
        return head.apply(params["actor"], run(params["actor"], obs)), run(params["critic"], obs)[:, 0]

    chosen = {"actions": dict(actions)} if actions else {"num_actions": num_actions}
    architecture = {"network": "spaces", "inputs": described, **chosen, "hidden": list(hidden)}
    tree = {"actor": {**shapes(head.units, 0.01), **head.shapes}, "critic": shapes(1, 1.0)}
    init = functools.partial(layers.draw, tree=tree)
    return Policy("spaces", jax.jit(init), apply, architecture, distribution=head.distribution)


class _Logits:
    """The last layer's outputs as they are."""

    shapes: Weights = {}  # noqa: RUF012

    def __init__(self, units: int, distribution: Distribution = CATEGORICAL) -> None:
        if units < 1:
            raise UserError(f"num_actions is {units}; it must be at least 1, or give actions")
        self.units, self.distribution = units, distribution

    def apply(self, weights: Weights, outputs: Array) -> Array:
        del weights
        return outputs


class _MeansAndSpreads:
    """Means from the last layer; log standard deviations that do not depend on what is seen."""

    def __init__(self, actions: Mapping[str, Any]) -> None:
        self._centre, self._scale = (jnp.asarray(actions[name], jnp.float32) for name in ("centre", "scale"))
        self.units, self.distribution = len(self._scale), Normal()
        self.shapes: Weights = {"spread": layers.Normal((self.units,))}

    def apply(self, weights: Weights, outputs: Array) -> Array:
        # Smooth, so that a spread at its lowest can still grow.
        spread = LOWEST_SPREAD + jax.nn.softplus(weights["spread"] - LOWEST_SPREAD)
        logs = jnp.broadcast_to(jnp.log(self._scale) + spread, outputs.shape)
        return jnp.concatenate([self._centre + self._scale * outputs, logs], axis=-1)


_HEADS: dict[str, Any] = {
    "categoricals": lambda actions: _Logits(sum(actions["sizes"]), Categoricals(actions["sizes"])),
    "normal": _MeansAndSpreads,
}


class _Numbers:
    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._size = int(entry["size"])
        self._centre, self._scale = (jnp.asarray(entry[name], jnp.float32) for name in ("centre", "scale"))

    def shapes(self, units: int, count: int) -> Weights:
        return {"kernel": layers.Normal((self._size, units), (2.0 / (self._size * count)) ** 0.5)}

    def apply(self, weights: Weights, x: Array) -> Array:
        flat = jnp.reshape(x, (x.shape[0], self._size)).astype(jnp.float32)
        kernel: Array = weights["kernel"]
        return jnp.clip((flat - self._centre) / self._scale, -FARTHEST, FARTHEST) @ kernel


class _Classes:
    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._sizes, self._firsts = list(entry["sizes"]), list(entry["firsts"])

    def shapes(self, units: int, count: int) -> Weights:
        deviation = (2.0 / (len(self._sizes) * count)) ** 0.5
        return {str(number): layers.Normal((size, units), deviation) for number, size in enumerate(self._sizes)}

    def apply(self, weights: Weights, x: Array) -> Array:
        rows = jnp.reshape(x, (x.shape[0], len(self._sizes))).astype(jnp.int32)
        picked = [
            layers.pick_rows(weights[str(number)], jnp.clip(rows[:, number] - first, 0, size - 1))
            for number, (size, first) in enumerate(zip(self._sizes, self._firsts, strict=True))
        ]
        return functools.reduce(jnp.add, picked)


class _Text:
    def __init__(self, entry: Mapping[str, Any]) -> None:
        self._length = int(entry["length"])

    def shapes(self, units: int, count: int) -> Weights:
        return {"table": layers.Normal((TEXT_ROWS, units), (2.0 / count) ** 0.5)}

    def apply(self, weights: Weights, x: Array) -> Array:
        present = (x > 0)[..., None]
        table: Array = weights["table"]
        total = jnp.where(present, table[x % TEXT_ROWS], 0.0).sum(axis=1)
        return total / jnp.sqrt(jnp.maximum(present.sum(axis=1), 1))


class _Image:
    def __init__(self, entry: Mapping[str, Any]) -> None:
        height, width, channels = (int(size) for size in entry["shape"])
        self._channels_first, self._highest = bool(entry["channels_first"]), float(entry["highest"])
        self._shape = (height, width, channels)
        self._widths = [channels]
        for units in CHANNELS:
            if min(height, width) <= SMALLEST_SIDE:
                break
            height, width = -(-height // 2), -(-width // 2)
            self._widths.append(units)
        self._flat = math.prod((height, width, self._widths[-1]))

    def shapes(self, units: int, count: int) -> Weights:
        pairs = itertools.pairwise(self._widths)
        convolutions = [
            {"kernel": layers.Normal((3, 3, one, other), (2.0 / (9 * one)) ** 0.5), "bias": layers.Normal((other,))}
            for one, other in pairs
        ]
        return {
            "convolutions": convolutions,
            "kernel": layers.Normal((self._flat, units), (2.0 / (self._flat * count)) ** 0.5),
        }

    def apply(self, weights: Weights, x: Array) -> Array:
        height, width, channels = self._shape
        x = x.astype(jnp.float32) / self._highest
        if self._channels_first:
            x = jnp.moveaxis(jnp.reshape(x, (x.shape[0], channels, height, width)), 1, 3)
        x = jnp.reshape(x, (x.shape[0], height, width, channels))
        for layer in weights["convolutions"]:
            moved = jax.lax.conv_general_dilated(
                x, layer["kernel"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(moved + layer["bias"])
        kernel: Array = weights["kernel"]
        return jnp.reshape(x, (x.shape[0], self._flat)) @ kernel


_PARTS: dict[str, Any] = {"numbers": _Numbers, "classes": _Classes, "text": _Text, "image": _Image}

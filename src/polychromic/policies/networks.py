"""The networks: an MLP on the flattened image, and a CNN with a direction embedding and a GRU over the mission.

Each is built from a JSON-able architecture, which is also what its file records. Actor and critic are two networks of
the same shape with no weight in common, so that each can have its own learning rate.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from polychromic.errors import UserError
from polychromic.policies import layers
from polychromic.policies.layers import Array, Weights
from polychromic.policies.protocol import Policy
from polychromic.policies.spaces import spaces_policy
from polychromic.policies.transformer import transformer_policy

DIRECTIONS = 4
CellFeatures = Literal["image", "one-hot"]


def feature_table(code_triples: Sequence[Sequence[int]], cell_features: CellFeatures) -> NDArray[np.float32]:
    """[codes, F]: what a network sees of each code.

    code_triples: [codes, 3], the (object, colour, state) numbers behind each code (`world.code_triples`).
    cell_features: "image" gives these three numbers, divided by 10 (the flattened image of the paper); "one-hot" gives
        a 1 at the place of the object, of the colour and of the state.
    """
    triples = np.asarray(code_triples)
    if triples.ndim != 2 or triples.shape[1] != 3 or triples.dtype.kind not in "iu":
        raise UserError(f"code_triples: expected whole numbers [codes, 3], got {triples.dtype} {triples.shape}")
    if cell_features == "image":
        return (triples / 10).astype(np.float32)
    if cell_features == "one-hot":
        return np.concatenate([np.eye(int(part.max()) + 1, dtype=np.float32)[part] for part in triples.T], axis=1)
    raise UserError(f"cell_features: expected 'image' or 'one-hot', got {cell_features!r}")


def mlp_policy(
    *,
    cells: int,
    code_triples: Sequence[Sequence[int]],
    cell_features: CellFeatures = "image",
    num_actions: int = 7,
    hidden: Sequence[int] = (64, 64),
) -> Policy:
    """tanh layers on the flattened observation.

    cells: how many cells one observation has (49 for the 7 × 7 view).
    code_triples, cell_features: what the network sees of each cell, see `feature_table`.
    """
    table = feature_table(code_triples, cell_features)
    sizes = [cells * table.shape[1], *hidden]
    architecture = {
        "network": "mlp",
        "cells": cells,
        "code_triples": np.asarray(code_triples).tolist(),
        "cell_features": cell_features,
        "num_actions": num_actions,
        "hidden": list(hidden),
    }

    def shapes(outputs: int, scale: float) -> Weights:
        body = [layers.dense_shape(inputs, units) for inputs, units in itertools.pairwise(sizes)]
        return {"body": body, "head": layers.dense_shape(sizes[-1], outputs, scale)}

    def run(weights: Weights, x: Array) -> Array:
        for layer in weights["body"]:
            x = jnp.tanh(layers.dense(layer, x))
        return layers.dense(weights["head"], x)

    def apply(params: Weights, obs: Mapping[str, Any]) -> tuple[Array, Array]:
        x = jnp.asarray(table)[obs["codes"]].reshape(obs["codes"].shape[0], -1)
        return run(params["actor"], x), run(params["critic"], x)[:, 0]

    init = functools.partial(layers.draw, tree={"actor": shapes(num_actions, 0.01), "critic": shapes(1, 1.0)})
    return Policy("mlp", jax.jit(init), apply, architecture)


def cnn_policy(
    *,
    width: int,
    height: int,
    code_triples: Sequence[Sequence[int]],
    num_words: int,
    cell_features: CellFeatures = "one-hot",
    num_actions: int = 7,
    channels: Sequence[int] = (16, 32, 64),
    pools: Sequence[int] = (0,),
    direction_units: int = 8,
    word_units: int = 32,
    mission_units: int = 64,
    head_units: int = 64,
    fusion: Literal["concat", "film"] = "concat",
    memory_units: int = 0,
) -> Policy:
    """2 × 2 convolutions on the cells, an embedding of the direction, a GRU over the mission, a tanh layer per head.

    width, height: of the observation, in cells.
    code_triples, cell_features: what the network sees of each cell, see `feature_table`.
    num_words: size of the vocabulary (token 0 is padding).
    channels: of each convolution; a 2 × 2 max pooling follows those listed in `pools`.
    fusion: how the mission meets the image: "concat" joins their vectors before the head; "film" also lets the mission
        scale and shift the channels of every convolution after the first.
    memory_units: size of a GRU over time behind the joined vector; 0 for a memoryless policy.
    """
    if fusion not in ("concat", "film"):
        raise UserError(f"fusion: expected 'concat' or 'film', got {fusion!r}")
    table = feature_table(code_triples, cell_features)
    flat = _flat_size(width, height, channels, pools)
    joined = flat + direction_units + mission_units
    architecture = {
        "network": "cnn",
        "width": width,
        "height": height,
        "code_triples": np.asarray(code_triples).tolist(),
        "cell_features": cell_features,
        "num_words": num_words,
        "num_actions": num_actions,
        "channels": list(channels),
        "pools": list(pools),
        "direction_units": direction_units,
        "word_units": word_units,
        "mission_units": mission_units,
        "head_units": head_units,
        "fusion": fusion,
        "memory_units": memory_units,
    }

    def shapes(outputs: int, scale: float) -> Weights:
        weights: Weights = {
            "words": layers.Normal((num_words, word_units), 0.5),
            "mission": layers.gru_shape(word_units, mission_units),
            "direction": layers.Normal((DIRECTIONS, direction_units), 0.5),
            "conv": [layers.dense_shape(4 * i, o) for i, o in itertools.pairwise([table.shape[1], *channels])],
            "hidden": layers.dense_shape(joined + memory_units, head_units),
            "head": layers.dense_shape(head_units, outputs, scale),
        }
        if fusion == "film":
            weights["film"] = [layers.dense_shape(mission_units, 2 * size, 0.1) for size in channels[1:]]
        if memory_units:
            weights["memory"] = layers.gru_shape(joined, memory_units)
        return weights

    def encode_one(weights: Weights, tokens: Array) -> Array:
        return layers.gru_sentence(weights["mission"], weights["words"], tokens)

    def first_convolution(params: Weights, codes: Array) -> tuple[Array, Array]:
        """Of actor and critic, which look at the same cells, in one go."""
        pair = [params[group]["conv"][0] for group in ("actor", "critic")]
        kernel = jnp.concatenate([layer["kernel"] for layer in pair], axis=1)
        x = layers.lookup_conv2x2(jnp.asarray(table), kernel, codes.T.reshape(width, height, -1))
        # The maximum of relu(x + b) is relu(the maximum of x + b), with a quarter of the work.
        x = layers.max_pool2(x) if 0 in pools else x
        actor, critic = jnp.split(jax.nn.relu(x + jnp.concatenate([layer["bias"] for layer in pair])), 2, axis=-1)
        return actor, critic

    def join(weights: Weights, obs: Mapping[str, Any], x: Array, vectors: Array) -> Array:
        """The rest of the convolutions, and beside them the direction and the mission."""
        mission = layers.pick_rows(vectors, obs["mission"])
        for index, layer in enumerate(weights["conv"][1:], start=1):
            x = layers.conv2x2(layer, x)
            if fusion == "film":
                scale, shift = jnp.split(layers.dense(weights["film"][index - 1], mission), 2, axis=-1)
                x = x * (1 + scale) + shift
            x = jax.nn.relu(layers.max_pool2(x) if index in pools else x)
        direction = layers.pick_rows(weights["direction"], obs["direction"])
        image = x.transpose(2, 0, 1, 3).reshape(x.shape[2], -1)
        return jnp.concatenate([image, direction, mission], axis=-1)

    def run(weights: Weights, x: Array) -> Array:
        return layers.dense(weights["head"], jnp.tanh(layers.dense(weights["hidden"], x)))

    def encode(params: Weights, tables: Mapping[str, Any]) -> dict[str, Array]:
        tokens = tables["missions"]
        vectors = [encode_one(params["actor"], tokens), encode_one(params["critic"], tokens)]
        return {"mission_vectors": jnp.concatenate(vectors, axis=-1)}

    def joined_pair(params: Weights, obs: Mapping[str, Any]) -> tuple[Array, Array]:
        encoded = obs if "mission_vectors" in obs else encode(params, obs)
        vectors = encoded["mission_vectors"]
        actor, critic = zip(first_convolution(params, obs["codes"]), jnp.split(vectors, 2, axis=-1), strict=True)
        return join(params["actor"], obs, *actor), join(params["critic"], obs, *critic)

    def apply(params: Weights, obs: Mapping[str, Any]) -> tuple[Array, Array]:
        actor, critic = joined_pair(params, obs)
        return run(params["actor"], actor), run(params["critic"], critic)[:, 0]

    def apply_with_memory(params: Weights, obs: Mapping[str, Any], memory: Array) -> tuple[Array, Array, Array]:
        outputs, states = [], []
        pairs = zip(("actor", "critic"), joined_pair(params, obs), jnp.split(memory, 2, axis=-1), strict=True)
        for group, x, state in pairs:
            weights = params[group]
            state = layers.gru_step(weights["memory"], layers.gru_inputs(weights["memory"], x), state)
            outputs.append(run(weights, jnp.concatenate([x, state], axis=-1)))
            states.append(state)
        return outputs[0], outputs[1][:, 0], jnp.concatenate(states, axis=-1)

    init = functools.partial(layers.draw, tree={"actor": shapes(num_actions, 0.01), "critic": shapes(1, 1.0)})
    chosen = apply_with_memory if memory_units else apply
    return Policy("cnn", jax.jit(init), chosen, architecture, encode, memory_size=2 * memory_units)


# What a file may name as its network; each builds a policy from the other entries of the architecture.
NETWORKS: dict[str, Callable[..., Policy]] = {
    "mlp": mlp_policy,
    "cnn": cnn_policy,
    "transformer": transformer_policy,
    "spaces": spaces_policy,
}


def build_policy(architecture: Mapping[str, Any]) -> Policy:
    """The policy of a recorded architecture: `network` names one of `NETWORKS`, the rest are its arguments."""
    return _build(json.dumps(dict(architecture), sort_keys=True))


@functools.lru_cache(maxsize=64)
def _build(architecture: str) -> Policy:
    """One policy object per architecture, so that what jit compiled for one file serves the next."""
    options = json.loads(architecture)
    network = options.pop("network", None)
    if network not in NETWORKS:
        raise UserError(f"architecture: network is {network!r}; known networks are {', '.join(NETWORKS)}")
    try:
        return NETWORKS[network](**options)
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(f"architecture: the network '{network}' refuses these options: {error}") from error


def _flat_size(width: int, height: int, channels: Sequence[int], pools: Sequence[int]) -> int:
    for index in range(len(channels)):
        width, height = width - 1, height - 1
        if index in pools:
            width, height = width // 2, height // 2
        if min(width, height) < 1:
            raise UserError(f"channels: after convolution {index + 1} of {len(channels)} nothing is left of the image")
    return math.prod((width, height, channels[-1]))

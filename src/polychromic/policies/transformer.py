"""A decoder-only Transformer: whole sequences for training, one token at a time with a key–value cache for sampling.

Actor and critic are two networks with no weight in common; the critic's may be smaller. The cache is the policy's
memory: it forks with the world, row by row, and can be made from an observation alone, so no gradient goes through it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from polychromic.errors import UserError
from polychromic.policies.layers import Array, Normal, Weights, dense, dense_shape, draw
from polychromic.policies.protocol import Policy


def transformer_policy(
    *,
    num_tokens: int,
    context: int,
    width: int = 128,
    layers: int = 2,
    heads: int = 4,
    critic_width: int = 64,
    critic_layers: int = 1,
    critic_heads: int = 2,
) -> Policy:
    """Learned positions, layer norm before attention and before the 4-fold GELU layer, output tied to the embedding.

    An observation has `tokens` int32 [B, context] (or fewer), zeros after the first `length` int32 [B] of them, as a
    token world gives them. The next token is the action.

    num_tokens: size of the vocabulary, which is the number of actions.
    context: most tokens of a sequence, the prompt among them.
    """
    for name, value, parts in (("heads", width, heads), ("critic_heads", critic_width, critic_heads)):
        if parts < 1 or value % parts:
            raise UserError(f"{name} is {parts}; the width, {value}, must be a multiple of it")
    architecture = {
        "network": "transformer",
        "num_tokens": num_tokens,
        "context": context,
        "width": width,
        "layers": layers,
        "heads": heads,
        "critic_width": critic_width,
        "critic_layers": critic_layers,
        "critic_heads": critic_heads,
    }
    groups = {"actor": (width, layers, heads), "critic": (critic_width, critic_layers, critic_heads)}
    cache_sizes = {name: 2 * depth * context * size for name, (size, depth, _) in groups.items()}
    tree = {name: _shapes(num_tokens, context, size, depth) for name, (size, depth, _) in groups.items()}
    tree["critic"]["head"] = Normal((critic_width, 1), critic_width**-0.5)

    def read_out(params: Weights, actor: Array, critic: Array) -> tuple[Array, Array]:
        logits = _norm(params["actor"]["norm"], actor) @ params["actor"]["tokens"].T
        return logits, (_norm(params["critic"]["norm"], critic) @ params["critic"]["head"])[..., 0]

    def whole(params: Weights, tokens: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """Hidden states [B, context, width] and caches [B, depth, 2, context, width] of both groups."""
        found = {name: _whole(params[name], heads, tokens) for name, (_, _, heads) in groups.items()}
        return {name: hidden for name, (hidden, _) in found.items()}, {
            name: cache for name, (_, cache) in found.items()
        }

    def sequences(params: Weights, obs: Mapping[str, Any]) -> tuple[Array, Array]:
        # Steps of one trajectory show prefixes of one sequence, with zeros behind: their maximum is the longest.
        hidden, _ = whole(params, obs["tokens"].max(axis=1))
        at = jax.nn.one_hot(obs["length"] - 1, obs["tokens"].shape[2])
        return read_out(params, at @ hidden["actor"], at @ hidden["critic"])

    def begin(params: Weights, obs: Mapping[str, Any]) -> Array:
        _, caches = whole(params, obs["tokens"])
        rows = obs["tokens"].shape[0]
        return jnp.concatenate([caches[name].reshape(rows, -1) for name in groups], axis=1)

    def apply(params: Weights, obs: Mapping[str, Any], memory: Array | None = None) -> tuple[Array, ...]:
        if memory is None:
            logits, value = sequences(params, {name: obs[name][:, None] for name in ("tokens", "length")})
            return logits[:, 0], value[:, 0]
        position = obs["length"] - 1
        token = jnp.take_along_axis(obs["tokens"], position[:, None], axis=1)[:, 0]
        parts = jnp.split(memory, [cache_sizes["actor"]], axis=1)
        hidden, caches = {}, []
        for (name, (size, depth, heads)), part in zip(groups.items(), parts, strict=True):
            cache = part.reshape(-1, depth, 2, context, size)
            hidden[name], cache = _one_more(params[name], heads, token, position, cache)
            caches.append(cache.reshape(part.shape))
        logits, value = read_out(params, hidden["actor"], hidden["critic"])
        return logits, value, jnp.concatenate(caches, axis=1)

    init = functools.partial(draw, tree=tree)
    return Policy(
        "transformer",
        jax.jit(init),
        apply,
        architecture,
        memory_size=sum(cache_sizes.values()),
        begin=begin,
        sequences=sequences,
    )


def _shapes(num_tokens: int, context: int, width: int, depth: int) -> Weights:
    """Of one network; what a layer adds to the residual stream is scaled down by the number of layers."""
    residual = (2 * depth) ** -0.5
    block = {
        "attention_norm": _norm_shape(width),
        "query_key_value": dense_shape(width, 3 * width, 1.0),
        "joined": dense_shape(width, width, residual),
        "wide_norm": _norm_shape(width),
        "wide": dense_shape(width, 4 * width, 1.0),
        "narrow": dense_shape(4 * width, width, residual),
    }
    return {
        "tokens": Normal((num_tokens, width), width**-0.5),
        "positions": Normal((context, width), width**-0.5),
        "blocks": [block] * depth,
        "norm": _norm_shape(width),
    }


def _norm_shape(width: int) -> Weights:
    return {"gain": Normal((width,)), "bias": Normal((width,))}


def _norm(weights: Weights, x: Array) -> Array:
    """Layer norm with the factor 1 + gain."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return jnp.asarray(scaled * (1 + weights["gain"]) + weights["bias"])


def _whole(weights: Weights, heads: int, tokens: Array) -> tuple[Array, Array]:
    """Every position of every sequence [B, T] at once: hidden states [B, T, width], cache [B, depth, 2, T, width]."""
    length = tokens.shape[1]
    x = weights["tokens"][tokens] + weights["positions"][:length]
    seen = jnp.tril(jnp.ones((length, length), bool))
    caches = []
    for block in weights["blocks"]:
        query, keys, values = _query_key_value(block, x)
        x = _after_attention(block, x, _attend(query, keys, values, seen, heads))
        caches.append(jnp.stack([keys, values], axis=1))
    return x, jnp.stack(caches, axis=1)


def _one_more(weights: Weights, heads: int, token: Array, position: Array, cache: Array) -> tuple[Array, Array]:
    """One token per row at its position, both [B], after what the cache holds: hidden states [B, width], new cache."""
    x = (weights["tokens"][token] + weights["positions"][position])[:, None]
    context = cache.shape[3]
    here = (jnp.arange(context) == position[:, None])[:, :, None]
    seen = (jnp.arange(context) <= position[:, None])[:, None, None]
    caches = []
    for number, block in enumerate(weights["blocks"]):
        query, key, value = _query_key_value(block, x)
        keys, values = jnp.where(here, key, cache[:, number, 0]), jnp.where(here, value, cache[:, number, 1])
        x = _after_attention(block, x, _attend(query, keys, values, seen, heads))
        caches.append(jnp.stack([keys, values], axis=1))
    return x[:, 0], jnp.stack(caches, axis=1)


def _query_key_value(block: Weights, x: Array) -> list[Array]:
    return jnp.split(dense(block["query_key_value"], _norm(block["attention_norm"], x)), 3, axis=-1)


def _attend(query: Array, keys: Array, values: Array, seen: Array, heads: int) -> Array:
    """Softmax attention of queries [B, Q, width] over keys and values [B, S, width], where `seen` [.., Q, S]."""
    rows, width = query.shape[0], query.shape[2]
    size = width // heads
    query, keys, values = (part.reshape(rows, -1, heads, size) for part in (query, keys, values))
    scores = jnp.einsum("bqhe,bshe->bhqs", query, keys) / math.sqrt(size)
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
    return jnp.einsum("bhqs,bshe->bqhe", weights, values).reshape(rows, -1, width)


def _after_attention(block: Weights, x: Array, attended: Array) -> Array:
    x = x + dense(block["joined"], attended)
    wide = jax.nn.gelu(dense(block["wide"], _norm(block["wide_norm"], x)))
    return x + dense(block["narrow"], wide)

"""A decoder-only Transformer: whole sequences for training, one token at a time with a key–value cache for sampling.

Actor and critic are two networks without shared weights; the critic may be smaller. The cache is the policy's memory:
it forks with the world, row by row, and can be made from an observation alone, so no gradient flows through it.
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
    context: maximum tokens of a sequence, including the prompt.
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
    # One position's entry in the cache: keys and values of every layer of both networks, one after another.
    entry_sizes = [2 * depth * size for size, depth, _ in groups.values()]
    tree = {name: _shapes(num_tokens, context, size, depth) for name, (size, depth, _) in groups.items()}
    tree["critic"]["head"] = Normal((critic_width, 1), critic_width**-0.5)

    def read_out(params: Weights, actor: Array, critic: Array) -> tuple[Array, Array]:
        logits = _norm(params["actor"]["norm"], actor) @ params["actor"]["tokens"].T
        return logits, (_norm(params["critic"]["norm"], critic) @ params["critic"]["head"])[..., 0]

    def whole(params: Weights, tokens: Array) -> tuple[list[Array], list[Array]]:
        """Hidden states [B, T, width] and cache entries [B, T, entry] of both networks."""
        outputs = [_whole(params[name], heads, tokens) for name, (_, _, heads) in groups.items()]
        return [hidden for hidden, _ in outputs], [entries for _, entries in outputs]

    def sequences(params: Weights, obs: Mapping[str, Any]) -> tuple[Array, Array]:
        # Steps of one trajectory show prefixes of one sequence, padded with zeros: their maximum is the longest.
        hidden, _ = whole(params, obs["tokens"].max(axis=1))
        at = jax.nn.one_hot(obs["length"] - 1, obs["tokens"].shape[2])
        return read_out(params, *(at @ states for states in hidden))

    def begin(params: Weights, obs: Mapping[str, Any]) -> Array:
        tokens = obs["tokens"]
        _, entries = whole(params, jnp.pad(tokens, ((0, 0), (0, context - tokens.shape[1]))))
        return jnp.concatenate(entries, axis=2).reshape(len(tokens), -1)

    def apply(params: Weights, obs: Mapping[str, Any], memory: Array | None = None) -> tuple[Array, ...]:
        if memory is None:
            logits, value = sequences(params, {name: obs[name][:, None] for name in ("tokens", "length")})
            return logits[:, 0], value[:, 0]
        position = obs["length"] - 1
        token = jnp.take_along_axis(obs["tokens"], position[:, None], axis=1)[:, 0]
        cache = memory.reshape(len(memory), context, -1)
        parts = jnp.split(cache, [entry_sizes[0]], axis=2)
        outputs = [
            _one_more(params[name], heads, token, position, part)
            for (name, (_, _, heads)), part in zip(groups.items(), parts, strict=True)
        ]
        here = (jnp.arange(context) == position[:, None])[:, :, None]
        cache = jnp.where(here, jnp.concatenate([entry for _, entry in outputs], axis=1)[:, None], cache)
        return *read_out(params, *(hidden for hidden, _ in outputs)), cache.reshape(memory.shape)

    init = functools.partial(draw, tree=tree)
    return Policy(
        "transformer",
        jax.jit(init),
        apply,
        architecture,
        memory_size=context * sum(entry_sizes),
        begin=begin,
        sequences=sequences,
    )


def _shapes(num_tokens: int, context: int, width: int, depth: int) -> Weights:
    """The parameters of one network; each layer's output to the residual stream is scaled by the number of layers."""
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
    """Layer norm scaled by 1 + gain."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return jnp.asarray(scaled * (1 + weights["gain"]) + weights["bias"])


def _whole(weights: Weights, heads: int, tokens: Array) -> tuple[Array, Array]:
    """Every position of every sequence [B, T] at once: hidden states [B, T, width], cache entries [B, T, entry]."""
    rows, length = tokens.shape
    x = weights["tokens"][tokens] + weights["positions"][:length]
    seen = jnp.tril(jnp.ones((length, length), bool))
    entries = []
    for block in weights["blocks"]:
        query, keys, values = _query_key_value(block, x)
        entries += [keys, values]
        query, keys, values = (part.reshape(rows, length, heads, -1) for part in (query, keys, values))
        scores = jnp.einsum("bqhe,bshe->bhqs", query, keys) / math.sqrt(query.shape[-1])
        chances = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
        x = _after_attention(block, x, jnp.einsum("bhqs,bshe->bqhe", chances, values).reshape(x.shape))
    return x, jnp.concatenate(entries, axis=2)


def _one_more(weights: Weights, heads: int, token: Array, position: Array, cache: Array) -> tuple[Array, Array]:
    """One token per row at its position, both [B], after what is cached [B, context, entry].

    Returns hidden states [B, width] and the new cache entries, [B, entry].
    """
    x = weights["tokens"][token] + weights["positions"][position]
    rows, width = x.shape
    before = (jnp.arange(cache.shape[1]) < position[:, None])[:, :, None]
    entry: list[Array] = []
    for number, block in enumerate(weights["blocks"]):
        query, key, value = _query_key_value(block, x)
        entry += [key, value]
        keys, values = jnp.split(cache[:, :, 2 * width * number : 2 * width * (number + 1)], 2, axis=2)

        def per_head(part: Array) -> Array:
            return part.reshape(*part.shape[:-1], heads, -1)

        # Elementwise products and sums: as matrix products these would be many tiny ones.
        scale = 1 / math.sqrt(width // heads)
        scores = jnp.where(before, per_head(query[:, None] * keys).sum(axis=-1) * scale, -1e9)  # [B, context, heads]
        own = per_head(query * key).sum(axis=-1)[:, None] * scale
        chances = jax.nn.softmax(jnp.concatenate([scores, own], axis=1), axis=1)[..., None]
        attended = (chances[:, :-1] * per_head(values)).sum(axis=1) + chances[:, -1] * per_head(value)
        x = _after_attention(block, x, attended.reshape(rows, width))
    return x, jnp.concatenate(entry, axis=1)


def _query_key_value(block: Weights, x: Array) -> list[Array]:
    return jnp.split(dense(block["query_key_value"], _norm(block["attention_norm"], x)), 3, axis=-1)


def _after_attention(block: Weights, x: Array, attended: Array) -> Array:
    x = x + dense(block["joined"], attended)
    wide = jax.nn.gelu(dense(block["wide"], _norm(block["wide_norm"], x)))
    return x + dense(block["narrow"], wide)

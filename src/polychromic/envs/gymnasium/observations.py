"""Which arrays stand for an observation of a Gymnasium environment.

| observation | arrays |
|---|---|
| Box, MultiBinary, MultiDiscrete | the array itself, in the space's dtype |
| Discrete | int64, one number |
| text (a `Text` space or any space whose members are `str`) | int32 [text_length], padded with 0 |
| Dict | one array per key, nested keys joined by a dot: `camera.left` |
| Tuple | one array per position: `0`, `1`, ... |

An environment that gives a single array (or number, or text) has the one key `observation`. Text is
written as Unicode code points unless a `tokenize` function says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polychromic.errors import UserError

Tokenize = Callable[[str], Sequence[int]]
SINGLE = "observation"
SMALLEST_IMAGE = 8  # smaller arrays of bytes are read as numbers


@dataclass(frozen=True)
class Leaf:
    """One array of an observation: its name, the way to it, and what it must look like."""

    key: str
    path: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_text: bool
    space: spaces.Space[Any] | None = None


@dataclass(frozen=True)
class Layout:
    """Every array of an observation, in a fixed order."""

    leaves: tuple[Leaf, ...]
    tokenize: Tokenize | None

    def encode(self, observation: Any) -> tuple[NDArray[Any], ...]:
        """One observation as arrays that share no memory with the environment."""
        return tuple(_encode_leaf(leaf, _follow(observation, leaf), self.tokenize) for leaf in self.leaves)

    def empty(self, rows: int) -> dict[str, NDArray[Any]]:
        """Arrays for a batch: key -> [rows, *shape]."""
        return {leaf.key: np.zeros((rows, *leaf.shape), leaf.dtype) for leaf in self.leaves}


def layout_of(space: spaces.Space[Any], example: Any, text_length: int, tokenize: Tokenize | None) -> Layout:
    """The arrays of `space`; `example` decides for spaces that Gymnasium does not know (missions, say)."""
    leaves = tuple(_leaves(space, example, (), text_length))
    if not leaves:
        raise UserError(f"observation space {space} holds no arrays; give the environment at least one")
    names = [leaf.key for leaf in leaves]
    if len(set(names)) < len(names):
        raise UserError(f"observation keys {names} are not distinct once nested keys are joined by dots")
    return Layout(leaves, tokenize)


def kind_of(leaf: Leaf) -> dict[str, Any]:
    """What an array is, by its space, as JSON: classes, text, an image, or numbers with their bounds."""
    space = leaf.space
    if leaf.is_text:
        return {"kind": "text", "length": leaf.shape[0]}
    if isinstance(space, spaces.Discrete):
        return {"kind": "classes", "sizes": [int(space.n)], "firsts": [int(space.start)]}
    if isinstance(space, spaces.MultiDiscrete):
        firsts = np.broadcast_to(getattr(space, "start", 0), space.nvec.shape)
        return {"kind": "classes", "sizes": space.nvec.ravel().tolist(), "firsts": firsts.ravel().tolist()}
    if isinstance(space, spaces.Box) and leaf.dtype == np.uint8 and len(leaf.shape) in (2, 3):
        first = len(leaf.shape) == 3 and leaf.shape[0] <= 4 < leaf.shape[2]
        sides = (*leaf.shape, 1) if len(leaf.shape) == 2 else (*leaf.shape[1:], leaf.shape[0]) if first else leaf.shape
        if min(sides[:2]) >= SMALLEST_IMAGE:
            return {"kind": "image", "shape": list(sides), "channels_first": first, "highest": 255.0}
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(bound, np.float64).ravel() for bound in (space.low, space.high))
        return {"kind": "numbers", "low": low.tolist(), "high": high.tolist()}
    return {"kind": "numbers", "low": [0.0], "high": [1.0]}


def _leaves(space: spaces.Space[Any], example: Any, path: tuple[Any, ...], text_length: int) -> Iterator[Leaf]:
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            inside = (*path, key)
            yield from _leaves(inner, _part(example, key, _name(inside)), inside, text_length)
        return
    if isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            inside = (*path, index)
            yield from _leaves(inner, _part(example, index, _name(inside)), inside, text_length)
        return
    key = _name(path)
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        yield Leaf(key, path, tuple(space.shape), np.dtype(space.dtype), is_text=False, space=space)
    elif isinstance(space, spaces.Discrete):
        yield Leaf(key, path, (), np.dtype(np.int64), is_text=False, space=space)
    elif isinstance(example, str):
        yield Leaf(key, path, (text_length,), np.dtype(np.int32), is_text=True)
    else:
        raise UserError(
            f"observation '{key}' has the space {space}, which has no fixed array; use Box, Discrete, "
            "MultiBinary, MultiDiscrete, Text, Dict or Tuple, or change it with "
            "gymnasium.wrappers.TransformObservation"
        )


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path)) or SINGLE


def _part(observation: Any, key: Any, name: str) -> Any:
    try:
        return observation[key]
    except (KeyError, IndexError, TypeError) as error:
        raise UserError(f"the observation lacks '{name}', which the observation space promises") from error


def _follow(observation: Any, leaf: Leaf) -> Any:
    for step in leaf.path:
        observation = _part(observation, step, leaf.key)
    return observation


def _encode_leaf(leaf: Leaf, value: Any, tokenize: Tokenize | None) -> NDArray[Any]:
    if leaf.is_text:
        return _encode_text(leaf, value, tokenize)
    try:
        array = np.array(value, dtype=leaf.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"observation '{leaf.key}' does not fit its space's {leaf.dtype}: {error}") from error
    if array.shape != leaf.shape:
        raise UserError(f"observation '{leaf.key}' has shape {array.shape}, its observation space says {leaf.shape}")
    return array


def _encode_text(leaf: Leaf, text: Any, tokenize: Tokenize | None) -> NDArray[Any]:
    if not isinstance(text, str):
        raise UserError(f"observation '{leaf.key}' is {text!r}; it was text at the first reset and must stay text")
    try:
        tokens = np.array(tokenize(text) if tokenize else [ord(character) for character in text], leaf.dtype)
    except Exception as error:
        raise UserError(f"tokenize({text!r}) does not give token ids: {type(error).__name__}: {error}") from error
    if tokens.ndim != 1:
        raise UserError(f"tokenize({text!r}) has shape {tokens.shape}; give a list of token ids")
    if len(tokens) > leaf.shape[0]:
        raise UserError(
            f"observation '{leaf.key}' has {len(tokens)} tokens, text_length is {leaf.shape[0]}; "
            f"give text_length={len(tokens)} or more"
        )
    row = np.zeros(leaf.shape, leaf.dtype)
    row[: len(tokens)] = tokens
    return row

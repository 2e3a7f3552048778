"""The actions of a Gymnasium environment: what they are in a world, and what `env.step` is given.

| action space | in a world |
|---|---|
| Discrete | 0 … n − 1, whatever the space's first number is |
| MultiDiscrete, MultiBinary | int64 [d]: d choices at once, each from 0 |
| Box of floats | float32 [d], flat; clipped to the bounds before the step |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polychromic.envs.actions import Actions, Choice, Choices, Vector
from polychromic.errors import UserError


def actions_of(space: Any) -> tuple[Actions, Callable[[Any], Any]]:
    """What the actions of a space are, and the function that makes an action of the environment of one of them."""
    if isinstance(space, spaces.Discrete):
        return Choice(int(space.n)), functools.partial(_number, int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        firsts = np.broadcast_to(getattr(space, "start", 0), space.nvec.shape)
        return Choices(space.nvec.ravel()), functools.partial(_numbers, np.array(firsts), space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return Choices(np.full(space.shape, 2).ravel()), functools.partial(
            _numbers, np.zeros(space.shape, np.int64), space.dtype
        )
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Vector(space.low, space.high), functools.partial(_clipped, space.low, space.high)
    cure = "make it MultiDiscrete" if isinstance(space, spaces.Box) else "make it one of these"
    raise UserError(
        f"the action space is {space}; it must be Discrete, MultiDiscrete, MultiBinary or a Box of floats: {cure}, for "
        "example with gymnasium.wrappers.TransformAction"
    )


def _number(first: int, action: Any) -> int:
    return int(action) + first


def _numbers(firsts: NDArray[Any], dtype: Any, action: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(action.reshape(firsts.shape) + firsts, dtype)


def _clipped(low: NDArray[Any], high: NDArray[Any], action: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.clip(action.reshape(low.shape), low, high), low.dtype)

"""Environments and their fields, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium
from gymnasium.utils import EzPickle

from polychromic.envs.forkcheck.picture import Path


def layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    """The environment and its wrappers, outermost first."""
    while True:
        yield env
        if not isinstance(env, gymnasium.Wrapper):
            return
        env = env.env


def is_ez_pickle(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether `copy.deepcopy` of some layer keeps only its constructor's arguments."""
    return any(
        isinstance(layer, EzPickle)
        and not hasattr(layer, "__deepcopy__")
        and type(layer).__getstate__ is EzPickle.__getstate__
        for layer in layers(env)
    )


def spell(root: Any, path: Path) -> str:
    """A path as a user would write it: `TimeLimit._elapsed_steps`, `MyEnv.agent.rng`, `MyEnv.parts['rng']`."""
    owner = root
    while path[:1] == (".env",) and isinstance(owner, gymnasium.Wrapper):
        owner, path = owner.env, path[1:]
    return type(owner).__name__ + "".join(path)


def listed(names: Iterable[str], most: int = 3) -> str:
    """A short list as text."""
    names = list(names)
    text = ", ".join(f"`{name}`" for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")

"""One episode of a Gymnasium environment that can be continued twice.

Three ways to make the second environment, all of which end in an object of its own:

- `copy`: `copy.deepcopy` of the whole object, wrappers included;
- `clone`: a new environment into which the user's `restore(env, snapshot)` puts what `clone(env)` took;
- `replay`: a new environment, reset with the same seed, that takes the same actions again.

With `none` there is no second environment: rows are handed on, and never continued twice.
"""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium
import numpy as np

from polychromic.envs.actions import Actions
from polychromic.envs.gymnasium.generators import Key, number_of, reseed_generators
from polychromic.envs.gymnasium.observations import Layout

Method = Literal["copy", "clone", "replay", "none"]
MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


class EnvironmentFailed(RuntimeError):
    """The wrapped environment raised an error, or its replay went another way."""


def describe(error: BaseException) -> str:
    """The kind of an error and, if it has one, its message, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")


@dataclass(frozen=True)
class Recipe:
    """All that is needed to make, step and fork one environment; it travels to worker processes."""

    make_env: MakeEnv
    method: Method
    layout: Layout
    actions: Actions
    to_env: Callable[[Any], Any]  # from an action to what `env.step` takes
    clone: Callable[[Any], Any] | None = None
    restore: Callable[[Any, Any], None] | None = None
    reseed: Callable[[Any, int], None] | None = None
    place: Callable[[Any], Hashable] | None = None
    success: Callable[[Any], bool] | None = None


@dataclass
class Episode:
    """A running environment and, for replays, how it came to be where it is."""

    env: gymnasium.Env[Any, Any]
    seed: int
    observation: tuple[np.ndarray, ...]
    actions: list[Any] = field(default_factory=list)
    # (after how many actions, with which key) the generators were given new streams
    reseeds: list[tuple[int, Key]] = field(default_factory=list)
    success: bool | None = None  # what the last step's info says; None if nothing


@contextlib.contextmanager
def _hushed(env: Any):  # type: ignore[no-untyped-def]
    """minigrid prints `Sampling rejected` lines from `reset`; other environments may print as they like."""
    quiet = type(env.unwrapped).__module__.startswith("minigrid.")
    with contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        yield


def reset_env(env: gymnasium.Env[Any, Any], seed: int) -> Any:
    """The first observation, without minigrid's chatter."""
    with _hushed(env):
        return env.reset(seed=seed)[0]


def begin(recipe: Recipe, seed: int) -> Episode:
    """A fresh episode in a fresh environment: a reused one may carry something over from its past."""
    env = recipe.make_env()
    return Episode(env, seed, recipe.layout.encode(reset_env(env, seed)))


def advance(recipe: Recipe, episode: Episode, action: Any) -> tuple[float, bool, bool]:
    """One step in place; `action` is one of `recipe.actions`. Returns reward, terminated, truncated."""
    observation, reward, terminated, truncated, info = episode.env.step(recipe.to_env(action))
    episode.observation = recipe.layout.encode(observation)
    episode.success = _said_success(info)
    if recipe.method == "replay":
        episode.actions.append(action)
    return float(reward), bool(terminated), bool(truncated)


def _said_success(info: Any) -> bool | None:
    """What an environment says itself, as Gymnasium-Robotics and others do."""
    for name in ("is_success", "success"):
        if isinstance(info, Mapping) and name in info:
            return bool(info[name])
    return None


def renew(recipe: Recipe, episode: Episode, key: Key) -> None:
    """Independent noise from here on, determined by `key` alone."""
    if recipe.reseed is not None:
        recipe.reseed(episode.env, number_of(key))
    else:
        reseed_generators(episode.env, key)
    if recipe.method == "replay":
        episode.reseeds.append((len(episode.actions), key))


def duplicate(recipe: Recipe, episode: Episode) -> Episode:
    """A second episode in the same state with the same noise to come; the first is not touched."""
    if recipe.method == "none":
        raise EnvironmentFailed("fork is 'none': the environment is never continued twice")
    if recipe.method == "copy":
        return Episode(copy.deepcopy(episode.env), episode.seed, episode.observation)
    twin = begin(recipe, episode.seed)
    if recipe.method == "clone":
        assert recipe.clone is not None
        assert recipe.restore is not None
        recipe.restore(twin.env, recipe.clone(episode.env))
        twin.observation = episode.observation
        return twin
    reseeds = dict[int, Key](episode.reseeds)  # of several at one moment the last one counts
    for moment, action in enumerate([*episode.actions, None]):
        if moment in reseeds:
            renew(recipe, twin, reseeds[moment])
        if action is not None:
            advance(recipe, twin, action)
    if not same_arrays(twin.observation, episode.observation):
        raise EnvironmentFailed(
            f"replaying seed {episode.seed} and its {len(episode.actions)} actions led to another observation: "
            "the environment is not deterministic given its seed. `polychromic.check_fork` says why."
        )
    return twin


def same_arrays(left: tuple[np.ndarray, ...], right: tuple[np.ndarray, ...]) -> bool:
    """Equal to the last bit, NaN included."""
    return len(left) == len(right) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(left, right, strict=True)
    )

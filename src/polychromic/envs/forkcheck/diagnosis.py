"""Why a fork is not faithful: fields that were lost, objects that are shared, randomness from outside."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator, Sized
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import EzPickle

from polychromic.envs.gymnasium.generators import GENERATORS, Path, fingerprint, generators_of, spell, walk

_PLAIN = (str, int, float, bool, np.generic)
# Variables of modules and classes that an environment could keep state in, by mistake or on purpose.
_STATEFUL = (list, dict, set, np.ndarray, int, float, *GENERATORS)
_MISSING = object()
# What good copies share too (it cannot change), and generators, which have a check of their own.
_NOT_SHARED = (*_PLAIN, complex, bytes, type(None), tuple, frozenset, np.dtype, *GENERATORS)


def layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    """The environment and its wrappers, outermost first."""
    while True:
        yield env
        if not isinstance(env, gymnasium.Wrapper):
            return
        env = env.env


def fields(env: gymnasium.Env[Any, Any]) -> dict[Path, Any]:
    """Every plain value, array and generator of the object, in a form that can be compared later."""
    found: dict[Path, Any] = {}
    checker = _checker_path(env)
    for path, value in walk(env):
        if checker is not None and path[: len(checker)] == checker and path[len(checker) :][:1] != ("env",):
            continue
        if isinstance(value, GENERATORS):
            found[path] = ("generator", fingerprint(value))
        elif isinstance(value, np.ndarray):
            found[path] = (str(value.dtype), value.shape, repr(value) if value.dtype == object else value.tobytes())
        elif isinstance(value, set | frozenset):
            found[path] = ("set", len(value), sorted(repr(one) for one in value if _is_plain(one)))
        elif isinstance(value, list | dict | deque):
            found[path] = ("size", len(value))  # what is inside comes by itself
        elif isinstance(value, _PLAIN):
            found[path] = (type(value).__name__, repr(value))
    return found


def _is_plain(value: Any) -> bool:
    """Whether `repr` says all that there is; that of other objects may hold their address."""
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _checker_path(env: gymnasium.Env[Any, Any]) -> Path | None:
    """The way to Gymnasium's own checker, which `make` adds and whose notes do not change what happens."""
    for depth, layer in enumerate(layers(env)):
        if isinstance(layer, gymnasium.wrappers.PassiveEnvChecker):
            return ("env",) * depth
    return None


def lost_fields(before: dict[Path, Any], env: Any, twin: Any) -> list[str]:
    """Fields that have changed since the reset and that the twin does not have as the original has them."""
    ours, theirs = fields(env), fields(twin)
    lost = [
        path
        for path, value in ours.items()
        if before.get(path, _MISSING) != value and theirs.get(path, _MISSING) != value
    ]
    return [spell(env, path) for path in lost]


def shared_parts(env: Any, twin: Any) -> dict[Path, Any]:
    """The outermost objects that original and twin both hold. Sharing what never changes is no fault."""
    theirs = list(walk(twin))  # kept alive while addresses are compared
    places = {_place_in_memory(value) for _, value in theirs if not isinstance(value, _NOT_SHARED)}
    shared: dict[Path, Any] = {}
    for path, value in walk(env):
        inner = any(path[:depth] in shared for depth in range(len(path)))
        if not inner and not isinstance(value, _NOT_SHARED) and _place_in_memory(value) in places:
            shared[path] = value
    return shared


def _place_in_memory(value: Any) -> tuple[str, int]:
    if isinstance(value, np.ndarray) and value.size:  # two arrays may be views of the same numbers
        return "array", value.__array_interface__["data"][0]
    return "object", id(value)


def shared_objects(env: Any, twin: Any, kinds: tuple[type, ...]) -> list[str]:
    """Objects of these kinds that original and twin both hold: what one does to them the other sees."""
    ours = {id(value) for _, value in walk(env) if isinstance(value, kinds)}
    return [spell(twin, path) for path, value in walk(twin) if isinstance(value, kinds) and id(value) in ours]


def is_ez_pickle(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether `copy.deepcopy` of some layer keeps its constructor's arguments only."""
    return any(
        isinstance(layer, EzPickle)
        and not hasattr(layer, "__deepcopy__")
        and type(layer).__getstate__ is EzPickle.__getstate__
        for layer in layers(env)
    )


def generator_states(env: Any) -> dict[Path, Any]:
    """Where the environment's own generators stand."""
    return {path: fingerprint(generator) for path, generator in generators_of(env).items()}


def outside(env: gymnasium.Env[Any, Any]) -> dict[str, tuple[bool, Any]]:
    """What lies outside the object and could change as it steps: name -> (is it randomness, its value)."""
    found: dict[str, tuple[bool, Any]] = {
        "the global generator of numpy.random": (True, repr(np.random.get_state(legacy=False))),  # noqa: NPY002
        "the global generator of the module random": (True, hash(random.getstate())),
    }
    for layer in layers(env):
        for kind in type(layer).__mro__:
            root = kind.__module__.partition(".")[0]
            if root in ("gymnasium", "builtins", "typing", "abc"):
                continue
            _look(found, f"class attribute {kind.__name__}", vars(kind))
            module = sys.modules.get(kind.__module__)
            if module is not None:
                _look(found, f"module variable {kind.__module__}", vars(module))
    return found


def _look(found: dict[str, tuple[bool, Any]], owner: str, variables: Any) -> None:
    for name, value in list(variables.items()):
        if name.startswith("__") or not isinstance(value, _STATEFUL):
            continue
        if isinstance(value, GENERATORS):
            found[f"{owner}.{name}"] = (True, fingerprint(value))
        elif not isinstance(value, Sized) or len(value) < 10_000:
            found[f"{owner}.{name}"] = (False, repr(value))


def changed_outside(
    before: dict[str, tuple[bool, Any]], after: dict[str, tuple[bool, Any]]
) -> tuple[list[str], list[str]]:
    """Names of (randomness, other state) outside the object that changed in between."""
    changed = [name for name, value in after.items() if name in before and before[name] != value]
    return [name for name in changed if after[name][0]], [name for name in changed if not after[name][0]]


def listed(names: list[str], most: int = 3) -> str:
    """A short list in words."""
    text = ", ".join(f"`{name}`" for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")

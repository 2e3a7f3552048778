"""Where an environment keeps its randomness, and how to give it new randomness.

The object graph of an environment is walked through attributes, lists, tuples, deques and dicts. What it holds
by other means (a module's variable, a C++ library) is out of reach; the fork check says so.
"""

from __future__ import annotations

import functools
import random
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

Path = tuple[str | int, ...]
Key = tuple[int, ...]

_ATOMS = (str, bytes, int, float, complex, bool, type(None), np.generic, np.dtype)
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_NOT_WALKED = (*_ATOMS, *_OPAQUE)
_COMMON = frozenset({str, int, float, bool, type(None)})
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
# A graph larger than this is data, not state; walking it would cost more than the copy it helps to judge.
MAX_OBJECTS = 200_000


def walk(root: Any) -> Iterator[tuple[Path, Any]]:
    """Every object reachable from `root` once, with the first way to it; breadth first."""
    queue: list[tuple[Path, Any]] = [((), root)]
    seen = {id(root)}
    position = 0
    while position < len(queue) and position < MAX_OBJECTS:
        path, value = queue[position]
        position += 1
        yield path, value
        for step, inner in _inside(value):
            if isinstance(inner, _ATOMS):
                yield (*path, step), inner
            elif not isinstance(inner, _OPAQUE) and id(inner) not in seen:
                seen.add(id(inner))
                queue.append(((*path, step), inner))


def _inside(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, (*GENERATORS, np.ndarray)):
        return
    if isinstance(value, dict):
        yield from ((key if isinstance(key, str | int) else repr(key), inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from enumerate(value)
    else:
        yield from getattr(value, "__dict__", {}).items()
        kind: type = type(value)
        for name in _slots(kind):
            if hasattr(value, name):
                yield name, getattr(value, name)


@functools.lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[str, ...]:
    names: list[str] = []
    for one in kind.__mro__:
        slots = getattr(one, "__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _each_generator(root: Any) -> Iterator[Any]:
    """The generators that `walk` finds, in its order, several times faster: every fork with noise looks for them."""
    queue = [root]
    seen = {id(root)}
    for position, value in enumerate(queue):  # which grows meanwhile
        if position == MAX_OBJECTS:
            return
        kind = type(value)
        if isinstance(value, GENERATORS):
            yield value
            continue
        if kind is dict:
            inside = value.values()
        elif kind is list or kind is tuple:
            inside = value
        else:
            inside = (inner for _, inner in _inside(value))
        for inner in inside:
            if type(inner) not in _COMMON and id(inner) not in seen and not isinstance(inner, _NOT_WALKED):
                seen.add(id(inner))
                queue.append(inner)


def generators_of(env: Any) -> dict[Path, Any]:
    """Every random generator that the environment object holds now, by the way to it."""
    return {path: value for path, value in walk(env) if isinstance(value, GENERATORS)}


def reseed_generators(env: Any, key: Key) -> None:
    """Give every generator of `env` a stream of its own that `key` alone determines.

    In place, so that parts of the environment that hold the same generator follow. Looked for anew each time: which
    generators there are may depend on the seed and on the moment.
    """
    for index, generator in enumerate(_each_generator(env)):
        sequence = np.random.SeedSequence((*key, index))
        if isinstance(generator, np.random.Generator):
            bits = generator.bit_generator
            bits.state = type(bits)(sequence).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(sequence.generate_state(8))
        else:
            generator.seed(number_of((*key, index)))


def number_of(key: Key) -> int:
    """A key as one integer that every library takes as a seed (31 bits)."""
    return int(np.random.SeedSequence(key).generate_state(1)[0] >> 1)


def fingerprint(generator: Any) -> Any:
    """A comparable picture of where a generator stands."""
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return repr(generator.get_state(legacy=False))
    return hash(generator.getstate())


def spell(root: Any, path: Path) -> str:
    """A path in words a user can find: `TimeLimit._elapsed_steps`, `MyEnv.agent.rng`."""
    import gymnasium

    owner = root
    rest = list(path)
    while rest and rest[0] == "env" and isinstance(owner, gymnasium.Wrapper):
        owner = owner.env
        rest.pop(0)
    text = type(owner).__name__
    for step in rest:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text

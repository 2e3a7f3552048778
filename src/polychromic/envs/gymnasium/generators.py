"""Where an environment keeps its randomness, and how to give it new randomness.

The object graph of an environment is walked through attributes, slots, lists, tuples, deques, dicts and arrays of
objects. What it holds by other means (a set, a closure, a module's variable, a C++ library) is out of reach; the fork
check, which looks further, says so.
"""

from __future__ import annotations

import functools
import random
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

Key = tuple[int, ...]

_ATOMS = (str, bytes, int, float, complex, bool, type(None), np.generic, np.dtype)
_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_NOT_WALKED = (*_ATOMS, *_OPAQUE)
_COMMON = frozenset({str, int, float, bool, type(None)})
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
# A graph larger than this is data, not state; walking it would cost more than the copy it helps to judge.
MAX_OBJECTS = 200_000


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            yield from value.flat
        return
    if isinstance(value, GENERATORS):
        return
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | deque):
        yield from value
    else:
        yield from getattr(value, "__dict__", {}).values()
        kind: type = type(value)
        for slot in slots(kind).values():
            try:
                yield slot.__get__(value, kind)
            except AttributeError:  # nothing is in it
                continue


@functools.lru_cache(maxsize=4096)
def slots(kind: type) -> dict[str, Any]:
    """The slots of a class and its bases, those with a private name included."""
    return {
        name: slot
        for one in kind.__mro__
        if "__slots__" in vars(one)
        for name, slot in vars(one).items()
        if isinstance(slot, types.MemberDescriptorType)
    }


def _each_generator(root: Any) -> Iterator[Any]:
    """The generators that can be reached, breadth first; every fork with noise looks for them."""
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
            inside = _inside(value)
        for inner in inside:
            if type(inner) not in _COMMON and id(inner) not in seen and not isinstance(inner, _NOT_WALKED):
                seen.add(id(inner))
                queue.append(inner)


def reseed_generators(env: Any, key: Key) -> None:
    """Give every generator of `env` a stream of its own that `key` alone determines.

    In place, so that parts of the environment that hold the same generator follow. Looked for again each time: which
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
    try:
        return hash(generator.getstate())
    except NotImplementedError:  # SystemRandom stands nowhere
        return "no state"

"""A picture of everything that an object holds, to compare with a copy or with a later moment.

Every object that can be reached is inspected: attributes and slots, containers, arrays, generators, iterators,
closures, partial functions, bound methods, weak references, ctypes, and what C types tell `pickle`. A picture also says
which paths lead to the same object, so that a copy with two objects in place of one is detected. What cannot be
inspected (a C++ simulator, a lock) is listed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import struct
import sys
import types
import warnings
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gymnasium
import numpy as np

from polychromic.envs.gymnasium.generators import GENERATORS, fingerprint, slots

Path = tuple[str, ...]
Inside = Iterable[tuple[str, Any]]

# A graph larger than this is data, not state; walking it would cost more than the copy that it checks.
MAX_OBJECTS = 200_000

_PLAIN: frozenset[type] = frozenset(
    {str, int, float, bool, complex, bytes, type(None), type(...), type(NotImplemented), range}
)
_NAMED = (type, types.ModuleType, np.dtype, types.GenericAlias, types.UnionType)
_BUILTIN = (types.BuiltinFunctionType, types.MethodWrapperType)
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_RUNNING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
# Compiled functions change on their first call, but their behaviour does not.
_COMPILERS = ("numba", "llvmlite", "jax", "jaxlib", "optax")
_POINTER = struct.calcsize("P")
_CLOSED = "cannot be inspected"
_MISSING = ("missing",)


class Picture:
    """What an object held at one moment. It keeps everything alive, so that addresses can be compared."""

    def __init__(self) -> None:
        self.values: dict[Path, Any] = {}  # the first path to everything -> its value, in a comparable form
        self.objects: dict[Path, Any] = {}  # of these, the objects with an identity
        self.again: dict[Path, Path] = {}  # further paths to an object -> the first one
        self.memory: dict[Path, Path] = {}  # arrays in the memory of another array -> that one
        self.closed: list[Path] = []  # what cannot be inspected
        self.optional: set[Path] = set()  # what is computed on first use
        self.complete = True

    def first(self, path: Path) -> Path:
        """The first path to the object at `path`."""
        for _ in range(100):
            for depth in range(len(path), 0, -1):
                if path[:depth] in self.again:
                    path = self.again[path[:depth]] + path[depth:]
                    break
            else:
                return path
        return path

    def at(self, path: Path) -> Any:
        """The value at a path, in a comparable form."""
        value = self.values.get(path)
        return self.values.get(self.first(path), _MISSING) if value is None else value

    def generators(self) -> dict[Path, Any]:
        """The random generators among the objects."""
        return {path: value for path, value in self.objects.items() if isinstance(value, GENERATORS)}


def take(root: Any, limit: int = MAX_OBJECTS, stop: type | tuple[type, ...] = ()) -> Picture:
    """Walk everything that can be reached from `root`, breadth first; objects of the types `stop` are not entered."""
    picture = Picture()
    ways: dict[int, Path] = {}
    owners: dict[int, Path] = {}
    queue: deque[tuple[Path, Any]] = deque([((), root)])
    sets: deque[tuple[Path, list[Any]]] = deque()  # last, when most of their members are known by other paths
    while queue or sets:
        if not queue:
            path, members = sets.popleft()
            members.sort(key=lambda member: ways[id(member)] if id(member) in ways else ("~", _digest(member)))
            queue.extend(((*path, f"{{member {index}}}"), member) for index, member in enumerate(members))
            continue
        path, value = queue.popleft()
        kind = type(value)
        plain = _plain(value, kind)
        if plain is not None:
            picture.values[path] = plain
            continue
        if id(value) in ways:
            picture.again[path] = ways[id(value)]
            continue
        if len(picture.objects) >= limit:
            picture.complete = False
            break
        ways[id(value)] = path
        picture.objects[path] = value
        if issubclass(kind, stop):
            picture.values[path] = (_name(kind),)
            continue
        try:
            words, inside = _look(value, kind)
        except Exception:  # an object may raise on any access
            words, inside = (_CLOSED,), ()
        picture.values[path] = (_name(kind), *words)
        if _CLOSED in words:
            picture.closed.append(path)
        for step, inner in inside:
            queue.append(((*path, step), inner))
        for step, inner in _attributes(value, kind):
            queue.append(((*path, step), inner))
            if isinstance(vars(kind).get(step[1:]), functools.cached_property):
                picture.optional.add((*path, step))
        if issubclass(kind, set | frozenset):
            sets.append((path, [member for member in _iterate(value, kind) if _plain(member, type(member)) is None]))
        if issubclass(kind, np.ndarray) and value.size:
            first = owners.setdefault(id(_owner(value)), path)
            if first != path:
                picture.memory[path] = first
    return picture


# ------------------------------------------------------------------ comparing


def differences(ours: Picture, theirs: Picture) -> list[Path]:
    """Where the two differ: fields that only one has, and values that differ. Only the outermost paths."""
    paths: dict[Path, None] = {}
    for path in [*ours.values, *(path for path in theirs.values if path not in ours.values)]:
        if ours.values.get(path) == theirs.values.get(path):
            continue
        left, right = ours.at(path), theirs.at(path)
        if left == right or any(path[:depth] in paths for depth in range(len(path))):
            continue
        if _MISSING in (left, right):
            owner = (theirs if left == _MISSING else ours).optional
            if any(path[:depth] in owner for depth in range(len(path) + 1)):
                continue
        if _CLOSED in left + right and (_MISSING in (left, right) or ("None",) in (left[1:], right[1:])):
            continue  # a window or handle that the other lacks; if it is needed, steps show it
        paths[path] = None
    return list(paths)


def severed(ours: Picture, theirs: Picture) -> dict[Path, list[Any]]:
    """Paths that lead to one object in one picture and to two in the other, with the object of `ours`."""
    objects: dict[Path, list[Any]] = {}
    for path in [*ours.again, *theirs.again]:
        first = ours.first(path)
        if ours.at(path) == theirs.at(path) and first != theirs.first(path) and first in ours.objects:
            objects[path] = [ours.objects[first]]
    for path in [*ours.memory, *theirs.memory]:
        ways = (path, ours.memory.get(path, path))
        if ours.memory.get(path) != theirs.memory.get(path) and path in ours.objects and path in theirs.objects:
            objects[path] = [ours.objects[way] for way in ways]
    return objects


def prefixes(paths: Iterable[Path]) -> set[Path]:
    """The paths and everything that contains them."""
    return {path[:depth] for path in paths for depth in range(len(path) + 1)}


def shared_parts(ours: Picture, theirs: Picture) -> dict[Path, Any]:
    """The outermost objects that both hold, except generators. Sharing something that never changes is fine."""
    places = {place for value in theirs.objects.values() for place in _places(value)}
    shared: dict[Path, Any] = {}
    for path, value in ours.objects.items():
        inner = any(path[:depth] in shared for depth in range(len(path)))
        if not inner and not places.isdisjoint(_places(value)):
            shared[path] = value
    return shared


def _places(value: Any) -> Iterator[tuple[str, int]]:
    if isinstance(value, (types.FunctionType, *_BUILTIN, *GENERATORS)):
        return  # their cells and owner have their own paths
    if type(value) is weakref.ref:
        return
    yield "object", id(value)
    if isinstance(value, np.ndarray) and value.size:  # two arrays may be views of the same numbers
        yield "memory", id(_owner(value))


def grown(before: Picture, after: Picture) -> list[Path]:
    """`differences`, without dicts that only gained entries: caches."""
    gained: list[Path] = []
    for path, left in before.values.items():
        right = after.values.get(path)
        if right is None or left == right or not left[1:2] == right[1:2] == ("dict",):
            continue
        if left[0] == right[0] and right[2][: len(left[2])] == left[2]:
            gained.append(path)
    paths = []
    for path in [*before.values, *(path for path in after.values if path not in before.values)]:
        if before.at(path) == after.at(path) or path in gained:
            continue
        if path not in before.values and any(path[:depth] in gained for depth in range(len(path))):
            continue
        if not any(path[:depth] in paths for depth in range(len(path))):
            paths.append(path)
    return paths


# ------------------------------------------------------------------ looking


def _plain(value: Any, kind: type) -> tuple[str, ...] | None:
    """A value without identity in a comparable form; None for objects."""
    if kind in _PLAIN:
        return kind.__name__, repr(value)
    if kind is tuple or kind is frozenset:
        parts = [_plain(part, type(part)) for part in value]
        if None in parts:
            return None
        return kind.__name__, repr(parts if kind is tuple else sorted(map(repr, parts)))
    if issubclass(kind, np.generic) and not value.dtype.hasobject:
        return f"numpy.{value.dtype}", value.tobytes().hex()
    if issubclass(kind, _NAMED):
        return "named", getattr(value, "__module__", None) or "", getattr(value, "__qualname__", repr(value))
    if _of_compiler(kind):
        return "compiled", _name(kind)
    return None


def _of_compiler(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _COMPILERS and not hasattr(kind, "__array__")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _look(value: Any, kind: type) -> tuple[tuple[Any, ...], Inside]:
    """What an object is besides its attributes, and what is inside it."""
    if kind in _PROXIES:
        return _look_through(value)
    if issubclass(kind, dict):
        return _look_into_dict(value, kind)
    if issubclass(kind, list | tuple | deque):
        members = list(_iterate(value, kind))
        bound = (value.maxlen,) if issubclass(kind, deque) else ()
        if all(type(member) in _PLAIN for member in members):
            return (*bound, repr(members)), ()
        return (*bound, len(members)), ((f"[{index}]", member) for index, member in enumerate(members))
    if issubclass(kind, set | frozenset):
        plain = [_plain(member, type(member)) for member in _iterate(value, kind)]
        return (len(plain), sorted(repr(member) for member in plain if member is not None)), ()
    if issubclass(kind, GENERATORS):
        return (fingerprint(value), _spawned(value)), ()
    if issubclass(kind, np.ndarray):
        return _look_into_array(value)
    for base in (str, int, float, complex, bytes):
        if issubclass(kind, base):
            return (base.__repr__(value),), ()
    for kinds, look in _LOOKS:
        if issubclass(kind, kinds):
            return look(value)
    if issubclass(kind, _CTYPES):
        return _look_into_ctypes(value, kind)
    return _look_into_other(value, kind)


def _iterate(value: Any, kind: type) -> Iterator[Any]:
    """Use the built-in type's own iterator: a subclass may override it."""
    for base in (list, tuple, deque, set, frozenset):
        if issubclass(kind, base):
            return base.__iter__(value)
    raise TypeError(kind)


def _look_into_dict(value: Any, kind: type) -> tuple[tuple[Any, ...], Inside]:
    items = list(OrderedDict.items(value) if issubclass(kind, OrderedDict) else dict.items(value))
    keys: list[Any] = []
    inside: list[tuple[str, Any]] = []
    for index, (key, inner) in enumerate(items):
        plain = _plain(key, type(key))
        step = f"[{key!r}]" if plain is not None else f"[key {index}]"
        keys.append(plain or "object")
        if plain is None:
            inside.append((f"{{key {index}}}", key))
        inside.append((step, inner))
    if issubclass(kind, defaultdict):
        inside.append((".default_factory", value.default_factory))
    return ("dict", tuple(keys)), inside


def _look_into_array(value: np.ndarray) -> tuple[tuple[Any, ...], Inside]:
    words = (str(value.dtype), value.shape)
    if value.dtype == object:
        return words, ((f".flat[{index}]", item) for index, item in enumerate(value.flat))
    if value.dtype.hasobject:
        return words, ((".tolist()", value.tolist()),)
    return (*words, _bytes(value.tobytes())), ()


def _look_through(value: Any) -> tuple[tuple[Any, ...], Inside]:
    """A weak proxy forwards every access: a bound method of the object leads to the object."""
    try:
        return ("proxy",), ((".__self__", value.__dir__.__self__),)
    except ReferenceError:
        return ("proxy", "dead"), ()


def _look_into_function(value: types.FunctionType) -> tuple[tuple[Any, ...], Inside]:
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    inside: list[tuple[str, Any]] = [(f".<{name}>", cell) for name, cell in cells]
    inside += [(".__defaults__", value.__defaults__), (".__kwdefaults__", value.__kwdefaults__)]
    inside += [(f".{name}", inner) for name, inner in value.__dict__.items() if name != "__wrapped__"]
    return (value.__module__, value.__qualname__), inside


def _look_into_cell(value: types.CellType) -> tuple[tuple[Any, ...], Inside]:
    try:
        inner = value.cell_contents
    except ValueError:
        return ("empty",), ()
    # No way of copying reaches into a closure, and many wrappers close over their environment for its spaces. If a
    # closure reads or changes the original's state, fields and steps show it.
    if isinstance(inner, gymnasium.Env):
        return ("environment", _name(type(inner))), ()
    return (), ((".cell_contents", inner),)


def _look_into_running(value: Any) -> tuple[tuple[Any, ...], Inside]:
    frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None) or getattr(value, "ag_frame", None)
    if frame is None:
        return ("ended",), ()
    return (frame.f_code.co_qualname, frame.f_lasti), [(f".<{name}>", inner) for name, inner in frame.f_locals.items()]


_LOOKS: list[tuple[Any, Callable[[Any], tuple[tuple[Any, ...], Inside]]]] = [
    (types.FunctionType, _look_into_function),
    (types.CellType, _look_into_cell),
    (types.MethodType, lambda value: ((), ((".__func__", value.__func__), (".__self__", value.__self__)))),
    (_BUILTIN, lambda value: ((value.__name__,), _owner_of_method(value))),
    (
        functools.partial,
        lambda value: ((), [(f".{name}", getattr(value, name)) for name in ("func", "args", "keywords")]),
    ),
    (weakref.ref, lambda value: (("dead",), ()) if value() is None else ((), (("()", value()),))),
    (_RUNNING, _look_into_running),
    (types.MappingProxyType, lambda value: _look_into_dict(dict(value), dict)),
]


def _owner_of_method(value: Any) -> Inside:
    owner = getattr(value, "__self__", None)
    return () if owner is None or isinstance(owner, types.ModuleType | type) else ((".__self__", owner),)


_CTYPES = tuple(
    kind.__mro__[1]
    for kind in (ctypes.Structure, ctypes.Union, ctypes.Array, ctypes.c_int, ctypes.POINTER(ctypes.c_int))
)


def _look_into_ctypes(value: Any, kind: type) -> tuple[tuple[Any, ...], Inside]:
    if issubclass(kind, ctypes.Structure | ctypes.Union):
        names = [field[0] for base in kind.__mro__ for field in vars(base).get("_fields_", ())]
        return (), [(f".{name}", getattr(value, name)) for name in names]
    if issubclass(kind, ctypes.Array):
        return (len(value),), [(f"[{index}]", item) for index, item in enumerate(value)]
    if hasattr(value, "contents"):
        return ((), ((".contents", value.contents),)) if value else (("null",), ())
    if issubclass(kind, ctypes.c_void_p):
        return (_CLOSED,), ()
    return (repr(value.value),), ()


def _look_into_other(value: Any, kind: type) -> tuple[tuple[Any, ...], Inside]:
    """C types by their memory or by what they tell pickle; other objects hold only their attributes."""
    if not _hides(kind) and not _by_reduce(kind):
        return (), ()
    try:
        with memoryview(value) as view:
            return (view.format, view.shape, _bytes(view.tobytes())), ()
    except (TypeError, ValueError, BufferError):
        pass
    if hasattr(kind, "__array__"):
        try:
            return ("array",), ((".__array__()", np.asarray(value)),)
        except Exception:
            return (_CLOSED,), ()
    if kind.__name__ in ("count", "repeat") and kind.__module__ == "itertools":
        return (repr(value),), ()
    parts = _reduced(value, kind)
    if parts is None:
        return (_CLOSED,), ()
    if isinstance(parts, str):
        return (parts,), ()
    items = [list(part) if index > 2 and part is not None else part for index, part in enumerate(parts[:5])]
    return (), [(f".<{index}>", part) for index, part in enumerate(items) if part is not None]


def _reduced(value: Any, kind: type) -> Any:
    if not _tells_pickle(kind):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return value.__reduce_ex__(4)
        except Exception:
            return None


def _tells_pickle(kind: Any) -> bool:
    names = ("__reduce_ex__", "__reduce__", "__getstate__")
    return any(getattr(kind, name, None) is not getattr(object, name) for name in names)


@functools.lru_cache(maxsize=4096)
def _by_reduce(kind: type) -> bool:
    """Standard library classes that keep internal caches: paths, loggers."""
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names and _tells_pickle(kind)


@functools.lru_cache(maxsize=4096)
def _hides(kind: type) -> bool:
    """Whether an object is larger than its dict and slots explain: it has C fields."""
    known = object.__basicsize__ + _POINTER * (
        bool(kind.__dictoffset__) + bool(kind.__weakrefoffset__) + len(slots(kind))
    )
    return kind.__basicsize__ > known or kind.__itemsize__ > 0


def _attributes(value: Any, kind: Any) -> Iterator[tuple[str, Any]]:
    if kind in _PROXIES or issubclass(kind, types.FunctionType) or _by_reduce(kind):
        return
    if kind is gymnasium.wrappers.PassiveEnvChecker:  # `make` adds it; its flags do not change the episode
        yield ".env", value.env
        return
    with contextlib.suppress(AttributeError, TypeError):
        yield from ((f".{name}", inner) for name, inner in object.__getattribute__(value, "__dict__").items())
    for name, descriptor in slots(kind).items():
        try:
            yield f".{name}", descriptor.__get__(value, kind)
        except AttributeError:
            continue


def _spawned(generator: Any) -> int:
    """Children that a NumPy generator has made: the next one depends on their number."""
    sequence = getattr(getattr(generator, "bit_generator", None), "seed_seq", None)
    return getattr(sequence, "n_children_spawned", 0)


def _owner(array: np.ndarray) -> Any:
    """The object that owns an array's memory."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner.obj if isinstance(owner, memoryview) else owner


def _bytes(content: bytes) -> str:
    return content.hex() if len(content) <= 64 else hashlib.blake2b(content, digest_size=16).hexdigest()


def _digest(value: Any) -> str:
    return repr(sorted(take(value, 100).values.items()))

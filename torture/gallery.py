"""Environments with one fault each, and sound ones, as data: the fault, and whether a fork check can detect it.

No fault in a field shows in an observation, a reward or an end within the steps played.
"""

from __future__ import annotations

import array
import collections
import contextvars
import copy
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import gc
import importlib
import io
import itertools
import logging
import os
import pathlib
import random
import sqlite3
import tempfile
import threading
import time
import types
import uuid
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle

import torture.shelf
from torture import shelf

STEPS, FIELDS, OUTSIDE, NEVER = "steps", "fields", "outside", "never"


class Faulty(NamedTuple):
    """An environment whose copies are not faithful."""

    name: str
    make: Callable[[], gymnasium.Env[Any, Any]]
    why: str
    seen: str  # in the steps played, in a field that can be reached, outside the object, or never
    reason: str = ""  # if never
    options: dict[str, Any] = {}


class Sound(NamedTuple):
    """An environment whose copies are faithful."""

    name: str
    make: Any  # a function or an id


# ------------------------------------------------------------------ the environment that all of them are made of


class Line(gymnasium.Env[Any, Any]):
    """Sound: 9 cells in a row; an episode ends after 200 steps."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(-1000, 1000, (1,), np.float64)

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(-2, 3))
        self.count = 0
        self.prepare()
        return self.see(), {}

    def see(self) -> Any:
        return np.array([self.cell], np.float64)

    def prepare(self) -> None:
        """At the end of a reset."""

    def happen(self, action: int) -> None:
        """In every step."""

    def reward(self) -> float:
        return 0.0

    def step(self, action: int) -> Any:
        self.count += 1
        self.cell = max(-4, min(4, self.cell + int(action) - 1))
        self.happen(int(action))
        return self.see(), self.reward(), False, self.count >= 200, {}


def whole_copy(env: Any, memo: dict[int, Any]) -> Any:
    """What `copy.deepcopy` does by itself, for `__deepcopy__` to spoil."""
    twin = type(env).__new__(type(env))
    memo[id(env)] = twin
    twin.__dict__.update({name: copy.deepcopy(value, memo) for name, value in vars(env).items()})
    return twin


def line(
    name: str,
    prepare: Callable[[Any], None] | None = None,
    happen: Callable[[Any, int], None] | None = None,
    spoil: Callable[[Any, Any], None] | None = None,
    **more: Any,
) -> type[Line]:
    """A class of lines: `prepare(env)` at reset, `happen(env, action)` in steps, `spoil(twin, original)` in copies."""
    body: dict[str, Any] = {"__module__": __name__, **more}
    if prepare is not None:
        body["prepare"] = lambda self: prepare(self)
    if happen is not None:
        body["happen"] = lambda self, action: happen(self, action)
    if spoil is not None:

        def deep(self: Any, memo: dict[int, Any]) -> Any:
            twin = whole_copy(self, memo)
            spoil(twin, self)
            return twin

        body["__deepcopy__"] = deep
    return type("".join(word.capitalize() for word in name.split()), (Line,), body)


def put(**fields: Callable[[], Any]) -> Callable[[Any], None]:
    """Fields made again at every reset."""
    return lambda env: vars(env).update({name: make() for name, make in fields.items()})


# ------------------------------------------------------------------ parts


@dataclasses.dataclass
class Agent:
    """A part with fields."""

    gold: int = 0
    bag: list[int] = dataclasses.field(default_factory=list)


class Counted:
    """A part whose class keeps a count."""

    total = 0

    def move(self) -> None:
        type(self).total += 1


class Mangled:
    """A part with a private slot."""

    __slots__ = ("__steps",)

    def __init__(self) -> None:
        self.__steps = 0

    def move(self) -> None:
        self.__steps += 1


class Label(int):
    """A number with a field."""

    note = 0


class Table(dict):
    """A dict with a field."""

    note = 0


class Pair(NamedTuple):
    """A tuple with a list inside."""

    name: str
    steps: list[int]


class Point(ctypes.Structure):
    """Fields of C."""

    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_double))


class Simulator:
    """A part that several environments may share."""

    def __init__(self) -> None:
        self.ticks = 0


class Hue(enum.Enum):
    """Enum members, each of which exists once."""

    RED = 0
    BLUE = 1


def ticker() -> Callable[[], int]:
    """A function with a count in its closure."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return count

    return tick


def forward(iterator: Any, steps: int) -> Any:
    for _ in range(steps):
        next(iterator)
    return iterator


def set_to(**values: Any) -> Callable[[Any, Any], None]:
    """Spoil a copy: these fields have these values."""
    return lambda twin, _original: vars(twin).update({key: copy.deepcopy(value) for key, value in values.items()})


def shares(*names: str) -> Callable[[Any, Any], None]:
    """Spoil a copy: these fields are the original's own objects."""
    return lambda twin, original: vars(twin).update({name: vars(original)[name] for name in names})


def assign(env: Any, **values: Any) -> None:
    vars(env).update(values)


# ------------------------------------------------------------------ faults in fields


def _fields() -> list[tuple[str, type[Line]]]:
    """A field of every kind, right in the original and wrong in the copy; then fields that two share."""

    def keep(
        name: str, make: Callable[[], Any], change: Callable[[Any, int], Any], spoil: Any
    ) -> tuple[str, type[Line]]:
        return name, line(name, put(kept=make), change, spoil)

    def again(make: Callable[[], Any]) -> Callable[[Any, Any], None]:
        return lambda twin, _original: assign(twin, kept=make())

    objects = np.empty(2, object)

    def object_array() -> Any:
        fresh = objects.copy()
        fresh[:] = [Agent(), Agent()]
        return fresh

    def structured() -> Any:
        return np.array([(0, [])], [("number", int), ("list", object)])

    return [
        keep("a count starts again", int, lambda env, _: assign(env, kept=env.kept + 1), set_to(kept=0)),
        keep("a value becomes None", lambda: 3, lambda env, a: assign(env, kept=a), set_to(kept=None)),
        keep("a constant becomes None", lambda: 3, lambda *_: None, set_to(kept=None)),
        keep("a field is deleted in the copy", int, lambda env, a: assign(env, kept=a), lambda t, _: vars(t).pop("kept", None)),
        keep(
            "a field that the original deleted is back",
            int,
            lambda env, _: vars(env).pop("kept", None),
            set_to(kept=0),
        ),
        keep("bytes", bytes, lambda env, a: assign(env, kept=env.kept + bytes([a])), set_to(kept=b"")),
        keep("bytearray", bytearray, lambda env, a: env.kept.append(a), set_to(kept=bytearray())),
        keep("complex", lambda: 0j, lambda env, _: assign(env, kept=env.kept + 1j), set_to(kept=0j)),
        keep("float zero with another sign", lambda: -0.0, lambda *_: None, set_to(kept=0.0)),
        keep("float becomes nan", lambda: 0.5, lambda *_: None, set_to(kept=float("nan"))),
        keep("text", str, lambda env, a: assign(env, kept=env.kept + str(a)), set_to(kept="")),
        keep("array of the module array", lambda: array.array("i", [0]), lambda env, a: env.kept.append(a), again(lambda: array.array("i", [0]))),
        keep("ctypes number", ctypes.c_int, lambda env, _: setattr(env.kept, "value", env.count), again(ctypes.c_int)),
        keep("ctypes structure", Point, lambda env, _: setattr(env.kept, "x", env.count), again(Point)),
        keep("ctypes array", lambda: (ctypes.c_int * 3)(), lambda env, a: env.kept.__setitem__(a, env.count), again(lambda: (ctypes.c_int * 3)())),
        keep("itertools count", itertools.count, lambda env, _: next(env.kept), again(itertools.count)),
        keep("itertools cycle", lambda: itertools.cycle("abc"), lambda env, _: next(env.kept), lambda t, o: assign(t, kept=forward(itertools.cycle("abc"), o.count + 1))),
        keep("iterator of a list", lambda: iter(list(range(500))), lambda env, _: next(env.kept), again(lambda: iter(list(range(500))))),
        keep("object in an array of objects", object_array, lambda env, _: setattr(env.kept[1], "gold", env.count), again(object_array)),
        keep("object in a structured array", structured, lambda env, a: env.kept["list"][0].append(a), again(structured)),
        keep("dtype of an array", lambda: np.zeros(3), lambda env, a: env.kept.__setitem__(a, 1), lambda t, o: assign(t, kept=o.kept.astype(np.float32))),
        keep("shape of an array", lambda: np.zeros((2, 3)), lambda *_: None, lambda t, o: assign(t, kept=o.kept.T.copy())),
        keep("private slot", Mangled, lambda env, _: env.kept.move(), again(Mangled)),
        keep("order of a dict", lambda: {"a": 1, "b": 2}, lambda *_: None, set_to(kept={"b": 2, "a": 1})),
        keep("order of an OrderedDict", lambda: collections.OrderedDict(a=1, b=2), lambda env, a: env.kept.move_to_end("ab"[a % 2]), lambda t, o: [t.kept.move_to_end(key) for key in reversed(list(o.kept))]),
        keep("key of a dict", dict, lambda env, _: env.kept.__setitem__((env.count, "step"), 1), set_to(kept={})),
        keep("factory of a defaultdict", lambda: collections.defaultdict(int), lambda *_: None, lambda t, _: setattr(t.kept, "default_factory", list)),
        keep("set", set, lambda env, _: env.kept.add(env.count), set_to(kept=set())),
        keep("frozenset", frozenset, lambda env, _: assign(env, kept=env.kept | {env.count}), set_to(kept=frozenset())),
        keep("objects in a set", lambda: {Mangled(), Mangled()}, lambda env, _: [part.move() for part in env.kept], again(lambda: {Mangled(), Mangled()})),
        keep("deque", collections.deque, lambda env, a: env.kept.append(a), again(collections.deque)),
        keep("bound of a deque", lambda: collections.deque(maxlen=100), lambda env, a: env.kept.append(a), lambda t, o: assign(t, kept=collections.deque(o.kept))),
        keep("numpy generator", lambda: np.random.default_rng(0), lambda env, _: env.kept.random(), again(lambda: np.random.default_rng(0))),
        keep("old numpy generator", lambda: np.random.RandomState(0), lambda env, _: env.kept.rand(), again(lambda: np.random.RandomState(0))),
        keep("generator of the module random", lambda: random.Random(0), lambda env, _: env.kept.random(), again(lambda: random.Random(0))),
        keep("bare bit generator", lambda: np.random.PCG64(0), lambda env, _: env.kept.random_raw(), again(lambda: np.random.PCG64(0))),
        keep("children of a generator", lambda: np.random.default_rng(0), lambda env, _: env.kept.spawn(1), again(lambda: np.random.default_rng(0))),
        keep("dataclass", Agent, lambda env, _: setattr(env.kept, "gold", env.count), again(Agent)),
        keep("list in a named tuple", lambda: Pair("a", []), lambda env, a: env.kept.steps.append(a), again(lambda: Pair("a", []))),
        keep("cell of a closure", ticker, lambda env, _: env.kept(), again(ticker)),
        keep("argument of a partial", lambda: functools.partial(max, 0), lambda env, a: assign(env, kept=functools.partial(max, a + 1)), again(lambda: functools.partial(max, 0))),
        keep("field of a number", lambda: Label(3), lambda env, _: setattr(env.kept, "note", env.count), again(lambda: Label(3))),
        keep("field of a dict", Table, lambda env, _: setattr(env.kept, "note", env.count), again(Table)),
        keep("decimal", lambda: decimal.Decimal(0), lambda env, _: assign(env, kept=env.kept + 1), set_to(kept=decimal.Decimal(0))),
        keep("fraction", lambda: fractions.Fraction(0), lambda env, _: assign(env, kept=env.kept + 1), set_to(kept=fractions.Fraction(0))),
        keep("date", lambda: datetime.date(2020, 1, 1), lambda env, _: assign(env, kept=env.kept + datetime.timedelta(1)), set_to(kept=datetime.date(2020, 1, 1))),
        keep("position in a text stream", io.StringIO, lambda env, a: env.kept.write(str(a)), again(io.StringIO)),
        keep("arguments of an exception", lambda: ValueError(0), lambda env, _: assign(env, kept=ValueError(env.count)), again(lambda: ValueError(0))),
        keep("member of an enum", lambda: Hue.RED, lambda env, _: assign(env, kept=Hue.BLUE), set_to(kept=Hue.RED)),
        keep("environment inside", Line, lambda env, a: env.kept.reset(seed=0) and None if env.count == 1 else env.kept.step(a), again(Line)),
        keep("path", lambda: pathlib.PurePosixPath("a"), lambda env, _: assign(env, kept=pathlib.PurePosixPath("a") / str(env.count)), set_to(kept=pathlib.PurePosixPath("a"))),
        # The same object in both.
        keep("shared list", list, lambda env, a: env.kept.append(a), shares("kept")),
        keep("shared set", set, lambda env, _: env.kept.add(env.count), shares("kept")),
        keep("shared bytearray", bytearray, lambda env, a: env.kept.append(a), shares("kept")),
        keep("shared part", Agent, lambda env, a: env.kept.bag.append(a), shares("kept")),
        keep("shared view of an array", lambda: np.zeros(4), lambda env, a: env.kept.__setitem__(a + 1, env.count), lambda t, o: assign(t, kept=np.asarray(memoryview(o.kept)))),
        keep("shared dict two levels down", lambda: {"a": [{}]}, lambda env, a: env.kept["a"][0].__setitem__(a, env.count), lambda t, o: assign(t, kept={"a": [o.kept["a"][0]]})),
        keep("shared running generator", lambda: iter(list(range(500))), lambda env, _: next(env.kept), shares("kept")),
        keep("shared closure", ticker, lambda env, _: env.kept(), None),
        keep("shared itertools count", itertools.count, lambda env, _: next(env.kept), shares("kept")),
        keep("the copy empties the original", list, lambda env, a: env.kept.append(a), lambda t, o: (o.kept.clear(), t.kept.clear())),
    ]  # fmt: skip


def _grid(env: Any) -> None:
    env.grid = np.zeros((3, 3))
    env.row = env.grid[0]


def _write_row(env: Any, action: int) -> None:
    env.row[action] += 1


def _two_names(env: Any) -> None:
    env.bag = []
    env.agent = Agent(bag=env.bag)


def _two_lists(env: Any) -> None:
    env.first, env.second = [], []


def _append_both(env: Any, action: int) -> None:
    env.first.append(action)
    env.second.append(action)


def _agent_and_weak(env: Any) -> None:
    env.agent = Agent()
    env.watched = weakref.ref(env.agent)


def _agent_and_proxy(env: Any) -> None:
    env.agent = Agent()
    env.watched = weakref.proxy(env.agent)


def _log(env: Any) -> None:
    env.trail = []
    env.log = env.trail.append


def _draw(env: Any) -> None:
    env.wind = random.Random(int(env.np_random.integers(1000)))
    env.draw = env.wind.random


def _closure_that_writes(env: Any) -> None:
    env.hidden = 0

    def bump() -> None:
        env.hidden += 1

    env.bump = bump


def _closure_that_reads(env: Any) -> None:
    env.hidden = 0
    env.seen = 0
    env.read = lambda: env.hidden


def _read(env: Any, _action: int) -> None:
    env.hidden += 1
    env.seen += env.read()


def _kept_in_dict_of_objects(env: Any) -> None:
    env.agents = {Mangled(): 0, Mangled(): 1}


LINKS = [
    ("a view that deepcopy makes an array of its own", line("Severed view", _grid, _write_row)),
    ("one list under two names, two in the copy", line("Two names", _two_names, lambda e, a: e.bag.append(a), lambda t, _: assign(t, bag=list(t.bag)))),
    ("two lists, one in the copy", line("Two lists", _two_lists, _append_both, lambda t, _: assign(t, second=t.first))),
    ("a weak reference that stays with the original", line("Weak", _agent_and_weak, lambda e, _: setattr(e.watched(), "gold", e.count))),
    ("a weak proxy that stays with the original", line("Proxy", _agent_and_proxy, lambda e, _: setattr(e.watched, "gold", e.count))),
    ("`self.log = self.trail.append`, which stays with the original", line("Bound append", _log, lambda e, a: e.log(a))),
    ("`self.draw = self.rng.random`, which stays with the original", line("Bound draw", _draw, lambda e, _: e.draw())),
    ("a closure over the environment that writes", line("Writing closure", _closure_that_writes, lambda e, _: e.bump())),
    ("a closure over the environment that reads", line("Reading closure", _closure_that_reads, _read)),
    ("objects as keys of a dict", line("Object keys", _kept_in_dict_of_objects, lambda e, _: next(iter(e.agents)).move(), lambda t, _: _kept_in_dict_of_objects(t))),
]  # fmt: skip


class ForgetfulLimit(gymnasium.wrappers.TimeLimit):
    """Its count is not copied."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ForgetfulLimit:
        twin = ForgetfulLimit(copy.deepcopy(self.env, memo), self._max_episode_steps)
        twin._elapsed_steps = 0
        return twin


class ConstructorOnly(Line, EzPickle):
    """Copied by its constructor's arguments, as environments of Box2D and MuJoCo are."""

    def __init__(self) -> None:
        EzPickle.__init__(self)


SIMULATOR = Simulator()


def shared_simulator() -> Line:
    """Every new environment gets one and the same simulator."""
    env = line("Handed", None, lambda env, _: assign(env.simulator, ticks=env.simulator.ticks + 1))()
    env.simulator = SIMULATOR  # type: ignore[attr-defined]
    return env


class Unseeded(Line):
    """Draws from a generator that no seed reaches, and never shows it."""

    def __init__(self) -> None:
        self.hidden = np.random.default_rng()

    def happen(self, action: int) -> None:
        self.hidden.random()


# ------------------------------------------------------------------ faults outside the object

STATE = Simulator()
TICKS = 0
VISITED: set[int] = set()
NESTED = {"deep": [0]}
COUNTER = itertools.count()
RNG = np.random.default_rng(0)


class ModuleObject(Line):
    """An object of the module."""

    def prepare(self) -> None:
        STATE.ticks = 0

    def happen(self, action: int) -> None:
        STATE.ticks += 1


class ModuleNumber(Line):
    """A number of the module."""

    def happen(self, action: int) -> None:
        global TICKS
        TICKS += 1


class ModuleSet(Line):
    """A set of the module."""

    def happen(self, action: int) -> None:
        VISITED.add(len(VISITED))


class ModuleNested(Line):
    """A list inside a dict of the module."""

    def happen(self, action: int) -> None:
        NESTED["deep"][0] += 1


class ModuleCounter(Line):
    """An iterator of the module."""

    def happen(self, action: int) -> None:
        self.id = next(COUNTER)


class ModuleVariableMadeLate(Line):
    """A variable of the module that the first step makes."""

    def happen(self, action: int) -> None:
        global LATE
        LATE = LATE + 1 if "LATE" in globals() else 0

    def prepare(self) -> None:
        globals().pop("LATE", None)


class ModuleGenerator(Line):
    """A generator of the module, whose numbers nobody sees."""

    def happen(self, action: int) -> None:
        RNG.random()


class OtherModule(Line):
    """A variable of another module of its own."""

    def happen(self, action: int) -> None:
        shelf.ticks += 1


class OtherModuleByFullName(Line):
    """The same by its full name."""

    def happen(self, action: int) -> None:
        torture.shelf.hidden[0] += 1


def _helper() -> None:
    STATE.ticks += 1


class ThroughAFunction(Line):
    """A function of the module changes it."""

    def happen(self, action: int) -> None:
        _helper()


class ClassList(Line):
    """A list of the class."""

    log: list[int] = []

    def happen(self, action: int) -> None:
        self.log.append(action)


class ClassNumber(Line):
    """A number of the class."""

    ticks = 0

    def happen(self, action: int) -> None:
        type(self).ticks += 1


class ClassOfAPart(Line):
    """A number of the class of a part."""

    def prepare(self) -> None:
        self.part = Counted()

    def happen(self, action: int) -> None:
        self.part.move()


class DefaultArgument(Line):
    """A default argument is one list for all calls."""

    def happen(self, action: int, log: list[int] = []) -> None:  # noqa: B006
        log.append(action)


class FunctionAttribute(Line):
    """A function keeps a count."""

    def happen(self, action: int) -> None:
        FunctionAttribute.happen.calls = getattr(FunctionAttribute.happen, "calls", 0) + 1  # type: ignore[attr-defined]


def counted(function: Any) -> Any:
    """Counts calls in a closure."""
    calls = 0

    @functools.wraps(function)
    def inner(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return function(*given)

    return inner


class Decorated(Line):
    """A decorator keeps a count."""

    @counted
    def happen(self, action: int) -> None:
        pass


class GlobalNumpy(Line):
    """NumPy's global generator, whose numbers nobody sees."""

    def happen(self, action: int) -> None:
        np.random.random()  # noqa: NPY002


class GlobalRandom(Line):
    """The module random, whose numbers nobody sees."""

    def happen(self, action: int) -> None:
        random.random()


class Environ(Line):
    """A variable of the process."""

    def happen(self, action: int) -> None:
        os.environ["GALLERY_STEPS"] = str(int(os.environ.get("GALLERY_STEPS", "0")) + 1)


# ------------------------------------------------------------------ faults that show in steps


class ForgetsCell(Line):
    """Copies some fields only."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)()
        twin.reset(seed=0)
        twin.count = self.count
        return twin


class ShownClassNumber(Line):
    """A number of the class, in the reward."""

    ticks = 0

    def reward(self) -> float:
        type(self).ticks += 1
        return float(self.ticks % 7)


class ShownUnseeded(Line):
    """A generator that no seed reaches, in the reward."""

    def __init__(self) -> None:
        self.hidden = np.random.default_rng()

    def reward(self) -> float:
        return float(self.hidden.random())


class Locked(Line):
    """Cannot be copied at all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Generating(Line):
    """Holds a running generator, which cannot be copied."""

    def prepare(self) -> None:
        self.numbers = (number for number in range(1000))

    def happen(self, action: int) -> None:
        next(self.numbers)


class BrokenCopy(Line):
    """Its copy raises in its first step."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)()


class ShownWind(Line):
    """`self.draw = self.rng.random` in the reward."""

    def prepare(self) -> None:
        _draw(self)

    def reward(self) -> float:
        return float(self.draw())  # type: ignore[attr-defined]


class ShowsAtTheEnd(Line):
    """A shared list that decides the end, after 50 steps."""

    def prepare(self) -> None:
        self.trail: list[int] = []

    def happen(self, action: int) -> None:
        self.trail.append(action)

    def reward(self) -> float:
        return float(len(self.trail) > 50)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = whole_copy(self, memo)
        twin.trail = self.trail
        return twin


# ------------------------------------------------------------------ faults that no check of this kind can see

LOCAL = threading.local()
CONTEXT: contextvars.ContextVar[int] = contextvars.ContextVar("CONTEXT", default=0)
SEEN: dict[int, bool] = {}


class OnDisk(Line):
    """A file."""

    def happen(self, action: int) -> None:
        with (pathlib.Path(tempfile.gettempdir()) / f"gallery-{os.getpid()}").open("a") as file:
            file.write("x")


class InALibrary(Line):
    """The precision of the module decimal."""

    def happen(self, action: int) -> None:
        decimal.getcontext().prec = 28 + self.count % 2


class InAContext(Line):
    """A context variable."""

    def happen(self, action: int) -> None:
        CONTEXT.set(CONTEXT.get() + 1)


class InTheThread(Line):
    """A variable of the thread."""

    def happen(self, action: int) -> None:
        LOCAL.ticks = getattr(LOCAL, "ticks", 0) + 1


class ByNameOnly(Line):
    """A module that the code names in a text."""

    def happen(self, action: int) -> None:
        vars(importlib.import_module("torture.sh" + "elf"))["hidden"] = [action + self.count]


class InTheGarbage(Line):
    """A setting of the interpreter."""

    def happen(self, action: int) -> None:
        gc.set_threshold(700 + self.count % 3)


class Remembering(Line):
    """A dict of the module that gains entries."""

    def happen(self, action: int) -> None:
        SEEN.setdefault(len(SEEN), True)


@functools.cache
def _new_to(_number: int) -> object:
    return object()


class Cached(Line):
    """A cache whose values differ from call to call."""

    def happen(self, action: int) -> None:
        _new_to(self.count)


class Database(Line):
    """A database in memory, one for all copies."""

    def prepare(self) -> None:
        self.base = sqlite3.connect(":memory:")
        self.base.execute("create table steps (action)")

    def happen(self, action: int) -> None:
        self.base.execute("insert into steps values (?)", (action,))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        memo[id(self.base)] = self.base
        return whole_copy(self, memo)


class Rare(Line):
    """A shared list that changes in step 150 only."""

    def prepare(self) -> None:
        self.trail: list[int] = []

    def happen(self, action: int) -> None:
        if self.count == 150:
            self.trail.append(action)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = whole_copy(self, memo)
        twin.trail = self.trail
        return twin


class Entropy(Line):
    """A number from nowhere, in a field."""

    def happen(self, action: int) -> None:
        self.hidden = os.urandom(4)


class ByClock(Line):
    """Another reward from the year 2100 on."""

    def reward(self) -> float:
        return float(time.time() > 4102444800)


class ByAddress(Line):
    """The order of a set of objects, which their addresses decide, from step 150 on."""

    def prepare(self) -> None:
        self.parts = {Mangled() for _ in range(8)}

    def reward(self) -> float:
        return float(self.count >= 150 and next(iter(self.parts)) is min(self.parts, key=id))


UNSEEN = {
    OnDisk: "state in files, sockets and other processes is not in this process",
    InALibrary: "state inside Python and installed libraries is not searched, only the environment's own modules",
    InTheGarbage: "settings of the interpreter are not searched",
    InAContext: "context variables cannot be listed",
    InTheThread: "what a thread keeps to itself cannot be listed",
    ByNameOnly: "a module that is named in a text only cannot be found from the code",
    Remembering: "a dict of a module that only gains entries is what a cache looks like",
    Cached: "functools.lru_cache hides what it holds",
    Database: "a C object that tells pickle nothing cannot be looked into; the report names it",
    Rare: "sharing is a fault only if what is shared changes, and it does not in the steps played",
    Entropy: "a field that the seed does not fix is what a time stamp looks like; the report names it",
    ByClock: "no other time is tried than now",
    ByAddress: "addresses of objects differ in every faithful copy, and nothing depends on them in the steps played",
}


def faulty() -> list[Faulty]:
    """All of them."""
    rows = [Faulty(name, make, name, FIELDS) for name, make in (*_fields(), *LINKS)]
    rows += [
        Faulty("time limit", lambda: ForgetfulLimit(Line(), 500), "a wrapper's count starts again", FIELDS),
        Faulty("constructor's arguments", ConstructorOnly, "EzPickle: a copy starts again", FIELDS),
        Faulty(
            "one simulator for all", shared_simulator, "new environments share a part", FIELDS, "", {"fork": "replay"}
        ),
        Faulty("unseeded", Unseeded, "draws from a generator that no seed reaches", FIELDS),
        Faulty(
            "clone without the limit",
            lambda: gymnasium.wrappers.TimeLimit(Line(), 500),
            "a snapshot of the environment leaves out its wrapper",
            FIELDS,
            "",
            {
                "fork": "clone",
                "clone": lambda env: copy.deepcopy(vars(env.unwrapped)),
                "restore": lambda env, snapshot: vars(env.unwrapped).update(copy.deepcopy(snapshot)),
            },
        ),
    ]
    outside = [
        ModuleObject,
        ModuleNumber,
        ModuleSet,
        ModuleNested,
        ModuleCounter,
        ModuleVariableMadeLate,
        ModuleGenerator,
    ]
    outside += [OtherModule, OtherModuleByFullName, ThroughAFunction, ClassList, ClassNumber, ClassOfAPart]
    outside += [DefaultArgument, FunctionAttribute, Decorated, GlobalNumpy, GlobalRandom, Environ]
    shown = [ForgetsCell, ShownClassNumber, ShownUnseeded, Locked, Generating, BrokenCopy, ShownWind, ShowsAtTheEnd]
    rows += [Faulty(kind.__name__, kind, _doc(kind), OUTSIDE) for kind in outside]
    rows += [Faulty(kind.__name__, kind, _doc(kind), STEPS) for kind in shown]
    rows += [Faulty(kind.__name__, kind, _doc(kind), NEVER, reason) for kind, reason in UNSEEN.items()]
    return rows


def _doc(kind: type) -> str:
    return str(kind.__doc__).rstrip(".")


# ------------------------------------------------------------------ sound ones

CACHE: dict[int, float] = {}
NUMBERS = itertools.count()
TABLE = {0: "left", 1: "stay", 2: "right"}
LOGGER = logging.getLogger(__name__)


class Noisy(Line):
    """Noise from the generator that Gymnasium gives."""

    def reward(self) -> float:
        return float(self.np_random.normal())


class OwnGenerators(Line):
    """Generators of every kind, in lists, dicts, slots and arrays, seeded from the reset."""

    def prepare(self) -> None:
        seeds = self.np_random.integers(1000, size=4).tolist()
        box = np.empty(1, object)
        box[0] = np.random.default_rng(seeds[3])
        self.parts = {"new": np.random.default_rng(seeds[0]), "old": [np.random.RandomState(seeds[1])], "box": box}
        self.plain = random.Random(seeds[2])

    def reward(self) -> float:
        parts = self.parts
        return parts["new"].normal() + parts["old"][0].normal() + self.plain.random() + parts["box"][0].random()


class Everything(Line):
    """A field of every kind that `copy.deepcopy` copies."""

    def prepare(self) -> None:
        objects = np.empty(1, object)
        objects[0] = Agent()
        self.things: list[Any] = [
            b"", bytearray(), 1j, array.array("i"), ctypes.c_int(1), Point(), (ctypes.c_int * 2)(), itertools.count(),
            objects, Mangled(), {"a": 1}, collections.OrderedDict(a=1), collections.defaultdict(list), {1, 2}, frozenset((1,)),
            collections.deque(maxlen=3), Agent(), Pair("a", []), functools.partial(max, 0), Label(1), Table(), decimal.Decimal(1),
            fractions.Fraction(1), datetime.date(2020, 1, 1), io.StringIO("a"), ValueError(1), Hue.RED, float("nan"), None, ...,
            pathlib.Path("a"), range(3), slice(1, 2), np.float32(1), np.dtype("i4"), np.array("NaT", "M8[s]"), uuid.UUID(int=3),
            np.arange(6).reshape(2, 3)[:, 1], types.SimpleNamespace(a=1), {Mangled(), Mangled()}, {Agent: 1}, len, Agent,
        ]  # fmt: skip

    def happen(self, action: int) -> None:
        self.things[1].append(action)
        self.things[4].value = action
        next(self.things[7])
        self.things[8][0].gold += 1
        self.things[9].move()
        self.things[15].append(action)
        self.things[16].bag.append(action)


class Family(Line):
    """Parts that know their environment and each other."""

    def prepare(self) -> None:
        self.agent = Agent()
        self.children = [types.SimpleNamespace(parent=self, friend=self.agent) for _ in range(3)]
        self.members = {Mangled() for _ in range(3)}
        self.owners = {self.agent.__class__: self, "agent": self.agent}
        self.mover = self.move

    def move(self) -> None:
        self.agent.gold += 1

    def happen(self, action: int) -> None:
        self.mover()


class LateGenerator(Line):
    """A generator that the fifth step makes."""

    def reward(self) -> float:
        if self.count == 5:
            self.wind = np.random.default_rng(3)
        return float(self.wind.normal()) if self.count >= 5 else 0.0


class ModuleCache(Line):
    """A dict of the module as a cache."""

    def reward(self) -> float:
        return CACHE.setdefault(self.cell, self.cell**2)


@functools.cache
def _square(number: int) -> int:
    return number * number


class FunctionCache(Line):
    """A cache of a function."""

    def reward(self) -> float:
        return float(_square(self.cell))


class Property(Line):
    """A property that is computed on first use."""

    @functools.cached_property
    def table(self) -> list[int]:
        return list(range(9))

    def reward(self) -> float:
        return float(self.table[self.cell]) if self.count > 5 else 0.0


class Numbered(Line):
    """Counts its instances, and gives each a number and a name of its own."""

    instances = 0

    def __init__(self) -> None:
        type(self).instances += 1
        self.number = next(NUMBERS)
        self.id = uuid.uuid4()

    def prepare(self) -> None:
        self.began = time.time()

    def happen(self, action: int) -> None:
        self.took = time.time() - self.began


class Constants(Line):
    """Shares tables that never change."""

    def prepare(self) -> None:
        self.table = TABLE
        self.scale = lambda number: number * len(TABLE)

    def reward(self) -> float:
        return float(self.scale(self.cell)) + len(self.table)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        memo[id(TABLE)] = TABLE
        return whole_copy(self, memo)


class Logging(Line):
    """Logs."""

    def prepare(self) -> None:
        self.logger = LOGGER

    def happen(self, action: int) -> None:
        self.logger.debug("step %d", self.count)
        LOGGER.isEnabledFor(logging.DEBUG + self.count % 3)


class Windowed(Line):
    """A handle that copies do not have."""

    def __init__(self) -> None:
        self.window: Any = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        memo[id(self.window)] = None
        return whole_copy(self, memo)


class CopyOnWrite(Line):
    """Original and copy share an array until one of them writes."""

    def prepare(self) -> None:
        self.grid, self.is_shared = np.zeros(3), False

    def happen(self, action: int) -> None:
        if self.is_shared:
            self.grid, self.is_shared = self.grid.copy(), False
        self.grid[action] += 1

    def reward(self) -> float:
        return float(self.grid[0])

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        self.is_shared = True
        memo[id(self.grid)] = self.grid
        return whole_copy(self, memo)


class Views(Line):
    """Views of an array that never changes, and an array that every step makes again."""

    def prepare(self) -> None:
        self.board = np.arange(9)
        self.row = self.board[:3]

    def happen(self, action: int) -> None:
        self.seen = self.row + action
        self.part = self.seen[1:]


class Watched(Line):
    """Notes about parts that do not keep them alive."""

    def prepare(self) -> None:
        self.agent = Agent2()
        self.notes: Any = weakref.WeakKeyDictionary({self.agent: 0})

    def happen(self, action: int) -> None:
        self.notes[self.agent] += 1

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        notes = self.notes
        memo[id(notes)] = None
        twin = whole_copy(self, memo)
        twin.notes = weakref.WeakKeyDictionary({twin.agent: notes[self.agent]})
        return twin


class Agent2:
    """A part that weak references may refer to."""


class Slotted(Line):
    """A part with a private slot."""

    def prepare(self) -> None:
        self.part = Mangled()

    def happen(self, action: int) -> None:
        self.part.move()


def wrapped(*wrappers: Callable[[Any], Any], base: Any = Line) -> Callable[[], Any]:
    """An environment in wrappers."""

    def make() -> Any:
        env = gymnasium.make(base) if isinstance(base, str) else base()
        for wrapper in wrappers:
            env = wrapper(env)
        return env

    return make


def sound() -> list[Sound]:
    """All of them."""
    import minigrid.wrappers

    kinds = [Line, Noisy, OwnGenerators, Everything, Family, LateGenerator, ModuleCache, FunctionCache, Property]
    kinds += [Numbered, Constants, Logging, Windowed, CopyOnWrite, Views, Watched, Slotted]
    wrappers = gymnasium.wrappers
    rows = [Sound(kind.__name__, kind) for kind in kinds]
    rows += [
        Sound("TimeLimit", wrapped(lambda env: wrappers.TimeLimit(env, 30))),
        Sound("RecordEpisodeStatistics", wrapped(wrappers.RecordEpisodeStatistics, base=Noisy)),
        Sound("FlattenObservation", wrapped(wrappers.FlattenObservation)),
        Sound("NormalizeObservation", wrapped(wrappers.NormalizeObservation)),
        Sound("FrameStackObservation", wrapped(lambda env: wrappers.FrameStackObservation(env, 4))),
        Sound("TransformReward", wrapped(lambda env: wrappers.TransformReward(env, lambda r: r * env.action_space.n))),
        Sound("StickyAction", wrapped(lambda env: wrappers.StickyAction(env, 0.3))),
        Sound(
            "TimeAwareObservation",
            wrapped(lambda env: wrappers.TimeLimit(env, 90), wrappers.TimeAwareObservation),
        ),
        Sound(
            "FlatObsWrapper",
            wrapped(minigrid.wrappers.FlatObsWrapper, base="MiniGrid-Empty-5x5-v0"),
        ),
    ]
    names = ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "FrozenLake-v1", "CliffWalking-v1", "Blackjack-v1"]
    names += ["MiniGrid-DoorKey-5x5-v0", "MiniGrid-Dynamic-Obstacles-5x5-v0", "MiniGrid-FourRooms-v0"]
    names += ["BabyAI-GoToLocal-v0", "BabyAI-PutNextLocal-v0", "BabyAI-BossLevel-v0", "BabyAI-UnlockPickup-v0"]
    names += [f"polychromic/{task}-v0" for task in ("fourrooms", "goto", "pickup", "synthseq", "bosslevel")]
    return rows + [Sound(name, name) for name in names]

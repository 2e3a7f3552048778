"""Environments with one fault each, and sound ones beside them, for the tests of forks."""

from __future__ import annotations

import copy
import enum
import random
import threading
from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle

import polychromic

MODULE_GENERATOR = np.random.default_rng(0)


class Walk(gymnasium.Env):
    """Sound: a walk on a line of 9 cells from a seeded cell; the goal is at either end."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(-100, 100, (2,), np.float64)

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(-2, 3))
        self.count = 0
        # Given out as it is and changed in place afterwards: the wrapper must not keep this very array.
        self.view = np.array([self.cell, 0.0])
        return self.view, {}

    def noise(self) -> float:
        return 0.0

    def step(self, action: int) -> Any:
        self.count += 1
        self.cell += int(action) - 1
        self.view[:] = self.cell, self.noise()
        return self.view, float(self.cell) + self.noise(), abs(self.cell) > 4, self.count >= 40, {}


class TupleWalk(Walk):
    """Actions that are no array."""

    action_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])


class NoisyWalk(Walk):
    """Sound: noise from the generator that Gymnasium gives."""

    def noise(self) -> float:
        return float(self.np_random.normal())


class OwnGeneratorWalk(Walk):
    """Sound: noise from generators of its own, one of each kind, seeded from the reset."""

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        start = super().reset(seed=seed)
        self.parts = {"new": np.random.default_rng(seed), "old": [np.random.RandomState(seed)]}
        self.plain = random.Random(seed)
        return start

    def noise(self) -> float:
        return self.parts["new"].normal() + self.parts["old"][0].normal() + self.plain.random()


class ConstructorOnly(NoisyWalk, EzPickle):
    """Fault: like Box2D and MuJoCo environments, copied by its constructor's arguments."""

    def __init__(self) -> None:
        EzPickle.__init__(self)


class ForgetsCount(Walk):
    """Fault: its copy starts to count anew, which no observation shows before the time limit."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ForgetsCount:
        twin = type(self)()
        twin.__dict__ = {name: copy.deepcopy(value, memo) for name, value in vars(self).items()}
        twin.count = 0
        return twin


class ForgetsCell(Walk):
    """Fault: copies some fields only."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ForgetsCell:
        twin = type(self)()
        twin.reset(seed=0)
        twin.count = self.count
        return twin


class ShallowCopy(Walk):
    """Fault: the copy writes into the original's array."""

    def step(self, action: int) -> Any:
        view, *rest = super().step(action)
        view[0] = self.trail[0] = self.trail[0] + action
        return (view, *rest)

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        self.trail = [0]
        return super().reset(seed=seed)

    def __deepcopy__(self, memo: dict[int, Any]) -> ShallowCopy:
        twin = copy.copy(self)
        twin.view = self.view.copy()
        return twin


class SharedGenerator(NoisyWalk):
    """Fault: original and copy draw from one generator."""

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedGenerator:
        twin = type(self)()
        kept = {"_np_random": self._np_random}
        twin.__dict__ = {name: copy.deepcopy(value, memo) for name, value in vars(self).items()} | kept
        return twin


class Heading(enum.Enum):
    LEFT = 0
    STAY = 1
    RIGHT = 2


class Recorder(Walk):
    """Sound: keeps records of every kind, none of which an observation shows."""

    table = {0: "left", 1: "stay", 2: "right"}  # noqa: RUF012

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        self.trail: list[int] = []
        self.counts = np.zeros(3)
        self.cells: set[Any] = set()
        self.recent: deque[int] = deque(maxlen=100)
        self.coins = [3, 4, 5]
        self.heading = Heading.STAY
        self.words = self.table
        return super().reset(seed=seed)

    def step(self, action: int) -> Any:
        self.trail.append(int(action))
        self.counts[action] += 1
        self.cells.add(("cell", self.count % 5))
        self.recent.append(int(action))
        if self.coins:
            self.coins.pop()
        self.heading = Heading(int(action))
        return super().step(action)

    def twin_with(self, memo: dict[int, Any], **kept: Any) -> Any:
        twin = type(self)()
        twin.__dict__ = {name: copy.deepcopy(value, memo) for name, value in vars(self).items()} | kept
        return twin


class SharesHeading(Recorder):
    """Sound: what the copy shares never changes."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.twin_with(memo, heading=self.heading, words=self.words)


class SharesTrail(Recorder):
    """Fault: original and copy write into one list."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.twin_with(memo, trail=self.trail)


class SharesCounts(Recorder):
    """Fault: the copy's array is a view of the original's."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.twin_with(memo, counts=self.counts[:])


class LosesCells(Recorder):
    """Fault: the copy's set has as many members, but others."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.twin_with(memo, cells={("cell", -one) for one in range(len(self.cells))})


class LosesRecent(Recorder):
    """Fault: the copy's deque is empty."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.twin_with(memo, recent=deque(maxlen=100))


class RefillsCoins(Recorder):
    """Fault: what is taken from a list is in the copy's list again."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.twin_with(memo, coins=[3, 4, 5])


class LateGenerator(Walk):
    """Sound: makes a generator in its fifth step."""

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        self.wind: np.random.Generator | None = None
        return super().reset(seed=seed)

    def noise(self) -> float:
        if self.count >= 5 and self.wind is None:
            self.wind = np.random.default_rng(3)
        return 0.0 if self.wind is None else float(self.wind.normal())


class SeededGenerators(Walk):
    """Sound: how many generators there are depends on the seed; the last one is used."""

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        self.winds = [np.random.default_rng(number) for number in range(1 + (seed or 0) % 3)]
        return super().reset(seed=seed)

    def noise(self) -> float:
        return float(self.winds[-1].normal())


class GlobalNumpy(Walk):
    """Fault: noise from NumPy's global generator."""

    def noise(self) -> float:
        return float(np.random.normal())  # noqa: NPY002


class GlobalRandom(Walk):
    """Fault: noise from the module random."""

    def noise(self) -> float:
        return random.random()


class ModuleGenerator(Walk):
    """Fault: noise from a generator of the module."""

    def noise(self) -> float:
        return float(MODULE_GENERATOR.normal())


class ClassCounter(Walk):
    """Fault: state in a list that belongs to the class."""

    ticks = [0]  # noqa: RUF012

    def noise(self) -> float:
        self.ticks[0] += 1
        return float(self.ticks[0] % 7)


class IgnoresSeed(Walk):
    """Fault: a generator that no seed reaches; copies are sound, but no episode can be repeated."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng()

    def noise(self) -> float:
        return float(self.generator.normal())


class CannotBeCopied(NoisyWalk):
    """Fault: holds a lock, as environments with sockets or native handles do."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class ForgetfulLimit(gymnasium.wrappers.TimeLimit):
    """Fault: a time limit whose count is not copied."""

    def __deepcopy__(self, memo: dict[int, Any]) -> ForgetfulLimit:
        twin = ForgetfulLimit(copy.deepcopy(self.env, memo), self._max_episode_steps)
        twin._elapsed_steps = 0
        return twin


def forgetful_limit() -> gymnasium.Env:
    return ForgetfulLimit(Walk(), 500)


class Failing(Walk):
    """Raises on the fifth step."""

    def step(self, action: int) -> Any:
        if self.count == 4:
            raise ArithmeticError("the fifth step is too much")
        return super().step(action)


class Talking(Walk):
    """Sound: observations are texts of 300 characters."""

    observation_space = spaces.Text(1000)

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        super().reset(seed=seed)
        return "x" * 300, {}

    def step(self, action: int) -> Any:
        return "x" * 300, *super().step(action)[1:]


class EveryKind(gymnasium.Env):
    """Sound: actions from 5 to 7, observations of every kind."""

    action_space = spaces.Discrete(3, start=5)
    observation_space = spaces.Dict(
        {
            "camera": spaces.Dict({"left": spaces.Box(0, 255, (2, 2), np.uint8)}),
            "pair": spaces.Tuple((spaces.Discrete(9), spaces.MultiBinary(3))),
            "counts": spaces.MultiDiscrete([4, 5]),
            "text": spaces.Text(20),
        }
    )

    def reset(self, *, seed: int | None = None, **_options: Any) -> Any:
        super().reset(seed=seed)
        self.last = 0
        return self.see(), {}

    def see(self) -> dict[str, Any]:
        return {
            "camera": {"left": np.full((2, 2), self.last, np.uint8)},
            "pair": (self.last, np.array([1, 0, 1], np.int8)),
            "counts": np.array([1, 2]),
            "text": f"took {self.last}",
        }

    def step(self, action: int) -> Any:
        assert action in (5, 6, 7)
        self.last = int(action)
        return self.see(), 1.0, False, False, {}


def grid_world():
    """A world, not an environment."""
    return polychromic.make("fourrooms", seeds=[0])

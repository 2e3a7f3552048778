"""What an action is: one of several, several such choices at once, or a vector of numbers.

A world says it with `World.actions`. Whoever draws, checks, stores or describes actions asks these classes, and never
what kind they are. `policies.distributions` has the distribution that goes with each.
"""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.errors import UserError

NO_ACTION = -1  # fills arrays of numbered actions where there are none
WIDEST = 1e6  # bounds beyond say nothing about which actions are usual


class Actions(abc.ABC):
    """All that the rest of the library knows of actions."""

    distribution: ClassVar[str]
    """The name of the distribution that policies draw them from."""
    repeat: ClassVar[bool] = True
    """Whether the same action is ever drawn twice, so that it can be counted."""
    shape: tuple[int, ...]
    """Of one action."""
    dtype: np.dtype[Any]
    """Of arrays of actions."""
    outputs: int
    """How many numbers of a policy describe a distribution over them."""
    form: str
    """What an array of them has, as in "give integers, one per row"."""

    @abc.abstractmethod
    def __str__(self) -> str:
        """What they are, as in "actions are 0 to 3"."""

    @abc.abstractmethod
    def explain_outputs(self) -> str:
        """Why a policy needs `outputs` numbers."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """What distinguishes them from others, as JSON, for `World` descriptions."""

    @abc.abstractmethod
    def head(self) -> dict[str, Any]:
        """What a ready-made network needs to know of them, as JSON: arguments of `spaces_policy`."""

    @abc.abstractmethod
    def random(self, rng: np.random.Generator, count: int | None = None) -> Any:
        """`count` actions of no particular policy, [count, …]; or a single one."""

    @abc.abstractmethod
    def wrong(self, actions: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows of an array with the right shape and type are no actions."""

    @abc.abstractmethod
    def blank(self, *shape: int) -> NDArray[Any]:
        """An array for actions, filled with what is none of them, [*shape, …]."""

    def rows(self, values: ArrayLike) -> NDArray[Any] | None:
        """One action per row, as a fresh array; None if shape or type are not right. `wrong` says more of its rows."""
        array = np.asarray(values)
        if not array.ndim or not self._holds(array) or array.size != len(array) * math.prod(self.shape):
            return None
        return np.array(array.reshape(len(array), *self.shape), self.dtype) if self.shape or array.ndim == 1 else None

    def one(self, value: Any) -> Any:
        """A single action in the form that `random` gives; None if it is none."""
        array = np.asarray(value)
        row = self.rows(array.reshape(1, *self.shape)) if array.size == math.prod(self.shape) else None
        return None if row is None or self.wrong(row).any() else self.listed(row)[0]

    def listed(self, actions: NDArray[Any]) -> list[Any]:
        """The rows of an array, each as `step` of a single environment takes it."""
        return list(actions)

    def _holds(self, array: NDArray[Any]) -> bool:
        return array.dtype.kind in "iu"


class Choice(Actions):
    """One of `count` actions, 0 … count − 1."""

    distribution = "categorical"

    def __init__(self, count: int) -> None:
        self.count = self.outputs = count
        self.shape, self.dtype, self.form = (), np.dtype(np.int64), "integers, one per row"

    def __str__(self) -> str:
        return f"0 to {self.count - 1}"

    def explain_outputs(self) -> str:
        return f"the world has {self.count} actions"

    def describe(self) -> dict[str, Any]:
        return {"num_actions": self.count}

    def head(self) -> dict[str, Any]:
        return {"num_actions": self.count}

    def random(self, rng: np.random.Generator, count: int | None = None) -> Any:
        return rng.integers(self.count, size=count)

    def wrong(self, actions: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray((actions < 0) | (actions >= self.count))

    def blank(self, *shape: int) -> NDArray[Any]:
        return np.full(shape, NO_ACTION, np.int32)

    def listed(self, actions: NDArray[Any]) -> list[Any]:
        return list(actions.tolist())


class Choices(Actions):
    """Several choices at once: entry i is one of 0 … sizes[i] − 1."""

    distribution = "categoricals"

    def __init__(self, sizes: ArrayLike) -> None:
        self.sizes = np.asarray(sizes, np.int64)
        self.shape, self.dtype, self.outputs = self.sizes.shape, np.dtype(np.int64), int(self.sizes.sum())
        self.form = f"integers, {len(self.sizes)} per row"

    def __str__(self) -> str:
        return f"{len(self.sizes)} whole numbers each, from 0 to {(self.sizes - 1).tolist()}"

    def explain_outputs(self) -> str:
        return f"an action has {len(self.sizes)} parts with {self.sizes.tolist()} choices"

    def describe(self) -> dict[str, Any]:
        return {"actions": {"sizes": self.sizes.tolist()}}

    def head(self) -> dict[str, Any]:
        return {"actions": {"kind": "categoricals", "sizes": self.sizes.tolist()}}

    def random(self, rng: np.random.Generator, count: int | None = None) -> Any:
        return rng.integers(self.sizes, size=self.shape if count is None else (count, *self.shape))

    def wrong(self, actions: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(((actions < 0) | (actions >= self.sizes)).any(axis=-1))

    def blank(self, *shape: int) -> NDArray[Any]:
        return np.full((*shape, *self.shape), NO_ACTION, np.int32)


class Vector(Actions):
    """Numbers between `low` and `high`, which may be infinite. A world clips what it is given to these bounds."""

    distribution = "normal"
    repeat = False

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        self.low, self.high = (np.asarray(bound, np.float64).ravel() for bound in (low, high))
        if self.low.shape != self.high.shape or not len(self.low) or not (self.low <= self.high).all():
            raise UserError(f"low is {self.low.tolist()} and high is {self.high.tolist()}; no action is between them")
        self.shape, self.dtype, self.outputs = self.low.shape, np.dtype(np.float32), 2 * len(self.low)
        self.form = f"numbers, {len(self.low)} per row"
        bounded = (np.abs(self.low) < WIDEST) & (np.abs(self.high) < WIDEST) & (self.low < self.high)
        low_, high_ = (np.where(bounded, bound, 0.0) for bound in (self.low, self.high))
        self.centre, self.scale = (low_ + high_) / 2, np.where(bounded, (high_ - low_) / 2, 1.0)
        self._bounded = bounded

    def __str__(self) -> str:
        return "a finite number each" if len(self.low) == 1 else f"{len(self.low)} finite numbers each"

    def explain_outputs(self) -> str:
        numbers = "number" if len(self.low) == 1 else f"{len(self.low)} numbers"
        return f"the means, then the log standard deviations, of the {numbers} of an action"

    def describe(self) -> dict[str, Any]:
        ends = {"low": self.low, "high": self.high}
        return {"actions": {name: [float(x) if np.isfinite(x) else None for x in end] for name, end in ends.items()}}

    def head(self) -> dict[str, Any]:
        return {"actions": {"kind": "normal", "centre": self.centre.tolist(), "scale": self.scale.tolist()}}

    def random(self, rng: np.random.Generator, count: int | None = None) -> Any:
        """Uniform within the bounds; standard normal, and within a bound on one side, where there are none."""
        size = self.shape if count is None else (count, *self.shape)
        inside, anywhere = rng.uniform(-1.0, 1.0, size), rng.standard_normal(size)
        drawn = self.centre + self.scale * np.where(self._bounded, inside, anywhere)
        return np.clip(drawn, self.low, self.high).astype(self.dtype)

    def wrong(self, actions: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(~np.isfinite(actions).all(axis=-1))

    def blank(self, *shape: int) -> NDArray[Any]:
        return np.full((*shape, *self.shape), np.nan, self.dtype)

    def _holds(self, array: NDArray[Any]) -> bool:
        return array.dtype.kind in "iuf"

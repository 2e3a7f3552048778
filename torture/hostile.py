"""Hostile functions for the adapters: rewards, keys, judges, comparisons and embeddings that a user may get wrong.

Each must end in one line that names what is wrong, or in the documented fallback; never in a wrong number.
"""

from __future__ import annotations

import array
import datetime
import enum
import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np


class Colour(enum.Enum):
    """Labels that exist once."""

    RED = 1


class Unhashable:
    """Its hash fails in a way of its own."""

    def __hash__(self) -> int:
        raise ValueError("no hash\ntoday")

    def __eq__(self, other: object) -> bool:
        return True


class Incomparable:
    """It cannot be compared with its equals."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")


class Unprintable:
    """Not even its name can be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no name")

    __hash__ = None  # type: ignore[assignment]


def raising(error: BaseException) -> Callable[..., Any]:
    """A function that raises."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def _lazily(count: int) -> Iterator[float]:
    yield from [0.5] * (count - 1)
    raise KeyError("gone")


async def _later(*_: Any) -> str:
    return "later"


# What a reward function may return for `n` completions.
REWARDS: dict[str, Callable[[int], Any]] = {
    "nan": lambda n: [0.5] * (n - 1) + [math.nan],
    "all nan": lambda n: np.full(n, np.nan),
    "infinity": lambda n: [0.5] * (n - 1) + [math.inf],
    "minus infinity": lambda n: [-math.inf] + [0.5] * (n - 1),
    "above the range": lambda n: [0.5] * (n - 1) + [1.5],
    "below the range": lambda n: [-1e-3] + [0.5] * (n - 1),
    "one None": lambda n: [0.5] * (n - 1) + [None],
    "all None": lambda n: [None] * n,
    "None": lambda _: None,
    "a number": lambda _: 0.5,
    "nothing": lambda _: [],
    "one too few": lambda n: [0.5] * (n - 1),
    "one too many": lambda n: [0.5] * (n + 1),
    "a generator that is too short": lambda n: (0.5 for _ in range(n - 1)),
    "a generator without end": lambda _: itertools.repeat(0.5),
    "a generator that raises": lambda n: _lazily(n),
    "a text": lambda _: "all good",
    "a text of digits": lambda n: "01" * (n // 2),
    "bytes": lambda n: bytes(n),
    "a dict": lambda n: dict.fromkeys(range(n), 0.5),
    "a dict of possible rewards": lambda n: {i / n: 1.0 for i in range(n)},
    "a set": lambda n: {i / n for i in range(n)},
    "lists of lists": lambda n: [[0.5, 0.5]] * n,
    "two columns": lambda n: np.zeros((n, 2)),
    "texts of numbers": lambda n: ["0.5"] * n,
    "the text nan": lambda n: ["nan"] * n,
    "texts": lambda n: ["good"] * n,
    "complex numbers": lambda n: [0.5 + 0.5j] * n,
    "complex numbers of NumPy": lambda n: np.full(n, 0.5 + 0.5j),
    "a number beyond floats": lambda n: [10**400] * n,
    "objects": lambda n: [object()] * n,
    "unprintable objects": lambda n: [Unprintable()] * n,
    "functions": lambda n: [len] * n,
    "masked entries": lambda n: np.ma.masked_all(n),
    "times": lambda n: [datetime.timedelta(seconds=1)] * n,
    "a coroutine": lambda _: _closed(_later()),
}


def _closed(work: Any) -> Any:
    work.close()  # or Python warns that it was never awaited
    return work


RAISED: dict[str, BaseException] = {
    "ValueError": ValueError("bad"),
    "KeyError": KeyError("answer"),
    "an error of several lines": RuntimeError("first\nsecond\n\nthird"),
    "an error without words": ZeroDivisionError(),
    "StopIteration": StopIteration("over"),
    "TimeoutError": TimeoutError("no answer"),
    "MemoryError": MemoryError(),
    "RecursionError": RecursionError("too deep"),
}

# Sound ones, which must give the same as a list of floats.
SOUND_REWARDS: dict[str, Callable[[list[float]], Any]] = {
    "a tuple": tuple,
    "float32": lambda values: np.array(values, np.float32),
    "float16": lambda values: np.array(values, np.float16),
    "an array": lambda values: array.array("d", values),
    "a generator": iter,
    "fractions": lambda values: [Fraction(value) for value in values],
    "decimals": lambda values: [Decimal(value) for value in values],
    "numbers of NumPy": lambda values: [np.float64(value) for value in values],
}

# What a key may return for a completion.
KEYS: dict[str, Callable[[str], Any]] = {
    "a list": lambda text: [text],
    "a dict": lambda text: {"a": text},
    "a set": lambda text: {text},
    "an array": lambda _: np.zeros(2),
    "an array without axes": lambda _: np.array(1.0),
    "a bytearray": lambda text: bytearray(text.encode()),
    "a list in a tuple": lambda text: (text, [1]),
    "NaN": lambda _: math.nan,
    "NaN of NumPy": lambda _: np.float32("nan"),
    "NaN in a tuple": lambda text: (text, math.nan),
    "NaN deep inside": lambda text: (text, (1, frozenset({math.nan}))),
    "complex NaN": lambda _: complex(math.nan, 0),
    "Decimal NaN": lambda _: Decimal("nan"),
    "NaT": lambda _: np.datetime64("NaT"),
    "an object": lambda _: object(),
    "an object in a tuple": lambda text: (text, object()),
    "a function": lambda text: lambda: text,
    "a generator": lambda text: (letter for letter in text),
    "a coroutine": lambda text: _closed(_later(text)),
    "a hash that fails": lambda _: Unhashable(),
    "a comparison that fails": lambda _: Incomparable(),
    "without a name": lambda _: Unprintable(),
}
SOUND_KEYS: dict[str, Callable[[str], Any]] = {
    "the text": str,
    "bytes": str.encode,
    "a number": lambda text: ord(text[0]),
    "a number of NumPy": lambda text: np.int64(ord(text[0])),
    "a text of NumPy": lambda text: np.str_(text[0]),
    "a truth": lambda text: text < "m",
    "None": lambda _: None,
    "a tuple": lambda text: (text[0], (1, None)),
    "a frozenset": frozenset,
    "an enum": lambda _: Colour.RED,
    "a fraction": lambda text: Fraction(ord(text[0]), 3),
    "a date": lambda text: datetime.date(2020, 1, 1 + ord(text[0]) % 28),
}

# What a judge may return for `n` completions.
JUDGED: dict[str, Callable[[int], Any]] = {
    "None": lambda _: None,
    "a number": lambda _: 3,
    "a text with a letter for each": lambda n: "abcdefghijklmnop"[:n],
    "a dict": lambda n: dict.fromkeys(range(n), "same"),
    "a set": lambda n: set(range(n)),
    "bytes": lambda n: bytes(n),
    "one too few": lambda n: ["a"] * (n - 1),
    "one too many": lambda n: ["a"] * (n + 1),
    "unhashable labels": lambda n: [["a"]] * n,
    "NaN": lambda n: [math.nan] * n,
    "objects": lambda n: [object() for _ in range(n)],
    "a table": lambda n: np.zeros((n, 2)),
}

# What a comparison of two completions may return.
COMPARED: dict[str, Any] = {
    "None": None,
    "the text no": "no",
    "an empty text": "",
    "NaN": math.nan,
    "a number": 0.3,
    "a list": [False],
    "an array": np.array([True, False]),
    "an object": object(),
}

# What an embedding may return for `n` completions.
EMBEDDED: dict[str, Callable[[int], Any]] = {
    "None": lambda _: None,
    "one too few": lambda n: np.ones((n - 1, 3)),
    "one axis": lambda n: np.ones(n),
    "three axes": lambda n: np.ones((n, 2, 2)),
    "no features": lambda n: np.ones((n, 0)),
    "NaN": lambda n: np.where(np.eye(n) > 0, np.nan, 1.0),
    "infinity": lambda n: np.where(np.eye(n) > 0, np.inf, 1.0),
    "zeros": lambda n: np.zeros((n, 3)),
    "a row of zeros": lambda n: np.vstack([np.ones((n - 1, 3)), np.zeros((1, 3))]),
    "too long": lambda n: np.full((n, 3), 1e200),
    "too short": lambda n: np.full((n, 3), 1e-200),
    "texts": lambda n: [["1", "2"]] * n,
    "complex numbers": lambda n: np.full((n, 2), 1 + 1j),
    "rows of different lengths": lambda n: [[1.0] * (1 + i % 2) for i in range(n)],
    "objects": lambda n: [[object()]] * n,
    "a dict": lambda n: {key: [1.0, 2.0] for key in range(n)},
    "times": lambda n: np.zeros((n, 2), "M8[s]"),
}

"""Rows of a batch, as `state[rows]` chooses them: the same rules and the same errors for every world."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.errors import UserError


class NoSuchRow(UserError, IndexError):
    """`state[rows]` asks for what is not there. An `IndexError` too: it ends `for row in state`."""


def take_rows(array: NDArray[Any], rows: Any) -> NDArray[Any]:
    """A copy of these rows of `array`: a number, a slice, a mask, or a list of numbers that may repeat."""
    try:
        if isinstance(rows, slice):
            return np.array(array[rows])
        index = np.atleast_1d(np.asarray(rows))
        if index.size == 0:
            index = index.astype(np.int64)
        if index.ndim != 1 or index.dtype.kind not in "biu":
            raise IndexError(f"give a number, a slice, a mask or a list of numbers, not {index.dtype} {index.shape}")
        if index.dtype.kind == "b":
            index = np.arange(len(array))[index]
        taken: NDArray[Any] = array.take(index.astype(np.int64, copy=False), axis=0)
        return taken
    except (IndexError, TypeError, ValueError) as error:
        raise NoSuchRow(f"rows {rows!r} do not fit a state of {len(array)} rows: {error}") from error

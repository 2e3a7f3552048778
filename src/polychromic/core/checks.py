"""What every public function asks of its arguments, in words that name the argument, its value and the rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.errors import UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Seed = np.random.Generator | int | None


def float_array(name: str, value: ArrayLike, *, ndim_at_least: int = 1) -> Floats:
    """`value` as finite float64, from anything NumPy can read."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{name} cannot be read as an array of numbers: {error}") from error
    if array.ndim < ndim_at_least:
        raise UserError(f"{name} has shape {array.shape}; it needs at least {ndim_at_least} axes")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"{name}{list(where)} is {array[where]}; every entry must be finite")
    return array


def unit_interval(name: str, array: Floats) -> Floats:
    """`array` unchanged, if all of it lies in [0, 1] (up to rounding)."""
    slack = 1e-9
    if array.size and (array.min() < -slack or array.max() > 1 + slack):
        raise UserError(
            f"{name} spans [{array.min():.6g}, {array.max():.6g}]; the polychromic objective needs values "
            "in [0, 1]: rescale them, for example (x - lowest) / (highest - lowest)"
        )
    return array


def whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None, why: str = "") -> int:
    """`value` as an int within its bounds."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise UserError(f"{name} is {value!r}; it must be a whole number")
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        bounds = f"at least {at_least}" if at_most is None else f"between {at_least} and {at_most}"
        raise UserError(f"{name} is {number}; it must be {bounds}{f' ({why})' if why else ''}")
    return number


def set_size_of(set_size: Any, num_rollouts: int) -> int:
    """A set size that fits into a group of `num_rollouts`."""
    return whole_number(
        "set_size", set_size, at_least=1, at_most=num_rollouts, why=f"a group has {num_rollouts} rollouts"
    )


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """`value`, if it is one of `choices`."""
    if value not in choices:
        raise UserError(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}")
    return str(value)


def index_sets(sets: ArrayLike, num_rollouts: int) -> Ints:
    """Sets of rollout indices [..., M, n], each without repeats and within the group."""
    array = np.asarray(sets)
    if array.dtype.kind not in "iu" or array.ndim < 2:
        raise UserError(
            f"sets has dtype {array.dtype} and shape {array.shape}; "
            "it must hold rollout indices [..., num_sets, set_size]"
        )
    if array.size == 0:
        raise UserError(f"sets has shape {array.shape}; at least one set with one member is needed")
    if array.min() < 0 or array.max() >= num_rollouts:
        raise UserError(
            f"sets holds indices from {array.min()} to {array.max()}; a group has rollouts 0 to {num_rollouts - 1}"
        )
    ordered = np.sort(array, axis=-1)
    if (ordered[..., 1:] == ordered[..., :-1]).any():
        raise UserError("sets holds a set that names a rollout twice; the members of a set must differ")
    return array.astype(np.int64, copy=False)


def square_kernel(name: str, kernel: ArrayLike) -> Floats:
    """A symmetric similarity matrix [..., n, n] with ones on its diagonal."""
    array = float_array(name, kernel, ndim_at_least=2)
    if array.shape[-1] != array.shape[-2]:
        raise UserError(f"{name} has shape {array.shape}; its last two axes must be equal (a square matrix)")
    if not np.allclose(array, np.swapaxes(array, -1, -2), atol=1e-8):
        raise UserError(f"{name} is not symmetric; similarity of i to j must equal that of j to i")
    diagonal = np.diagonal(array, axis1=-2, axis2=-1)
    if not np.allclose(diagonal, 1.0, atol=1e-6):
        raise UserError(
            f"{name} has {diagonal.min():.6g} to {diagonal.max():.6g} on its diagonal; a rollout's similarity to "
            "itself must be 1 (divide k(i, j) by sqrt(k(i, i) k(j, j)))"
        )
    return array


def label_array(labels: Any, shape: tuple[int, ...], name: str = "labels") -> NDArray[Any]:
    """Labels as an array of `shape`: numeric arrays as they are, everything else as integer codes.

    Equal codes mean equal labels. At the depth of the last axis any hashable Python object is a label, so tuples
    and frozensets work; a list of strings and an array of strings too.
    """
    array = _plain_array(labels)
    if array is not None and array.shape == shape:
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise UserError(f"{name} holds NaN, which equals nothing; give every rollout a label")
        if array.dtype.kind in "US":
            return np.unique(array, return_inverse=True)[1].reshape(shape)
        return array
    codes: dict[Any, int] = {}
    try:
        flat = [codes.setdefault(label, len(codes)) for label in _walk(labels, shape, name)]
    except TypeError as error:
        raise UserError(f"{name} holds something that cannot be compared by hash: {error}") from error
    return np.array(flat, dtype=np.int64).reshape(shape)


def _plain_array(labels: Any) -> NDArray[Any] | None:
    """`labels` as a NumPy array of numbers or strings, or None where NumPy's reading could merge labels."""
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError):
        return None
    if array.dtype.kind in ("biuf" if isinstance(labels, list | tuple) else "biufUS"):
        # From a list NumPy turns [1, "1"] into two equal strings, and integers beyond 2⁵³ into equal floats.
        merged = isinstance(labels, list | tuple) and array.dtype.kind == "f" and np.abs(array).max(initial=0) >= 2**53
        return None if merged else array
    return None


def _walk(labels: Any, shape: tuple[int, ...], name: str) -> list[Any]:
    if not shape:
        return [labels]
    if not hasattr(labels, "__len__") or isinstance(labels, str | bytes):
        raise UserError(f"{name} holds {labels!r} where {shape[0]} labels were expected")
    if len(labels) != shape[0]:
        raise UserError(f"{name} has length {len(labels)} where {shape[0]} are needed: one label per rollout")
    return [item for part in labels for item in _walk(part, shape[1:], name)]

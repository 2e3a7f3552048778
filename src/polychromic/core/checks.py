"""Argument checks of the public functions. Messages name the argument, its value and the rule."""

from __future__ import annotations

import decimal
import enum
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.errors import UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Seed = np.random.Generator | int | None

# Types with values that differ from themselves (NaN, NaT).
_NUMBERS = (float, complex, decimal.Decimal, np.inexact, np.datetime64, np.timedelta64)
ROUNDING = 1e-6  # how far float32 arithmetic may push a number out of [0, 1]


# ------------------------------------------------------------------ single values


def whole_number(name: str, value: Any, *, at_least: int, at_most: int | None = None, why: str = "") -> int:
    """`value` as an int within its bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise UserError(f"{name} is {value!r}; it must be a whole number") from None
    if isinstance(value, bool):
        raise UserError(f"{name} is {value!r}; it must be a whole number")
    if number < at_least or (at_most is not None and number > at_most):
        bounds = f"at least {at_least}" if at_most is None else f"between {at_least} and {at_most}"
        raise UserError(f"{name} is {number}; it must be {bounds}{f' ({why})' if why else ''}")
    return number


def real_number(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a float between `low` and `high`, both included."""
    if isinstance(value, str | bool) or np.ndim(value) or not np.isreal(value):
        raise UserError(f"{name} is {value!r}; it must be a number between {low:g} and {high:g}")
    try:
        number = float(value)
    except TypeError:
        raise UserError(f"{name} is {value!r}; it must be a number between {low:g} and {high:g}") from None
    if not low <= number <= high:
        raise UserError(f"{name} is {value}; it must be between {low:g} and {high:g}")
    return number


def flag(name: str, value: Any) -> bool:
    """`value`, if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise UserError(f"{name} is {value!r}; it must be True or False")
    return bool(value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """`value`, if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise UserError(f"{name} is {value!r}; choose one of {', '.join(map(repr, choices))}")
    return value


def set_size_of(set_size: Any, num_rollouts: int) -> int:
    """A set size that fits into a group of `num_rollouts`."""
    return whole_number(
        "set_size", set_size, at_least=1, at_most=num_rollouts, why=f"a group has {num_rollouts} rollouts"
    )


def generator(rng: Any) -> np.random.Generator:
    """A NumPy generator from a generator, a seed or None."""
    if rng is not None and not isinstance(rng, np.random.Generator):
        whole_number("rng", rng, at_least=0, why="a seed, or a numpy.random.Generator")
    return np.random.default_rng(rng)


def group_axes(groups: Any) -> tuple[int, ...]:
    """The leading axes of a result, checked."""
    if not isinstance(groups, tuple | list):
        raise UserError(f"groups is {groups!r}; it must be a tuple of axis lengths, such as (16,)")
    return tuple(whole_number("groups", axis, at_least=0) for axis in groups)


# ------------------------------------------------------------------ arrays of numbers


def read_array(name: str, value: Any) -> NDArray[Any]:
    """`value` as NumPy reads it, or an error that says why it cannot."""
    if isinstance(value, np.ma.MaskedArray):
        raise UserError(f"{name} is a masked array; fill in or remove its masked entries")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{name} cannot be read as an array: {error}") from error


def float_array(name: str, value: ArrayLike, *, ndim_at_least: int = 1) -> Floats:
    """`value` as finite float64, from anything NumPy can read."""
    array = read_array(name, value)
    try:
        if array.dtype.kind in "cUSMmO":
            raise TypeError(f"its entries are {array.dtype}")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be read as an array of real numbers: {error}") from error
    if array.ndim < ndim_at_least:
        raise UserError(f"{name} has shape {array.shape}; it needs at least {ndim_at_least} axis(es)")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"{name}{list(where)} is {array[where]}; every entry must be finite")
    return array


def members_array(name: str, value: ArrayLike) -> Floats:
    """`float_array` whose last axis, the members of a set or group, is not empty."""
    array = float_array(name, value)
    if array.shape[-1] == 0:
        raise UserError(f"{name} has shape {array.shape}; its last axis must not be empty")
    return array


def int_array(name: str, value: Any) -> Ints:
    """`value` as whole numbers."""
    array = read_array(name, value)
    if array.dtype.kind not in "iu":
        raise UserError(f"{name} has dtype {array.dtype}; it must hold whole numbers")
    return array.astype(np.int64, copy=False)


def bool_array(name: str, value: Any) -> NDArray[np.bool_]:
    """`value` as True and False, from booleans or from 1 and 0."""
    array = read_array(name, value)
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise UserError(f"{name} is {value!r}; it must hold only True and False (or 1 and 0)")
    return array.astype(bool)


def unit_interval(name: str, array: Floats) -> Floats:
    """`array`, if all of it is in [0, 1]; entries just outside by rounding are clipped."""
    if array.size == 0:
        return array
    low, high = array.min(), array.max()
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise UserError(
            f"{name} spans [{low:.8g}, {high:.8g}]; the polychromic objective needs values in [0, 1]: rescale them, "
            "for example (x - lowest) / (highest - lowest)"
        )
    return array if low >= 0 and high <= 1 else np.clip(array, 0.0, 1.0)


def square_kernel(name: str, kernel: ArrayLike) -> Floats:
    """A symmetric similarity matrix [..., n, n] with ones on its diagonal."""
    array = float_array(name, kernel, ndim_at_least=2)
    if array.shape[-1] != array.shape[-2] or array.shape[-1] == 0:
        raise UserError(
            f"{name} has shape {array.shape}; its last two axes must be equal and not empty (a square matrix)"
        )
    skew = np.abs(array - np.swapaxes(array, -1, -2))
    if skew.max(initial=0.0) > ROUNDING:
        where = tuple(int(i) for i in np.argwhere(skew > ROUNDING)[0])
        mirrored = (*where[:-2], where[-1], where[-2])
        raise UserError(
            f"{name} is not symmetric: {name}{list(where)} is {array[where]:.6g}, {name}{list(mirrored)} is "
            f"{array[mirrored]:.6g}"
        )
    diagonal = np.diagonal(array, axis1=-2, axis2=-1)
    if np.abs(diagonal - 1.0).max(initial=0.0) > ROUNDING:
        raise UserError(
            f"{name} has {diagonal.min():.6g} to {diagonal.max():.6g} on its diagonal; a rollout's similarity to "
            "itself must be 1 (divide k(i, j) by sqrt(k(i, i) k(j, j)))"
        )
    return array


# ------------------------------------------------------------------ sets


def index_sets(sets: ArrayLike, num_rollouts: int) -> Ints:
    """Sets of rollout indices [..., M, n], each without repeats and within the group."""
    array = int_array("sets", sets)
    if array.ndim < 2:
        raise UserError(f"sets has shape {array.shape}; it must hold rollout indices [..., num_sets, set_size]")
    if 0 in array.shape[-2:]:
        raise UserError(f"sets has shape {array.shape}; at least one set with one member is needed")
    if num_rollouts < 1:
        raise UserError("a group has no rollouts; there is nothing to make sets of")
    if array.size and (array.min() < 0 or array.max() >= num_rollouts):
        raise UserError(
            f"sets holds indices from {array.min()} to {array.max()}; a group has rollouts 0 to {num_rollouts - 1}"
        )
    ordered = np.sort(array, axis=-1)
    repeated = (ordered[..., 1:] == ordered[..., :-1]).any(axis=-1)
    if repeated.any():
        example = array[repeated][0].tolist()
        raise UserError(f"sets holds {example}, which names a rollout twice; the members of a set must differ")
    return array


def sets_of_groups(sets: ArrayLike, num_rollouts: int, groups: tuple[int, ...], other: str) -> Ints:
    """`index_sets` repeated for every group, [*groups, M, n]; `other` names the argument that has the group axes."""
    members = index_sets(sets, num_rollouts)
    try:
        return np.broadcast_to(members, (*groups, *members.shape[-2:]))
    except ValueError:
        raise UserError(
            f"sets has shape {members.shape}, and {other} has the group axes {groups}; their group axes must agree"
        ) from None


# ------------------------------------------------------------------ labels


def label_array(labels: Any, shape: tuple[int, ...], name: str = "labels") -> NDArray[Any]:
    """Labels as an array of `shape`: numeric arrays as they are, everything else as integer codes.

    Equal codes mean equal labels. At the depth of the last axis of a list any hashable Python object is a label, so
    tuples and frozensets work; a list of strings and an array of strings too.
    """
    if isinstance(labels, list | tuple):
        array = _numbers_in_list(labels)
    else:
        array = read_array(name, labels)
        if array.shape != shape:
            raise UserError(f"{name} has shape {array.shape} where {shape} is needed: one label per rollout")
    if array is None or array.shape != shape or array.dtype.kind == "O":
        return _codes(labels if array is None or array.shape != shape else array, shape, name)
    if array.dtype.kind in "fcmM" and (array != array).any():
        what = "NaT" if array.dtype.kind in "mM" else "NaN"
        raise UserError(f"{name} holds {what}, which equals nothing; give every rollout a label")
    if array.dtype.kind not in "biuf":
        return np.unique(array, return_inverse=True)[1].reshape(shape)
    return array


def _numbers_in_list(labels: Any) -> NDArray[Any] | None:
    """A list as an array of numbers; None where NumPy's reading could merge labels, or where there is none."""
    try:
        array = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError):
        return None
    # NumPy turns [1, "1"] into two equal strings, and integers beyond 2⁵³ into equal floats.
    merged = array.dtype.kind == "f" and np.abs(array).max(initial=0) >= 2**53
    return array if array.dtype.kind in "biuf" and not merged else None


def _codes(labels: Any, shape: tuple[int, ...], name: str) -> Ints:
    codes: dict[Any, int] = {}
    try:
        flat = [codes.setdefault(label, len(codes)) for label in _walk(labels, shape, name)]
    except TypeError as error:
        raise UserError(f"{name} holds a label that cannot be hashed: {error}") from error
    return np.array(flat, dtype=np.int64).reshape(shape)


def _walk(labels: Any, shape: tuple[int, ...], name: str) -> Iterator[Any]:
    if not shape:
        check_label(labels, name)
        yield labels
        return
    if not isinstance(labels, list | tuple | np.ndarray):
        raise UserError(f"{name} holds {labels!r} where a list of {shape[0]} labels was expected")
    if len(labels) != shape[0]:
        raise UserError(f"{name} has length {len(labels)} where {shape[0]} are needed: one label per rollout")
    for part in labels:
        yield from _walk(part, shape[1:], name)


def check_label(label: Any, name: str) -> None:
    """Refuse a label that equals only itself: it would silently make every rollout a strategy of its own."""
    for part in _parts(label):
        kind: Any = type(part)
        by_identity = kind.__hash__ is object.__hash__ or (
            kind.__eq__ is object.__eq__ and not isinstance(part, enum.Enum)  # each enum member exists once
        )
        if by_identity or (hasattr(part, "__array__") and not isinstance(part, np.generic)):
            raise UserError(
                f"{name} holds {part!r}, of type {kind.__name__}, which is compared by identity; "
                "give numbers, strings, tuples or other objects that are equal when they mean the same"
            )
        if isinstance(part, _NUMBERS) and bool(part != part):
            what = "NaT" if isinstance(part, np.datetime64 | np.timedelta64) else "NaN"
            raise UserError(f"{name} holds {what}, which equals nothing; give every rollout a label")


def _parts(label: Any) -> Iterator[Any]:
    """A label and, if it is a tuple or frozenset, everything inside it: those are equal if their contents are."""
    if is_plain(label):
        return
    yield label
    if isinstance(label, tuple | frozenset):
        for part in label:
            yield from _parts(part)


def is_plain(label: Any) -> bool:
    """Whether a label is sound by its type alone, as most are: strings, whole numbers, and tuples of them."""
    kind = type(label)
    if kind is tuple or kind is frozenset:
        # The first test settles most labels without a loop of Python's; keys of text are checked one by one.
        return _SOUND.issuperset(map(type, label)) or all(map(is_plain, label))
    return kind in _SOUND


# None compares by identity, and there is only one.
_SOUND = frozenset({str, bytes, int, bool, type(None)})

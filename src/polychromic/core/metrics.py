"""How good and how diverse are many attempts? Unbiased estimators and robust means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import (
    Floats,
    Ints,
    bool_array,
    float_array,
    label_array,
    read_array,
    whole_number,
)
from polychromic.errors import UserError


def pass_at_k(num_attempts: ArrayLike, num_successes: ArrayLike, k: int | Sequence[int] | Ints) -> Floats:
    """The chance that at least one of k attempts succeeds, estimated without bias from more attempts.

        pass@k = 1 − C(attempts − successes, k) / C(attempts, k)

    Computed from a running sum of log(1 − successes/(attempts − j)), so that 10⁶ attempts do not overflow.

    Args:
        num_attempts: [...], attempts made per configuration.
        num_successes: [...], how many of them succeeded; broadcast against `num_attempts`.
        k: one number, or several [K]; none may exceed the attempts made.

    Returns:
        [...] for one k, [..., K] for several.
    """
    attempted, succeeded = _counts("num_attempts", num_attempts), _counts("num_successes", num_successes)
    try:
        attempts, successes = np.broadcast_arrays(attempted, succeeded)
    except ValueError:
        raise UserError(
            f"num_attempts has shape {attempted.shape} and num_successes {succeeded.shape}; they must fit together"
        ) from None
    too_many = successes > attempts
    if too_many.any():
        raise UserError(
            f"num_successes is {successes[too_many][0]} where num_attempts is {attempts[too_many][0]}; "
            "there cannot be more successes than attempts"
        )
    ks = _ks(k, int(attempts.min(initial=np.iinfo(np.int64).max)))
    # Few distinct (attempts, successes) pairs occur; each is computed once.
    pairs, which = np.unique(np.stack([attempts.ravel(), successes.ravel()]), axis=1, return_inverse=True)
    table = np.array([_hit_chance(int(n), int(c), ks) for n, c in pairs.T]).reshape(-1, len(ks))
    result = table[which.ravel()].reshape(*attempts.shape, len(ks))
    return result if np.ndim(k) else result[..., 0]


def distinct_at_k(labels: Any, correct: ArrayLike, k: int | Sequence[int] | Ints) -> Floats:
    """The expected number of distinct right answers in k of the N attempts (diff@k in the paper).

        Σ_b (1 − C(N − m_b, k) / C(N, k)),   m_b = how often the right answer b occurred

    Args:
        labels: [..., N], the answer or strategy of each attempt.
        correct: [..., N], whether it was right.
        k: one number, or several [K], none above N.

    Returns:
        [...] for one k, [..., K] for several.
    """
    right = bool_array("correct", correct)
    if right.ndim < 1:
        raise UserError(f"correct is {correct!r}; it must hold one entry per attempt, [..., N]")
    codes = label_array(labels, right.shape)
    num_attempts = right.shape[-1]
    ks = _ks(k, num_attempts)
    result = np.zeros((*right.shape[:-1], len(ks)))
    for group in np.ndindex(right.shape[:-1]):
        _, counts = np.unique(codes[group][right[group]], return_counts=True)
        for count, times in zip(*np.unique(counts, return_counts=True), strict=True):
            result[group] += times * _hit_chance(num_attempts, int(count), ks)
    return result if np.ndim(k) else result[..., 0]


def coverage(num_successes: ArrayLike) -> float:
    """The share of configurations solved at least once; `num_successes` holds one count per configuration."""
    counts = _counts("num_successes", num_successes)
    if counts.size == 0:
        raise UserError("num_successes is empty; coverage needs at least one configuration")
    return float((counts > 0).mean())


def interquartile_mean(scores: ArrayLike, axis: int | None = None) -> Floats:
    """The mean of the middle half of the scores, which outliers cannot move (Agarwal et al. 2021)."""
    array = float_array("scores", scores)
    if array.size == 0:
        raise UserError("scores is empty; a mean needs at least one")
    if axis is not None:
        whole_number("axis", axis, at_least=-array.ndim, at_most=array.ndim - 1, why=f"scores has shape {array.shape}")
    ordered = np.sort(array.ravel() if axis is None else np.moveaxis(array, axis, 0), axis=0)
    cut = len(ordered) // 4
    return np.asarray(ordered[cut : len(ordered) - cut].mean(axis=0))


def _hit_chance(num_attempts: int, marked: int, ks: Ints) -> Floats:
    """1 − C(attempts − marked, k) / C(attempts, k) for each k."""
    if marked == 0:
        return np.zeros(len(ks))
    # The ratio is Π_{j<k} (1 − marked/(attempts − j)), for all k at once.
    steps = np.arange(int(ks.max()))
    with np.errstate(divide="ignore"):
        logs = np.log1p(-np.minimum(marked / (num_attempts - steps), 1.0))
    return np.asarray(-np.expm1(np.cumsum(logs)[ks - 1]))


def _counts(name: str, value: ArrayLike) -> Ints:
    array = float_array(name, value, ndim_at_least=0)
    if (array < 0).any() or (array != np.round(array)).any():
        raise UserError(f"{name} must hold whole numbers, 0 or more; it spans [{array.min():g}, {array.max():g}]")
    return array.astype(np.int64)


def _ks(k: int | Sequence[int] | Ints, most: int) -> Ints:
    ks = np.atleast_1d(read_array("k", k))
    if ks.dtype.kind not in "iu" or ks.ndim != 1 or ks.size == 0:
        raise UserError(f"k is {k!r}; it must be a whole number or a list of them")
    if ks.min() < 1 or ks.max() > most:
        raise UserError(f"k spans {ks.min()} to {ks.max()}; it must be between 1 and the attempts made ({most})")
    return ks.astype(np.int64)

"""How good and how diverse are many attempts? Unbiased estimators, robust means and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import Floats, Ints, Seed, float_array, label_array, whole_number
from polychromic.errors import UserError


def pass_at_k(num_attempts: ArrayLike, num_successes: ArrayLike, k: int | Sequence[int] | Ints) -> Floats:
    """The chance that at least one of k attempts succeeds, estimated without bias from more attempts.

        pass@k = 1 − C(attempts − successes, k) / C(attempts, k)

    Computed as a running product of ratios, so that 10⁶ attempts neither overflow nor lose digits.

    Args:
        num_attempts: [...], attempts made per configuration.
        num_successes: [...], how many of them succeeded; broadcast against `num_attempts`.
        k: one number, or several [K]; none may exceed the attempts made.

    Returns:
        [...] for one k, [..., K] for several.
    """
    attempts, successes = np.broadcast_arrays(
        _counts("num_attempts", num_attempts), _counts("num_successes", num_successes)
    )
    if (successes > attempts).any():
        raise UserError(f"num_successes is up to {successes.max()}; it cannot exceed num_attempts ({attempts.min()})")
    ks = _ks(k, int(attempts.min(initial=np.iinfo(np.int64).max)))
    # Few distinct (attempts, successes) pairs occur; each is worked out once.
    pairs, which = np.unique(np.stack([attempts.ravel(), successes.ravel()]), axis=1, return_inverse=True)
    table = np.array([1.0 - _miss_chance(int(n), int(c), ks) for n, c in pairs.T]).reshape(-1, len(ks))
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
    right = float_array("correct", correct)
    if not np.isin(right, (0.0, 1.0)).all():
        raise UserError("correct must hold only True and False (or 1 and 0)")
    codes = label_array(labels, right.shape)
    num_attempts = right.shape[-1]
    ks = _ks(k, num_attempts)
    result = np.zeros((*right.shape[:-1], len(ks)))
    for group in np.ndindex(right.shape[:-1]):
        _, counts = np.unique(codes[group][right[group] > 0], return_counts=True)
        for count, times in zip(*np.unique(counts, return_counts=True), strict=True):
            result[group] += times * (1.0 - _miss_chance(num_attempts, int(count), ks))
    return result if np.ndim(k) else result[..., 0]


def coverage(num_successes: ArrayLike) -> float:
    """The share of configurations solved at least once; `num_successes` holds one count per configuration."""
    return float((_counts("num_successes", num_successes) > 0).mean())


def interquartile_mean(scores: ArrayLike, axis: int | None = None) -> Floats:
    """The mean of the middle half of the scores, which outliers cannot move (Agarwal et al. 2021)."""
    from scipy import stats  # here, because it takes longer to import than all the rest of the core

    return np.asarray(stats.trim_mean(float_array("scores", scores), 0.25, axis=axis))


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    *,
    confidence: float = 0.95,
    num_resamples: int = 2000,
    rng: Seed = None,
) -> tuple[float, float]:
    """A stratified bootstrap interval: runs are resampled within each task, tasks stay as they are.

    Args:
        scores: [runs] for one task, or [runs, tasks].
        statistic: from an array of scores [runs, tasks] (as resampled) to a number; `interquartile_mean`, say.
        confidence: the share of intervals that should hold the true value.
        num_resamples: bootstrap samples.
        rng: a generator or a seed.

    Returns:
        (low, high), by percentiles.
    """
    from scipy import stats

    array = float_array("scores", scores)
    table = array[:, None] if array.ndim == 1 else array
    if table.ndim != 2 or len(table) < 2:
        raise UserError(
            f"scores has shape {array.shape}; an interval needs [runs] or [runs, tasks] with 2 runs or more"
        )
    if not 0 < confidence < 1:
        raise UserError(f"confidence is {confidence}; it must lie between 0 and 1, 0.95 for example")
    # SciPy resamples each of several samples on its own: one sample per task is stratification by task.
    result = stats.bootstrap(
        tuple(table.T),
        lambda *tasks: float(statistic(np.stack(tasks, axis=-1))),
        vectorized=False,
        confidence_level=confidence,
        n_resamples=whole_number("num_resamples", num_resamples, at_least=1),
        method="percentile",
        rng=np.random.default_rng(rng),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _miss_chance(num_attempts: int, marked: int, ks: Ints) -> Floats:
    """C(attempts − marked, k) / C(attempts, k) for each k."""
    if marked == 0:
        return np.ones(len(ks))
    # Symmetric in marked and k: Π_{j<k} (1 − marked/(attempts − j)) for all k at once.
    steps = np.arange(int(ks.max()))
    with np.errstate(divide="ignore"):
        logs = np.log1p(-np.minimum(marked / (num_attempts - steps), 1.0))
    return np.asarray(np.exp(np.concatenate([[0.0], np.cumsum(logs)]))[ks])


def _counts(name: str, value: ArrayLike) -> Ints:
    array = float_array(name, value, ndim_at_least=0)
    if (array < 0).any() or (array != np.round(array)).any():
        raise UserError(f"{name} must hold whole numbers from 0 on; it spans [{array.min():g}, {array.max():g}]")
    return array.astype(np.int64)


def _ks(k: int | Sequence[int] | Ints, most: int) -> Ints:
    ks = np.atleast_1d(np.asarray(k))
    if ks.dtype.kind not in "iu" or ks.ndim != 1 or ks.size == 0:
        raise UserError(f"k is {k!r}; it must be a whole number or a list of them")
    if ks.min() < 1 or ks.max() > most:
        raise UserError(f"k spans {ks.min()} to {ks.max()}; it must lie between 1 and the attempts made ({most})")
    return ks.astype(np.int64)

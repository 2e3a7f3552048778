"""Intervals by resampling: the only module that draws resamples and takes percentiles.

Two ways to draw the same thing. For means it is enough to know how often each value is drawn (`resampled_counts`): one
product gives the means of all resamples. Any other statistic needs the resampled values themselves (`resampled_rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import Floats, Ints, Seed, float_array, generator, real_number, whole_number
from polychromic.errors import UserError

CONFIDENCE = 0.95
RESAMPLES = 2000


def resampled_counts(count: int, resamples: int, rng: np.random.Generator) -> Ints:
    """How often each of `count` values is drawn in each resample, [resamples, count]."""
    return rng.multinomial(count, np.full(count, 1 / count), resamples)


def resampled_rows(count: int, resamples: int, rng: np.random.Generator) -> Ints:
    """Which of `count` values are drawn in each resample, [resamples, count]."""
    return rng.integers(0, count, (resamples, count))


def percentile_ends(resampled: Floats, confidence: float) -> tuple[Floats, Floats]:
    """The ends of a percentile interval, from a statistic of every resample, [resamples, …]."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(resampled, [tail, 100 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def mean_interval(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    rng: np.random.Generator | int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> tuple[Floats, Floats, Floats]:
    """The mean over configurations with its percentile bootstrap interval.

    Args:
        values: [configurations] or [configurations, K] (K metrics at once, all on the same resamples).
        weights: of the configurations, [configurations]; None: equal weights.
        rng: a generator or a seed.
        confidence: the share of intervals that should hold the mean of the population of configurations.
        resamples: bootstrap samples.

    Returns:
        mean, low, high, each of shape [] or [K].
    """
    table = np.asarray(values, np.float64)
    share = np.ones(len(table)) if weights is None else np.asarray(weights, np.float64)
    # How often each configuration occurs in a resample, times its weight: one product for all metrics.
    drawn = resampled_counts(len(table), resamples, np.random.default_rng(rng)) * share
    total = drawn.sum(axis=1)
    drawn, total = drawn[total > 0], total[total > 0]
    means = (drawn @ table) / (total[:, None] if table.ndim == 2 else total)
    return np.asarray(share @ table / share.sum()), *percentile_ends(means, confidence)


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    *,
    confidence: float = CONFIDENCE,
    num_resamples: int = RESAMPLES,
    rng: Seed = None,
) -> tuple[float, float]:
    """A stratified bootstrap interval: runs are resampled within each task, tasks are not resampled.

    Args:
        scores: [runs] for one task, or [runs, tasks].
        statistic: from an array of scores [runs, tasks] (as resampled) to a number; `interquartile_mean`, say.
        confidence: the share of intervals that should hold the true value.
        num_resamples: bootstrap samples.
        rng: a generator or a seed.

    Returns:
        (low, high), by percentiles.
    """
    array = float_array("scores", scores)
    table = array[:, None] if array.ndim == 1 else array
    if table.ndim != 2 or len(table) < 2 or table.shape[1] < 1:
        raise UserError(
            f"scores has shape {array.shape}; an interval needs [runs] or [runs, tasks] with 2 runs or more"
        )
    confidence = real_number("confidence", confidence, 0.0, 1.0)
    if not callable(statistic) or np.ndim(statistic(table)):
        raise UserError(f"statistic is {statistic!r}; it must be a function from scores [runs, tasks] to one number")
    resamples, drawing = whole_number("num_resamples", num_resamples, at_least=1), generator(rng)
    # Each task draws its own runs: stratification by task.
    rows = np.stack([resampled_rows(len(table), resamples, drawing) for _ in range(table.shape[1])], axis=-1)
    drawn = np.take_along_axis(table[None], rows, axis=1)  # [resamples, runs, tasks]
    low, high = percentile_ends(np.array([float(statistic(scores)) for scores in drawn]), confidence)
    return float(low), float(high)

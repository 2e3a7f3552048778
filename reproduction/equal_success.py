"""Methods at equal success: metrics read off the learning curves where each run has reached the same success.

The rule, fixed before any run. Along a run success is made monotone (pool adjacent violators: neighbouring points that
fall are averaged). A level of success is reached at the iteration where that curve crosses it, between points by linear
interpolation, and a metric is read off at that iteration in the same way. Two lines are compared over the top quarter
of the range of success that every run of both has covered, as the mean over evenly spaced levels: at the bottom of the
range all runs are still the pretrained policy. Intervals are over seeds (Welch's t); ratios are compared as logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproduction.intervals import Interval, Records, between_seeds, ratio_between_seeds

STRATEGIES, PASS_AT_8 = "distinct_successful_strategies", "pass@8"
LEVELS = 9  # of success, evenly spaced
TOP = 0.25  # share of the common range that is compared


class AtEqualSuccess(NamedTuple):
    """One line against another where both have the same success."""

    low: float  # the levels of success that are compared
    high: float
    strategies: Interval  # distinct successful strategies, ratio
    pass_at_8: Interval  # difference
    seeds: tuple[int, int]  # runs on either side whose curves have what this needs


def monotone(values: Sequence[float]) -> NDArray[np.float64]:
    """The non-decreasing curve nearest to these values (least squares)."""
    blocks: list[list[float]] = []  # mean and number of points
    for value in values:
        blocks.append([float(value), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (last, more), (mean, count) = blocks.pop(), blocks.pop()
            blocks.append([(mean * count + last * more) / (count + more), count + more])
    return np.concatenate([np.full(int(count), mean) for mean, count in blocks])


def read_off(curve: Mapping[str, Any], name: str, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """A metric of one run where its success reaches these levels."""
    success = monotone(curve["success"])
    first = np.unique(success, return_index=True)[1]  # of a flat stretch its first point
    when = np.interp(levels, success[first], np.asarray(curve["iteration"], np.float64)[first])
    return np.asarray(np.interp(when, curve["iteration"], curve[name]))


def curves_with(records: Records, names: Sequence[str]) -> list[Mapping[str, Any]]:
    """The learning curves that have all of these metrics."""
    curves = [record.get("curve", {}) for record in records]
    return [curve for curve in curves if {"success", *names} <= curve.keys()]


def common_range(lines: Sequence[Records]) -> tuple[float, float] | None:
    """The range of success that every run of these lines has covered; None if there is none."""
    curves = [
        monotone(curve["success"]) for records in lines for curve in curves_with(records, (STRATEGIES, PASS_AT_8))
    ]
    if not curves:
        return None
    low, high = max(curve[0] for curve in curves), min(curve[-1] for curve in curves)
    return (float(low), float(high)) if high > low else None


def at_equal_success(ours: Records, theirs: Records, span: tuple[float, float] | None = None) -> AtEqualSuccess | None:
    """One line against another over the top quarter of their common range; None if they have none.

    span: a range of success to use instead, which both have covered.
    """
    both = [curves_with(records, (STRATEGIES, PASS_AT_8)) for records in (ours, theirs)]
    span = span or common_range((ours, theirs))
    if not all(both) or span is None:
        return None
    low, high = span[1] - TOP * (span[1] - span[0]), span[1]
    levels = np.linspace(low, high, LEVELS)

    def means(name: str) -> list[NDArray[np.float64]]:
        return [np.array([read_off(curve, name, levels).mean() for curve in curves]) for curves in both]

    kept, passed = means(STRATEGIES), means(PASS_AT_8)
    return AtEqualSuccess(
        low,
        high,
        ratio_between_seeds(kept[0], kept[1]),
        between_seeds(passed[0], passed[1]),
        (len(both[0]), len(both[1])),
    )

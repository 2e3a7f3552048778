"""Seeds and configurations -> a figure with its interval.

A line is the results of runs that differ in their seed alone: a table seeds × configurations for every figure. What one
wants to speak about are other seeds and other configurations, so both are resampled, each on its own, with the figures
of a configuration staying together over seeds and those of a seed over configurations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.core.metrics import pass_at_k

CONFIDENCE, RESAMPLES = 0.95, 2000
KS = (1, 2, 4, 8, 16, 32, 64, 128)

Records = Sequence[Mapping[str, Any]]


class Figure(NamedTuple):
    """A mean with its 95 % interval; arrays for several figures at once."""

    mean: Any
    low: Any
    high: Any

    @property
    def clear(self) -> bool:
        """Of a difference: whether its interval leaves out zero."""
        return bool(self.low > 0 or self.high < 0)


def table_of(records: Records, name: str) -> NDArray[np.float64] | None:
    """A figure of every seed and configuration, [S, C]: success, pass@K, coverage, perturbed, or a name in results.

    What comes of several late policies is averaged over them here. None if it was not measured.
    """
    found = [_of_record(one, name) for one in records]
    known = [one for one in found if one is not None]
    return np.stack(known) if known and len(known) == len(found) else None


def _of_record(record: Mapping[str, Any], name: str) -> NDArray[np.float64] | None:
    if name == "perturbed":
        return np.asarray(record[name]["success"], np.float64) if name in record else None
    if name in ("success", "coverage") or name.startswith("pass@"):
        if "successes" not in record:
            return None
        successes, attempts = np.asarray(record["successes"]), record["attempts"]  # [policies, C]
        if name == "success":
            return np.asarray(successes.mean(axis=0) / attempts)
        k = attempts if name == "coverage" else int(name.removeprefix("pass@"))
        return np.asarray(pass_at_k(attempts, successes, k).mean(axis=0)) if k <= attempts else None
    return np.asarray(record[name], np.float64) if name in record else None


def weights_of(records: Records, name: str) -> NDArray[np.float64] | None:
    """How much configurations count: by their number of starts for perturbed ones, else all alike."""
    return np.asarray(records[0]["perturbed"]["starts"], np.float64) if name == "perturbed" else None


def figure_of(records: Records, name: str) -> Figure | None:
    """A figure of a line."""
    table = table_of(records, name)
    return None if table is None else interval(table, weights_of(records, name))


def difference(ours: Records, theirs: Records, name: str) -> Figure | None:
    """One line minus another one on the same configurations, which are resampled together; seeds apart."""
    first, second = table_of(ours, name), table_of(theirs, name)
    if first is None or second is None or first.shape[1] != second.shape[1]:
        return None
    weights = weights_of(ours, name)
    rng = np.random.default_rng(0)
    drawn = _configurations(rng, first.shape[1], weights)
    gaps = _resampled(first, drawn, rng) - _resampled(second, drawn, rng)
    mean = np.average(first.mean(axis=0) - second.mean(axis=0), weights=weights)
    return _figure(mean, gaps)


def interval(table: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Figure:
    """The mean of a table [S, C] over seeds and configurations, with a two-way percentile bootstrap.

    Resampling S seeds shows (S − 1)/S of their variance, a third too little at S = 3, so what a seed differs by from
    the mean over seeds counts √(S/(S − 1)) times. With one seed the interval is over configurations alone.
    """
    rng = np.random.default_rng(0)
    drawn = _configurations(rng, table.shape[1], weights)
    return _figure(np.average(table.mean(axis=0), weights=weights), _resampled(table, drawn, rng))


def _configurations(rng: np.random.Generator, count: int, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Resampled weights of configurations, [resamples, C], each row with the sum 1."""
    drawn = rng.multinomial(count, np.full(count, 1 / count), RESAMPLES) * (1.0 if weights is None else weights)
    return np.asarray(drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-12))


def _resampled(table: NDArray[np.float64], drawn: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Means of the table over resampled seeds and configurations, [resamples]."""
    seeds = len(table)
    middle = table.mean(axis=0)
    means = drawn @ middle
    if seeds > 1:
        wider = (table - middle) * np.sqrt(seeds / (seeds - 1))
        chosen = rng.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
        means = means + np.einsum("rs,sc,rc->r", chosen, wider, drawn, optimize=True)
    return np.asarray(means)


def _figure(mean: Any, resampled: NDArray[np.float64]) -> Figure:
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(resampled, [tail, 100 - tail])
    return Figure(float(mean), float(low), float(high))


def pass_curve(records: Records) -> tuple[list[int], list[Figure]]:
    """pass@k of a line at powers of two, as far as its attempts go."""
    found = [(k, figure_of(records, f"pass@{k}")) for k in KS]
    known = [(k, one) for k, one in found if one is not None]
    return [k for k, _ in known], [one for _, one in known]


def curve_of(records: Records, name: str, against: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Learning curves of a line: where its points lie on the average, [P], and the value of each seed there, [S, P]."""
    curves = [one["curve"] for one in records if name in one.get("curve", {})]
    if not curves:
        return None
    points = min(len(one[name]) for one in curves)
    where = np.mean([one[against][:points] for one in curves], axis=0)
    return np.asarray(where), np.array([one[name][:points] for one in curves], np.float64)


def over_seeds(values: NDArray[np.float64]) -> Figure:
    """The mean of curves [S, P] over seeds with its interval, [P] each; with one seed there is none."""
    seeds, middle = len(values), values.mean(axis=0)
    if seeds == 1:
        return Figure(middle, middle, middle)
    chosen = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
    means = middle + chosen @ (values - middle) * np.sqrt(seeds / (seeds - 1))
    tail = 50 * (1 - CONFIDENCE)
    return Figure(middle, *np.percentile(means, [tail, 100 - tail], axis=0))


def still_moving(records: Records, name: str = "success") -> Figure | None:
    """How much a learning curve rose from the fifth before the last to the last one: mean, lowest, highest of seeds."""
    found = curve_of(records, name, "iteration")
    if found is None or found[1].shape[1] < 5:
        return None
    fifth = found[1].shape[1] // 5
    rises = found[1][:, -fifth:].mean(axis=1) - found[1][:, -2 * fifth : -fifth].mean(axis=1)
    return Figure(float(rises.mean()), float(rises.min()), float(rises.max()))


def cpu_hours(records: Records) -> float:
    """Of training and evaluating."""
    return float(sum(sum(one.get("cpu_seconds", {}).values()) for one in records) / 3600)


def commits_of(records: Records) -> list[str]:
    """All commits that took part, in order of appearance."""
    return list(dict.fromkeys(commit for one in records for commit in one.get("commits", ())))

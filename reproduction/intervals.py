"""Seeds and configurations -> a metric with its interval.

A line holds the results of runs that differ only in their seed: a table seeds × configurations for every metric. The
claim is about other seeds and other configurations, so an interval covers both. The values of a
configuration stay together over seeds, and those of a seed over configurations.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.core.intervals import CONFIDENCE, percentile_ends, resampled_counts
from polychromic.core.metrics import pass_at_k
from polychromic.sweep.cells import PRETRAINED

RESAMPLES, DIFFERENCE_RESAMPLES = 4000, 20_000
PERTURBED = "perturbed"  # suffix of metrics from perturbed starts
REWARD = "reward_"  # prefix of rewards, before their time penalty
KS = (1, 2, 4, 8, 16, 32, 64, 128)

Records = Sequence[Mapping[str, Any]]


class Interval(NamedTuple):
    """A mean with its interval; arrays for several metrics at once."""

    mean: Any
    low: Any
    high: Any

    def single(self) -> Interval:
        """The only entry of arrays with one entry."""
        return Interval(*(float(np.squeeze(part)) for part in self))

    @property
    def clear(self) -> bool:
        """For a difference: whether its interval excludes zero."""
        return bool(self.low > 0 or self.high < 0)


def table_of(records: Records, name: str) -> NDArray[np.float64] | None:
    """A metric of every seed and configuration, [S, C]: success, pass@K, coverage, perturbed, or a name in results.

    Several late policies are averaged here. None if it was not measured.
    """
    rows = [_of_record(record, name) for record in records]
    known = [row for row in rows if row is not None]
    return np.stack(known) if known and len(known) == len(rows) else None


def _of_record(record: Mapping[str, Any], name: str) -> NDArray[np.float64] | None:
    if name.endswith(PERTURBED):
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
    """Weights of configurations: their number of starts for perturbed metrics, otherwise equal."""
    by_starts = name.endswith(PERTURBED) and name in records[0]
    return np.asarray(records[0][name]["starts"], np.float64) if by_starts else None


def rewards_of(records: Records) -> list[str]:
    """The rewards that results have, by name."""
    return [name for name in (records[0] if records else ()) if name.startswith(REWARD)]


def metric_of(records: Records, name: str) -> Interval | None:
    """A metric of a line."""
    table = table_of(records, name)
    if table is None:
        return None
    pooled = interval(table, weights_of(records, name))
    share = name in ("success", "coverage", "greedy") or name.endswith(PERTURBED) or name.startswith("pass@")
    return Interval(
        pooled.mean, max(pooled.low, 0.0), min(pooled.high, 1.0) if share else pooled.high
    )  # none is negative


def difference(
    ours: Records, theirs: Records, name: str, confidence: float = CONFIDENCE, alike: Sequence[Records] = ()
) -> Interval | None:
    """One line minus another on the same configurations, which are resampled together; seeds are independent.

    alike: lines whose seeds are assumed to vary alike, including these two; the variance over seeds is pooled over all
    of them. Not given: each of the two has its own, with Welch's degrees of freedom for the difference.
    """
    drawn = _drawn_difference(ours, theirs, name, alike)
    return None if drawn is None else _interval(*drawn, confidence).single()


def mean_difference(
    by_task: Sequence[Sequence[tuple[Records, Records]]], name: str, alike: Sequence[Records] = ()
) -> Interval | None:
    """The mean of differences over pairs of lines, by task: tasks vary independently, and so do seeds.

    The claim is about these tasks. Pairs of one task share its configurations. None if a pair was not measured.
    alike: as for `difference`, for pairs of one task.
    """
    means: list[float] = []
    drawn = []
    for task, pairs in enumerate(by_task):
        own = [_drawn_difference(*pair, name, alike, stream=len(means) + number) for number, pair in enumerate(pairs)]
        known = [one for one in own if one is not None]
        if len(known) < len(own):
            return None
        means += [mean for mean, _ in known]
        # Configurations were drawn alike for all tasks: another order makes them independent.
        drawn.append(np.random.default_rng([3, task]).permutation(np.sum([values for _, values in known], axis=0)))
    return _interval(float(np.mean(means)), np.sum(drawn, axis=0) / len(means)).single() if means else None


def _drawn_difference(
    ours: Records, theirs: Records, name: str, alike: Sequence[Records] = (), stream: int = 0
) -> tuple[float, NDArray[np.float64]] | None:
    """The difference of two lines, and resamples of it; other streams have other random numbers for seeds."""
    first, second = table_of(ours, name), table_of(theirs, name)
    if first is None or second is None or first.shape[1] != second.shape[1]:
        return None
    weights = weights_of(ours, name)
    rng = np.random.default_rng([0, stream] if stream else 0)
    pairs = ((first, ours), (second, theirs))
    # The verdict depends on the side of zero on which an interval ends, so use many resamples.
    drawn = _configurations(first.shape[1], weights, DIFFERENCE_RESAMPLES)
    if alike:
        pooled = _pooled([table for records in alike if (table := table_of(records, name)) is not None])
        # The pretrained policy has no seeds that could vary.
        spreads = [_pooled([table]) if _untrained(records) else pooled for table, records in pairs]
        degrees = float(pooled.degrees)
    else:
        spreads, degrees = [_pooled([first]), _pooled([second])], _degrees_apart(first, second, weights)
    wider = _wider(rng, degrees, DIFFERENCE_RESAMPLES)
    drawn_means = [
        _resampled(table, spread, drawn, wider, 2 * stream + number)
        for number, (table, spread) in enumerate(zip((first, second), spreads, strict=True))
    ]
    mean = np.average(first.mean(axis=0) - second.mean(axis=0), weights=weights)
    return float(mean), drawn_means[0] - drawn_means[1]


def _untrained(records: Records) -> bool:
    return all(record.get("method") == PRETRAINED for record in records)


def seed_spread(lines: Sequence[Records], name: str) -> tuple[float, int, float]:
    """The spread over seeds: the pooled standard deviation, its degrees of freedom, and Bartlett's p.

    A small p means that lines differ in it and should not be pooled.
    """
    from scipy import stats  # here, because it takes long to import

    tables = [(table_of(records, name), weights_of(records, name)) for records in lines if len(records) > 1]
    means = [np.average(table, axis=1, weights=weights) for table, weights in tables if table is not None]
    degrees = sum(len(values) - 1 for values in means)
    variance = sum(values.var(ddof=1) * (len(values) - 1) for values in means) / max(degrees, 1)
    varied = [values for values in means if values.var() > 0]
    return float(np.sqrt(variance)), degrees, float(stats.bartlett(*varied).pvalue) if len(varied) > 1 else 1.0


def interval(table: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Interval:
    """The mean of a table [S, C] over seeds and configurations, with an interval for other seeds and configurations.

    Configurations are resampled. There are too few seeds for that: at S = 3 one resample in nine repeats a single seed.
    Deviations of seeds are drawn from a normal distribution with their variance and, as that is estimated from only S
    values, scaled to Student's t with S − 1 degrees of freedom. With one seed the interval is over configurations
    alone.
    """
    rng = np.random.default_rng(0)
    drawn = _configurations(table.shape[1], weights, RESAMPLES)
    means = _resampled(table, _pooled([table]), drawn, _wider(rng, len(table) - 1, RESAMPLES))
    return _interval(np.average(table.mean(axis=0), weights=weights), means).single()


def over_seeds(values: NDArray[np.float64]) -> Interval:
    """The mean of curves [S, P] over seeds with its Student's t interval, [P] each; with one seed there is none."""
    middle = values.mean(axis=0)
    if len(values) == 1:
        return Interval(middle, middle, middle)
    half = student(len(values) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return Interval(middle, middle - half, middle + half)


def student(degrees: float, confidence: float = CONFIDENCE) -> float:
    """The quantile of Student's t that an interval extends to on both sides."""
    from scipy.special import stdtrit  # `scipy.stats` takes long to import

    return float(stdtrit(degrees, (1 + confidence) / 2))


class _Spread(NamedTuple):
    """Deviations of seeds from the mean of their line, [seeds of all lines, C], and their degrees of freedom."""

    table: NDArray[np.float64]
    degrees: int


def _pooled(tables: Sequence[NDArray[np.float64]]) -> _Spread:
    return _Spread(
        np.concatenate([table - table.mean(axis=0) for table in tables]), sum(len(table) - 1 for table in tables)
    )


def _configurations(count: int, weights: NDArray[np.float64] | None, resamples: int) -> NDArray[np.float64]:
    """Resampled weights of configurations, [resamples, C]; each row sums to 1."""
    drawn = _counts(count, resamples) * (1.0 if weights is None else weights)
    return np.asarray(drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-12))


@functools.lru_cache(maxsize=4)
def _counts(count: int, resamples: int) -> NDArray[np.int64]:
    """How often each configuration is drawn, [resamples, C]: the same for all metrics, as drawing is slow."""
    return resampled_counts(count, resamples, np.random.default_rng(1))


def _degrees_apart(
    first: NDArray[np.float64], second: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> float:
    """Degrees of freedom for the difference of two lines whose seeds need not vary alike (Welch and Satterthwaite)."""
    shares = []  # each line's share of the variance of the difference over seeds, and its degrees of freedom
    for table in (first, second):
        if len(table) > 1:
            means = np.average(table, axis=1, weights=weights)
            shares.append((float(means.var(ddof=1)) / len(table), len(table) - 1))
    variance, spread = sum(share for share, _ in shares), sum(share**2 / known for share, known in shares)
    return variance**2 / spread if spread else float(sum(known for _, known in shares))


def _wider(rng: np.random.Generator, degrees: float, resamples: int) -> NDArray[np.float64]:
    """Factors that turn normal numbers into Student's t with this many degrees of freedom, [resamples]."""
    scale = degrees / rng.chisquare(degrees, resamples) if degrees else np.ones(resamples)
    return np.asarray(np.sqrt(scale))


def _seed_weights(spread: _Spread, seeds: int, resamples: int, stream: int = 0) -> NDArray[np.float64]:
    """Weights for a spread, [resamples, its rows]: the sum has the variance of a mean over this many seeds, s²/S."""
    drawn = _normals(len(spread.table), resamples, stream)
    return np.asarray(drawn / np.sqrt(max(spread.degrees, 1) * seeds))


@functools.lru_cache(maxsize=8)
def _normals(count: int, resamples: int, stream: int) -> NDArray[np.float64]:
    """Normal numbers, [resamples, count], in independent streams; the same for all metrics, like the counts."""
    return np.random.default_rng([2, stream]).standard_normal((resamples, count))


def _resampled(
    table: NDArray[np.float64],
    spread: _Spread,
    drawn: NDArray[np.float64],
    wider: NDArray[np.float64],
    stream: int = 0,
) -> NDArray[np.float64]:
    """Means of the table over drawn seeds and configurations, [resamples]."""
    weights = _seed_weights(spread, len(table), len(drawn), stream)
    moved = np.einsum("rs,sc,rc->r", weights, spread.table, drawn, optimize=True)
    return np.asarray(drawn @ table.mean(axis=0) + wider * moved)


def _interval(mean: Any, resampled: NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval:
    return Interval(mean, *percentile_ends(resampled, confidence))


def pass_curve(records: Records) -> tuple[list[int], list[Interval]]:
    """pass@k of a line at powers of two, up to its number of attempts."""
    metrics = [(k, metric_of(records, f"pass@{k}")) for k in KS]
    known = [(k, metric) for k, metric in metrics if metric is not None]
    return [k for k, _ in known], [metric for _, metric in known]


def curve_of(records: Records, name: str, against: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Learning curves of a line: the mean position of its points, [P], and the value of each seed there, [S, P]."""
    curves = [record["curve"] for record in records if name in record.get("curve", {})]
    if not curves:
        return None
    points = min(len(curve[name]) for curve in curves)
    where = np.mean([curve[against][:points] for curve in curves], axis=0)
    return np.asarray(where), np.array([curve[name][:points] for curve in curves], np.float64)


def still_moving(records: Records, name: str = "success") -> Interval | None:
    """How much a learning curve rose from its second-to-last fifth to its last, with an interval over seeds."""
    curve = curve_of(records, name, "iteration")
    if curve is None or curve[1].shape[1] < 5:
        return None
    fifth = curve[1].shape[1] // 5
    rises = curve[1][:, -fifth:].mean(axis=1) - curve[1][:, -2 * fifth : -fifth].mean(axis=1)
    return over_seeds(rises[:, None]).single()


def at_equal_steps(
    ours: Records, theirs: Records, name: str, confidence: float = CONFIDENCE
) -> tuple[float, Interval] | None:
    """One line minus another at the same number of environment steps on their learning curves.

    That number is the total of the shortest run; curves are interpolated between their points. The interval is over
    seeds.
    """
    curves = [[record["curve"] for record in records if name in record.get("curve", {})] for records in (ours, theirs)]
    if not all(curves):
        return None
    steps = min(curve["steps"][-1] for line in curves for curve in line)
    first, second = (np.array([np.interp(steps, curve["steps"], curve[name]) for curve in line]) for line in curves)
    return steps, between_seeds(first, second, confidence)


def mean_at_equal_steps(pairs: Sequence[tuple[Records, Records]], name: str) -> Interval | None:
    """The mean of `at_equal_steps` over the pairs of different tasks, whose seeds are independent."""
    gaps = [found[1] for pair in pairs if (found := at_equal_steps(*pair, name)) is not None]
    if not gaps or len(gaps) < len(pairs):
        return None
    mean = float(np.mean([gap.mean for gap in gaps]))
    half = float(np.sqrt(sum((gap.high - gap.mean) ** 2 for gap in gaps))) / len(gaps)
    return Interval(mean, mean - half, mean + half)


def between_seeds(first: NDArray[np.float64], second: NDArray[np.float64], confidence: float = CONFIDENCE) -> Interval:
    """The difference of two means over seeds, [S] each, with Welch's interval; with one seed each there is none."""
    error = np.sqrt(sum(values.var(ddof=1) / len(values) for values in (first, second) if len(values) > 1))
    half = student(_degrees_apart(first[:, None], second[:, None]), confidence) * error if error else 0.0
    gap = float(first.mean() - second.mean())
    return Interval(gap, gap - half, gap + half)


def ratio_between_seeds(first: NDArray[np.float64], second: NDArray[np.float64]) -> Interval:
    """The ratio of two means over seeds, [S] each, as logarithms with Welch's interval."""
    gap = between_seeds(np.log(np.maximum(first, 1e-9)), np.log(np.maximum(second, 1e-9)))
    return Interval(*(float(np.exp(part)) for part in gap))


def ratio_at_the_end(ours: Records, theirs: Records, name: str) -> Interval | None:
    """One line's metric as a multiple of another's, averaged over configurations; the interval is over seeds."""
    tables = [table_of(records, name) for records in (ours, theirs)]
    first, second = (None if table is None else table.mean(axis=1) for table in tables)
    return None if first is None or second is None else ratio_between_seeds(first, second)


def cpu_hours(records: Records) -> float:
    """CPU hours of training and evaluation."""
    return float(sum(sum(record.get("cpu_seconds", {}).values()) for record in records) / 3600)


def commits_of(records: Records) -> list[str]:
    """The commits behind these results."""
    return sorted({commit for record in records for commit in record.get("commits", ())})

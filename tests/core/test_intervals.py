import numpy as np
import pytest
from scipy import stats

from polychromic import bootstrap_interval, interquartile_mean
from polychromic.core.intervals import mean_interval, percentile_ends, resampled_counts, resampled_rows


def test_bootstrap_interval_is_stratified_by_task():
    # Within a task all runs agree, so resampling runs within tasks changes nothing however far tasks differ.
    scores = np.tile([0.1, 0.9], (5, 1))
    assert bootstrap_interval(scores, rng=0) == pytest.approx((0.5, 0.5))


def test_bootstrap_interval_covers_the_true_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        low, high = bootstrap_interval(rng.normal(0.3, 1.0, size=40), num_resamples=300, rng=rng)
        hits += low <= 0.3 <= high
    # Percentile intervals of 40 values are slightly short of 95 %; 0.88 is more than 3 standard errors below 0.935.
    assert hits / 200 > 0.88


def test_bootstrap_interval_widens_with_confidence():
    scores = np.random.default_rng(3).random((12, 2))
    low, high = bootstrap_interval(scores, confidence=0.99, rng=0)
    narrow_low, narrow_high = bootstrap_interval(scores, confidence=0.5, rng=0)
    assert low < narrow_low < narrow_high < high


def test_bootstrap_interval_shows_the_statistic_runs_by_tasks():
    scores = np.random.default_rng(3).random((6, 2))
    shapes = set()

    def statistic(table):
        shapes.add(table.shape)
        return table.mean()

    bootstrap_interval(scores, statistic, num_resamples=10, rng=0)
    assert shapes == {(6, 2)}


def test_bootstrap_interval_of_the_interquartile_mean():
    scores = np.random.default_rng(1).random((10, 3))
    low, high = bootstrap_interval(scores, interquartile_mean, rng=0, num_resamples=500)
    assert low < interquartile_mean(scores) < high


@pytest.mark.parametrize(("statistic", "tasks"), [(np.mean, 1), (np.mean, 3), (np.median, 2)])
def test_a_bootstrap_interval_is_the_one_of_scipy(statistic, tasks):
    """SciPy resamples each of several samples on its own, from the same random numbers."""
    scores = np.random.default_rng(5).normal(size=(7, tasks))
    theirs = stats.bootstrap(
        tuple(scores.T),
        lambda *columns: float(statistic(np.stack(columns, axis=-1))),
        vectorized=False,
        n_resamples=500,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    ours = bootstrap_interval(scores, statistic, num_resamples=500, rng=3)
    assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-12)


def test_counts_and_rows_are_resamples_of_the_same_size():
    counts = resampled_counts(6, 4000, np.random.default_rng(0))
    rows = resampled_rows(6, 4000, np.random.default_rng(0))
    assert (counts.sum(axis=1) == 6).all()
    assert rows.shape == counts.shape
    seen = np.stack([(rows == value).sum(axis=1) for value in range(6)], axis=1)
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.06)
    np.testing.assert_allclose(seen.var(axis=0), counts.var(axis=0), atol=0.08)


def test_the_two_ways_to_resample_a_mean_agree():
    values = np.random.default_rng(1).normal(size=30)
    _, low, high = mean_interval(values, resamples=20_000)
    np.testing.assert_allclose(bootstrap_interval(values, num_resamples=20_000, rng=0), (low, high), atol=0.02)
    np.testing.assert_allclose(percentile_ends(np.arange(101.0), 0.9), (5.0, 95.0))

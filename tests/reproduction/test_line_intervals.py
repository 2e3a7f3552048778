"""Metrics with intervals over seeds and configurations."""

import functools

import numpy as np
import pytest
from made_up import made_up
from reproduction.intervals import (
    at_equal_steps,
    difference,
    interval,
    metric_of,
    over_seeds,
    seed_spread,
    still_moving,
    table_of,
)
from reproduction.plan import make_cell
from reproduction.plans import FULL

from polychromic.core.metrics import pass_at_k


def runs(chance, seeds=3):
    return [made_up(make_cell("goto", "ppo", seed, {}, 640, FULL), chance) for seed in range(seeds)]


def seeds_of(rng, configurations, count, sd):
    """A line whose seeds vary by sd, and by 0.04 at every configuration on its own, about as much as on GoTo."""
    own = [configurations + rng.normal(0, sd) + rng.normal(0, 0.04, 50) for _ in range(count)]
    return [{"entropy": values.tolist()} for values in own]


DRAWN = {
    "a line": lambda line, _: interval(np.array([one["entropy"] for one in line()])),
    "a pair": lambda line, _: difference(line(), line(), "entropy"),
    "a pair that varies unlike": lambda line, _: difference(line(0.1), line(0.02), "entropy"),
    "against one policy": lambda line, base: difference(line(), [{"entropy": base.tolist()}], "entropy"),
    "a change": lambda line, _: difference(*(lines := [line() for _ in range(8)])[:2], "entropy", 0.99, lines),
    "a curve": lambda line, base: over_seeds(
        np.array([[np.mean(np.subtract(one["entropy"], base))] for one in line()])
    ).single(),
}


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("what", DRAWN)
def test_intervals_hold_the_truth(seeds, what, monkeypatch):
    """Configurations vary by 0.2, seeds by 0.03 unless something else is said; the truth is 0."""
    monkeypatch.setattr("reproduction.intervals.RESAMPLES", 800)
    monkeypatch.setattr("reproduction.intervals.DIFFERENCE_RESAMPLES", 800)
    rng = np.random.default_rng(seeds)
    held = 0
    for _ in range(200):
        configurations = rng.normal(0, 0.2, 50)
        line = functools.partial(lambda base, sd=0.03: seeds_of(rng, base, seeds, sd), configurations)
        found = DRAWN[what](line, configurations)
        held += found.low <= 0 <= found.high
    low, high = (0.97, 1.0) if what == "a change" else (0.91, 0.99)
    assert low <= held / 200 <= high


def test_what_seeds_differ_by_is_pooled_and_tested():
    rng = np.random.default_rng(0)
    alike = [seeds_of(rng, np.zeros(50), 3, 0.03) for _ in range(20)]
    spread, degrees, p = seed_spread(alike, "entropy")
    assert spread == pytest.approx(0.03, rel=0.25)
    assert degrees == 40
    assert p > 0.01
    assert seed_spread([*alike, *(seeds_of(rng, np.zeros(50), 3, 0.5) for _ in range(5))], "entropy")[2] < 1e-6
    # One line that happens to have no spread is not known better than the others.
    still = [{"entropy": [0.1] * 50}] * 3
    alone, together = (difference(still, still, "entropy", 0.95, lines) for lines in ((), [*alike, still]))
    assert alone.high - alone.low < 1e-9
    assert together.high - together.low == pytest.approx(2 * 2.02 * 0.03 * np.sqrt(2 / 3), rel=0.3)


def test_late_policies_are_averaged_by_configuration():
    [one] = runs(0.3, 1)
    table = table_of([one], "pass@32")
    assert table.shape == (1, 6)
    curves = [pass_at_k(160, successes, 32) for successes in one["successes"]]
    np.testing.assert_allclose(table[0], np.mean(curves, axis=0))
    np.testing.assert_allclose(table_of([one], "success"), table_of([one], "pass@1"))
    assert table_of([one], "pass@161") is None
    np.testing.assert_allclose(table_of([one], "coverage"), table_of([one], "pass@160"))


def test_perturbed_starts_count_by_their_number():
    records = runs(0.5, 1)
    starts, success = (np.array(records[0]["perturbed"][name]) for name in ("starts", "success"))
    assert metric_of(records, "perturbed").mean == pytest.approx((starts * success).sum() / starts.sum())
    greedy = metric_of(records, "greedy perturbed").mean
    assert greedy == pytest.approx(0.9 * (starts * success).sum() / starts.sum())
    assert metric_of([{"entropy": [1.0]}], "greedy perturbed") is None


def test_a_difference_is_paired_by_configuration():
    rng = np.random.default_rng(0)
    hard = rng.uniform(0, 1, 50)  # configurations differ much, methods little
    ours, theirs = ([{"entropy": (hard + shift).tolist()} for _ in range(3)] for shift in (0.02, 0.0))
    gap = difference(ours, theirs, "entropy")
    assert gap.mean == pytest.approx(0.02)
    assert gap.clear
    assert gap.high - gap.low < 1e-6
    single = metric_of(ours, "entropy")
    assert single.high - single.low > 0.1
    assert difference(ours, theirs, "success") is None


def test_whether_a_curve_has_flattened():
    rising = still_moving(runs(0.9))
    assert rising.mean > 0.05
    flat = [{"curve": {"iteration": [1, 2, 3, 4, 5], "success": [0.1, 0.5, 0.5, 0.5, 0.5]}}]
    assert still_moving(flat) == (0, 0, 0)
    assert still_moving([{"curve": {"iteration": [1], "success": [0.5]}}]) is None


def test_curves_have_intervals_over_seeds():
    values = np.array([[0.1, 0.5, 0.2], [0.2, 0.5, 0.4], [0.3, 0.5, 0.9]])
    found = over_seeds(values)
    np.testing.assert_allclose(found.mean, [0.2, 0.5, 0.5])
    assert found.high[0] - found.mean[0] == pytest.approx(4.3027 * 0.1 / np.sqrt(3), rel=1e-4)  # Student's t
    assert found.low[1] == found.high[1] == 0.5
    assert found.high[2] - found.low[2] > found.high[0] - found.low[0]
    one = over_seeds(values[:1])
    assert (one.low == one.high).all()


def test_lines_are_compared_at_equal_steps():
    short = [{"curve": {"steps": [10, 20], "success": [0.2, 0.4 + seed / 100]}} for seed in range(3)]
    long = [{"curve": {"steps": [10, 30, 50], "success": [0.1, 0.3, 0.9]}} for _ in range(3)]
    steps, gap = at_equal_steps(short, long, "success")
    assert steps == 20
    assert gap.mean == pytest.approx(0.41 - 0.2)
    assert gap.low < gap.mean < gap.high
    assert at_equal_steps(short, [{}], "success") is None


def test_intervals_of_shares_are_shares():
    found = metric_of(runs(0.97), "pass@8")
    assert found.mean <= found.high <= 1

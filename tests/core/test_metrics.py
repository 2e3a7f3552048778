from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polychromic import (
    UserError,
    bootstrap_interval,
    coverage,
    distinct_at_k,
    interquartile_mean,
    pass_at_k,
)


@given(st.integers(1, 60), st.data())
def test_pass_at_k_equals_the_exact_fraction(attempts, data):
    successes = data.draw(st.integers(0, attempts))
    ks = list(range(1, attempts + 1))
    exact = [1 - Fraction(comb(attempts - successes, k), comb(attempts, k)) for k in ks]
    np.testing.assert_allclose(pass_at_k(attempts, successes, ks), [float(f) for f in exact], atol=1e-12)


def test_pass_at_k_is_stable_for_a_million_attempts():
    million = 10**6
    exact = 1 - Fraction(comb(million - 3, 1000), comb(million, 1000))
    np.testing.assert_allclose(pass_at_k(million, 3, 1000), float(exact), rtol=1e-10)
    np.testing.assert_allclose(pass_at_k(million, million // 2, [1, million]), [0.5, 1.0])
    np.testing.assert_allclose(pass_at_k(million, 1, 1), 1e-6, rtol=1e-14)


def test_pass_at_k_shapes():
    assert pass_at_k([10, 10, 20], [0, 5, 20], 4).shape == (3,)
    assert pass_at_k(np.full((2, 3), 10), 5, [1, 2, 4]).shape == (2, 3, 3)
    assert pass_at_k(10, 3, 1).shape == ()


def test_pass_at_k_is_unbiased():
    rng = np.random.default_rng(0)
    successes = rng.binomial(12, 0.2, size=20_000)
    estimates = pass_at_k(12, successes, 5)
    standard_error = estimates.std() / np.sqrt(len(estimates))
    assert abs(estimates.mean() - (1 - 0.8**5)) < 4 * standard_error


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8))
def test_distinct_at_k_is_the_mean_over_all_choices_of_k(attempts):
    labels, correct = [a for a, _ in attempts], [c for _, c in attempts]
    for k in range(1, len(attempts) + 1):
        counts = [len({labels[i] for i in chosen if correct[i]}) for chosen in combinations(range(len(attempts)), k)]
        np.testing.assert_allclose(distinct_at_k(labels, correct, k), np.mean(counts), atol=1e-12)


def test_distinct_at_k_over_groups_and_several_k():
    labels = [["a", "b", "a"], ["c", "c", "c"]]
    correct = [[True, True, False], [True, True, True]]
    np.testing.assert_allclose(distinct_at_k(labels, correct, [1, 3]), [[2 / 3, 2.0], [1.0, 1.0]])


def test_coverage_counts_configurations_ever_solved():
    assert coverage([0, 3, 1, 0]) == 0.5


def test_interquartile_mean_ignores_outliers():
    assert interquartile_mean([1.0, 2.0, 3.0, 1000.0]) == 2.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pass_at_k(5, 6, 1), "num_successes is 6 where num_attempts is 5"),
        (lambda: pass_at_k(5, 2, 6), "k spans 6 to 6; it must be between 1 and the attempts made"),
        (lambda: pass_at_k(5, 2, 0), "k spans 0 to 0"),
        (lambda: pass_at_k(5, 2, 1.5), "k is 1.5"),
        (lambda: pass_at_k(5.5, 2, 1), "num_attempts must hold whole numbers"),
        (lambda: pass_at_k(5, -1, 1), "num_successes must hold whole numbers"),
        (lambda: distinct_at_k([0, 1], [1, 2], 1), r"correct is \[1, 2\]; it must hold only True and False"),
        (lambda: distinct_at_k([0, 1, 2], [1, 0], 1), "labels has length 3 where 2"),
        (lambda: pass_at_k([10, 100], [11, 50], 1), "num_successes is 11 where num_attempts is 10"),
        (lambda: pass_at_k([10, 10], [1, 2, 3], 1), "must fit together"),
        (lambda: pass_at_k(10, 1, [[1], [2, 3]]), "k cannot be read"),
        (lambda: coverage([]), "num_successes is empty"),
        (lambda: interquartile_mean([]), "scores is empty"),
        (lambda: interquartile_mean([1.0, 2.0], axis=3), "axis is 3"),
        (lambda: bootstrap_interval(np.ones((3, 0))), "2 runs or more"),
        (lambda: bootstrap_interval([1.0, 2.0], "mean"), "statistic is 'mean'"),
        (lambda: bootstrap_interval([1.0, 2.0], lambda scores: scores), "to one number"),
        (lambda: bootstrap_interval([1.0, 2.0], confidence="95%"), "confidence is '95%'"),
        (lambda: bootstrap_interval([1.0, 2.0], rng="seed"), "rng is 'seed'"),
        (lambda: bootstrap_interval([1.0]), "2 runs or more"),
        (lambda: bootstrap_interval([1.0, 2.0], confidence=95), "confidence is 95"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(UserError, match=message):
        call()

"""The closed form against enumeration, and the properties that every reading of the advantage must have."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polychromic import (
    DegenerateSetsWarning,
    UserError,
    all_sets,
    mean_return,
    polychromic_advantages,
    score_sets,
    set_advantages,
)

# Whole groups as sets are part of what is enumerated here; that they teach nothing is tested on its own.
pytestmark = pytest.mark.filterwarnings("ignore::polychromic.DegenerateSetsWarning")


def enumerated(returns, labels, set_size, homogeneous_zero, credit):
    """A_i from all C(N, n) subsets, written plainly and without the library."""
    num_rollouts = len(returns)
    sets = list(combinations(range(num_rollouts), set_size))
    scores = []
    for members in sets:
        distinct = len({labels[i] for i in members})
        diversity = 0 if homogeneous_zero and distinct == 1 else distinct / set_size
        scores.append(sum(returns[i] for i in members) / set_size * diversity)
    mean = sum(scores) / len(scores)
    total = [0.0] * num_rollouts
    for members, score in zip(sets, scores, strict=True):
        for i in members:
            total[i] += score - mean
    holding = comb(num_rollouts - 1, set_size - 1)
    scale = num_rollouts / (len(sets) * set_size) if credit == "sum" else 1 / holding
    return np.array(total) * scale


@pytest.mark.parametrize("credit", ["sum", "mean"])
@pytest.mark.parametrize("homogeneous_zero", [True, False])
@pytest.mark.parametrize("num_rollouts", range(1, 11))
def test_closed_form_equals_enumeration(num_rollouts, homogeneous_zero, credit):
    rng = np.random.default_rng(num_rollouts)
    for set_size in range(1, num_rollouts + 1):
        for num_labels in {1, 2, 3, num_rollouts}:
            returns = rng.random(num_rollouts) * rng.integers(0, 2, num_rollouts)
            labels = rng.integers(0, num_labels, num_rollouts)
            got = polychromic_advantages(
                returns, labels, set_size=set_size, homogeneous_zero=homogeneous_zero, credit=credit
            )
            expected = enumerated(returns, labels, set_size, homogeneous_zero, credit)
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_large_groups_neither_overflow_nor_drift():
    rng = np.random.default_rng(0)
    for num_rollouts, set_size in ((256, 16), (256, 128), (2048, 700)):
        returns, labels = rng.random(num_rollouts), rng.integers(0, 40, num_rollouts)
        advantages = polychromic_advantages(returns, labels, set_size=set_size)
        assert np.isfinite(advantages).all()
        assert abs(advantages.sum()) < 1e-10
        assert np.abs(advantages).max() > 1e-6


def test_large_group_agrees_with_many_random_sets():
    rng = np.random.default_rng(5)
    returns, labels = rng.random(64), rng.integers(0, 12, 64)
    exact = polychromic_advantages(returns, labels, set_size=8)
    sampled = polychromic_advantages(returns, labels, set_size=8, num_sets=100_000, rng=6)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.995
    np.testing.assert_allclose(sampled, exact, atol=5e-3)


def test_monte_carlo_converges_at_the_rate_of_one_over_root_m():
    rng = np.random.default_rng(1)
    returns, labels = rng.random(8), np.array([0, 0, 0, 1, 1, 2, 3, 3])
    exact = polychromic_advantages(returns, labels, set_size=4)
    repeats = 400
    many = np.broadcast_to(returns, (repeats, 8)), np.broadcast_to(labels, (repeats, 8))
    sizes = np.array([16, 64, 256, 1024])
    errors = [
        np.sqrt(((polychromic_advantages(*many, set_size=4, num_sets=int(m), rng=2) - exact) ** 2).mean())
        for m in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.53 < slope < -0.47


def test_expected_gradient_is_the_true_one_times_0_375():
    """N = 8, n = 4, M = 4: (1 − 1/M)(1 − n/N), by simulation of groups and of their sets."""
    policy = np.array([0.7, 0.2, 0.1])
    rewards = np.array([0.2, 1.0, 1.0])
    rng = np.random.default_rng(0)
    groups = rng.choice(3, size=(150_000, 8), p=policy)
    advantages = polychromic_advantages(rewards[groups], groups, set_size=4, num_sets=4, rng=rng)
    slopes = (groups == 0) - policy[0]
    estimates = (advantages * slopes).sum(axis=-1) * 4 / 8
    draws = np.array(np.meshgrid(*[range(3)] * 4)).reshape(4, -1).T
    scores = score_sets([[0, 1, 2, 3]], rewards[draws], labels=draws)[:, 0]
    weights = policy[draws].prod(axis=-1)
    true = (weights * scores * ((draws == 0) - policy[0]).sum(axis=-1)).sum()
    standard_error = estimates.std() / np.sqrt(len(estimates)) / abs(true)
    assert standard_error < 0.01
    assert abs(estimates.mean() / true - 0.375) < 4 * standard_error


groups_of_rollouts = st.integers(2, 9).flatmap(
    lambda size: st.tuples(
        st.lists(st.floats(0, 1), min_size=size, max_size=size),
        st.lists(st.integers(0, 4), min_size=size, max_size=size),
        st.integers(1, size),
        st.booleans(),
    )
)


@given(groups_of_rollouts, st.sampled_from(["all", 3]))
def test_advantages_sum_to_zero(group, num_sets):
    returns, labels, set_size, rule = group
    advantages = polychromic_advantages(
        returns, labels, set_size=set_size, num_sets=num_sets, homogeneous_zero=rule, rng=0
    )
    assert abs(advantages.sum()) < 1e-12


@given(groups_of_rollouts, st.randoms(use_true_random=False))
def test_permuting_rollouts_permutes_their_advantages(group, random):
    returns, labels, set_size, rule = group
    order = list(range(len(returns)))
    random.shuffle(order)
    advantages = polychromic_advantages(returns, labels, set_size=set_size, homogeneous_zero=rule)
    permuted = polychromic_advantages(
        np.array(returns)[order], np.array(labels)[order], set_size=set_size, homogeneous_zero=rule
    )
    np.testing.assert_allclose(permuted, advantages[order], atol=1e-12)


@given(groups_of_rollouts)
def test_names_of_labels_do_not_matter(group):
    returns, labels, set_size, rule = group
    names = [("room", -7 * label, frozenset({label})) for label in labels]
    np.testing.assert_allclose(
        polychromic_advantages(returns, names, set_size=set_size, homogeneous_zero=rule),
        polychromic_advantages(returns, labels, set_size=set_size, homogeneous_zero=rule),
        atol=1e-12,
    )


@given(groups_of_rollouts, st.floats(0, 1))
def test_scaling_returns_scales_advantages(group, factor):
    returns, labels, set_size, rule = group
    np.testing.assert_allclose(
        polychromic_advantages(np.array(returns) * factor, labels, set_size=set_size, homogeneous_zero=rule),
        polychromic_advantages(returns, labels, set_size=set_size, homogeneous_zero=rule) * factor,
        atol=1e-12,
    )


@given(groups_of_rollouts)
def test_mean_return_is_ordinary_rl_up_to_a_constant(group):
    returns, _, set_size, _ = group
    size = len(returns)
    sets = all_sets(size, set_size)
    advantages = set_advantages(score_sets(sets, returns, objective=mean_return), sets, size)
    factor = (size - set_size) / (set_size * (size - 1))
    np.testing.assert_allclose(advantages, factor * (np.array(returns) - np.mean(returns)), atol=1e-12)


@given(groups_of_rollouts)
def test_with_all_labels_distinct_it_is_the_advantage_of_the_mean_return(group):
    returns, _, set_size, _ = group
    assume(set_size > 1)
    size = len(returns)
    got = polychromic_advantages(returns, list(range(size)), set_size=set_size)
    factor = (size - set_size) / (set_size * (size - 1))
    np.testing.assert_allclose(got, factor * (np.array(returns) - np.mean(returns)), atol=1e-12)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1), st.integers(0, 2)), min_size=1, max_size=30))
def test_flat_groups_of_any_size_equal_one_call_per_group(rows):
    ids, returns, labels = (list(column) for column in zip(*rows, strict=True))
    smallest = min(ids.count(i) for i in set(ids))
    flat = polychromic_advantages(returns, labels, set_size=smallest, group_ids=[f"prompt {i}" for i in ids])
    for name in set(ids):
        rows_of = [row for row, i in enumerate(ids) if i == name]
        one = polychromic_advantages(np.array(returns)[rows_of], np.array(labels)[rows_of], set_size=smallest)
        np.testing.assert_allclose(flat[rows_of], one, atol=1e-12)


def test_leading_axes_are_groups():
    rng = np.random.default_rng(0)
    returns, labels = rng.random((3, 4, 8)), rng.integers(0, 3, (3, 4, 8))
    together = polychromic_advantages(returns, labels, set_size=4)
    assert together.shape == (3, 4, 8)
    np.testing.assert_allclose(together[2, 1], polychromic_advantages(returns[2, 1], labels[2, 1], set_size=4))


def test_arrays_of_other_libraries_are_read():
    import jax.numpy as jnp

    expected = polychromic_advantages([1.0, 0.0, 1.0, 0.5], [0, 0, 1, 2], set_size=2)
    got = polychromic_advantages(jnp.array([1.0, 0.0, 1.0, 0.5]), jnp.array([0, 0, 1, 2]), set_size=2)
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize(
    ("settings_", "reason"),
    [
        ({"set_size": 4}, "the whole group"),
        ({"set_size": 2, "num_sets": 1}, "num_sets is 1"),
        ({"set_size": 1}, "a set of one is homogeneous"),
    ],
)
def test_settings_that_teach_nothing_are_warned_of(settings_, reason):
    with pytest.warns(DegenerateSetsWarning, match=f"every advantage is 0.*{reason}"):
        advantages = polychromic_advantages([1.0, 0.0, 1.0, 0.5], [0, 0, 1, 2], **settings_)
    np.testing.assert_array_equal(advantages, 0)


def test_a_group_without_signal_is_exactly_zero():
    for labels, returns in (([3] * 6, np.random.default_rng(0).random(6)), (range(6), np.full(6, 0.7))):
        np.testing.assert_array_equal(polychromic_advantages(returns, list(labels), set_size=3), 0)


def test_the_leave_one_out_baseline_scales_by_the_number_of_sets():
    arguments = ([1.0, 0.0, 1.0, 0.5], [0, 0, 1, 2])
    for num_sets, count in (("all", 6), (3, 3)):
        plain, scaled = (
            polychromic_advantages(*arguments, set_size=2, num_sets=num_sets, baseline=baseline, rng=0)
            for baseline in ("mean", "leave_one_out")
        )
        np.testing.assert_allclose(scaled, plain * count / (count - 1))


def test_no_groups_are_no_problem():
    for num_sets in ("all", 3):
        got = polychromic_advantages(np.zeros((0, 4)), np.zeros((0, 4)), set_size=2, num_sets=num_sets)
        assert got.shape == (0, 4)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, bool, np.float32, "U3", object])
def test_labels_of_any_dtype(dtype):
    labels = np.array([0, 0, 1, 1]).astype(dtype)
    expected = polychromic_advantages([1.0, 0.0, 1.0, 0.5], [0, 0, 1, 1], set_size=2)
    np.testing.assert_allclose(polychromic_advantages([1.0, 0.0, 1.0, 0.5], labels, set_size=2), expected)


def test_a_seed_repeats_the_random_sets():
    arguments = ([1.0, 0.0, 1.0, 0.5], [0, 0, 1, 2])
    first = polychromic_advantages(*arguments, set_size=2, num_sets=3, rng=4)
    np.testing.assert_array_equal(first, polychromic_advantages(*arguments, set_size=2, num_sets=3, rng=4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"set_size": 5}, "set_size is 5; it must be between 1 and 4"),
        ({"set_size": 0}, "set_size is 0"),
        ({"num_sets": "some"}, "num_sets is 'some'; choose one of 'all'"),
        ({"num_sets": 0}, "num_sets is 0"),
        ({"num_sets": 2.5}, "num_sets is 2.5; it must be a whole number"),
        ({"baseline": "zero"}, "baseline is 'zero'"),
        ({"homogeneous_zero": "no"}, "homogeneous_zero is 'no'"),
        ({"num_sets": 2, "rng": "a"}, "rng is 'a'"),
        ({"credit": "best"}, "credit is 'best'"),
        ({"credit": "last"}, "credit is 'last' with num_sets='all'"),
        ({"returns": [0.0, 1.0, 2.0, 0.5]}, r"returns spans \[0, 2\]"),
        ({"returns": [0.0, 1.0, -0.5, 0.5]}, r"returns spans \[-0.5, 1\]"),
        ({"returns": [0.0, 1.0, np.nan, 0.5]}, r"returns\[2\] is nan"),
        ({"returns": 3.0}, "at least 1 axis"),
        ({"labels": [0, 1, 2]}, "labels has length 3 where 4 are needed"),
        ({"group_ids": ["a", "a", "a", "b"]}, "group 'b' has 1 rollout"),
        ({"group_ids": [0, 0, 1]}, "group_ids has length 3 where 4"),
        ({"returns": np.zeros((2, 2)), "labels": np.zeros((2, 2)), "group_ids": [0, 1]}, "must be flat"),
        ({"returns": np.zeros((2, 0)), "labels": np.zeros((2, 0))}, "at least one rollout"),
    ],
)
def test_bad_input_is_named(arguments, message):
    given_arguments = {"returns": [0.0, 1.0, 1.0, 0.5], "labels": [0, 1, 1, 2], "set_size": 2} | arguments
    with pytest.raises(UserError, match=message):
        polychromic_advantages(given_arguments.pop("returns"), given_arguments.pop("labels"), **given_arguments)

from math import comb

import numpy as np
import pytest

from polychromic import UserError, all_sets, disjoint_sets, random_sets


def test_random_sets_have_the_asked_shape_and_distinct_members():
    sets = random_sets(8, 4, 5, groups=(3, 2), rng=0)
    assert sets.shape == (3, 2, 5, 4)
    assert (np.diff(sets, axis=-1) > 0).all()
    assert sets.min() >= 0
    assert sets.max() < 8


def test_random_sets_are_uniform_over_all_subsets():
    sets = random_sets(5, 2, 40_000, rng=1)
    _, counts = np.unique(sets, axis=0, return_counts=True)
    assert len(counts) == comb(5, 2)
    # Each count is binomial with mean 4,000 and standard deviation 60.
    assert np.abs(counts - 4000).max() < 5 * 60


def test_random_sets_of_groups_differ_and_a_seed_repeats_them():
    first, second = random_sets(8, 4, 4, groups=(2,), rng=7)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(random_sets(8, 4, 4, groups=(2,), rng=7)[0], first)


def test_all_sets_lists_every_subset_once():
    sets = all_sets(6, 3)
    assert sets.shape == (20, 3)
    assert len({frozenset(s.tolist()) for s in sets}) == 20


def test_all_sets_refuses_what_cannot_be_enumerated_and_names_the_closed_form():
    with pytest.raises(UserError, match=r"num_rollouts = 136.*closed form"):
        all_sets(136, 64)


@pytest.mark.parametrize(("num_rollouts", "set_size"), [(8, 4), (10, 3), (5, 5), (7, 1)])
def test_disjoint_sets_share_no_rollout(num_rollouts, set_size):
    sets = disjoint_sets(num_rollouts, set_size, groups=(6,), rng=0)
    assert sets.shape == (6, num_rollouts // set_size, set_size)
    for group in sets.reshape(6, -1):
        assert len(set(group.tolist())) == group.size


def test_disjoint_sets_are_shuffled():
    first, second = disjoint_sets(8, 4, groups=(2,), rng=0)
    assert not np.array_equal(first, second)
    mates = disjoint_sets(4, 2, groups=(3000,), rng=1)
    with_zero = mates[:, 0][(mates[:, 0] == 0).any(axis=1)]
    counts = np.bincount(with_zero[with_zero > 0], minlength=4)
    assert counts[1:].min() > 0.8 * counts[1:].max()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_sets(4, 2, 2, groups=3), "groups is 3"),
        (lambda: random_sets(4, 2, 2, groups=(-1,)), "groups is -1"),
        (lambda: random_sets(4, 2, 2, groups=(2.5,)), "groups is 2.5"),
        (lambda: random_sets(4, 2, 2, rng="a"), "rng is 'a'"),
        (lambda: random_sets(4, 2, 2, rng=-1), "rng is -1"),
        (lambda: disjoint_sets(4, 2, rng=1.5), "rng is 1.5"),
    ],
)
def test_bad_groups_and_seeds_are_named(call, message):
    with pytest.raises(UserError, match=message):
        call()


@pytest.mark.parametrize("former", [lambda n, k: random_sets(n, k, 2), all_sets, disjoint_sets])
@pytest.mark.parametrize("set_size", [0, 9, 2.5, True])
def test_a_set_size_that_does_not_fit_is_named(former, set_size):
    with pytest.raises(UserError, match=r"set_size is"):
        former(8, set_size)

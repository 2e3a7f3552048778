import numpy as np
import pytest

from polychromic import (
    UserError,
    all_sets,
    leave_one_out_advantages,
    mean_return,
    polychromic_objective,
    random_sets,
    score_sets,
    set_advantages,
)

SCORES = np.array([0.6, 0.0, 0.3])
SETS = np.array([[0, 1], [1, 2], [0, 1]])


def test_credits_by_hand():
    # f - mean = 0.3, -0.3, 0; N / (M n) = 4/6; rollout 3 is in no set.
    np.testing.assert_allclose(set_advantages(SCORES, SETS, 4), np.array([0.3, 0.0, -0.3, 0.0]) * 4 / 6)
    np.testing.assert_allclose(set_advantages(SCORES, SETS, 4, credit="mean"), [0.15, 0.0, -0.3, 0.0])
    np.testing.assert_allclose(set_advantages(SCORES, SETS, 4, credit="last"), [0.0, 0.0, -0.3, 0.0])


def test_leave_one_set_out_compares_with_the_other_sets():
    expected = [SCORES[i] - np.delete(SCORES, i).mean() for i in range(3)]
    got = set_advantages(SCORES, [[0], [1], [2]], 3, baseline="leave_one_out")
    np.testing.assert_allclose(got, expected)


def test_groups_are_independent_and_may_share_their_sets():
    rng = np.random.default_rng(0)
    scores = rng.random((2, 3, 5))
    shared = random_sets(8, 4, 5, rng=1)
    own = np.broadcast_to(shared, (2, 3, 5, 4))
    for credit in ("sum", "mean", "last"):
        together = set_advantages(scores, shared, 8, credit=credit)
        np.testing.assert_allclose(together, set_advantages(scores, own, 8, credit=credit))
        np.testing.assert_allclose(together[1, 2], set_advantages(scores[1, 2], shared, 8, credit=credit))


def test_mean_credit_over_unbalanced_sets_is_not_zero_sum_but_sum_credit_is():
    sets = random_sets(8, 4, 4, groups=(50,), rng=3)
    scores = np.random.default_rng(4).random((50, 4))
    assert np.abs(set_advantages(scores, sets, 8).sum(axis=-1)).max() < 1e-12
    assert np.abs(set_advantages(scores, sets, 8, credit="mean").sum(axis=-1)).max() > 1e-2


def test_leave_one_out_credit_by_hand():
    # Set {0, 1, 2}, returns 1, 0, 1, labels x, y, y: f = 2/3 * 2/3. Without 0: 1/2 * 0; without 1: 1 * 1;
    # without 2: 1/2 * 1.
    whole = 4 / 9
    got = leave_one_out_advantages([[0, 1, 2]], [1.0, 0.0, 1.0], labels=["x", "y", "y"])
    np.testing.assert_allclose(got, [whole, whole - 1, whole - 0.5])


def test_leave_one_out_credit_separates_the_members_of_a_set_where_set_credit_does_not():
    returns, labels, sets = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0]), [0, 1, 2, 2, 2, 0], [[0, 1, 2], [3, 4, 5]]
    shared = set_advantages(score_sets(sets, returns, labels=labels), sets, 6)
    own = leave_one_out_advantages(sets, returns, labels=labels)
    for members in sets:
        assert len(set(shared[members])) == 1
        assert len(set(own[members])) > 1


def test_leave_one_out_credit_of_the_mean_return():
    # f(g) - f(g without i) = (R_i - mean of the others) / n.
    returns = np.array([0.9, 0.1, 0.4, 0.7])
    sets = all_sets(4, 4)
    got = leave_one_out_advantages(sets, returns, objective=mean_return)
    others = (returns.sum() - returns) / 3
    np.testing.assert_allclose(got, (returns - others) / 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"credit": "most"}, "credit is 'most'; choose one of 'sum', 'mean', 'last'"),
        ({"baseline": "zero"}, "baseline is 'zero'"),
        ({"num_rollouts": 2}, "sets holds indices from 0 to 2"),
        ({"num_rollouts": 0}, "num_rollouts is 0"),
        ({"scores": [0.5]}, r"scores has shape \(1,\) and sets has shape \(3, 2\).*one score per set"),
        ({"num_rollouts": 2**62}, "num_rollouts is 4611686018427387904 and scores has 1 groups: 4.61e"),
        ({"scores": [0.5, np.inf, 0.0]}, r"scores\[1\] is inf"),
        ({"scores": [0.5], "sets": [[0, 1]], "baseline": "leave_one_out"}, "at least 2 sets"),
        ({"scores": np.zeros((2, 3)), "sets": np.broadcast_to(SETS, (4, 3, 2))}, "group axes must agree"),
    ],
)
def test_bad_input_is_named(arguments, message):
    given = {"scores": SCORES, "sets": SETS, "num_rollouts": 4} | arguments
    with pytest.raises(UserError, match=message):
        set_advantages(given.pop("scores"), given.pop("sets"), given.pop("num_rollouts"), **given)


def test_leave_one_out_names_group_axes_that_disagree():
    with pytest.raises(UserError, match="group axes must agree"):
        leave_one_out_advantages(np.broadcast_to([0, 1], (5, 1, 2)), np.zeros((4, 3)), labels=np.zeros((4, 3)))


def test_leave_one_out_needs_two_members():
    with pytest.raises(UserError, match="at least 2 members"):
        leave_one_out_advantages([[0]], [1.0], labels=[0], objective=polychromic_objective)

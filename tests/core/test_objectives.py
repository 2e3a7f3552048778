import warnings

import numpy as np
import pytest

from polychromic import (
    PolychromicConditionWarning,
    UserError,
    all_sets,
    best_of,
    distinct_fraction,
    mean_pairwise_distance,
    mean_return,
    polychromic_objective,
    product_objective,
    score_sets,
)


def test_objectives_by_hand():
    returns = [[1.0, 0.0, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]]
    np.testing.assert_allclose(mean_return(returns), [0.5, 1.0])
    np.testing.assert_allclose(best_of(returns), [1.0, 1.0])
    np.testing.assert_allclose(polychromic_objective(returns, [0.75, 0.0]), [0.375, 0.0])


def test_score_sets_indexes_labels_given_once_a_group():
    sets = [[0, 1], [1, 2], [0, 2]]
    scores = score_sets(sets, [1.0, 0.0, 0.5], labels=["x", "x", "y"])
    np.testing.assert_allclose(scores, [0.0, 0.25, 0.75])


def test_score_sets_calls_the_diversity_once_for_all_sets():
    shapes = []

    def diversity(labels):
        shapes.append(labels.shape)
        return distinct_fraction(labels)

    score_sets(all_sets(6, 3), np.zeros((5, 6)), labels=np.zeros((5, 6), int), diversity=diversity)
    assert shapes == [(5, 20, 3)]


def test_score_sets_reads_a_kernel():
    kernel = np.array([[1.0, 0.2, 0.6], [0.2, 1.0, 0.0], [0.6, 0.0, 1.0]])
    scores = score_sets([[0, 1], [1, 2]], [1.0, 1.0, 0.0], kernel=kernel, diversity=mean_pairwise_distance)
    np.testing.assert_allclose(scores, [0.8, 0.5])


def test_labels_may_be_any_hashable_objects():
    rooms = [frozenset({1, 2}), frozenset({2, 1}), frozenset({1})]
    np.testing.assert_allclose(score_sets([[0, 1], [0, 2]], [1, 1, 1], labels=rooms), [0.0, 1.0])
    paths = [(0, 1), (0, 1), (0, 2)]
    np.testing.assert_allclose(score_sets([[0, 1], [0, 2]], [1, 1, 1], labels=paths), [0.0, 1.0])


def test_labels_that_numpy_would_merge_stay_apart():
    np.testing.assert_allclose(score_sets([[0, 1]], [1, 1], labels=[1, "1"]), [1.0])
    np.testing.assert_allclose(score_sets([[0, 1]], [1, 1], labels=[2**63, 2**63 + 1]), [1.0])


class OnAnotherDevice:
    """An array that NumPy cannot read, as tensors on a GPU are."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return (OnAnotherDevice(value) for value in self.values)

    def __array__(self, *_args, **_options):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def test_labels_on_another_device_are_refused_and_not_counted_as_all_different():
    with pytest.raises(UserError, match="labels cannot be read as an array: can't convert cuda:0"):
        score_sets([[0, 1]], [1.0, 1.0], labels=OnAnotherDevice([0, 0]))
    with pytest.raises(UserError, match="compared by identity"):
        score_sets([[0, 1]], [1.0, 1.0], labels=[OnAnotherDevice(0), OnAnotherDevice(0)])


def test_diversity_must_have_one_value_per_set():
    with pytest.raises(UserError, match=r"diversity has shape \(3, 1\); returns have \(3,\) sets"):
        polychromic_objective(np.ones((3, 4)), np.ones((3, 1)))
    with pytest.raises(UserError, match=r"diversity has shape \(3,\)"):
        product_objective(best_of)(np.ones((5, 4)), np.ones(3))


def test_rounding_just_outside_the_range_is_forgiven():
    assert polychromic_objective([np.float32(1 + 2**-23), 1.0], 1.0) == 1.0


def test_objectives_without_diversity_need_no_labels():
    np.testing.assert_allclose(score_sets([[0, 2]], [1.0, 0.0, 0.5], objective=best_of), [1.0])


def test_a_users_objective_and_diversity_are_plain_callables():
    spread = score_sets(
        [[0, 1], [0, 2]],
        [1.0, 0.0, 0.5],
        labels=[0.0, 3.0, 10.0],
        diversity=lambda positions: np.ptp(positions, axis=-1) / 10,
        objective=lambda returns, diversity: best_of(returns) + diversity,
    )
    np.testing.assert_allclose(spread, [1.3, 2.0])


def test_product_objective_multiplies_its_parts():
    objective = product_objective(best_of, np.sqrt)
    np.testing.assert_allclose(objective([0.2, 0.8], 0.25), 0.4)


@pytest.mark.parametrize("ranges", [((0, 1), (0, 2)), ((0, 2), (0, 1)), ((1, 1), (1, 1))])
def test_product_objective_needs_one_range(ranges):
    with pytest.raises(UserError, match="one common range"):
        product_objective(mean_return, reward_range=ranges[0], diversity_range=ranges[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward_range": 5}, "reward_range is 5; it must be a pair"),
        ({"diversity_range": (0, 1, 2)}, "diversity_range is"),
        ({"diversity_part": 3}, "diversity_part is 3; it must be a function"),
    ],
)
def test_product_objective_names_bad_arguments(arguments, message):
    with pytest.raises(UserError, match=message):
        product_objective(best_of, **arguments)


def test_product_objective_refuses_values_outside_its_range():
    with pytest.raises(UserError, match=r"reward_part spans \[0, 2\]; its declared range is \[0, 1\]"):
        product_objective(best_of)([[2.0, 0.0], [0.0, 0.0]], [0.5, 0.5])
    with pytest.raises(UserError, match="diversity_part spans"):
        product_objective(best_of, lambda d: 3 * d)([1.0, 0.0], 0.5)


RETURNS = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
LABELS = np.array([0, 0, 0, 0, 1, 2])


def test_product_objective_is_silent_where_the_conditions_hold():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score_sets(all_sets(6, 3), RETURNS, labels=LABELS, objective=product_objective(mean_return))


def test_product_objective_does_not_warn_of_rounding():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rng = np.random.default_rng(0)
        for _ in range(200):
            constant = np.full(6, rng.random())
            score_sets(all_sets(6, 3), constant, labels=LABELS, objective=product_objective(mean_return))


def test_product_objective_warns_with_figures_where_they_fail():
    sets = all_sets(6, 3)
    with pytest.warns(PolychromicConditionWarning, match=r"Cov\(reward part, sum of returns\) = -0\.\d+"):
        score_sets(sets, RETURNS, labels=LABELS, objective=product_objective(lambda r: 1 - mean_return(r)))
    with pytest.warns(PolychromicConditionWarning, match=r"most common label\) = 0\.\d+, should be < 0"):
        score_sets(sets, RETURNS, labels=LABELS, objective=product_objective(mean_return, lambda d: 1 - d))


def test_condition_figures_are_the_covariances():
    sets = all_sets(6, 3)
    objective = product_objective(mean_return)
    diversity = distinct_fraction(LABELS[sets])
    figures = objective.conditions(RETURNS[sets], diversity, LABELS[sets])
    total = RETURNS[sets].sum(axis=-1)
    np.testing.assert_allclose(figures.reward_covariance, np.cov(total / 3, total, bias=True)[0, 1])
    count = (LABELS[sets] == 0).sum(axis=-1)
    np.testing.assert_allclose(figures.homogeneity_covariance, np.cov(diversity, count, bias=True)[0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [0, 1]}, "labels has length 2 where 3"),
        ({"labels": [0, 1, [2]]}, "cannot be hashed"),
        ({"labels": "abc"}, r"labels has shape \(\) where \(3,\)"),
        ({"returns": [1.0, np.nan, 0.0]}, r"returns\[1\] is nan"),
        ({"returns": [1.0, 7.0, 0.0]}, r"returns spans \[1, 7\].*in \[0, 1\]"),
        ({"returns": "high"}, "returns cannot be read as an array of real numbers"),
        ({"sets": [[0, 3]]}, "sets holds indices from 0 to 3; a group has rollouts 0 to 2"),
        ({"sets": [[1, 1]]}, "names a rollout twice"),
        ({"sets": [[0, 1], [2]]}, "sets cannot be read as an array"),
        ({"sets": [[0.0, 1.0]]}, "sets has dtype float64"),
        ({"returns": []}, "a group has no rollouts"),
        ({"returns": [1j, 0, 0]}, "real numbers"),
        ({"returns": ["1", "0", "0"]}, "real numbers"),
        ({"returns": np.ma.array([1.0, 0.0, 0.0], mask=[0, 1, 0])}, "masked array"),
        ({"labels": np.zeros((3, 1))}, r"labels has shape \(3, 1\) where \(3,\) is needed"),
        ({"labels": {0: 1, 1: 1, 2: 1}}, "labels has shape"),
        ({"labels": [object(), object(), object()]}, "compared by identity"),
        ({"labels": [float("nan"), "a", "b"]}, "labels holds NaN"),
        ({"labels": np.array([np.nan, "a", "b"], dtype=object)}, "labels holds NaN"),
        ({"labels": [complex("nan"), 1j, 2j]}, "labels holds NaN"),
        ({"labels": np.array([np.nan * 1j, 1j, 1j])}, "labels holds NaN"),
        ({"labels": np.array(["NaT", "NaT", "2020-01-01"], "M8[D]")}, "labels holds NaT"),
        ({"labels": np.array(["NaT", 1, 2], "m8[s]")}, "labels holds NaT"),
        ({"labels": [np.datetime64("NaT"), "a", "b"]}, "labels holds NaT"),
        ({"labels": [(1, float("nan")), (1, 2), (1, 2)]}, "labels holds NaN"),
        ({"labels": [("a", object()), ("a", 1), ("b", 1)]}, "compared by identity"),
        ({"labels": None}, "diversity is missing; give the labels or the kernel"),
        ({"sets": [0, 1]}, r"sets has shape \(2,\)"),
        (
            {"sets": np.broadcast_to([0, 1], (5, 1, 2)), "returns": np.zeros((4, 3)), "labels": np.zeros((4, 3))},
            "group axes must agree",
        ),
        ({"kernel": np.eye(3)}, "both given"),
        ({"labels": None, "kernel": np.eye(2)}, r"kernel has shape \(2, 2\)"),
        ({"labels": None, "diversity": distinct_fraction}, "without labels or a kernel"),
        ({"diversity": lambda labels: labels}, "diversity returned shape"),
        ({"diversity": lambda labels: 2.0 + 0 * labels[..., 0]}, r"diversity spans \[2, 2\]"),
        ({"objective": lambda returns, _: returns}, "objective returned shape"),
    ],
)
def test_bad_input_is_named(arguments, message):
    given = {"sets": [[0, 1]], "returns": [1.0, 0.0, 0.5], "labels": [0, 1, 1]} | arguments
    with pytest.raises(UserError, match=message):
        score_sets(given.pop("sets"), given.pop("returns"), **given)


def test_features_reach_a_diversity_of_ones_own():
    features = np.arange(2 * 4 * 3).reshape(2, 4, 3)
    sets = np.array([[0, 1], [2, 3], [1, 3]])
    seen = []

    def widest(members):
        seen.append(members)
        return np.ptp(members[..., 0], axis=-1) / 9

    scores = score_sets(sets, np.ones((2, 4)), features=features, diversity=widest)
    np.testing.assert_allclose(scores, [[1 / 3, 1 / 3, 2 / 3]] * 2)
    np.testing.assert_array_equal(seen[0][1, 2], features[1, [1, 3]])
    with pytest.raises(UserError, match="without a diversity that reads them"):
        score_sets(sets, np.ones((2, 4)), features=features)
    with pytest.raises(UserError, match=r"features has shape \(2, 3, 3\)"):
        score_sets(sets, np.ones((2, 4)), features=features[:, :3], diversity=widest)
    with pytest.raises(UserError, match="labels and features are both given"):
        score_sets(sets, np.ones((2, 4)), labels=np.ones((2, 4)), features=features, diversity=widest)

"""Estimates and their intervals, against exact values."""

import numpy as np
import pytest

from polychromic import UserError, evaluate_policy, exact_scores, pass_at_k
from polychromic.core.intervals import mean_interval
from polychromic.finetuning.attempts import attempt, attempt_all
from polychromic.policies.distributions import CATEGORICAL
from polychromic.policies.inference import Evaluator


@pytest.fixture(scope="module")
def evaluation(fourrooms, saved):
    return evaluate_policy(fourrooms, saved, attempts=160, temperatures=(1.0, 0.5), pretrained=saved)


def test_estimates_agree_with_exact_values_within_their_intervals(evaluation):
    for part in (evaluation["result"], evaluation["best"]):
        exact = part["exact"]
        for name in ("success", "reward_0.5", "reward_0.9"):
            assert part[name]["low"] <= exact[name] <= part[name]["high"], name
        curve = part["pass_at_k"]
        assert len(curve["mean"]) == 160
        for low, value, high in zip(curve["low"], exact["pass_at_k"], curve["high"], strict=True):
            assert low - 1e-6 <= value <= high + 1e-6
        # Much closer than the intervals, which hold the choice of configurations too.
        assert abs(exact["success"] - part["success"]["mean"]) < 4 * np.sqrt(0.25 / (12 * 160))
    assert 0.05 < evaluation["result"]["exact"]["success"] < 0.95


@pytest.mark.parametrize("k", [1, 4])
def test_95_percent_intervals_hold_the_truth_as_often_as_they_say(fourrooms, saved, k):
    """Simulated: 50 configurations drawn from a population with exactly known chances, 32 attempts each."""
    population = exact_scores(fourrooms, Evaluator(saved.policy, saved.params)).success
    truth = (1 - (1 - population) ** k).mean()
    rng = np.random.default_rng(0)
    held, repetitions = 0, 600
    for _ in range(repetitions):
        chances = rng.choice(population, 50)
        estimates = pass_at_k(32, rng.binomial(32, chances), k)
        _, low, high = mean_interval(estimates, rng=rng, resamples=500)
        held += low <= truth <= high
    # Percentile intervals of 50 configurations fall a little short of 95 %; chance alone moves this by ± 1.8 %.
    assert 0.915 <= held / repetitions <= 0.975


def test_weights_make_ratios():
    mean, low, high = mean_interval([0.0, 1.0, 0.5], weights=[1, 3, 0])
    assert mean == pytest.approx(0.75)
    assert low <= mean <= high


def test_intervals_of_several_metrics_are_those_of_each():
    values = np.random.default_rng(0).random((30, 3))
    together = mean_interval(values, rng=7)
    for column in range(3):
        np.testing.assert_allclose([part[column] for part in together], mean_interval(values[:, column], rng=7))


def test_both_reward_scales_follow_from_steps(fourrooms, saved):
    evaluator = Evaluator(saved.policy, saved.params)
    attempts = attempt_all(evaluator, fourrooms, np.random.default_rng(0), attempts=20)
    horizons = np.full(len(attempts), 100)
    np.testing.assert_allclose(attempts.rescaled_rewards(horizons, 0.5), attempts.rewards, atol=1e-6)
    lower = attempts.rescaled_rewards(horizons, 0.9)
    np.testing.assert_allclose(lower[attempts.success], 1 - 0.9 * attempts.lengths[attempts.success] / 100)
    assert (lower[~attempts.success] == 0).all()
    assert (attempts.lengths[~attempts.success] == 100).all()


def test_attempts_replay_from_their_actions(fourrooms, saved):
    evaluator = Evaluator(saved.policy, saved.params)
    attempts = attempt_all(evaluator, fourrooms, np.random.default_rng(1), attempts=3)
    for number in (0, 10, 35):
        state = fourrooms.start([number // 3])
        places, reward = [int(fourrooms.places(state)[0])], 0.0
        for action in attempts.actions[number, : attempts.lengths[number]]:
            reward += float(fourrooms.step(state, [int(action)]).reward[0])
            places.append(int(fourrooms.places(state)[0]))
        assert fourrooms.ended(state)[0]
        assert reward == pytest.approx(float(attempts.rewards[number]))
        assert places == attempts.visited(number).tolist()


def test_equal_strategies_are_equal_sets_of_rooms(fourrooms, saved):
    evaluator = Evaluator(saved.policy, saved.params)
    attempts = attempt(evaluator, fourrooms, fourrooms.start(np.zeros(60, int)), np.random.default_rng(2))
    sets = [frozenset(attempts.visited(number).tolist()) for number in range(60)]
    assert len(set(sets)) == len(set(attempts.strategies.tolist())) > 1
    assert len({*zip(sets, attempts.strategies.tolist(), strict=True)}) == len(set(sets))


def test_entropy_of_known_distributions():
    np.testing.assert_allclose(CATEGORICAL.entropy(np.log([[0.5, 0.5], [0.9, 0.1]])), [np.log(2), 0.3250829733914482])
    np.testing.assert_allclose(CATEGORICAL.entropy(np.array([[3.0, 3.0, 3.0]]), 0.3), [np.log(3)])
    assert CATEGORICAL.entropy(np.array([[3.0, 1.0]]), 0.0) == 0


def test_an_evaluation_repeats(fourrooms, saved):
    first, second = (evaluate_policy(fourrooms, saved, attempts=8, temperatures=(1.0, 0.5)) for _ in range(2))
    assert first == second
    other = evaluate_policy(fourrooms, saved, attempts=8, seed=1)
    assert other["result"]["configurations"] != first["result"]["configurations"]


def test_an_evaluation_says_what_it_was_made_with(evaluation):
    assert len(evaluation["policy"]["hash"]) == 16
    assert evaluation["level_seeds"] == list(range(12))
    assert {"polychromic", "jax", "numpy", "minigrid", "python"} <= set(evaluation["versions"])
    best = max(evaluation["sweep"], key=lambda metrics: metrics["success"]["mean"])
    assert evaluation["best"]["temperature"] == best["temperature"]


def test_recordings_show_each_strategy_once_as_it_was_played(evaluation, fourrooms):
    for configuration, shown in enumerate(evaluation["result"]["recordings"]):
        rooms = [frozenset(strategy["rooms"]) for strategy in shown["strategies"]]
        assert len(set(rooms)) == len(rooms) == min(shown["distinct"], 6)
        assert sum(strategy["count"] for strategy in shown["strategies"]) <= 160
        for strategy in shown["strategies"]:
            path = np.reshape(strategy["path"], (-1, 3))
            assert len(path) == strategy["steps"] + 1
            assert path[0, :2].tolist() == fourrooms.positions(fourrooms.start([configuration]))[0].tolist()
            assert np.abs(np.diff(path[:, :2], axis=0)).sum(axis=1).max() <= 1
            if strategy["solved"]:
                x, y = path[-1, :2]
                assert evaluation["legend"][str(shown["grid"][x * 19 + y])] == ["goal", ""]


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"temperature": -1.0}, {"temperatures": (float("nan"),)}])
def test_wrong_choices_are_refused(fourrooms, saved, wrong):
    with pytest.raises(UserError, match=r"must be"):
        evaluate_policy(fourrooms, saved, **wrong)

"""The distributions that actions are drawn from, against sums over all actions and integrals over a fine grid."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polychromic.errors import UserError
from polychromic.policies.distributions import CATEGORICAL, Categoricals, Normal

NORMAL = Normal()
ONE = np.array([0.3, math.log(0.7)], np.float32)  # a mean, a log standard deviation
OTHER = np.array([-0.4, math.log(1.1)], np.float32)
GRID = np.linspace(-12, 12, 48_001)
STEP = GRID[1] - GRID[0]


def density(parameters, temperature=1.0):
    """exp(log_prob) at every point of the grid, in double precision."""
    return np.exp(np.asarray(NORMAL.at(parameters, temperature).log_prob(GRID[:, None].astype(np.float32)), np.float64))


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_a_normal_density_is_one(temperature):
    weights = density(ONE, temperature) * STEP
    mean = (weights * GRID).sum()
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert mean == pytest.approx(0.3, abs=1e-5)
    assert math.sqrt((weights * (GRID - mean) ** 2).sum()) == pytest.approx(0.7 * temperature, abs=1e-5)


def test_entropy_and_divergence_are_the_integrals():
    ours, theirs = density(ONE), density(OTHER)
    seen = ours > 1e-30
    entropy = -(ours[seen] * np.log(ours[seen])).sum() * STEP
    divergence = (ours[seen] * np.log(ours[seen] / theirs[seen])).sum() * STEP
    assert float(NORMAL.at(ONE).entropy()) == pytest.approx(entropy, abs=1e-4)
    assert float(NORMAL.at(ONE).kl(NORMAL.at(OTHER))) == pytest.approx(divergence, abs=1e-4)
    assert float(NORMAL.at(ONE).kl(NORMAL.at(ONE))) == 0
    assert NORMAL.entropy(ONE[None])[0] == pytest.approx(entropy, abs=1e-4)
    assert NORMAL.entropy(ONE[None], 0.5)[0] == pytest.approx(entropy + math.log(0.5), abs=1e-4)
    assert NORMAL.entropy(ONE[None], 0.0)[0] == 0


def test_gradients_are_the_closed_forms():
    action = jnp.array([1.1])
    slopes = jax.grad(lambda parameters: NORMAL.at(parameters).log_prob(action))(jnp.asarray(ONE))
    off = (1.1 - 0.3) / 0.7
    np.testing.assert_allclose(slopes, [off / 0.7, off**2 - 1], rtol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda parameters: NORMAL.at(parameters).entropy())(jnp.asarray(ONE)), [0, 1])
    toward = jax.grad(lambda parameters: NORMAL.at(ONE).kl(NORMAL.at(parameters)))
    np.testing.assert_allclose(toward(jnp.asarray(ONE)), [0, 0], atol=1e-6)
    np.testing.assert_allclose(toward(jnp.asarray(OTHER)), [-0.7 / 1.1**2, 1 - (0.7**2 + 0.7**2) / 1.1**2], rtol=1e-5)


def test_entries_of_a_vector_are_independent():
    both = np.array([0.3, -0.4, math.log(0.7), math.log(1.1)], np.float32)
    action = np.array([0.9, -2.0], np.float32)
    alone = [float(NORMAL.at(one).log_prob(action[[k]])) for k, one in enumerate((ONE, OTHER))]
    assert float(NORMAL.at(both).log_prob(action)) == pytest.approx(sum(alone), rel=1e-6)
    assert float(NORMAL.at(both).entropy()) == pytest.approx(
        sum(float(NORMAL.at(one).entropy()) for one in (ONE, OTHER)), rel=1e-6
    )


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_what_is_drawn_has_the_density_that_is_told(temperature):
    parameters = np.tile(np.array([2.0, -5.0, math.log(0.5), math.log(3.0)], np.float32), (40_000, 1))
    actions, told = NORMAL.sample(parameters, np.random.default_rng(0), temperature)
    assert (actions.dtype, actions.shape) == (np.float32, (40_000, 2))
    np.testing.assert_allclose(actions.mean(axis=0), [2.0, -5.0], atol=0.05)
    np.testing.assert_allclose(actions.std(axis=0), np.array([0.5, 3.0]) * temperature, rtol=0.02)
    np.testing.assert_allclose(told, NORMAL.at(parameters, temperature).log_prob(actions), atol=2e-5)
    assert -told.mean() == pytest.approx(NORMAL.entropy(parameters[:1], temperature)[0], abs=0.02)
    greedy, sure = NORMAL.sample(parameters[:2], np.random.default_rng(0), 0.0)
    np.testing.assert_array_equal(greedy, [[2.0, -5.0]] * 2)
    assert not sure.any()
    with pytest.raises(UserError, match="temperature is -1"):
        NORMAL.sample(parameters, np.random.default_rng(0), -1)


def test_several_choices_at_once_are_their_product():
    sizes = (2, 3)
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(size=(2, 5)).astype(np.float32)
    choices, all_actions = Categoricals(sizes), np.array(list(itertools.product(*map(range, sizes))))
    for temperature in (1.0, 0.5):
        chances = [
            np.exp(np.asarray(choices.at(np.tile(one, (6, 1)), temperature).log_prob(all_actions), np.float64))
            for one in (ours, theirs)
        ]
        assert chances[0].sum() == pytest.approx(1, abs=1e-5)
        given, others = (choices.at(one, temperature) for one in (ours, theirs))
        assert float(given.entropy()) == pytest.approx(-(chances[0] * np.log(chances[0])).sum(), abs=1e-5)
        assert float(given.kl(others)) == pytest.approx((chances[0] * np.log(chances[0] / chances[1])).sum(), abs=1e-5)
        assert choices.entropy(ours[None], temperature)[0] == pytest.approx(float(given.entropy()), abs=1e-5)
        drawn, told = choices.sample(np.tile(ours, (40_000, 1)), rng, temperature)
        shares = [(drawn == action).all(axis=1).mean() for action in all_actions]
        np.testing.assert_allclose(shares, chances[0], atol=0.01)
        np.testing.assert_allclose(np.exp(told[:9]), chances[0][drawn[:9, 0] * 3 + drawn[:9, 1]], rtol=1e-4)
    first, second = ours[:2], ours[2:]
    assert choices.mode(ours[None]).tolist() == [[first.argmax(), second.argmax()]]


def test_one_choice_of_many_is_the_categorical_distribution():
    logits = np.random.default_rng(2).normal(size=(50, 4)).astype(np.float32)
    one, both = (kind.sample(logits, np.random.default_rng(3)) for kind in (CATEGORICAL, Categoricals([4])))
    np.testing.assert_array_equal(one[0], both[0][:, 0])
    np.testing.assert_array_equal(one[1], both[1])

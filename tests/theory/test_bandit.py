import numpy as np
import pytest

from polychromic.theory import bandit, dynamics

REWARDS = np.array([1.0, 1.0, 0.0, 0.5])
POLICY = bandit.softmax(np.array([1.3, 0.1, -0.2, -1.0]))


@pytest.mark.parametrize("set_size", [1, 2, 3, 4, 5])
def test_expected_objective_and_its_gradient_in_closed_form_equal_enumeration(set_size):
    sets = bandit.action_sets(4, set_size)
    scores = bandit.polychromic_scores(REWARDS, sets)
    weights = bandit.set_probabilities(POLICY, sets)
    np.testing.assert_allclose(dynamics.expected_polychromic(POLICY, REWARDS, set_size), weights @ scores, atol=1e-13)
    np.testing.assert_allclose(
        dynamics.polychromic_gradient(POLICY, REWARDS, set_size),
        bandit.logit_gradient(POLICY, scores, sets),
        atol=1e-13,
    )


@pytest.mark.parametrize("set_size", [2, 4])
def test_gradient_is_the_slope_of_the_objective(set_size):
    logits = np.log(POLICY)
    gradient = dynamics.polychromic_gradient(POLICY, REWARDS, set_size)
    for action in range(4):
        nudge = np.eye(4)[action] * 1e-6
        ahead, behind = (
            dynamics.expected_polychromic(bandit.softmax(logits + sign * nudge), REWARDS, set_size) for sign in (1, -1)
        )
        assert (ahead - behind) / 2e-6 == pytest.approx(gradient[action], abs=1e-9)


def test_most_overlap():
    assert bandit.most_overlap(np.array([2, 2, 2])) == 9
    assert bandit.most_overlap(np.array([0, 1, 2])) == 3
    assert bandit.most_overlap(np.array([0, 0, 2])) == 6


@pytest.mark.parametrize("step_size", [0.5, 20.0])
def test_ppo_style_update_climbs_the_clipped_objective(step_size):
    """The second epoch's step is the slope of E[min(r A, clip(r) A)] (eq. 2), by finite differences."""
    logits, rewards = np.array([0.5, 0.0, -0.4]), np.array([1.0, 0.0, 0.7])
    old = bandit.softmax(logits)
    advantage = rewards - old @ rewards
    advantage /= np.sqrt(old @ advantage**2)

    def objective(z):
        ratio = bandit.softmax(z) / old
        return old @ np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)

    once = dynamics.ppo_update(logits, rewards, step_size, num_epochs=1)
    twice = dynamics.ppo_update(logits, rewards, step_size, num_epochs=2)
    slope = [(objective(once + nudge) - objective(once - nudge)) / 2e-6 for nudge in np.eye(3) * 1e-6]
    np.testing.assert_allclose((twice - once) / step_size, slope, atol=1e-6)


def test_ppo_style_update_stops_at_the_clip():
    logits, rewards = np.zeros(2), np.array([1.0, 0.0])
    moved = dynamics.ppo_update(logits, rewards, 50.0, num_epochs=20)
    # One huge step passes the clip; no later epoch of the same iteration may push any further.
    np.testing.assert_allclose(moved, dynamics.ppo_update(logits, rewards, 50.0, num_epochs=1))


def test_ordinary_objectives_collapse_and_polychromic_ones_do_not():
    logits = np.array([2.0, 1.2, 0.6, 0.0, -0.6, 1.5, 1.0, 0.5, 0.2, 0.0])
    rewards = np.array([1.0] * 5 + [0.0] * 5)

    def final(update):
        return dynamics.train("", update, logits, rewards, num_steps=1500, step_size=0.2, draws=16)

    for update in (dynamics.reinforce_update, dynamics.ppo_update):
        curve = final(update)
        assert curve.success[-1] > 0.99
        assert curve.distinct_right[-1] < 1.3
    for set_size in (2, 4, 8):
        curve = final(dynamics.polychromic_update(set_size))
        assert curve.success[-1] > 0.9
        assert curve.distinct_right[-1] > 4.5
        assert curve.entropy[-1] > 0.8 * curve.entropy[0]

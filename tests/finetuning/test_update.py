import jax
import numpy as np
import pytest
from small_worlds import cross, table_policy
from test_advantages import FOUR, hand_made

from polychromic.finetuning.config import make_config
from polychromic.finetuning.rollouts import Targets
from polychromic.finetuning.update import Coefficients, all_finite, init_learner, update

WORLD = cross()
SAVED = table_policy(WORLD)
CELLS, ACTIONS = np.array([0, 1, 2, 0, 4, 5, 6, 7, 0]), np.array([0, 1, 2, 3, 0, 1, 2, 3, 1])
ADVANTAGES = np.array([1.0, -0.5, 0.3, 2.0, -1.0, 0.0, 0.7, -0.2, 0.4], np.float32)
NO_EXTRAS = Coefficients(kl=0.0, entropy=0.0)
VALUES = np.linspace(-1, 1, 9).astype(np.float32)


def run(config, rollouts=None, targets=None, learner=None, coefficients=NO_EXTRAS):
    base = hand_made(**FOUR, cells=CELLS, actions=ACTIONS)
    rollouts = rollouts or type(base)(
        **{**base.__dict__, "logits": np.zeros((9, 4), np.float32), "log_probs": np.full(9, np.log(0.25), np.float32)}
    )
    targets = targets or Targets(ADVANTAGES, VALUES, {})
    learner = learner or init_learner(SAVED.params, config)
    return update(SAVED.policy, learner, rollouts, targets, config, coefficients, np.random.default_rng(0))


def one_step(**changes):
    return make_config("ppo", epochs=1, minibatch_size=16, **changes)


def test_figures_of_the_first_gradient_step_by_hand():
    _, stats = run(one_step())
    assert stats["policy_loss"] == pytest.approx(-ADVANTAGES.mean(), abs=1e-6)  # all ratios are 1
    assert stats["value_loss"] == pytest.approx((VALUES**2).mean(), abs=1e-6)  # the critic starts at 0
    assert stats["entropy"] == pytest.approx(np.log(4), abs=1e-6)
    assert stats["kl"] == pytest.approx(0, abs=1e-7)
    assert stats["clip_fraction"] == 0


def policy_gradient():
    """−∇ of mean A log π at the uniform policy, by hand: [cells, actions]."""
    slope = np.zeros((len(WORLD.moves), 4))
    for cell, action, advantage in zip(CELLS, ACTIONS, ADVANTAGES, strict=True):
        slope[cell] -= advantage * (np.eye(4)[action] - 0.25) / 9
    return slope


@pytest.mark.parametrize("method", ["ppo", "reinforce"])
def test_the_first_step_goes_down_the_policy_gradient(method):
    config = make_config(method, epochs=1, minibatch_size=16, actor_learning_rate=1e-3, max_grad_norm=1e9)
    learner, stats = run(config)
    gradient = policy_gradient()
    moved = np.asarray(learner.params["actor"]["table"]) - SAVED.params["actor"]["table"]
    large = np.abs(gradient) > 1e-3
    # Adam's first step is the learning rate times the sign of the gradient.
    np.testing.assert_allclose(moved[large], -1e-3 * np.sign(gradient[large]), rtol=1e-3)
    assert not moved[np.abs(gradient) == 0].any()
    assert stats["actor_grad_norm"] == pytest.approx(np.linalg.norm(gradient), rel=1e-5)


def test_actor_and_critic_have_rates_of_their_own():
    learner, _ = run(one_step(actor_learning_rate=1e-4, critic_learning_rate=1e-2))
    actor = np.abs(np.asarray(learner.params["actor"]["table"])).max()
    critic = np.abs(np.asarray(learner.params["critic"]["table"])).max()
    assert actor == pytest.approx(1e-4, rel=1e-2)
    assert critic == pytest.approx(1e-2, rel=1e-2)


def test_the_clip_stops_the_gradient_of_steps_that_went_far_enough():
    config = one_step(clip=0.2, max_grad_norm=1e9)
    base = hand_made(**FOUR, cells=CELLS, actions=ACTIONS)
    # The behaviour policy gave these actions half the probability: every ratio is 2.
    far = type(base)(
        **{**base.__dict__, "logits": np.zeros((9, 4), np.float32), "log_probs": np.full(9, np.log(0.125), np.float32)}
    )
    _, gaining = run(config, far, Targets(np.abs(ADVANTAGES) + 0.1, VALUES, {}))
    assert gaining["actor_grad_norm"] == pytest.approx(0, abs=1e-9)
    assert gaining["clip_fraction"] == 1
    _, losing = run(config, far, Targets(-np.abs(ADVANTAGES) - 0.1, VALUES, {}))
    assert losing["actor_grad_norm"] > 0.01


def test_the_kl_penalty_is_that_of_the_behaviour_policy_to_the_new_one():
    base = hand_made(**FOUR, cells=CELLS, actions=ACTIONS)
    logits = np.tile(np.array([1.0, 0.0, -1.0, 0.5], np.float32), (9, 1))
    probabilities = np.exp(logits[0]) / np.exp(logits[0]).sum()
    rollouts = type(base)(**{**base.__dict__, "logits": logits, "log_probs": np.log(probabilities)[ACTIONS]})
    _, stats = run(one_step(), rollouts)
    assert stats["kl"] == pytest.approx((probabilities * np.log(probabilities / 0.25)).sum(), rel=1e-5)


def test_coefficients_act():
    quiet = Targets(np.zeros(9, np.float32), VALUES, {})
    skewed = jax.tree.map(np.array, SAVED.params)
    skewed["actor"]["table"][:, 0] = 1.0
    config = one_step(actor_learning_rate=1e-3)
    for coefficients in (Coefficients(0.0, 1.0), Coefficients(1.0, 0.0)):
        learner, _ = run(config, targets=quiet, learner=init_learner(skewed, config), coefficients=coefficients)
        # Both pull back to the uniform policy: entropy directly, KL because π_β is uniform here.
        assert np.asarray(learner.params["actor"]["table"])[0, 0] < 1.0


def test_epochs_and_uneven_minibatches_visit_every_step_equally_often():
    """A learning rate of (nearly) 0 makes the mean of the minibatch means the mean over all steps, if none is lost."""
    config = make_config("ppo", epochs=3, minibatch_size=3, actor_learning_rate=1e-12, critic_learning_rate=1e-12)
    _, stats = run(config)
    assert stats["policy_loss"] == pytest.approx(-ADVANTAGES.mean(), abs=1e-6)


def test_updates_repeat_exactly():
    config = make_config("ppo", minibatch_size=4)
    first, _ = run(config)
    second, _ = run(config)
    jax.tree.map(np.testing.assert_array_equal, first.params, second.params)


def test_minibatch_normalisation_ignores_scale_and_shift():
    config = one_step(normalise="minibatch")
    _, plain = run(config)
    _, scaled = run(config, targets=Targets(10 * ADVANTAGES + 3, VALUES, {}))
    assert scaled["actor_grad_norm"] == pytest.approx(plain["actor_grad_norm"], rel=1e-4)


def test_not_a_number_is_noticed():
    config = one_step()
    learner, _ = run(config, targets=Targets(ADVANTAGES * np.nan, VALUES, {}))
    assert not all_finite(learner)
    assert all_finite(init_learner(SAVED.params, config))

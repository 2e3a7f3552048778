"""The one loop that plays episodes: horizons that do not hold, success that pays nothing, memory."""

import jax.numpy as jnp
import numpy as np
import pytest
from small_worlds import Walk, cross, table_policy

import polychromic
from polychromic import StepResult, UserError, evaluate_policy, finetune
from polychromic.finetuning.attempts import attempt_all
from polychromic.finetuning.collect import collect
from polychromic.finetuning.play import play
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.inference import Evaluator
from polychromic.policies.protocol import Policy
from walkers import walker


class Endless(Walk):
    """One whose episodes are never cut."""

    def step(self, state, actions):
        reward, terminated, truncated = super().step(state, actions)
        state.rows[:, 2] = terminated
        return StepResult(reward, terminated, np.zeros_like(truncated))


def test_a_world_that_exceeds_its_horizon_is_named():
    world = cross()
    endless = Endless(world.moves, world.pays * 0, horizon=5)
    saved = table_policy(endless)
    evaluator = Evaluator(saved.policy, saved.params)
    moments = play(evaluator, endless, endless.start([0, 0]), np.random.default_rng(0))
    for _ in range(5):
        next(moments)
    with pytest.raises(UserError, match=r"did not end its episodes within its horizon of 5 steps$"):
        next(moments)
    with pytest.raises(UserError, match=r"^iteration 0: world .*Endless.* did not end its episodes"):
        finetune(endless, saved, method="ppo", iterations=1)
    with pytest.raises(UserError, match="did not end its episodes"):
        evaluate_policy(endless, saved, attempts=2)


def scripted(actions, num_actions):
    """A policy that takes these actions, one after another; its memory counts them."""
    params = {
        "actor": {"script": 100 * np.eye(num_actions, dtype=np.float32)[actions]},
        "critic": {"value": np.zeros(1, np.float32)},
    }

    def apply(params, obs, memory):
        del obs
        step = memory[:, 0].astype(jnp.int32)
        return params["actor"]["script"][step], params["critic"]["value"][0] + 0 * memory[:, 0], memory + 1

    policy = Policy("scripted", lambda _key: params, apply, {"kind": "script"}, memory_size=1)
    return SavedPolicy(policy, params, PolicyInfo())


@pytest.fixture(scope="module")
def last_step():
    """FourRooms with time_penalty = 1, and a policy that reaches the goal with the last step: it is paid 0."""
    seen = polychromic.make("fourrooms", seeds=[0])
    saved = walker(seen)
    evaluator = Evaluator(saved.policy, saved.params)
    attempts = attempt_all(evaluator, seen, np.random.default_rng(0), attempts=200)
    shown = int(np.argmin(np.where(attempts.success, attempts.lengths, 1000)))
    assert attempts.success[shown]
    length = int(attempts.lengths[shown])
    world = polychromic.make("fourrooms", seeds=[0], horizon=length, time_penalty=1.0)
    return world, scripted(attempts.actions[shown, :length], world.num_actions)


def test_success_on_the_last_step_counts_though_it_pays_nothing(last_step):
    world, saved = last_step
    evaluator = Evaluator(saved.policy, saved.params, world.tables())
    attempts = attempt_all(evaluator, world, np.random.default_rng(0), attempts=4)
    assert attempts.rewards.tolist() == [0.0] * 4
    assert attempts.lengths.tolist() == [world.horizon] * 4
    assert attempts.success.all()
    rollouts = collect(
        evaluator, world, np.array([0]), np.random.default_rng(0), rollouts_per_state=3, forks_per_rollout=1
    )
    assert rollouts.num_trajectories == 3 + 9
    assert not rollouts.rewards.any()
    assert rollouts.success.all()
    assert rollouts.terminated.all()
    evaluation = evaluate_policy(world, saved, attempts=4, record=False)
    assert evaluation["result"]["success"]["mean"] == 1.0
    assert evaluation["result"]["pass_at_k"]["mean"] == [1.0] * 4


def test_failure_on_the_last_step_is_no_success(last_step):
    world, saved = last_step
    shorter = polychromic.make("fourrooms", seeds=[0], horizon=world.horizon - 1, time_penalty=1.0)
    evaluator = Evaluator(saved.policy, saved.params, shorter.tables())
    assert not attempt_all(evaluator, shorter, np.random.default_rng(0), attempts=2).success.any()


def test_where_a_world_does_not_say_a_return_above_0_is_success():
    world = cross()
    saved = table_policy(world)
    attempts = attempt_all(Evaluator(saved.policy, saved.params), world, np.random.default_rng(0), attempts=100)
    assert 0 < attempts.success.sum() < 100
    np.testing.assert_array_equal(attempts.success, attempts.rewards > 0)


def test_moments_hold_the_state_before_and_the_rows_that_are_live():
    world = cross()
    saved = table_policy(world)
    live, cells = list(range(40)), np.zeros(40, int)
    for moment in play(
        Evaluator(saved.policy, saved.params), world, world.start(np.zeros(40, int)), np.random.default_rng(0),
        keep_states=True,
    ):  # fmt: skip
        assert moment.live.tolist() == live
        np.testing.assert_array_equal(moment.before.rows[:, 0], cells)
        cells = world.moves[cells, moment.actions]
        np.testing.assert_array_equal(moment.state.rows[:, 0], cells)
        live, cells = moment.live[~moment.ended].tolist(), cells[~moment.ended]
    assert not live

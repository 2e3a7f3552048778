"""Sampled figures against dynamic programming on FourRooms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_worlds import cross, table_policy

import polychromic
from polychromic import UserError
from polychromic.core.closed_form import best_of_sets_with, mean_return_of_sets_with
from polychromic.finetuning.collect import collect, roll
from polychromic.policies.inference import Evaluator
from polychromic.policies.networks import mlp_policy
from polychromic.policies.protocol import Policy
from polychromic.tasks.grids.exact import exact_scores


@pytest.fixture(scope="module")
def world():
    return polychromic.make("fourrooms", seeds=range(4))


@pytest.fixture(scope="module")
def evaluator(world):
    """A random network that likes to walk, so that some goals are reached and others are not."""
    policy = mlp_policy(cells=49, code_triples=world.code_triples)
    params = jax.tree.map(np.array, policy.init(jax.random.key(1)))
    params["actor"]["head"]["kernel"] *= 60
    params["actor"]["head"]["bias"] = np.array([0.6, 0.6, 2.0, -2.0, -2.0, -2.0, -2.0], np.float32)
    return Evaluator(policy, params)


def test_sampled_estimates_agree_with_dynamic_programming(world, evaluator):
    exact = exact_scores(world, evaluator)
    each = 4000
    configurations = np.repeat(np.arange(world.num_configurations), each)
    steps = roll(evaluator, world, world.start(configurations), np.random.default_rng(0))
    returns = np.add.reduceat(steps.rewards, steps.offsets[:-1]).reshape(world.num_configurations, each)
    success = (returns > 0).mean(axis=1)
    assert 0.02 < exact.success.mean() < 0.98
    assert exact.success.max() - exact.success.min() > 0.05
    error = np.sqrt(exact.success * (1 - exact.success) / each) + 1e-4
    assert (np.abs(success - exact.success) < 4 * error).all()
    assert (np.abs(returns.mean(axis=1) - exact.reward) < 4 * (returns.std(axis=1) / np.sqrt(each) + 1e-4)).all()


def tabulated(num_rows=2048):
    """A policy that is nothing but a table: a row of logits for each hash of what is seen."""
    factors = np.random.default_rng(3).integers(1, 2**15, 50)
    rows = np.random.default_rng(4).normal([0.5, 0.5, 1.5, -2, -2, -2, -2], 0.7, size=(num_rows, 7)).astype(np.float32)

    def apply(params, obs):
        seen = jnp.concatenate([obs["codes"].astype(int), obs["direction"].astype(int)[:, None]], axis=1)
        row = (seen * factors).sum(axis=1) % num_rows
        return params["actor"]["table"][row], jnp.zeros(len(row))

    def init(_key):
        return {"actor": {"table": jnp.asarray(rows)}, "critic": {}}

    return Evaluator(Policy("table", init, apply), init(None))


def test_sets_of_a_tabulated_policy_score_what_dynamic_programming_says():
    """Without a time penalty returns are 0 or 1, so the expected best of n is pass@n, which is known exactly."""
    world = polychromic.make("fourrooms", seeds=range(4), time_penalty=0.0)
    evaluator = tabulated()
    exact = exact_scores(world, evaluator)
    assert 0.3 < exact.success.max() < 0.7
    groups, size, set_size = 400, 8, 4
    rollouts = collect(
        evaluator, world, np.repeat(np.arange(4), groups), np.random.default_rng(0), rollouts_per_state=size
    )
    returns = rollouts.returns[rollouts.groups].reshape(4, groups, size)
    for closed, expected in (
        (best_of_sets_with(returns, set_size).mean(axis=2), 1 - (1 - exact.success) ** set_size),
        (mean_return_of_sets_with(returns, set_size).mean(axis=2), exact.success),
    ):
        error = closed.std(axis=1) / np.sqrt(groups)
        assert (np.abs(closed.mean(axis=1) - expected) < 4 * error + 1e-3).all()


def test_success_from_anywhere_agrees_with_sampled_starts(world, evaluator):
    exact = exact_scores(world, evaluator)
    rng = np.random.default_rng(1)
    cells = world.free_cells(0).positions
    chosen = cells[rng.integers(0, len(cells), 6000)]
    state = world.start_at(np.zeros(6000, int), chosen, rng.integers(0, 4, 6000))
    steps = roll(evaluator, world, state, rng)
    success = (np.add.reduceat(steps.rewards, steps.offsets[:-1]) > 0).mean()
    assert abs(success - exact.success_from_anywhere[0]) < 0.03


def test_pass_at_k_of_exact_chances(world, evaluator):
    exact = exact_scores(world, evaluator)
    assert exact.pass_at_k(1) == pytest.approx(exact.success.mean())
    assert exact.pass_at_k(64) > exact.pass_at_k(8) > exact.pass_at_k(1)


def test_other_worlds_are_refused():
    other = cross()
    saved = table_policy(other)
    with pytest.raises(UserError, match="need a FourRooms world"):
        exact_scores(other, Evaluator(saved.policy, saved.params))

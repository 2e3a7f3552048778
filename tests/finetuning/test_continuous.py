"""Continuous actions in fine-tuning: the set policy gradient by integration, learning, resuming, what is refused."""

import warnings

import jax
import numpy as np
import pytest
from small_worlds import Line

import polychromic as poly
from polychromic.errors import Notice
from polychromic.finetuning.collect import TrunkSteps, most_uncertain
from polychromic.policies.distributions import Normal

NORMAL = Normal()


def test_set_credit_is_the_gradient_of_the_set_objective_by_integration():
    """Over all groups of 3 actions on a fine grid: E[mean_i u_i ∇log π(a_i)] = (1 − n/N) ∇E[f]."""
    grid = np.linspace(-5, 5, 61)
    parameters = np.array([0.2, -0.1], np.float32)
    returns, labels = np.exp(-((np.abs(grid) - 1) ** 2)), (grid > 0).astype(int)

    def chances(at):
        weights = np.exp(np.asarray(NORMAL.at(at).log_prob(grid[:, None].astype(np.float32)), np.float64))
        return weights * (grid[1] - grid[0])

    groups = np.stack(np.meshgrid(*[np.arange(len(grid))] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    credit = 2 * poly.polychromic_advantages(returns[groups], labels[groups], set_size=2)
    scores = jax.vmap(jax.grad(lambda at, action: NORMAL.at(at).log_prob(action)), (None, 0))(
        parameters, grid[:, None].astype(np.float32)
    )
    weight = chances(parameters)[groups].prod(axis=1)
    update = (
        (weight[:, None, None] * credit[..., None] * np.asarray(scores, np.float64)[groups]).sum(axis=0).mean(axis=0)
    )

    pairs = np.stack(np.meshgrid(*[np.arange(len(grid))] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    values = poly.polychromic_objective(returns[pairs], poly.distinct_fraction(labels[pairs]))

    def expected(at):
        return (chances(at)[pairs].prod(axis=1) * values).sum()

    step = 1e-2 * np.eye(2, dtype=np.float32)
    slope = [(expected(parameters + one) - expected(parameters - one)) / 2e-2 for one in step]
    np.testing.assert_allclose(update, (1 - 2 / 3) * np.array(slope), rtol=2e-3)


@pytest.fixture(scope="module")
def line():
    world = Line()
    return world, poly.policy_for(world, hidden=(16,))


RUN = {
    "iterations": 12, "configurations_per_iteration": 2, "rollouts_per_state": 8, "forks_per_rollout": 0, "set_size": 2,
    "actor_learning_rate": 2e-2, "critic_learning_rate": 1e-2, "minibatch_size": 64, "evaluation_rollouts": 64,
    "seed": 1,
}  # fmt: skip
VINES = {"forks_per_rollout": 1, "rollouts_per_state": 4, "configurations_per_iteration": 2}


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "ppo", "rollouts_per_state": 16},
        {"method": "reinforce", "rollouts_per_state": 16},
        {"method": "grpo"},
        {"method": "poly-ppo", **VINES},
        {"method": "poly-ppo", **VINES, "fork_rule": "most-uncertain", "temperature": 0.8},
        {"method": "poly-ppo", "set_credit": "trajectory"},
        {"method": "poly-ppo", "set_credit": "critic"},
        {"method": "poly-ppo", "set_credit": "control-variate"},
    ],
    ids=lambda settings: "-".join(str(value) for value in settings.values()),
)
def test_every_method_improves_a_continuous_policy(line, settings):
    world, policy = line
    before = poly.evaluate_policy(world, policy, attempts=200)["result"]["return"]
    result = poly.finetune(world, policy, **{**RUN, **settings})
    after = poly.evaluate_policy(world, result.policy, attempts=200)["result"]["return"]
    assert after["mean"] > before["mean"] + 0.08
    assert {line["clip_fraction"] >= 0 for line in result.metrics} == {True}
    played = np.concatenate(world.played)
    assert played.dtype == np.float32
    assert (np.abs(played) > 1).any()  # drawn without bounds; the world clips


def test_an_interrupted_run_ends_in_the_same_bytes(line, tmp_path):
    world, policy = line
    settings = {**RUN, **VINES, "method": "poly-ppo", "iterations": 4, "checkpoint_every": 2}

    def stop(iteration, _figures):
        if iteration == 2:
            raise KeyboardInterrupt

    poly.finetune(world, policy, **settings, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        poly.finetune(world, policy, **settings, out=tmp_path / "cut", watch=stop)
    poly.finetune(world, policy, **settings, out=tmp_path / "cut")
    for name in ("config.json", "metrics.jsonl", "evaluations.jsonl", "policy.safetensors", "checkpoint.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert poly.load_policy(tmp_path / "cut/policy.safetensors").policy.distribution.name == "normal"


def test_the_temperature_scales_the_standard_deviation(line):
    world, policy = line
    spread = {}
    for temperature in (1.0, 0.25, 0.0):
        world.played.clear()
        result = poly.evaluate_policy(world, policy, attempts=400, temperature=temperature)["result"]
        spread[temperature] = (np.concatenate(world.played).std(), result["entropy"]["mean"])
    assert spread[0.25][0] == pytest.approx(spread[1.0][0] / 4, rel=0.1)
    assert spread[0.25][1] == pytest.approx(spread[1.0][1] - np.log(4), abs=1e-5)
    assert spread[0.0][0] < 0.05
    assert spread[0.0][1] == 0


def test_the_most_uncertain_states_are_those_with_the_widest_spread():
    parameters = np.array([[0.0, -1.0], [3.0, 0.5], [0.0, 0.2], [9.0, -2.0]], np.float32)
    trunk = TrunkSteps(parameters, np.zeros(4), np.zeros(4), NORMAL)
    assert most_uncertain(trunk, 2) == [1, 2]


def test_a_spread_at_its_lowest_can_grow_again():
    policy = poly.policy_for(Line(), hidden=(4,)).policy
    params = policy.init(jax.random.key(0))
    seen = {"position": np.zeros((1, 2), np.float32)}

    @jax.jit
    def spread(params):
        return policy.apply(params, seen)[0][0, 1]

    assert float(spread(params)) == pytest.approx(0.018, abs=1e-3)
    params["actor"]["spread"] = np.array([-9.0], np.float32)
    assert -4 < float(spread(params)) < -3.9
    assert float(jax.grad(spread)(params)["actor"]["spread"][0]) > 1e-3


def test_what_does_not_apply_is_refused_in_a_line(line):
    world, policy = line
    with pytest.raises(poly.UserError, match=r"ucb is 0\.1, but the world's actions are a finite number each; none is"):
        poly.finetune(world, policy, **{**RUN, "method": "ppo-ucb"})
    choosing = poly.Policy("choosing", policy.policy.init, policy.policy.apply)
    with pytest.raises(poly.UserError, match="drawn from a categorical distribution; the world's actions are a finite"):
        poly.finetune(world, (choosing, policy.params), **RUN)
    short = poly.Policy(
        "short", policy.policy.init, lambda *given: (given[1]["position"][:, :1], given[1]["position"][:, 0]),
        distribution=poly.Normal(),
    )  # fmt: skip
    with pytest.raises(
        poly.UserError, match=r"of shape \[B, 1\]; it must be \[B, 2\]: the means, then the log standard"
    ):
        poly.finetune(world, (short, policy.params), **RUN)


def test_places_that_never_coincide_are_told(line):
    _, policy = line
    few = {**RUN, "method": "poly-ppo", "iterations": 1, "rollouts_per_state": 4}
    with pytest.warns(Notice, match="each is a strategy of its own, and diversity says nothing"):
        poly.finetune(Line(cells=10**9), policy, **few)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        poly.finetune(Line(), policy, **few)

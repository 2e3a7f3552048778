"""The cached form, the stateless form and whole sequences are one function; the update sees whole sequences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polychromic as poly
from polychromic.errors import UserError
from polychromic.finetuning.advantages import estimate
from polychromic.finetuning.collect import collect, roll
from polychromic.finetuning.config import make_config
from polychromic.finetuning.update import Coefficients, _minibatches_of_trajectories, init_learner, update
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.fit import check_fits
from polychromic.policies.inference import Evaluator

NUM_TOKENS, ANSWER = 12, 4


def close_to_ten(configurations, answers):
    wanted = 10 + np.asarray(configurations)
    return [float(answer[answer > 0].sum() == total) for total, answer in zip(wanted, answers, strict=True)]


@pytest.fixture(scope="module")
def world():
    return poly.token_world(
        prompts=[[1], [2, 3]],
        num_tokens=NUM_TOKENS,
        end=0,
        max_tokens=ANSWER,
        reward=close_to_ten,
        place=lambda token: token or None,
    )


def small_policy(world, layers):
    sizes = {"width": 16, "heads": 2, "critic_width": 8, "critic_heads": 1, "layers": layers}
    policy = poly.transformer_policy(num_tokens=NUM_TOKENS, context=world.context, **sizes)
    params = jax.tree.map(np.asarray, policy.init(jax.random.key(0)))
    # Gains and biases start at zero; other values tell more.
    params = jax.tree.map(lambda leaf: leaf + np.random.default_rng(leaf.size).normal(0, 0.1, leaf.shape), params)
    params = jax.tree.map(lambda leaf: leaf.astype(np.float32), params)
    return SavedPolicy(policy, params, PolicyInfo())


@pytest.fixture(scope="module")
def saved(world):
    return small_policy(world, 2)


@pytest.fixture(scope="module")
def shallow(world):
    """One layer: updates compile in half the time."""
    return small_policy(world, 1)


@pytest.fixture(scope="module")
def rollouts(world, saved):
    rng = np.random.default_rng(0)
    return collect(Evaluator(saved.policy, saved.params), world, [0, 1], rng, rollouts_per_state=4, forks_per_rollout=2)


def steps_of(rollouts, trajectory):
    """Observations of one trajectory as [1, horizon, …], behind its end its first step again."""
    first, last = rollouts.offsets[trajectory : trajectory + 2]
    rows = np.arange(first, first + rollouts.horizon)
    rows[rows >= last] = first
    return {name: value[rows][None] for name, value in rollouts.obs.items()}, last - first


def test_what_the_cache_gave_while_sampling_is_what_whole_sequences_give(saved, rollouts):
    """Seeds and vines, whose caches were forked in the middle of a sequence."""
    whole = jax.jit(saved.policy.sequences)
    for trajectory in range(rollouts.num_trajectories):
        obs, length = steps_of(rollouts, trajectory)
        logits, values = whole(saved.params, obs)
        own = slice(rollouts.offsets[trajectory], rollouts.offsets[trajectory + 1])
        np.testing.assert_allclose(logits[0, :length], rollouts.logits[own], atol=2e-5)
        np.testing.assert_allclose(values[0, :length], rollouts.values[own], atol=2e-5)


def test_no_memory_is_kept_with_the_steps(rollouts):
    assert set(rollouts.obs) == {"tokens", "length"}


def test_a_cache_can_be_begun_anywhere(saved, rollouts):
    act = Evaluator(saved.policy, saved.params)
    obs = {name: value[5:30] for name, value in rollouts.obs.items()}
    without, started = act(obs), act(obs, act.first_memory(obs))
    stateless = jax.jit(saved.policy.apply)(saved.params, obs)
    np.testing.assert_allclose(without.logits, stateless[0], atol=2e-5)
    np.testing.assert_allclose(started.logits, stateless[0], atol=2e-5)
    np.testing.assert_allclose(started.value, stateless[1], atol=2e-5)
    assert without.memory.shape == (25, saved.policy.memory_size)


def test_batches_larger_than_the_largest_size_are_cut(world, saved):
    small = Evaluator(saved.policy, saved.params, sizes=(8,))
    obs = world.inputs(world.start([0, 1, 1, 0, 1, 0, 0, 1, 1, 0]))
    np.testing.assert_allclose(small(obs).logits, Evaluator(saved.policy, saved.params)(obs).logits, atol=2e-5)


def test_later_tokens_change_nothing_before_them(saved):
    tokens = np.array([[1, 5, 6, 7, 8, 9]], np.int32)
    changed = np.array([[1, 5, 6, 2, 3, 4]], np.int32)
    at = np.array([[1, 2, 3]], np.int32)
    whole = jax.jit(saved.policy.sequences)
    one, other = (
        whole(saved.params, {"tokens": np.repeat(rows[:, None], 3, axis=1), "length": at})[0]
        for rows in (tokens, changed)
    )
    np.testing.assert_allclose(one, other, atol=1e-6)


def flat_policy(policy):
    """The same network without whole sequences: every step of a trajectory on its own."""
    return poly.Policy("flat", policy.init, lambda params, obs: policy.apply(params, obs), {})


@pytest.mark.slow
def test_an_update_on_whole_sequences_is_the_update_on_single_steps(shallow, rollouts):
    """One minibatch with everything in it: the same loss, the same gradients, the same parameters afterwards."""
    config = make_config("poly-ppo", "triangle", epochs=1, minibatch_size=10_000, rollouts_per_state=4, set_size=2)
    targets = estimate(rollouts, config, np.random.default_rng(1))
    found = []
    for policy in (shallow.policy, flat_policy(shallow.policy)):
        learner = init_learner(shallow.params, config)
        found.append(
            update(policy, learner, rollouts, targets, config, Coefficients(0.01, 0.1), np.random.default_rng(2))
        )
    (whole, stats), (single, single_stats) = found
    for name, value in stats.items():
        assert value == pytest.approx(single_stats[name], rel=1e-3, abs=1e-5), name
    # Adam's first step has the size of the learning rate wherever a gradient is not 0, so only directions are compared.
    moved = [jax.tree.leaves(jax.tree.map(lambda a, b: a - b, one.params, shallow.params)) for one in (whole, single)]
    agreeing = [jnp.sign(a) == jnp.sign(b) for a, b in zip(*moved, strict=True)]
    assert np.mean(np.concatenate([np.ravel(part) for part in agreeing])) > 0.99


def test_minibatches_hold_every_step_once_an_epoch(rollouts):
    config = make_config("ppo", epochs=2, minibatch_size=3 * rollouts.horizon)
    table, count = _minibatches_of_trajectories(rollouts, config, np.random.default_rng(0))
    assert table.shape[1:] == (3, rollouts.horizon)
    assert count == 2 * -(-rollouts.num_trajectories // 3)
    assert (table[count:] == -1).all()
    used = table[:count][table[:count] >= 0]
    assert sorted(used) == sorted(list(range(rollouts.num_steps)) * 2)
    for steps in table[:count].reshape(-1, rollouts.horizon):
        own = steps[steps >= 0]
        assert len(own) == 0 or (own == np.arange(own[0], own[0] + len(own))).all()


RATE = 3e-3  # one for all runs, so that their update is compiled once
METHODS = ("reinforce", "reinforce-ucb", "ppo", "ppo-ucb", "poly-ppo", "poly-ppo-ucb")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_through_the_same_loop(world, shallow, method):
    few = {"rollouts_per_state": 4} if method.startswith("poly") else {}
    config = make_config(
        method,
        "triangle",
        iterations=2,
        budget=36,
        set_size=2,
        actor_learning_rate=RATE,
        evaluation_rollouts=4,
        **few,
    )
    result = poly.finetune(world, shallow, config)
    assert config.window == 0 or not config.polychromic
    assert np.isfinite(result.metrics[-1]["policy_loss"])


def test_the_closed_form_on_one_group_learns_to_answer_in_different_ways(world, shallow):
    config = make_config(
        "poly-ppo",
        preset="vines",
        iterations=60,
        budget=32,
        rollouts_per_state=0,
        forks_per_rollout=0,
        num_sets=0,
        set_size=8,
        window=-1,
        configurations_per_iteration=2,
        actor_learning_rate=RATE,
        evaluation_rollouts=16,
        evaluate_every=0,
    )
    result = poly.finetune(world, shallow, config)
    first, last = result.metrics[0]["successes"], result.metrics[-1]["successes"]
    assert last > first + 0.3
    assert result.evaluations[-1]["distinct_strategies"] > 3


def test_vines_begin_where_their_fork_is(world, saved):
    """A cache that is passed on at a fork gives the same as one that is made anew there."""
    act = Evaluator(saved.policy, saved.params)
    seeds = roll(act, world, world.start([0, 1, 1]), np.random.default_rng(0), keep_states=True)
    step = 1
    state, memory = seeds.states[step], seeds.memories[step]
    passed = roll(act, world, state[:], np.random.default_rng(1), memory=memory)
    anew = roll(act, world, state[:], np.random.default_rng(1))
    assert (passed.actions == anew.actions).all()
    np.testing.assert_allclose(passed.logits, anew.logits, atol=2e-5)


def test_files_and_fits(tmp_path, world, saved):
    poly.save_policy(tmp_path / "policy.safetensors", saved.policy, saved.params)
    loaded = poly.load_policy(tmp_path / "policy.safetensors")
    check_fits(loaded, world)
    longer = poly.token_world(
        prompts=[[1]], num_tokens=NUM_TOKENS, end=0, max_tokens=9, reward=close_to_ten, vocabulary="abcdefghijkl"
    )
    with pytest.raises(UserError, match="context is 6"):
        check_fits(loaded, longer)
    with pytest.raises(UserError, match="num_actions is 12"):
        check_fits(loaded, poly.make("triangle"))
    words = SavedPolicy(saved.policy, saved.params, PolicyInfo(vocabulary=tuple("abcdefghijkx")))
    short = poly.token_world(
        prompts=[[1]], num_tokens=NUM_TOKENS, end=0, max_tokens=2, reward=close_to_ten, vocabulary="abcdefghijkl"
    )
    with pytest.raises(UserError, match="token 11 is 'x', in the world it is 'l'"):
        check_fits(words, short)
    with pytest.raises(UserError, match="heads is 3"):
        poly.transformer_policy(num_tokens=4, context=4, width=16, heads=3)


@pytest.mark.slow
@pytest.mark.parametrize("longer", [1, 3, 6])
def test_a_policy_may_have_a_longer_context_than_the_world(world, longer):
    policy = poly.transformer_policy(
        num_tokens=NUM_TOKENS, context=world.context + longer, width=16, layers=2, heads=2, critic_width=8
    )
    params = policy.init(jax.random.key(0))
    evaluator = Evaluator(policy, params)
    state = world.start([0, 1, 1])
    memory = evaluator.first_memory(world.observe(state))
    for actions in ([1, 2, 3], [4, 4, 4]):
        memory = evaluator(world.observe(state), memory).memory
        world.step(state, actions)
    forks = np.array([2, 0, 2, 1])
    cached = evaluator(world.observe(state[forks]), memory[forks])
    whole = policy.apply(params, world.observe(state[forks]))
    np.testing.assert_allclose(cached.logits, whole[0], atol=1e-5)
    np.testing.assert_allclose(cached.value, whole[1], atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_tokens": 8}, "num_actions is 8, the world has 12"),
        ({"num_tokens": 20}, "num_actions is 20, the world has 12"),
        ({"context": 3}, "context is 3, sequences of the world have up to 6 tokens"),
    ],
)
def test_a_network_that_does_not_fit_the_tokens_is_refused(world, changes, message):
    sizes = {
        "num_tokens": NUM_TOKENS,
        "context": world.context,
        "width": 16,
        "layers": 1,
        "heads": 2,
        "critic_width": 8,
    }
    policy = poly.transformer_policy(**{**sizes, **changes})
    with pytest.raises(UserError, match=message):
        poly.finetune(world, (policy, policy.init(jax.random.key(0))), method="ppo", iterations=1)


def test_a_network_for_grids_is_refused_by_a_world_of_tokens(world):
    with pytest.raises(UserError, match="sees the cells of a grid, the world shows tokens"):
        poly.finetune(world, poly.load_policy("fourrooms"), method="ppo", iterations=1)
    saved = poly.load_policy("fourrooms")
    with pytest.raises(UserError, match=r"num_actions is 7|cells of a grid"):
        poly.finetune(world, (saved.policy, saved.params), method="ppo", iterations=1)

from collections import Counter
from itertools import product

import numpy as np
import pytest
from small_worlds import cross, table_policy

import polychromic
from polychromic import UserError, gae, polychromic_advantages
from polychromic.core.sets import all_sets
from polychromic.finetuning.advantages import VisitCounts, estimate, group_advantages
from polychromic.finetuning.collect import collect
from polychromic.finetuning.config import make_config
from polychromic.finetuning.rollouts import Rollouts
from polychromic.policies.files import load_policy
from polychromic.policies.inference import Evaluator


def hand_made(rewards, lengths, labels, groups, cells=None, actions=None, values=None):
    """Rollouts with the given rewards per step; everything else is neutral."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    steps = int(offsets[-1])
    count = len(lengths)
    return Rollouts(
        obs={"cell": np.zeros(steps, np.int64) if cells is None else np.asarray(cells)},
        tables={},
        actions=np.zeros(steps, np.int64) if actions is None else np.asarray(actions),
        log_probs=np.full(steps, np.log(0.5), np.float32),
        logits=np.zeros((steps, 2), np.float32),
        values=np.zeros(steps, np.float32) if values is None else np.asarray(values, np.float32),
        rewards=np.asarray(rewards, np.float32),
        offsets=offsets,
        configurations=np.zeros(count, np.int64),
        terminated=np.ones(count, bool),
        success=np.ones(count, bool),
        final_values=np.zeros(count, np.float32),
        labels=np.asarray(labels, np.uint64),
        groups=np.asarray(groups),
        num_trunks=count,
    )


FOUR = {
    "rewards": [0, 0, 1.0, 0, 0.5, 0, 0, 0, 0.8],
    "lengths": [3, 2, 3, 1],
    "labels": [7, 7, 8, 9],
    "groups": [[0, 1, 2, 3]],
}


def settings(**changes):
    given = {"num_sets": 0, "set_size": 2, "rollouts_per_state": 4, "normalise": "none", "window": 1} | changes
    return make_config(given.pop("method", "poly-ppo"), preset="vines", **given)


def test_windows_get_the_polychromic_advantage_and_the_rest_gae():
    rollouts = hand_made(**FOUR, values=np.linspace(0, 0.8, 9))
    targets = estimate(rollouts, settings(), np.random.default_rng(0))
    base = gae(rollouts.rewards, rollouts.values, rollouts.offsets)
    poly = polychromic_advantages([1.0, 0.5, 0.0, 0.8], [7, 7, 8, 9], set_size=2)
    # Window 1 covers two steps; the third steps of trajectories 0 and 2 keep GAE.
    expected = [poly[0], poly[0], base[2], poly[1], poly[1], poly[2], poly[2], base[7], poly[3]]
    np.testing.assert_allclose(targets.advantages, expected, rtol=1e-6)
    np.testing.assert_allclose(targets.value_targets, base + rollouts.values, rtol=1e-6)


@pytest.mark.parametrize(("window", "share"), [(0, 4 / 9), (1, 7 / 9), (-1, 1.0), (50, 1.0)])
def test_the_window_counts_w_plus_one_steps(window, share):
    targets = estimate(hand_made(**FOUR), settings(window=window), np.random.default_rng(0))
    assert targets.stats["polychromic_share"] == pytest.approx(share)


def test_the_weight_mixes_and_its_schedule_ends_in_gae():
    rollouts = hand_made(**FOUR, values=np.linspace(0, 0.8, 9))
    base = gae(rollouts.rewards, rollouts.values, rollouts.offsets)
    full = estimate(rollouts, settings(window=-1), np.random.default_rng(0)).advantages
    half = estimate(rollouts, settings(window=-1, polychromic_weight=0.5), np.random.default_rng(0)).advantages
    np.testing.assert_allclose(half, (full + base) / 2, atol=1e-6)
    for schedule in ("linear", "cosine"):
        config = settings(window=-1, polychromic_schedule=schedule)
        end = estimate(rollouts, config, np.random.default_rng(0), progress=1.0).advantages
        np.testing.assert_allclose(end, base, atol=1e-6)
        middle = estimate(rollouts, config, np.random.default_rng(0), progress=0.5).advantages
        np.testing.assert_allclose(middle, half, atol=1e-6)


def test_reinforce_uses_return_minus_value():
    rollouts = hand_made(**FOUR, values=np.full(9, 0.25))
    targets = estimate(rollouts, settings(method="reinforce", rollouts_per_state=0), np.random.default_rng(0))
    np.testing.assert_allclose(targets.advantages, np.array([1, 1, 1, 0.5, 0.5, 0, 0, 0, 0.8]) - 0.25, rtol=1e-6)


def test_grpo_and_rloo_by_hand():
    rollouts = hand_made(**FOUR)
    returns = np.array([1.0, 0.5, 0.0, 0.8])
    first = rollouts.offsets[:-1]
    rloo = estimate(rollouts, settings(method="rloo", rollouts_per_state=0), np.random.default_rng(0)).advantages
    others = (returns.sum() - returns) / 3
    np.testing.assert_allclose(rloo[first], returns - others, rtol=1e-6)
    grpo = estimate(rollouts, settings(method="grpo", rollouts_per_state=0), np.random.default_rng(0)).advantages
    np.testing.assert_allclose(grpo[first], (returns - returns.mean()) / returns.std(), rtol=1e-6)
    assert grpo[0] == grpo[1] == grpo[2]


@pytest.mark.parametrize("how", ["joint", "per-kind"])
def test_normalisation(how):
    rollouts = hand_made(**FOUR, values=np.linspace(0, 0.8, 9))
    advantages = estimate(rollouts, settings(normalise=how), np.random.default_rng(0)).advantages
    window = np.array([1, 1, 0, 1, 1, 1, 1, 0, 1], bool)
    for part in [np.ones(9, bool)] if how == "joint" else [window, ~window]:
        assert advantages[part].mean() == pytest.approx(0, abs=1e-6)
        assert advantages[part].std() == pytest.approx(1, abs=1e-5)


def test_other_objectives_and_set_formers_are_one_word():
    rollouts = hand_made(**FOUR)
    first = rollouts.offsets[:-1]
    best = estimate(rollouts, settings(objective="best-of"), np.random.default_rng(0)).advantages[first]
    # Over all 6 pairs: the mean of the maxima of the 3 pairs that hold i, minus that of all 6.
    pairs = {(0, 1): 1.0, (0, 2): 1.0, (0, 3): 1.0, (1, 2): 0.5, (1, 3): 0.8, (2, 3): 0.8}
    overall = np.mean(list(pairs.values()))
    expected = [np.mean([v for p, v in pairs.items() if i in p]) - overall for i in range(4)]
    np.testing.assert_allclose(best, expected, rtol=1e-6)
    config = settings(set_former="disjoint", num_sets=2)
    disjoint = estimate(rollouts, config, np.random.default_rng(0)).advantages[first]
    assert disjoint.sum() == pytest.approx(0, abs=1e-6)
    assert len(np.unique(np.abs(disjoint.round(5)))) == 1  # two sets of two mirror each other


def test_a_users_functions_are_found_by_name():
    own = settings(objective="polychromic.core.objectives:best_of", diversity="polychromic:distinct_fraction")
    named = settings(objective="best-of")
    rollouts = hand_made(**FOUR)
    np.testing.assert_allclose(
        estimate(rollouts, own, np.random.default_rng(0)).advantages,
        estimate(rollouts, named, np.random.default_rng(0)).advantages,
    )
    with pytest.raises(UserError, match="objective is 'bestof'; did you mean 'best-of'"):
        estimate(rollouts, settings(objective="bestof"), np.random.default_rng(0))
    with pytest.raises(UserError, match="diversity is 'nowhere:f', which cannot be imported"):
        estimate(rollouts, settings(diversity="nowhere:f"), np.random.default_rng(0))


def test_groups_without_signal_are_counted():
    silent = hand_made([0] * 9, [3, 2, 3, 1], [7, 7, 8, 9], [[0, 1, 2, 3]])
    alike = hand_made(FOUR["rewards"], [3, 2, 3, 1], [7, 7, 7, 7], [[0, 1, 2, 3]])
    for rollouts in (silent, alike):
        for num_sets in (0, 4):
            targets = estimate(rollouts, settings(num_sets=num_sets), np.random.default_rng(0))
            assert targets.stats["all_zero_groups"] == 1.0
    assert estimate(hand_made(**FOUR), settings(), np.random.default_rng(0)).stats["all_zero_groups"] == 0.0


def test_returns_outside_their_range_are_named():
    rollouts = hand_made([0, 0, 3.0, 0, 0, 0, 0, 0, 0], [3, 2, 3, 1], [7, 7, 8, 9], [[0, 1, 2, 3]])
    with pytest.raises(UserError, match=r"return_range is \(0.0, 1.0\), but returns span 0 to 3"):
        estimate(rollouts, settings(), np.random.default_rng(0))
    estimate(rollouts, settings(return_range=(0.0, 3.0)), np.random.default_rng(0))


def test_ucb_adds_the_bonus_of_running_counts():
    rollouts = hand_made(**FOUR, cells=[0, 0, 1, 0, 0, 2, 2, 2, 2], actions=[0, 0, 1, 0, 1, 1, 1, 1, 1])
    plain = estimate(rollouts, settings(ucb=0.0), np.random.default_rng(0)).advantages
    visits = VisitCounts()
    first = estimate(rollouts, settings(ucb=0.5), np.random.default_rng(0), visits=visits).advantages
    counts = np.array([3, 3, 1, 3, 1, 4, 4, 4, 4])
    np.testing.assert_allclose(first - plain, 0.5 * counts**-0.5, rtol=1e-5)
    second = estimate(rollouts, settings(ucb=0.5), np.random.default_rng(0), visits=visits).advantages
    np.testing.assert_allclose(second - plain, 0.5 * (2.0 * counts) ** -0.5, rtol=1e-5)


def test_counts_tell_configurations_apart():
    same = {"cells": [0] * 9, "actions": [0] * 9}
    rollouts = hand_made(**FOUR, **same)
    apart = Rollouts(**{**rollouts.__dict__, "configurations": np.array([0, 1, 1, 0])})
    np.testing.assert_array_equal(VisitCounts().add(apart), [4, 4, 4, 5, 5, 5, 5, 5, 4])


def test_counts_follow_a_configuration_through_iterations_that_deal_it_another_place():
    saved = load_policy("goto")
    world = polychromic.make("goto", seeds=saved.info.configurations[:3], observation=saved.info.observation)
    evaluator = Evaluator(saved.policy, saved.params, world.tables())
    visits, by_hand, again = VisitCounts(), Counter(), 0
    for configurations in ([1, 0], [2, 1]):
        rollouts = collect(evaluator, world, np.array(configurations), np.random.default_rng(0), rollouts_per_state=8)
        owner = np.repeat(rollouts.configurations, np.diff(rollouts.offsets))
        seen = [
            (configuration, codes.tobytes(), int(direction), int(action))
            for configuration, codes, direction, action in zip(
                owner.tolist(), rollouts.obs["codes"], rollouts.obs["direction"], rollouts.actions, strict=True
            )
        ]
        again += sum(key in by_hand for key in seen)
        by_hand.update(seen)
        np.testing.assert_array_equal(visits.add(rollouts), [by_hand[key] for key in seen])
    assert again > 8  # states of configuration 1 were met in both iterations


def test_memory_beside_the_inputs_of_a_state_does_not_count():
    plain = hand_made(**FOUR, cells=[0] * 9)
    memory = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    beside = {"obs": {**plain.obs, "memory": memory}, "state_inputs": tuple(plain.obs)}
    remembered = Rollouts(**{**plain.__dict__, **beside})
    np.testing.assert_array_equal(VisitCounts().add(remembered), [9] * 9)


def test_counts_may_begin_anew_in_every_iteration():
    rollouts = hand_made(**FOUR)
    config, visits = settings(ucb=0.5, ucb_counts="iteration"), VisitCounts()
    once, again = (estimate(rollouts, config, np.random.default_rng(0), visits=visits).advantages for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert not visits.counts


@pytest.mark.parametrize("objective", ["best-of", "mean-return"])
@pytest.mark.parametrize("set_size", [2, 3, 5])
def test_all_sets_in_closed_form_are_those_that_enumeration_gives(objective, set_size):
    rng = np.random.default_rng(set_size)
    returns = rng.choice([0.0, 0.3, 0.3, 0.9, 1.0], size=(4, 7))  # with ties
    rollouts = hand_made(returns.ravel(), [1] * 28, np.arange(28), np.arange(28).reshape(4, 7))
    changes = {"set_size": set_size, "rollouts_per_state": 7, "budget": 200}
    closed, _ = group_advantages(rollouts, settings(objective=objective, **changes), rng)
    sets = all_sets(7, set_size)
    scores = {"best-of": np.max, "mean-return": np.mean}[objective](returns[:, sets], axis=-1)
    expected = np.stack([scores[:, (sets == i).any(axis=1)].mean(axis=1) for i in range(7)], axis=1)
    np.testing.assert_allclose(closed, expected - scores.mean(axis=1, keepdims=True), atol=1e-7)


def test_best_of_over_all_sets_of_136_rollouts_is_no_work():
    returns = np.random.default_rng(0).random(136)
    rollouts = hand_made(returns, [1] * 136, np.arange(136), [np.arange(136)])
    config = make_config("poly-ppo", objective="best-of", set_size=64)
    advantages, _ = group_advantages(rollouts, config, np.random.default_rng(0))
    assert advantages.sum() == pytest.approx(0, abs=1e-9)
    assert advantages.argmax() == returns.argmax()


def test_group_relative_advantages_are_of_discounted_returns():
    rollouts = hand_made(**FOUR)
    config = settings(method="rloo", rollouts_per_state=0, discount=0.5)
    advantages = estimate(rollouts, config, np.random.default_rng(0)).advantages[rollouts.offsets[:-1]]
    returns = np.array([0.25, 0.25, 0.0, 0.8])
    np.testing.assert_allclose(advantages, returns - (returns.sum() - returns) / 3, rtol=1e-6)


def halved(returns):
    return returns / 2


def everything_is_three(returns):
    return returns * 0 + 3


def test_returns_may_be_mapped_by_a_users_function():
    double = hand_made([2 * reward for reward in FOUR["rewards"]], FOUR["lengths"], FOUR["labels"], FOUR["groups"])
    rng = np.random.default_rng(0)
    mapped, _ = group_advantages(double, settings(return_map="test_advantages:halved"), rng)
    plain, _ = group_advantages(hand_made(**FOUR), settings(), rng)
    np.testing.assert_allclose(mapped, plain)
    with pytest.raises(UserError, match=r"return_map is 'test_advantages:everything_is_three', which leaves \[0, 1\]"):
        group_advantages(double, settings(return_map="test_advantages:everything_is_three"), rng)


@pytest.mark.parametrize("num_rollouts", [3, 4])
def test_mean_return_gives_the_ordinary_policy_gradient_up_to_its_constant(num_rollouts):
    """On a two-step MDP, by enumeration of every group: E[(1/N) Σ_i A_i ∇log π(τ_i)] = (N − n)/(nN) ∇J."""
    set_size = 2
    pay = {(0, 0): 1.0, (0, 1): 0.3, (1, 0): 0.0, (1, 1): 0.6}
    logits = np.array([[0.4, -0.3], [0.1, 0.8], [-0.5, 0.2]])  # root, after action 0, after action 1
    policy = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    paths = list(pay)
    chance = {p: policy[0, p[0]] * policy[1 + p[0], p[1]] for p in paths}

    def score(path):
        slope = np.zeros((3, 2))
        for cell, action in ((0, path[0]), (1 + path[0], path[1])):
            slope[cell] += np.eye(2)[action] - policy[cell]
        return slope

    true = sum(chance[p] * pay[p] * score(p) for p in paths)
    config = settings(
        objective="mean-return", window=-1, rollouts_per_state=num_rollouts, forks_per_rollout=0, set_size=set_size
    )
    expected = np.zeros((3, 2))
    for group in product(paths, repeat=num_rollouts):
        rewards = np.concatenate([[0.0, pay[p]] for p in group])
        rollouts = hand_made(
            rewards, [2] * num_rollouts, [paths.index(p) for p in group], [np.arange(num_rollouts)],
            values=np.linspace(0.1, 0.9, 2 * num_rollouts),
        )  # fmt: skip
        advantages = estimate(rollouts, config, np.random.default_rng(0)).advantages[::2]
        weight = np.prod([chance[p] for p in group])
        expected += weight * sum(a * score(p) for a, p in zip(advantages, group, strict=True)) / num_rollouts
    constant = (num_rollouts - set_size) / (set_size * num_rollouts)
    np.testing.assert_allclose(expected, constant * true, atol=1e-7)


def test_what_was_collected_gets_the_advantages_of_its_groups_in_the_window_and_gae_after_it():
    world = cross()
    saved = table_policy(world)
    critic = {"table": np.linspace(0, 0.5, 13).astype(np.float32)}
    rollouts = collect(
        Evaluator(saved.policy, {**saved.params, "critic": critic}), world, np.array([0]), np.random.default_rng(0),
        rollouts_per_state=8, forks_per_rollout=2,
    )  # fmt: skip
    expected = gae(rollouts.rewards, rollouts.values, rollouts.offsets, gae_lambda=0.95)
    spans = list(zip(rollouts.offsets[:-1], rollouts.offsets[1:], strict=True))
    inside = 0
    for group in rollouts.groups:
        returns = [rollouts.rewards[slice(*spans[member])].sum() for member in group]
        visited = []
        for member in group:
            start, end = spans[member]
            last = world.moves[rollouts.obs["cell"][end - 1], rollouts.actions[end - 1]]
            visited.append(frozenset([*rollouts.obs["cell"][start:end].tolist(), int(last)]))
        labels = [visited.index(places) for places in visited]
        for member, advantage in zip(group, polychromic_advantages(returns, labels, set_size=4), strict=True):
            start, end = spans[member]
            expected[start : min(start + 6, end)] = advantage
            inside += min(6, end - start)
    assert 0 < inside < rollouts.num_steps
    config = make_config("poly-ppo", preset="vines", num_sets=0, window=5, normalise="none")
    targets = estimate(rollouts, config, np.random.default_rng(0))
    np.testing.assert_allclose(targets.advantages, expected, atol=1e-6)
    assert targets.advantages.dtype == np.float32
    config = make_config("poly-ppo", preset="vines", num_sets=0, window=5)
    normalised = estimate(rollouts, config, np.random.default_rng(0))
    np.testing.assert_allclose(normalised.advantages, (expected - expected.mean()) / expected.std(), atol=1e-4)


@pytest.mark.parametrize("set_credit", ["trajectory", "critic", "control-variate"])
def test_set_credit_has_the_unit_of_the_rewards(set_credit):
    found = []
    for unit in (1.0, 200.0):
        rewards = [unit * reward for reward in FOUR["rewards"]]
        rollouts = hand_made(**{**FOUR, "rewards": rewards}, values=unit * np.linspace(0, 0.8, 9))
        config = make_config(
            set_size=2, rollouts_per_state=4, normalise="none", set_credit=set_credit, return_range=(0, unit)
        )
        found.append(estimate(rollouts, config, np.random.default_rng(0), progress=0.5).advantages)
    np.testing.assert_allclose(found[1], 200 * found[0], rtol=1e-4, atol=1e-4)

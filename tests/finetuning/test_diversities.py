"""Diversity from places and features: against enumeration by hand, with vines and every rule of credit."""

import itertools
import json

import gymnasium
import numpy as np
import pytest

import polychromic as poly
from polychromic.core.sets import MOST_GRADED_SETS
from polychromic.envs.protocol import description
from polychromic.finetuning.advantages import group_advantages
from polychromic.finetuning.collect import collect
from polychromic.finetuning.diversities import DIVERSITIES, diversity_of
from polychromic.policies.inference import Evaluator


class Walk(gymnasium.Env):
    """Five steps to the left or to the right; every step right pays a fifth."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-5, 5, (1,), np.float32)

    def reset(self, seed=None, **_options):
        super().reset(seed=seed)
        self.at, self.time = 0, 0
        return np.array([0], np.float32), {}

    def step(self, action):
        self.at += 2 * int(action) - 1
        self.time += 1
        return np.array([self.at], np.float32), 0.2 * int(action), self.time == 5, False, {}


def last_and_first(episode):
    """Where it ended, and where it went first."""
    return [float(episode.observations[-1, 0]), 2.0 * episode.actions[0] - 1, 0.5]


def spread(features):
    """Mean distance of the members' first features from the set's mean, as a share of the most there can be."""
    return np.abs(features[..., 0] - features[..., 0].mean(axis=-1, keepdims=True)).mean(axis=-1) / 5


def shared_places(places):
    """1 − share of the places of a set that all its members visited."""
    return 1.0 - places.all(axis=-2).sum(axis=-1) / places.any(axis=-2).sum(axis=-1)


def of_labels(labels):
    return poly.distinct_fraction(labels)


@pytest.fixture(scope="module")
def world():
    return poly.from_gymnasium(Walk, [0, 1], place=lambda env: env.at, feature=last_and_first, horizon=5, fork="copy")


@pytest.fixture(scope="module")
def base(world):
    return poly.policy_for(world, hidden=(4,))


def rollouts_of(world, base, **options):
    evaluator = Evaluator(base.policy, base.params)
    return collect(evaluator, world, np.array([0]), np.random.default_rng(3), with_features=True, **options)


def jaccard(first, second):
    return len(first & second) / len(first | second)


def cosine(first, second):
    return first @ second / np.linalg.norm(first) / np.linalg.norm(second)


# Of the places of the members of a set, or of their features.
FROM_PLACES = {
    "jaccard": lambda sets: np.mean([1 - jaccard(a, b) for a, b in itertools.combinations(sets, 2)]),
    shared_places: lambda sets: 1 - len(set.intersection(*sets)) / len(set.union(*sets)),
}
FROM_FEATURES = {
    "cosine": lambda vectors: np.mean([(1 - cosine(a, b)) / 2 for a, b in itertools.combinations(vectors, 2)]),
    "vendi": lambda vectors: poly.vendi_diversity([[cosine(a, b) for a in vectors] for b in vectors]),
    spread: lambda vectors: np.abs(vectors[:, 0] - vectors[:, 0].mean()).mean() / 5,
}


@pytest.mark.parametrize(
    "diversity", [*FROM_PLACES, *FROM_FEATURES], ids=lambda one: one if isinstance(one, str) else one.__name__
)
def test_advantages_are_those_of_all_sets_enumerated_by_hand(world, base, diversity):
    """E[f | i in the set] − E[f], with f from the walks themselves."""
    config = poly.make_config(
        budget=40, rollouts_per_state=4, forks_per_rollout=1, set_size=3, diversity=diversity, set_credit="trajectory"
    )
    rollouts = rollouts_of(world, base, rollouts_per_state=4, forks_per_rollout=1)
    found, _ = group_advantages(rollouts, config, np.random.default_rng(0))
    assert len(rollouts.groups) == 1 + 4
    for group, advantages in zip(rollouts.groups, found, strict=True):
        walks = []
        for k in group:
            steps = slice(rollouts.offsets[k], rollouts.offsets[k + 1])
            at = rollouts.obs["observation"][steps, 0]
            walks.append([*at, at[-1] + 2 * rollouts.actions[steps][-1] - 1])
        returns = [0.2 * (np.diff(walk) > 0).sum() for walk in walks]
        vectors = np.array([[walk[-1], walk[1] - walk[0], 0.5] for walk in walks])
        scores = {}
        for members in itertools.combinations(range(4), 3):
            if diversity in FROM_PLACES:
                different = FROM_PLACES[diversity]([set(walks[i]) for i in members])
            else:
                different = FROM_FEATURES[diversity](vectors[list(members)])
            scores[members] = np.mean([returns[i] for i in members]) * different
        everyone = np.mean(list(scores.values()))
        by_hand = [np.mean([score for members, score in scores.items() if i in members]) - everyone for i in range(4)]
        np.testing.assert_allclose(advantages, by_hand, atol=1e-6)


def test_a_feature_counts_from_the_fork_or_from_the_beginning(base):
    episodes = []
    watched = poly.from_gymnasium(
        Walk, [0], horizon=5, fork="copy", feature=lambda episode: episodes.append(episode) or [1.0]
    )
    rollouts_of(watched, base, rollouts_per_state=2, forks_per_rollout=1)
    assert [len(one) for one in episodes] == [5, 5, 3, 3, 3, 3]  # a spaced fork of 5 steps is at step 2
    assert all(len(one.observations) == len(one) + 1 == len(one.places) for one in episodes)
    episodes.clear()
    rollouts_of(watched, base, rollouts_per_state=2, forks_per_rollout=1, places_include_prefix=True)
    assert [len(one) for one in episodes] == [5] * 6
    for one in episodes:
        np.testing.assert_array_equal(np.diff(one.observations[:, 0]), 2 * one.actions - 1)
        np.testing.assert_allclose(one.rewards, 0.2 * one.actions)
        assert one.observations[0, 0] == 0


@pytest.mark.parametrize("set_credit", ["window", "trajectory", "critic", "control-variate"])
@pytest.mark.parametrize("diversity", ["jaccard", spread])
def test_every_rule_of_credit_takes_them(world, base, set_credit, diversity):
    result = poly.finetune(
        world, base, method="poly-ppo", iterations=2, budget=36, set_size=2, set_credit=set_credit,
        diversity=diversity, evaluation_rollouts=1, normalise="joint", actor_learning_rate=0.01, progress=False,
    )  # fmt: skip
    assert all(0 < line["set_diversity"] < 1 for line in result.metrics)
    assert result.metrics[0]["polychromic_std"] > 0


def test_a_run_records_them_and_resumes(world, base, tmp_path):
    class Stopped(Exception):
        pass

    def stop(iteration, _metrics):
        if iteration == 1:
            raise Stopped

    settings = {
        "method": "poly-ppo", "iterations": 3, "budget": 36, "set_size": 2, "diversity": spread, "checkpoint_every": 1,
        "evaluation_rollouts": 1, "progress": False,
    }  # fmt: skip
    whole = poly.finetune(world, base, **settings)
    with pytest.raises(Stopped):
        poly.finetune(world, base, **settings, out=tmp_path / "run", watch=stop)
    resumed = poly.finetune(world, base, **settings, out=tmp_path / "run")
    assert resumed.metrics == whole.metrics
    written = json.loads((tmp_path / "run/config.json").read_text())
    assert written["config"]["diversity"] == f"{__name__}:spread"
    assert written["feature"] == f"{__name__}.last_and_first" == description(world)["feature"]
    other = poly.from_gymnasium(Walk, [0, 1], place=lambda env: env.at, feature=str, horizon=5, fork="copy")
    with pytest.raises(poly.UserError, match="feature"):
        poly.finetune(other, base, **settings, out=tmp_path / "run")


def test_of_very_many_sets_some_are_drawn(world, base):
    config = poly.make_config(budget=40, forks_per_rollout=0, set_size=8, num_sets=0, diversity="jaccard")  # 77 million
    rollouts = rollouts_of(world, base, rollouts_per_state=40)
    drawn, _ = group_advantages(rollouts, config, np.random.default_rng(0))
    other, _ = group_advantages(rollouts, config, np.random.default_rng(1))
    assert MOST_GRADED_SETS == 2000
    assert np.corrcoef(drawn[0], other[0])[0, 1] > 0.9
    assert abs(drawn.sum()) < 1e-9


@pytest.mark.parametrize(
    ("options", "diversity", "told"),
    [
        ({"place": lambda env: env.at}, "vendi", r"which reads features, .* from_gymnasium\(feature="),
        ({"place": lambda env: env.at}, spread, r"which reads features"),
        ({"feature": last_and_first}, "jaccard", "the world names no places"),
        ({"feature": last_and_first}, "distinct", "the world names no places"),
        ({"feature": last_and_first}, of_labels, "the world names no places"),
        ({"feature": lambda _: "far"}, "vendi", "feature raised ValueError"),
        ({"feature": lambda _: [[1.0]]}, "vendi", "must be a vector of finite numbers"),
        ({"feature": lambda _: [np.nan]}, "vendi", "must be a vector of finite numbers"),
        ({"feature": lambda _: [0.0, 0.0]}, "vendi", "row of zeros"),
        ({"feature": lambda episode: np.ones(1 + episode.actions[0])}, "vendi", "they must be equally many"),
        ({"feature": last_and_first}, lambda features: features, "diversity returned shape"),
        ({"place": lambda env: env.at}, "jacard", "did you mean 'jaccard'"),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_is_told(base, options, diversity, told):
    world = poly.from_gymnasium(Walk, [0], horizon=5, fork="copy", **options)
    with pytest.raises(poly.UserError, match=told):
        poly.finetune(world, base, iterations=1, budget=36, set_size=2, diversity=diversity, progress=False)


def test_a_feature_must_be_a_function():
    with pytest.raises(poly.UserError, match="feature is 3; it must be a function of an episode"):
        poly.from_gymnasium(Walk, [0], horizon=5, feature=3)


def test_what_a_function_reads_is_the_name_of_its_argument():
    reads = [
        diversity_of(poly.make_config(diversity=one)).reads
        for one in (of_labels, shared_places, spread, lambda x: x, np.any)
    ]
    assert reads == ["labels", "places", "features", "labels", "labels"]
    assert {name: one.reads for name, one in DIVERSITIES.items()} == {
        "distinct": "labels",
        "jaccard": "places",
        "vendi": "features",
        "cosine": "features",
    }

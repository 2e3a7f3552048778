"""The proof of faithful forks: sound environments pass, every fault is caught and named."""

from __future__ import annotations

import copy
import importlib.util

import faulty_envs
import gymnasium
import numpy as np
import pytest

import polychromic
from polychromic.envs.forkcheck import check
from polychromic.envs.protocol import World
from polychromic.errors import Notice, UserError


def failed(report):
    return {one.name for one in report.failed}


@pytest.mark.parametrize("make_env", [faulty_envs.Walk, faulty_envs.NoisyWalk, faulty_envs.OwnGeneratorWalk])
@pytest.mark.parametrize("fork", ["copy", "replay"])
def test_sound_environments_pass(make_env, fork):
    report = polychromic.check_fork(make_env, fork=fork)
    assert report.ok, str(report)
    assert report.method == fork
    report.raise_if_failed()
    noise = report.checks[-1].found
    assert ("diverged" in noise) == (make_env is not faulty_envs.Walk)


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "Blackjack-v1", "MiniGrid-Dynamic-Obstacles-5x5-v0"])
def test_known_environments_pass(name):
    for fork in ("copy", "replay"):
        report = polychromic.check_fork(name, steps=24, fork=fork)
        assert report.ok, str(report)
        assert ("diverged" in report.checks[-1].found) == (name != "CartPole-v1")


def test_taxi_passes():
    report = polychromic.check_fork("Taxi-v4", seeds=[0], steps=12)
    assert report.ok
    assert "nothing observed depends on them" in report.checks[-1].found


@pytest.mark.parametrize(
    ("make_env", "caught", "words"),
    [
        (faulty_envs.ConstructorOnly, check.STATE, "EzPickle"),
        (faulty_envs.ForgetsCell, check.FUTURE, "__deepcopy__"),
        (faulty_envs.ForgetsCount, check.STATE, "ForgetsCount.count"),
        (faulty_envs.forgetful_limit, check.STATE, "ForgetfulLimit._elapsed_steps"),
        (faulty_envs.ShallowCopy, check.ORIGINAL, "__deepcopy__"),
        (faulty_envs.SharedGenerator, check.ORIGINAL, "share a generator: `SharedGenerator._np_random`"),
        (faulty_envs.CannotBeCopied, check.FUTURE, "no copy could be made"),
    ],
)
def test_bad_copies_are_caught_and_replayed_instead(make_env, caught, words):
    report = polychromic.check_fork(make_env, fork="copy")
    assert caught in failed(report), str(report)
    assert words in str(report)
    assert all(one.remedy for one in report.failed)
    with pytest.raises(UserError, match="not faithful"):
        report.raise_if_failed()
    chosen = polychromic.check_fork(make_env)
    assert chosen.ok, str(chosen)
    assert chosen.method == "replay"
    assert [one.method for one in chosen.rejected] == ["copy"]


@pytest.mark.parametrize(
    ("make_env", "words"),
    [
        (faulty_envs.SharesTrail, "`SharesTrail.trail`: the same object in original and copy"),
        (faulty_envs.SharesCounts, "`SharesCounts.counts`: the same object in original and copy"),
        (faulty_envs.LosesCells, "`LosesCells.cells`: different or missing in the copy"),
        (faulty_envs.LosesRecent, "`LosesRecent.recent`: different or missing in the copy"),
        (faulty_envs.RefillsCoins, "`RefillsCoins.coins`: different or missing in the copy"),
    ],
)
def test_what_no_observation_shows_is_found_in_the_fields(make_env, words):
    report = polychromic.check_fork(make_env, fork="copy", seeds=[0], steps=12)
    assert failed(report) == {check.STATE}, str(report)
    assert words in str(report)


def test_sharing_what_never_changes_is_no_fault():
    for make_env in (faulty_envs.Recorder, faulty_envs.SharesHeading):
        report = polychromic.check_fork(make_env, fork="copy", seeds=[0], steps=12)
        assert report.ok, str(report)


def test_a_clone_that_hands_out_the_originals_list_is_caught():
    names = ("trail", "counts", "cells", "recent", "coins", "heading", "count", "cell", "view", "words")
    kept = [name for name in names if name != "trail"]
    report = polychromic.check_fork(
        faulty_envs.Recorder,
        fork="clone",
        clone=lambda env: (env.trail, copy.deepcopy({name: getattr(env, name) for name in kept})),
        restore=lambda env, snapshot: vars(env).update(snapshot[1], trail=snapshot[0]),
        seeds=[0],
        steps=12,
    )
    assert failed(report) == {check.STATE}, str(report)
    assert "`Recorder.trail`: the same object in original and copy" in str(report)


@pytest.mark.parametrize("make_env", [faulty_envs.LateGenerator, faulty_envs.SeededGenerators])
def test_generators_that_appear_late_or_by_seed_pass(make_env):
    report = polychromic.check_fork(make_env, fork="copy", steps=12)
    assert report.ok, str(report)
    assert "diverged" in report.checks[-1].found


def test_a_reseed_that_misses_a_generator_is_named():
    report = polychromic.check_fork(faulty_envs.NoisyWalk, fork="copy", steps=8, reseed=lambda _env, _seed: None)
    assert failed(report) == {check.NOISE}
    assert "reseeding does not reach `NoisyWalk._np_random`" in str(report)
    found = polychromic.check_fork(
        faulty_envs.OwnGeneratorWalk, fork="copy", steps=8, reseed=lambda env, seed: env.plain.seed(seed)
    )
    assert "`OwnGeneratorWalk.parts['new']`, `OwnGeneratorWalk.parts['old'][0]`, which is drawn from" in str(found)


def test_long_texts_can_be_checked():
    with pytest.raises(UserError, match="give text_length=300"):
        polychromic.check_fork(faulty_envs.Talking, seeds=[0], steps=4)
    assert polychromic.check_fork(faulty_envs.Talking, seeds=[0], steps=4, text_length=300).ok
    assert polychromic.check_fork(faulty_envs.Talking, seeds=[0], steps=4, tokenize=lambda text: [len(text)]).ok
    world = polychromic.from_gymnasium(faulty_envs.Talking, [0], horizon=4, fork="copy", text_length=300)
    with pytest.raises(UserError, match="text_length is given, but a world is checked as it is"):
        polychromic.check_fork(world, text_length=300)


def test_a_seed_that_cannot_be_reset_is_named():
    class Fussy(faulty_envs.Walk):
        def reset(self, *, seed=None, **options):
            return super().reset(seed={0: 0}[seed], **options)

    with pytest.raises(UserError, match="fails without any fork: seed 1 raised KeyError: 1"):
        polychromic.check_fork(Fussy, seeds=[0, 1], steps=4)


@pytest.mark.parametrize(
    ("make_env", "words"),
    [
        (faulty_envs.GlobalNumpy, "the global generator of numpy.random"),
        (faulty_envs.GlobalRandom, "the global generator of the module random"),
        (faulty_envs.ModuleGenerator, "module variable faulty_envs.MODULE_GENERATOR"),
        (faulty_envs.ClassCounter, "class attribute ClassCounter.ticks"),
        (faulty_envs.IgnoresSeed, "call super().reset(seed=seed)"),
    ],
)
def test_what_no_fork_can_carry_is_refused_by_name(make_env, words):
    for fork in ("copy", "replay"):
        report = polychromic.check_fork(make_env, fork=fork)
        assert check.REPLAY in failed(report)
        assert words in str(report)
    if make_env in (faulty_envs.GlobalNumpy, faulty_envs.GlobalRandom, faulty_envs.ModuleGenerator):
        assert check.NOISE in failed(report)
    with pytest.warns(Notice, match="cannot be forked faithfully"):
        world = polychromic.from_gymnasium(make_env, [0], horizon=10)
    assert not world.can_fork


def test_a_seedless_generator_is_not_blamed_on_the_copy():
    report = polychromic.check_fork(faulty_envs.IgnoresSeed, fork="copy")
    assert failed(report) == {check.REPLAY}


def test_users_clone_and_restore():
    def clone(env):
        return env.cell, env.count, env.view.copy(), env.np_random.bit_generator.state

    def restore(env, snapshot):
        env.cell, env.count, view, env.np_random.bit_generator.state = snapshot
        env.view = view.copy()

    given = {"clone": clone, "restore": restore}
    report = polychromic.check_fork(faulty_envs.ConstructorOnly, **given)
    assert report.ok, str(report)
    assert report.method == "clone"
    # The limit's own count is not part of such a snapshot: the classic mistake.
    limited = polychromic.check_fork(
        lambda: gymnasium.wrappers.TimeLimit(faulty_envs.NoisyWalk(), 500),
        fork="clone",
        clone=lambda env: clone(env.unwrapped),
        restore=lambda env, snapshot: restore(env.unwrapped, snapshot),
    )
    assert failed(limited) == {check.STATE}
    assert "TimeLimit._elapsed_steps" in str(limited)


def test_an_environment_object_and_a_world_are_taken_too():
    assert polychromic.check_fork(gymnasium.make("CartPole-v1"), steps=8).ok
    world = polychromic.from_gymnasium(faulty_envs.NoisyWalk, [0, 1], horizon=9, fork="replay")
    assert polychromic.check_fork(world).method == "replay"
    with pytest.raises(UserError, match="without a spec"):
        polychromic.check_fork(faulty_envs.Walk())
    with pytest.raises(UserError, match="at least one of each"):
        polychromic.check_fork(faulty_envs.Walk, seeds=[])


class ArrayWorld(World):
    """A world that is not Gymnasium's: a row of positions. `views` makes forks that share their memory."""

    num_actions, num_configurations, horizon = 3, 2, 12

    def __init__(self, views=False):
        self.views = views

    def start(self, configurations):
        return ArrayState(np.asarray(configurations)[:, None] * [1, 0] + [0, 0], self.views)

    def observe(self, state):
        return {"position": state.cells[:, :1]}

    def step(self, state, actions):
        live = state.cells[:, 1] < self.horizon
        state.cells[live] += np.stack([actions, np.ones_like(actions)], 1)[live]
        ended = state.cells[:, 1] >= self.horizon
        return (state.cells[:, 0] * live).astype(np.float32), np.zeros(len(ended), bool), ended

    def concatenate(self, states):
        return ArrayState(np.concatenate([state.cells for state in states]), self.views)

    def places(self, state):
        return state.cells[:, 0] // 4


class ArrayState:
    def __init__(self, cells, views):
        self.cells, self.views = cells, views

    def __len__(self):
        return len(self.cells)

    def __getitem__(self, rows):
        return ArrayState(self.cells[:] if self.views else self.cells[rows], self.views)


def test_any_world_can_be_checked():
    assert polychromic.check_fork(ArrayWorld(), steps=20).ok
    for given, words in (
        ({"act": max}, "act is given"),
        ({"fork": "replay"}, "fork is given"),
        ({"seeds": [0, 2]}, "seeds holds 2; the configurations of this world are 0 to 1"),
    ):
        with pytest.raises(UserError, match=words):
            polychromic.check_fork(ArrayWorld(), **given)
    report = polychromic.check_fork(ArrayWorld(views=True), steps=20)
    assert check.ORIGINAL in failed(report)
    assert "must own its arrays" in str(report)


@pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")
@pytest.mark.skipif(importlib.util.find_spec("Box2D") is None, reason="needs the package box2d")
def test_lunar_lander_is_caught_and_replayed():
    report = polychromic.check_fork("LunarLander-v3", steps=32)
    assert report.ok
    assert report.method == "replay"
    assert "EzPickle" in str(report)


@pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="needs the package ale-py")
def test_atari_by_its_own_snapshots():
    import ale_py

    gymnasium.register_envs(ale_py)
    given = {
        "clone": lambda env: env.unwrapped.clone_state(include_rng=True),
        "restore": lambda env, snapshot: env.unwrapped.restore_state(snapshot),
    }

    def make_env():
        return gymnasium.make("ALE/Pong-v5", obs_type="ram")

    report = polychromic.check_fork(make_env, steps=16, seeds=[0], **given)
    assert report.ok, str(report)
    assert report.method == "clone"
    assert not polychromic.check_fork(make_env, steps=16, seeds=[0], fork="copy").ok

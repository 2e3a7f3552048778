"""Forks of real MiniGrid and BabyAI missions continue exactly like an undisturbed episode.

The verifiers of these missions test the identity of objects, so a copy of the grid alone passes random play
and fails when a mission is solved: a bot plays here.
"""

from __future__ import annotations

import contextlib
import copy
import io
import weakref

import gymnasium
import minigrid  # noqa: F401
import numpy as np
import pytest
from minigrid.utils.baby_ai_bot import BabyAIBot

import polychromic
from polychromic.envs.forkcheck import check

# level -> seeds; together: GoTo, Open, PickUp, PutNext, Before, After, And
LEVELS = {
    "BabyAI-GoToLocal-v0": range(3),
    "BabyAI-OpenDoorsOrderN2-v0": range(6),
    "BabyAI-UnlockPickup-v0": range(3),
    "BabyAI-PickupDist-v0": range(4),
    "BabyAI-PutNextLocal-v0": range(4),
    "BabyAI-ActionObjDoor-v0": range(6),
    "BabyAI-MiniBossLevel-v0": range(8),
    "BabyAI-SynthSeq-v0": range(3),
}


class Bot:
    """BabyAI's own solver as the `act` of a check: one bot per environment."""

    def __init__(self):
        self._bots = weakref.WeakKeyDictionary()

    def __call__(self, env, _rng):
        bare = env.unwrapped
        if bare not in self._bots:
            self._bots[bare] = [BabyAIBot(bare), None]
        bot, last = self._bots[bare]
        self._bots[bare][1] = int(bot.replan(last))
        return self._bots[bare][1]


def solve(name, seed):
    """An undisturbed episode played by the bot: actions, observations, rewards, ends."""
    env = gymnasium.make(name)
    with contextlib.redirect_stdout(io.StringIO()):
        shown = [env.reset(seed=seed)[0]]
    bot, actions, results = Bot(), [], []
    while not results or not any(results[-1][1:]):
        actions.append(bot(env, None))
        observation, *result, _ = env.step(actions[-1])
        shown.append(observation)
        results.append(result)
    return actions, shown, results, type(env.unwrapped.instrs).__name__


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("fork", ["copy", "replay"])
def test_snapshots_of_solved_missions(name, fork):
    seeds = list(LEVELS[name]) if fork == "copy" else list(LEVELS[name])[:2]
    world = polychromic.from_gymnasium(name, seeds, horizon=5000, fork=fork)
    rng = np.random.default_rng(0)
    for task, seed in enumerate(seeds):
        actions, shown, results, _ = solve(name, seed)
        assert results[-1][0] > 0, "the bot solves every one of these"
        state = world.start([task])
        moments = set(rng.integers(len(actions), size=3).tolist()) | {len(actions) - 1}
        forks = []
        for moment, action in enumerate(actions):
            if moment in moments:
                follower, stranger = state[[0]], state[[0]]
                for _ in range(5):  # moves objects and the agent of a copy about
                    world.step(stranger, rng.integers(world.num_actions, size=1))
                forks.append((moment, follower))
            follow(world, state, [action], shown[moment + 1 :], results[moment:])
        for moment, follower in forks:
            follow(world, follower, actions[moment:], shown[moment + 1 :], results[moment:])


def follow(world, state, actions, shown, results):
    for action, observation, (reward, terminated, truncated) in zip(actions, shown, results, strict=False):
        result = world.step(state, [action])
        seen = world.observe(state)
        assert np.array_equal(seen["image"][0], observation["image"])
        assert seen["direction"][0] == observation["direction"]
        assert (result.reward[0], result.terminated[0]) == (np.float32(reward), terminated)
        assert result.truncated[0] == truncated


def test_the_levels_above_cover_every_kind_of_mission():
    kinds = set()
    for name, seeds in LEVELS.items():
        for seed in seeds:
            env = gymnasium.make(name)
            with contextlib.redirect_stdout(io.StringIO()):
                env.reset(seed=seed)
            waiting = [env.unwrapped.instrs]
            while waiting:
                instruction = waiting.pop()
                kinds.add(type(instruction).__name__)
                waiting += [getattr(instruction, part) for part in ("instr_a", "instr_b") if hasattr(instruction, part)]
    assert {"GoToInstr", "OpenInstr", "PickupInstr", "PutNextInstr"} <= kinds
    assert {"BeforeInstr", "AfterInstr", "AndInstr"} <= kinds


FIELDS = ("grid", "agent_pos", "agent_dir", "step_count", "carrying")


def copy_grid_only(env):
    return {name: copy.deepcopy(getattr(env.unwrapped, name)) for name in FIELDS}


def restore_grid_only(env, snapshot):
    for name, value in copy.deepcopy(snapshot).items():
        setattr(env.unwrapped, name, value)


@pytest.mark.parametrize("name", ["BabyAI-PutNextLocal-v0", "BabyAI-PickupDist-v0", "BabyAI-OpenDoorsOrderN2-v0"])
def test_the_check_catches_a_snapshot_of_the_grid_alone(name):
    given = {"clone": copy_grid_only, "restore": restore_grid_only, "fork": "clone", "act": Bot(), "seeds": range(3)}
    report = polychromic.check_fork(name, **given)
    assert check.FUTURE in {one.name for one in report.failed}, str(report)
    sound = polychromic.check_fork(name, act=Bot(), seeds=[0])
    assert sound.ok
    assert sound.method == "copy"


def test_minigrid_is_kept_quiet(capsys):
    world = polychromic.from_gymnasium("BabyAI-SynthSeq-v0", range(8), horizon=10)
    world.start(range(8))
    assert capsys.readouterr().out == ""

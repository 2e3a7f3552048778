"""Missions that no level makes, against minigrid's own verifiers: random trees of clauses, strict or not."""

from collections import Counter

import numpy as np
import pytest
from minigrid.core.constants import COLOR_NAMES
from minigrid.core.world_object import Ball, Box, Floor, Key
from minigrid.envs.babyai.core import verifier

from polychromic.envs.grid.levels import stack_levels
from polychromic.envs.grid.load import make_minigrid, quiet, read_level
from polychromic.envs.grid.tasks import NotCovered
from polychromic.envs.grid.world import GridWorld

# Small rooms, so that random players meet things; doors, keys, boxes, and an agent that carries from the start.
LEVELS = (
    "BabyAI-SynthS5R2-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-PutNextS5N2Carrying-v0",
    "BabyAI-GoToLocalS5N2-v0",
)
ACTION_WEIGHTS = (0.2, 0.2, 0.3, 0.08, 0.12, 0.08, 0.02)
EPISODES_PER_LEVEL = 100
LEFT, FORWARD, PICKUP, DROP, TOGGLE = 0, 2, 3, 4, 5
THINGS = ("box", "ball", "key", None)


def engine_of(env):
    """The engine's world of minigrid's present state, in both views."""
    level = read_level("fuzzed", env)
    levels = stack_levels([level], [env.max_steps])
    return [GridWorld("fuzzed", [0], levels, 0.9, observation) for observation in ("partial", "full")]


def give_mission(env, instruction):
    env.instrs = instruction
    instruction.reset_verifier(env)


def assert_same_step(env, engine, state, action):
    """One action in both; returns minigrid's reward, terminated, truncated."""
    partial, full = engine
    seen, *outcome, _ = env.step(action)
    result = partial.step(state, [action])
    assert [np.float32(outcome[0]), *outcome[1:]] == [column[0] for column in result]
    assert np.array_equal(partial.observe(state)["image"][0], seen["image"])
    whole = env.grid.encode()
    whole[tuple(env.agent_pos)] = (10, 0, env.agent_dir)
    assert np.array_equal(full.observe(state)["image"][0], whole)
    return outcome


# ---------------------------------------------------------------------- random missions


def sprinkle(env, rng):
    """More things to carry, contents for boxes, floor tiles."""
    for x, y in np.ndindex(env.width, env.height):
        thing = env.grid.get(x, y)
        colour = rng.choice(COLOR_NAMES)
        if isinstance(thing, Box) and rng.random() < 0.6:
            thing.contains = (Key, Ball, Box)[rng.integers(3)](colour)
        if thing is None and tuple(env.agent_pos) != (x, y) and rng.random() < 0.1:
            thing = (Box, Ball, Key, Floor)[rng.integers(4)](colour)
            env.put_obj(thing, x, y)


def random_description(env, rng, kinds):
    """Of something that is there."""
    while True:
        place = rng.choice(verifier.LOC_NAMES) if rng.random() < 0.2 else None
        kind = kinds[rng.integers(len(kinds))]
        colour = rng.choice(COLOR_NAMES) if kind is None or rng.random() < 0.5 else None
        description = verifier.ObjDesc(kind, colour, place)
        description.find_matching_objs(env)
        if description.obj_set:
            return description


def random_clause(env, rng):
    strict, kind = bool(rng.random() < 0.4), rng.choice(4, p=(0.35, 0.2, 0.25, 0.2))
    doors = any(cell is not None and cell.type == "door" for cell in env.grid.grid)
    if kind == 0:
        return verifier.GoToInstr(random_description(env, rng, THINGS))
    if kind == 1 and doors:
        return verifier.OpenInstr(random_description(env, rng, ("door",)), strict=strict)
    if kind == 2:
        return verifier.PickupInstr(random_description(env, rng, THINGS), strict=strict)
    moved, fixed = (random_description(env, rng, kinds) for kinds in (THINGS, (*THINGS[:3], "door")))
    return verifier.PutNextInstr(moved, fixed, strict=strict)


def random_mission(env, rng):
    def side():
        clause = random_clause(env, rng)
        return verifier.AndInstr(clause, random_clause(env, rng)) if rng.random() < 0.4 else clause

    draw = rng.random()
    if draw < 0.4:
        return side()
    sequence = verifier.BeforeInstr if draw < 0.7 else verifier.AfterInstr
    return sequence(side(), side(), strict=bool(rng.random() < 0.5))


def eager_action(env, rng):
    """A random player that likes to use what is in front of it."""
    if rng.random() < 0.6:
        return int(rng.choice(7, p=ACTION_WEIGHTS))
    ahead = env.grid.get(*env.front_pos)
    if ahead is None:
        return DROP if env.carrying and rng.random() < 0.5 else FORWARD
    return PICKUP if ahead.can_pickup() and not env.carrying else TOGGLE


@pytest.mark.parametrize("level", LEVELS)
def test_random_missions_are_verified_as_minigrid_does(level):
    rng = np.random.default_rng([7, *level.encode()])
    env = make_minigrid(level)
    ends = Counter()
    for seed in range(EPISODES_PER_LEVEL):
        with quiet():
            env.reset(seed=seed)
        sprinkle(env, rng)
        give_mission(env, random_mission(env, rng))
        env.max_steps = int(rng.integers(20, 80))
        try:
            engine = engine_of(env)
        except NotCovered:  # "a grey object" may be a wall
            ends["refused"] += 1
            continue
        state = engine[0].start([0])
        ended = False
        while not ended:
            if rng.random() < 0.05:
                state = state[[0]]
            reward, *flags = assert_same_step(env, engine, state, eager_action(env, rng))
            ended = any(flags)
        ends["success" if reward else "failure" if flags[0] else "time"] += 1
    assert ends["refused"] < EPISODES_PER_LEVEL / 4
    assert min(ends["success"], ends["failure"]) > 3, ends


# ---------------------------------------------------------------------- what random players rarely meet


def in_a_corner(mission):
    """The agent between two walls, facing a red ball; a blue key is on its right hand."""
    env = make_minigrid("BabyAI-GoToLocalS5N2-v0")
    with quiet():
        env.reset(seed=0)
    for x, y in np.ndindex(3, 3):
        env.grid.set(x + 1, y + 1, None)
    env.agent_pos, env.agent_dir = (1, 1), 0
    env.put_obj(Ball("red"), 2, 1)
    env.put_obj(Key("blue"), 1, 2)
    give_mission(env, mission)
    engine = engine_of(env)
    return env, engine, engine[0].start([0])


def outcome_of(mission, actions):
    """Rewards and endings are minigrid's and the engine's; returns whether the last action succeeded and ended it."""
    env, engine, state = in_a_corner(mission)
    for action in actions[:-1]:
        assert assert_same_step(env, engine, state, action) == [0, False, False]
    reward, terminated, _ = assert_same_step(env, engine, state, actions[-1])
    return reward > 0, terminated


def ball():
    return verifier.ObjDesc("ball", "red")


def key():
    return verifier.ObjDesc("key", "blue")


@pytest.mark.parametrize(("failed_drop", "expected"), [([], (True, True)), ([DROP], (False, False))])
def test_verifiers_learn_where_things_are_on_any_drop_even_a_failed_one(failed_drop, expected):
    """The ball is in the agent's hands, but its verifier still knows it where it lay, unless a drop was tried."""
    mission = verifier.BeforeInstr(verifier.GoToInstr(key()), verifier.GoToInstr(ball()))
    assert outcome_of(mission, [PICKUP, LEFT, *failed_drop, LEFT, LEFT, LEFT]) == expected


@pytest.mark.parametrize("strict", [True, False])
def test_a_strict_sequence_fails_when_its_last_side_is_done_first(strict):
    mission = verifier.BeforeInstr(verifier.GoToInstr(key()), verifier.PickupInstr(ball()), strict=strict)
    assert outcome_of(mission, [PICKUP]) == (False, strict)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("clause", ["put next", "pick up"])
def test_a_strict_clause_fails_when_something_is_picked_up(clause, strict):
    if clause == "put next":
        mission = verifier.PutNextInstr(ball(), key(), strict=strict)
    else:
        mission = verifier.PickupInstr(key(), strict=strict)
    assert outcome_of(mission, [PICKUP]) == (False, strict)

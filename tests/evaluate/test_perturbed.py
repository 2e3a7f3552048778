"""Perturbed starts: elsewhere, in rooms that the policy visits, and solvable: a bot solves every one of them."""

from collections import deque

import gymnasium
import minigrid  # noqa: F401  (registers its levels)
import numpy as np
import pytest

import polychromic
from polychromic import UserError
from polychromic.envs.grid.expert import expert_for
from polychromic.envs.grid.starts import within_walk
from polychromic.envs.grid.world import GridWorld
from polychromic.evaluate.perturbed import perturbed_starts, score_starts
from polychromic.policies.inference import Evaluator
from walkers import walker


def starts_of(task, seeds, per_room=2):
    world = polychromic.make(task, seeds=seeds)
    saved = walker(world)
    evaluator = Evaluator(saved.policy, saved.params)
    return world, evaluator, perturbed_starts(world, evaluator, rollouts=20, per_place=per_room)


@pytest.mark.parametrize("task", ["goto", "bosslevel"])
def test_the_bot_solves_every_start(task):
    world, _, starts = starts_of(task, range(5), per_room=1)
    assert len(starts) >= 10
    for number in range(len(starts)):
        configuration = int(starts.configurations[number])
        with gymnasium.make(world.task, max_steps=2000) as wrapped:
            wrapped.reset(seed=world.level_seeds[configuration])
            env = wrapped.unwrapped
            original = tuple(env.agent_pos)
            where = tuple(starts.where["positions"][number].tolist())
            assert where != original
            env.agent_pos, env.agent_dir = np.array(where), int(starts.where["directions"][number])
            bot = expert_for(env)
            reward, over = 0.0, False
            while not over:
                action = bot.advice()
                assert action is not None, (configuration, where)
                _, reward, terminated, truncated, _ = env.step(action)
                bot.told(action)
                over = terminated or truncated
            assert reward > 0, (configuration, where, env.mission)


def test_fourrooms_goals_can_be_walked_to_from_every_start():
    world, _, starts = starts_of("fourrooms", range(20), per_room=10)
    for configuration, (x, y) in zip(starts.configurations.tolist(), starts.where["positions"].tolist(), strict=True):
        grid = world.grids(world.start([configuration]))[0]
        goal = tuple(np.argwhere(grid == 2)[0].tolist())
        reached, queue = {(x, y)}, deque([(x, y)])
        while queue:
            a, b = queue.popleft()
            for cell in ((a + 1, b), (a - 1, b), (a, b + 1), (a, b - 1)):
                if cell not in reached and grid[cell] != 46:
                    reached.add(cell)
                    queue.append(cell)
        assert goal in reached


def test_starts_lie_in_visited_rooms_in_different_cells_and_repeat(monkeypatch):
    explored = []

    def chosen(world, visited, per_place, rng, choose=GridWorld.other_starts):
        explored.extend(visited)
        return choose(world, visited, per_place, rng)

    monkeypatch.setattr(GridWorld, "other_starts", chosen)
    world, evaluator, starts = starts_of("fourrooms", range(5), per_room=10)
    for configuration in range(5):
        own = starts.configurations == configuration
        visited = set(explored[configuration].tolist())
        assert len(explored[configuration]) >= 20 * 2  # the places of 20 rollouts, each with a first and a last one
        assert int(world.places(world.start([configuration]))[0]) in visited
        assert set(starts.places[own].tolist()) == visited
        assert np.unique(starts.places[own], return_counts=True)[1].tolist() == [10] * len(visited)
        assert len(np.unique(starts.where["positions"][own], axis=0)) == own.sum()
        assert world.positions(world.start([configuration]))[0].tolist() not in starts.where["positions"][own].tolist()
    state = world.start_at(starts.configurations, starts.where["positions"], starts.where["directions"])
    assert (world.places(state) == starts.places).all()
    again = starts_of("fourrooms", range(5), per_room=10)[2]
    assert (again.where["positions"] == starts.where["positions"]).all()
    scored = score_starts(evaluator, world, starts, np.random.default_rng(0))
    assert sum(scored["configurations"]["starts"]) == scored["starts"] == len(starts)
    assert 0 < scored["success"]["low"] <= scored["success"]["mean"] <= scored["success"]["high"] < 1


def test_locked_rooms_are_not_started_in():
    """Level 1 of UnlockLocal: nothing but the key opens the door, so the agent must begin on its own side of it."""
    world = polychromic.make("BabyAI-UnlockLocal-v0", seeds=range(4))
    for configuration in range(4):
        grid = world.grids(world.start([configuration]))[0]
        reach = within_walk(world, configuration)
        assert not reach[(grid >= 40) & (grid < 46)].any()
        assert reach.any()
        assert not reach[grid == 46].any()


def test_a_world_without_other_starts_is_refused(saved):
    world = polychromic.make("triangle")
    with pytest.raises(UserError, match="perturbed starts need a world whose agent can be put somewhere else"):
        perturbed_starts(world, Evaluator(saved.policy, saved.params))

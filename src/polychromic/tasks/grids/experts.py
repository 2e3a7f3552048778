"""The experts of the demonstrations: a shortest path on FourRooms, minigrid's bot on the BabyAI levels."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes
from polychromic.envs.grid.step import FORWARD, LEFT, RIGHT
from polychromic.errors import UserError

Expert = Callable[[Any, int], list[int] | None]


def level_expert(level: str) -> tuple[str, Expert]:
    """The name of a level's expert and the function (environment just reset, horizon) -> actions, None if unsolved."""
    if level.startswith("BabyAI-"):
        return "bot", bot_actions
    if level.startswith("MiniGrid-FourRooms"):
        return "shortest path", path_actions
    raise UserError(f"task: there is no expert for {level}; FourRooms and the BabyAI levels have one")


def bot_actions(env: Any, horizon: int) -> list[int] | None:
    """The actions of minigrid's BabyAI bot until it succeeds; None if that takes more than `horizon` steps."""
    from minigrid.utils.baby_ai_bot import BabyAIBot

    bot: Any = BabyAIBot(env)  # type: ignore[no-untyped-call]
    actions: list[int] = []
    taken = None
    while len(actions) < horizon:
        try:
            taken = bot.replan(taken)
        except (AssertionError, IndexError, KeyError, AttributeError, TypeError, ValueError):
            return None  # the bot fails on a few rare levels, with one of these errors
        actions.append(int(taken))
        _, reward, terminated, truncated, _ = env.step(taken)
        if terminated or truncated:
            return actions if reward > 0 else None
    return None


def path_actions(env: Any, horizon: int) -> list[int] | None:
    """A shortest sequence of turns and steps to the goal; None if it is longer than `horizon`."""
    walls = np.array([[_blocks(env.grid.get(x, y)) for y in range(env.height)] for x in range(env.width)])
    goals = [(x, y) for x in range(env.width) for y in range(env.height) if _is_goal(env.grid.get(x, y))]
    x, y = map(int, env.agent_pos)
    actions = shortest_path(walls, (x, y, int(env.agent_dir)), set(goals))
    return actions if actions is not None and len(actions) <= horizon else None


def shortest_path(
    walls: NDArray[np.bool_], start: tuple[int, int, int], goals: set[tuple[int, int]]
) -> list[int] | None:
    """The first shortest path from (x, y, direction) to one of the cells, breadth first over (x, y, direction).

    Among equally short paths, forward comes before left, and left before right.
    """
    moves = {0: (1, 0), 1: (0, 1), 2: (-1, 0), 3: (0, -1)}
    came: dict[tuple[int, int, int], tuple[tuple[int, int, int], int] | None] = {start: None}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        x, y, direction = here
        if (x, y) in goals:
            actions = []
            at = here
            while (step := came[at]) is not None:
                at, action = step
                actions.append(action)
            return actions[::-1]
        ahead = x + moves[direction][0], y + moves[direction][1]
        options = [(LEFT, (x, y, (direction - 1) % 4)), (RIGHT, (x, y, (direction + 1) % 4))]
        if not walls[ahead]:
            options.insert(0, (FORWARD, (*ahead, direction)))
        for action, there in options:
            if there not in came:
                came[there] = here, action
                queue.append(there)
    return None


def _blocks(thing: Any) -> bool:
    return thing is not None and codes.CODE_OF_TRIPLE[tuple(map(int, thing.encode()))] != codes.GOAL


def _is_goal(thing: Any) -> bool:
    return thing is not None and codes.CODE_OF_TRIPLE[tuple(map(int, thing.encode()))] == codes.GOAL

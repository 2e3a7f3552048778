"""Gymnasium's FrozenLake on its map of 8 × 8: many paths lead to the gift, and each set of cells is a strategy."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
from gymnasium.envs.toy_text.frozen_lake import MAPS, FrozenLakeEnv

import polychromic as poly

MAP = MAPS["8x8"]
ICE = tuple(8 * row + column for row, line in enumerate(MAP) for column, cell in enumerate(line) if cell == "F")


@functools.cache
def _lake(hole: int) -> FrozenLakeEnv:
    cells = list("".join(MAP))
    if hole >= 0:
        cells[hole] = "H"
    return FrozenLakeEnv(desc=["".join(cells[row : row + 8]) for row in range(0, 64, 8)], is_slippery=False)


def make_lake(hole: int = -1) -> FrozenLakeEnv:
    """The lake, which does not slip; with one more hole, if there is to be one. Its table of moves is shared."""
    return copy.copy(_lake(hole))


def cell(env: Any) -> int:
    """Where it is."""
    return int(env.unwrapped.s)


def reached(env: Any) -> bool:
    """Whether the gift was found."""
    return cell(env) == 63


def put(env: Any, at: int) -> None:
    """Continue from a cell."""
    env.s = at


def demonstrator(seed: int = 0, careless: float = 0.25) -> Any:
    """Steps towards the gift, any of the shortest; some of them just go where there is ice."""
    moves = _lake(-1).P
    leads = {at: [moves[at][action][0][1] for action in range(4)] for at in moves}
    holes = {at for at in moves if "".join(MAP)[at] == "H"}
    far = {63: 0}
    while more := {at: 1 + min(far[to] for to in ends if to in far) for at, ends in leads.items()
                   if at not in far and at not in holes and any(to in far for to in ends)}:  # fmt: skip
        far |= more
    rng = np.random.default_rng(seed)

    def act(seen: Any) -> int:
        at = int(seen)
        safe = [action for action, to in enumerate(leads[at]) if to not in holes and to != at]
        nearest = min(far[leads[at][action]] for action in safe)
        good = [action for action in safe if far[leads[at][action]] == nearest]
        return int(rng.choice(safe if rng.random() < careless else good))

    return act


FROZEN = {
    "place": cell, "success": reached, "horizon": 30, "fork": "clone", "clone": cell, "restore": put,
    "reseed_on_fork": False, "reseed_on_start": False,
}  # fmt: skip
lake = poly.task_from_gymnasium(make_lake, name="lake", seeds=[0], demonstrations=demonstrator, **FROZEN)

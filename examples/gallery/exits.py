"""A room with an exit in every wall. Any of them will do, and one is near: a task with several right answers."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import polychromic as poly

EXITS = {(0, 4): "west", (4, 0): "north", (8, 4): "east", (4, 8): "south"}
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Exits(gymnasium.Env[np.ndarray, int]):
    """The west is near. A `locked` exit looks like the others and does not open."""

    action_space = gymnasium.spaces.Discrete(4)  # type: ignore[assignment]
    observation_space = gymnasium.spaces.MultiDiscrete([9, 9])  # type: ignore[assignment]

    def __init__(self, locked: str = "") -> None:
        self.locked = locked

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed, options=options)
        self.at: tuple[int, ...] = (2, 4)
        return np.array(self.at), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.at = tuple(min(8, max(0, place + move)) for place, move in zip(self.at, MOVES[action], strict=True))
        out = self.at in EXITS and EXITS[self.at] != self.locked
        return np.array(self.at), float(out), out, False, {"is_success": out}


def exit_of(env: Any) -> str:
    """What makes two episodes different: the exit that they take."""
    return EXITS.get(env.unwrapped.at, "none")


exits = poly.task_from_gymnasium(Exits, name="exits", seeds=[0], place=exit_of, horizon=24)

"""Episodes of a grid for the viewer: what every code means, where the agent was at every step, which cells changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes

if TYPE_CHECKING:
    from polychromic.envs.grid.world import Cells, GridWorld


def replay(
    world: GridWorld, configurations: NDArray[np.int64], actions: NDArray[np.int32], lengths: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Of each episode `path` (x, y, direction of every moment, flat) and `changes` (moment, x, y, code, flat)."""
    state = world.start(configurations)
    grids = world.grids(state)
    paths = [np.column_stack([world.positions(state), world.directions(state)])]
    changes: list[list[int]] = [[] for _ in configurations]
    for step in range(int(lengths.max(initial=0))):
        # Rows that have ended stay as they are, whatever the action.
        world.step(state, np.where(step < lengths, actions[:, step].astype(np.int64), 0))
        now = world.grids(state)
        for row, x, y in np.argwhere(now != grids):
            changes[row] += [step + 1, int(x), int(y), int(now[row, x, y])]
        grids = now
        paths.append(np.column_stack([world.positions(state), world.directions(state)]))
    moments = np.stack(paths, axis=1)
    return [
        {"path": moments[row, : length + 1].ravel().tolist(), "changes": changes[row]}
        for row, length in enumerate(lengths.tolist())
    ]


def room_centres(free: Cells) -> list[int]:
    """For each room from 0 on the free cell nearest to its middle (x, y, flat); −1, −1 for a room without one."""
    found: list[int] = []
    for room in range(int(free.rooms[free.rooms < codes.NO_ROOM].max(initial=-1)) + 1):
        own = free.positions[free.rooms == room]
        if not len(own):
            found += [-1, -1]
            continue
        middle = (own.min(axis=0) + own.max(axis=0)) / 2
        found += own[np.abs(own - middle).sum(axis=1).argmin()].tolist()
    return found


def legend() -> dict[str, list[str]]:
    """What the codes in recordings mean, for drawing: code -> kind, colour."""
    kinds = {codes.EMPTY: "empty", codes.GOAL: "goal", codes.LAVA: "lava", codes.WALL: "wall"}
    firsts = {
        codes.FLOOR: "floor",
        codes.KEY: "key",
        codes.BALL: "ball",
        codes.BOX: "box",
        codes.OPEN_DOOR: "open door",
        codes.CLOSED_DOOR: "closed door",
        codes.LOCKED_DOOR: "locked door",
    }
    named = {str(code): [kind, ""] for code, kind in kinds.items()}
    for first, kind in firsts.items():
        named |= {str(first + index): [kind, colour] for index, colour in enumerate(codes.COLOURS)}
    return named

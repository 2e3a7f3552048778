"""Other starts in a grid (paper, section 6.3): the same grid and mission, with the agent somewhere else.

A start must be solvable. From a cell that the agent could walk to from its own start, without moving anything and
without a key, it can walk back and solve the mission as before; only such cells are used. This excludes, for
instance, the inside of a locked room whose key is outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes
from polychromic.envs.protocol import Starts
from polychromic.errors import UserError

if TYPE_CHECKING:
    from polychromic.envs.grid.world import GridWorld


def starts_in_rooms(
    world: GridWorld, visited: Sequence[NDArray[np.int64]], per_room: int, rng: np.random.Generator
) -> Starts:
    """Cells in the rooms `visited` of each configuration, with a random direction; all cells of a small room."""
    configurations, positions, rooms = [], [], []
    for configuration, seen in enumerate(visited):
        cells = world.free_cells(configuration)
        first = world.positions(world.start([configuration]))[0]
        usable = within_walk(world, configuration)[cells.positions[:, 0], cells.positions[:, 1]]
        usable &= (cells.positions != first).any(axis=1)
        for room in np.unique(seen):
            inside = np.flatnonzero(usable & (cells.rooms == room))
            chosen = rng.permutation(inside)[:per_room]
            configurations += [configuration] * len(chosen)
            rooms += [int(room)] * len(chosen)
            positions.append(cells.positions[chosen])
    cells_chosen = np.concatenate(positions) if positions else np.zeros((0, 2), np.int64)
    if not len(cells_chosen):
        raise UserError("no configuration has a cell for another start")
    where = {"positions": cells_chosen, "directions": rng.integers(0, 4, len(cells_chosen))}
    return Starts(np.array(configurations), np.array(rooms), where)


def within_walk(world: GridWorld, configuration: int) -> NDArray[np.bool_]:
    """[width, height]: cells that the agent can reach from its own start through doors that are not locked."""
    from scipy.ndimage import label

    state = world.start([configuration])
    grid = world.grids(state)[0]
    doors = (grid >= codes.OPEN_DOOR) & (grid < codes.LOCKED_DOOR)
    floor = (grid >= codes.FLOOR) & (grid < codes.KEY)
    areas, _ = label(doors | floor | (grid == codes.EMPTY) | (grid == codes.GOAL))
    x, y = world.positions(state)[0]
    return np.asarray((areas == areas[x, y]) & (areas > 0), np.bool_)

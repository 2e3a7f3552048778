"""Which room each cell belongs to. Diversity counts sets of rooms.

Levels on a grid of rooms (every BabyAI level, and FourRooms): the room grid itself. A wall, and so a doorway or a gap
in it, belongs to the room on its right or below it (minigrid's own `room_from_pos`).

Every other level: rooms are the areas that walls and doors enclose, numbered from the left column on, top to bottom
inside a column; a door belongs to the first of its right, lower, left, upper neighbours that is in a room. Walls, and
the space around the rooms (MultiRoom's rooms do not fill its grid), are in no room.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid.codes import NO_ROOM, OPEN_DOOR, WALL


def room_map(env: Any, grid: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[width, height]: the room of each cell of a minigrid environment with these codes."""
    from minigrid.core.roomgrid import RoomGrid
    from minigrid.envs.fourrooms import FourRoomsEnv

    width, height = grid.shape
    if isinstance(env, RoomGrid):
        return _room_grid(width, height, env.room_size - 1, env.room_size - 1, env.num_cols, env.num_rows)
    if isinstance(env, FourRoomsEnv):
        return _room_grid(width, height, width // 2, height // 2, 2, 2)
    return _enclosed_areas(grid)


def _room_grid(width: int, height: int, room_w: int, room_h: int, columns: int, rows: int) -> NDArray[np.uint8]:
    column = np.minimum(np.arange(width) // room_w, columns - 1)
    row = np.minimum(np.arange(height) // room_h, rows - 1)
    return (row[None, :] * columns + column[:, None]).astype(np.uint8)


def _enclosed_areas(grid: NDArray[np.uint8]) -> NDArray[np.uint8]:
    from scipy.ndimage import label

    areas, _ = label(grid < OPEN_DOOR)
    around = np.unique(np.concatenate([areas[0], areas[-1], areas[:, 0], areas[:, -1]]))
    inside, _ = label((areas > 0) & ~np.isin(areas, around))
    padded = np.pad(inside, 1)
    for x, y in np.argwhere((grid >= OPEN_DOOR) & (grid < WALL)):
        neighbours = (padded[x + 2, y + 1], padded[x + 1, y + 2], padded[x, y + 1], padded[x + 1, y])
        inside[x, y] = next((area for area in neighbours if area), 0)
    rooms: NDArray[np.uint8] = np.where(inside, inside - 1, NO_ROOM).astype(np.uint8)
    return rooms

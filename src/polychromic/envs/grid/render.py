"""A state as a picture, drawn with minigrid's own tiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes, view
from polychromic.envs.grid.levels import Levels

_FORWARD = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])


def render_row(
    row: NDArray[np.uint8], levels: Levels, tile_size: int = 32, highlight: bool = True
) -> NDArray[np.uint8]:
    """The RGB image [height · tile, width · tile, 3] of one row of bytes, as minigrid's `get_full_render` draws it."""
    from minigrid.core.grid import Grid

    margin = levels.margin
    inside = slice(margin, -margin or None)
    cells = row[codes.HEADER : codes.HEADER + levels.width * levels.height].reshape(levels.width, levels.height)
    grid, _ = Grid.decode(codes.CODE_TRIPLES[cells[inside, inside]])
    agent = row[[codes.AGENT_X, codes.AGENT_Y]].astype(int) - margin
    direction = int(row[codes.DIRECTION])
    seen = _seen_cells(row, levels, agent, direction) if highlight else None
    image: NDArray[np.uint8] = grid.render(tile_size, tuple(agent), direction, highlight_mask=seen)
    return image


def _seen_cells(row: NDArray[np.uint8], levels: Levels, agent: NDArray[np.int64], direction: int) -> NDArray[np.bool_]:
    """[width, height]: the cells that the agent sees."""
    shown = np.empty(view.CELLS + 1, np.uint8)
    view.partial_view(row, len(row), levels.width, levels.height, levels.see_through_walls, shown)
    column, line = np.divmod(np.flatnonzero(shown[:-1] != codes.UNSEEN), view.VIEW)
    forward = _FORWARD[direction]
    right = np.array([-forward[1], forward[0]])
    where = agent + forward * (view.VIEW - 1 - line)[:, None] + right * (column - view.VIEW // 2)[:, None]
    size = np.array([levels.width, levels.height]) - 2 * levels.margin
    where = where[((where >= 0) & (where < size)).all(axis=1)]
    mask = np.zeros(size, np.bool_)
    mask[where[:, 0], where[:, 1]] = True
    return mask

"""The compiled views: what each agent sees (minigrid's `process_vis`, exactly), the whole grid, and the rooms."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polychromic.envs.grid.codes import (
    AGENT,
    AGENT_X,
    AGENT_Y,
    CARRIED_CODE,
    CLOSED_DOOR,
    DIRECTION,
    EMPTY,
    HEADER,
    TASK_0,
    TASK_1,
    TASK_2,
    UNSEEN,
)

VIEW = 7
CELLS = VIEW * VIEW


def visibility_table() -> NDArray[np.uint16]:
    """[128 · 128]: one row of minigrid's `process_vis` as a function of two 7-bit masks.

    Entry `seen · 128 + clear`: low byte, the cells of this row that are seen after both sweeps; high byte, the cells
    of the next row (away from the agent) that this row lets be seen. `seen` holds what the row before let be seen,
    `clear` the cells one can see through.
    """
    table = np.zeros(128 * 128, np.uint16)
    for seen in range(128):
        for clear in range(128):
            now, ahead = seen, 0
            for cell in range(VIEW - 1):
                if now >> cell & clear >> cell & 1:
                    now |= 2 << cell
                    ahead |= 3 << cell
            for cell in range(VIEW - 1, 0, -1):
                if now >> cell & clear >> cell & 1:
                    now |= 1 << (cell - 1)
                    ahead |= 3 << (cell - 1)
            table[seen * 128 + clear] = now | ahead << 8
    return table


@njit(cache=True)
def partial_view(rows, row_size, width, height, see_through_walls, visible, out):
    """The agent's 7 × 7 view as codes, ordered as minigrid's image ([column, row from the far end]).

    rows uint8 [B · row_size], visible: `visibility_table`, out uint8 [B · 49].
    """
    last_x = width - 1
    last_y = height - 1
    for row in range(rows.shape[0] // row_size):
        base = row * row_size
        x = np.int64(rows[base + AGENT_X])
        y = np.int64(rows[base + AGENT_Y])
        direction = rows[base + DIRECTION]
        # Going away from the agent changes one coordinate, going to its right the other: a cell's index is the sum
        # of two offsets. What lies outside the grid is a wall, and so is the border: clamping shows the same.
        # Indices are unsigned, which spares the compiler the negative ones.
        if direction & 1:
            right = np.int64(direction) - 2  # facing down, the right hand is at smaller x
            c0 = np.uint64(min(max(x - 3 * right, 0), last_x) * height)
            c1 = np.uint64(min(max(x - 2 * right, 0), last_x) * height)
            c2 = np.uint64(min(max(x - right, 0), last_x) * height)
            c3 = np.uint64(x * height)
            c4 = np.uint64(min(max(x + right, 0), last_x) * height)
            c5 = np.uint64(min(max(x + 2 * right, 0), last_x) * height)
            c6 = np.uint64(min(max(x + 3 * right, 0), last_x) * height)
            start, ahead, last, scale = y, -right, last_y, 1
        else:
            right = 1 - np.int64(direction)  # facing right, the right hand is at larger y
            c0 = np.uint64(min(max(y - 3 * right, 0), last_y))
            c1 = np.uint64(min(max(y - 2 * right, 0), last_y))
            c2 = np.uint64(min(max(y - right, 0), last_y))
            c3 = np.uint64(y)
            c4 = np.uint64(min(max(y + right, 0), last_y))
            c5 = np.uint64(min(max(y + 2 * right, 0), last_y))
            c6 = np.uint64(min(max(y + 3 * right, 0), last_y))
            start, ahead, last, scale = x, right, last_x, height
        seen = np.uint64(8)  # the agent's own cell
        for distance in range(VIEW):
            far = np.uint64(base + HEADER + min(max(start + distance * ahead, 0), last) * scale)
            v0 = rows[far + c0]
            v1 = rows[far + c1]
            v2 = rows[far + c2]
            v3 = rows[far + c3]
            v4 = rows[far + c4]
            v5 = rows[far + c5]
            v6 = rows[far + c6]
            here = np.uint64(127)
            if not see_through_walls:
                clear = (
                    np.uint64(v0 < CLOSED_DOOR)
                    | np.uint64(v1 < CLOSED_DOOR) << np.uint64(1)
                    | np.uint64(v2 < CLOSED_DOOR) << np.uint64(2)
                    | np.uint64(v3 < CLOSED_DOOR) << np.uint64(3)
                    | np.uint64(v4 < CLOSED_DOOR) << np.uint64(4)
                    | np.uint64(v5 < CLOSED_DOOR) << np.uint64(5)
                    | np.uint64(v6 < CLOSED_DOOR) << np.uint64(6)
                )
                entry = np.uint64(visible[seen << np.uint64(7) | clear])
                here = entry & np.uint64(127)
                seen = entry >> np.uint64(8)
            place = np.uint64(row * CELLS + VIEW - 1 - distance)
            out[place] = v0 if here & np.uint64(1) else UNSEEN
            out[place + np.uint64(7)] = v1 if here & np.uint64(2) else UNSEEN
            out[place + np.uint64(14)] = v2 if here & np.uint64(4) else UNSEEN
            out[place + np.uint64(21)] = v3 if here & np.uint64(8) else UNSEEN
            out[place + np.uint64(28)] = v4 if here & np.uint64(16) else UNSEEN
            out[place + np.uint64(35)] = v5 if here & np.uint64(32) else UNSEEN
            out[place + np.uint64(42)] = v6 if here & np.uint64(64) else UNSEEN
        # Only now does the agent's own cell show what is carried: seeing used the cell under the agent.
        carried = rows[base + CARRIED_CODE]
        out[row * CELLS + 27] = carried if carried else EMPTY


@njit(cache=True)
def full_view(rows, width, height, margin, out):
    """The whole grid as codes with the agent in it, out uint8 [B · width · height] (without the margin)."""
    place = 0
    for row in range(rows.shape[0]):
        agent = HEADER + np.int64(rows[row, AGENT_X]) * height + np.int64(rows[row, AGENT_Y])
        for x in range(margin, width - margin):
            for y in range(margin, height - margin):
                cell = HEADER + x * height + y
                out[place] = AGENT + rows[row, DIRECTION] if cell == agent else rows[row, cell]
                place += 1


@njit(cache=True)
def expand(codes, triples, image):
    """Codes to (object, colour, state) bytes.

    `triples` uint32 [51] holds the three bytes of each code. `image` is a uint32 view that advances 3 bytes per
    element: each store writes a cell and one byte of the next, which the next store then corrects.
    """
    for index in range(codes.shape[0]):
        image[index] = triples[codes[index]]


@njit(cache=True)
def partial_image(rows, row_size, width, height, see_through_walls, visible, out, triples, image):
    """`partial_view` and `expand` in one call."""
    partial_view(rows, row_size, width, height, see_through_walls, visible, out)
    expand(out, triples, image)


@njit(cache=True)
def full_image(rows, width, height, margin, out, triples, image):
    """`full_view` and `expand` in one call."""
    full_view(rows, width, height, margin, out)
    expand(out, triples, image)


@njit(cache=True)
def rooms_kernel(rows, rooms, height, out):
    """The room of each world's agent: rooms uint8 [tasks, width · height], out int64 [B]."""
    for row in range(rows.shape[0]):
        task = np.int64(rows[row, TASK_0]) | np.int64(rows[row, TASK_1]) << 8 | np.int64(rows[row, TASK_2]) << 16
        out[row] = rooms[task, np.int64(rows[row, AGENT_X]) * height + np.int64(rows[row, AGENT_Y])]

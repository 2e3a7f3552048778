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
def partial_view(rows, width, height, see_through_walls, visible, out):
    """The agent's 7 × 7 view as codes, ordered as minigrid's image ([column, row from the far end]).

    rows uint8 [B, bytes], visible: `visibility_table`, out uint8 [B · 49].
    """
    for row in range(rows.shape[0]):
        x = np.int64(rows[row, AGENT_X])
        y = np.int64(rows[row, AGENT_Y])
        direction = rows[row, DIRECTION]
        base = row * (VIEW * VIEW)
        # Going away from the agent changes one coordinate, going to its right the other: a cell's index is the sum
        # of two offsets. What lies outside the grid is a wall, and so is the border: clamping shows the same.
        if direction == 0:
            start, ahead, ahead_size, ahead_scale = x, 1, width, height
            middle, right, right_size, right_scale = y, 1, height, 1
        elif direction == 1:
            start, ahead, ahead_size, ahead_scale = y, 1, height, 1
            middle, right, right_size, right_scale = x, -1, width, height
        elif direction == 2:
            start, ahead, ahead_size, ahead_scale = x, -1, width, height
            middle, right, right_size, right_scale = y, -1, height, 1
        else:
            start, ahead, ahead_size, ahead_scale = y, -1, height, 1
            middle, right, right_size, right_scale = x, 1, width, height
        c0 = HEADER + min(max(middle - 3 * right, 0), right_size - 1) * right_scale
        c1 = HEADER + min(max(middle - 2 * right, 0), right_size - 1) * right_scale
        c2 = HEADER + min(max(middle - right, 0), right_size - 1) * right_scale
        c3 = HEADER + middle * right_scale
        c4 = HEADER + min(max(middle + right, 0), right_size - 1) * right_scale
        c5 = HEADER + min(max(middle + 2 * right, 0), right_size - 1) * right_scale
        c6 = HEADER + min(max(middle + 3 * right, 0), right_size - 1) * right_scale
        seen = 8  # the agent's own cell
        for distance in range(VIEW):
            far = min(max(start + distance * ahead, 0), ahead_size - 1) * ahead_scale
            v0 = rows[row, c0 + far]
            v1 = rows[row, c1 + far]
            v2 = rows[row, c2 + far]
            v3 = rows[row, c3 + far]
            v4 = rows[row, c4 + far]
            v5 = rows[row, c5 + far]
            v6 = rows[row, c6 + far]
            here = 127
            if not see_through_walls:
                clear = (
                    (v0 < CLOSED_DOOR)
                    | (v1 < CLOSED_DOOR) << 1
                    | (v2 < CLOSED_DOOR) << 2
                    | (v3 < CLOSED_DOOR) << 3
                    | (v4 < CLOSED_DOOR) << 4
                    | (v5 < CLOSED_DOOR) << 5
                    | (v6 < CLOSED_DOOR) << 6
                )
                entry = np.int64(visible[seen * 128 + clear])
                here = entry & 127
                seen = entry >> 8
            place = base + VIEW - 1 - distance
            out[place] = v0 if here & 1 else UNSEEN
            out[place + 7] = v1 if here & 2 else UNSEEN
            out[place + 14] = v2 if here & 4 else UNSEEN
            out[place + 21] = v3 if here & 8 else UNSEEN
            out[place + 28] = v4 if here & 16 else UNSEEN
            out[place + 35] = v5 if here & 32 else UNSEEN
            out[place + 42] = v6 if here & 64 else UNSEEN
        # Only now does the agent's own cell show what is carried: seeing used the cell under the agent.
        carried = rows[row, CARRIED_CODE]
        out[base + 27] = carried if carried else EMPTY


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
def partial_image(rows, width, height, see_through_walls, visible, out, triples, image):
    """`partial_view` and `expand` in one call."""
    partial_view(rows, width, height, see_through_walls, visible, out)
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

"""The compiled views: what each agent sees (minigrid's `process_vis`, exactly), the whole grid, and the rooms."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from polychromic.envs.grid.codes import (
    AGENT,
    AGENT_X,
    AGENT_Y,
    CARRIED_CODE,
    CLOSED_DOOR,
    CODE_TRIPLES,
    DIRECTION,
    EMPTY,
    HEADER,
    TASK_0,
    TASK_1,
    TASK_2,
    WALL,
)

VIEW = 7
CELLS = VIEW * VIEW

# Words of eight cells, a byte each.
ALL_BYTES = np.uint64(0xFFFFFFFFFFFFFFFF)
SEVEN_BYTES = np.uint64(0x00FFFFFFFFFFFFFF)
WALLS = np.uint64(WALL * 0x0001010101010101)
OPAQUE_CARRIES = np.uint64((128 - CLOSED_DOOR) * 0x0101010101010101)  # lifts opaque codes to 128 and more
HIGH_BITS = np.uint64(0x8080808080808080)
GATHER_BITS = np.uint64(0x0102040810204080)  # multiplied by bits 0, 8, … 56: the same bits side by side in the top byte
LOW_SEVEN = np.uint64(127)
SEVEN = np.uint64(7)


def visibility_table() -> NDArray[np.uint16]:
    """[128 · 128]: one row of minigrid's `process_vis` as a function of two 7-bit masks.

    Entry `seen · 128 + clear`: low byte, the cells of this row that are seen after both sweeps; high byte, the cells
    of the next row (away from the agent) that this row makes visible. `seen` holds the cells made visible by the row
    before, `clear` the transparent cells. The table is symmetric: mirrored rows give mirrored entries.
    """
    seen, clear = np.divmod(np.arange(128 * 128), 128)
    ahead = np.zeros_like(seen)
    for cell in range(VIEW - 1):
        through = seen >> cell & clear >> cell & 1
        seen |= through << (cell + 1)
        ahead |= (3 * through) << cell
    for cell in range(VIEW - 1, 0, -1):
        through = seen >> cell & clear >> cell & 1
        seen |= through << (cell - 1)
        ahead |= (3 * through) << (cell - 1)
    return (seen | ahead << 8).astype(np.uint16)


def byte_masks() -> NDArray[np.uint64]:
    """[128]: a byte of ones for each bit that is set."""
    bits = np.arange(128)[:, None] >> np.arange(8) & 1
    return (bits * 255).astype(np.uint8).view(np.uint64).ravel()


def packed_triples() -> NDArray[np.uint32]:
    """[51]: `CODE_TRIPLES` as words, the fourth byte 0."""
    return np.pad(CODE_TRIPLES, ((0, 0), (0, 1))).view(np.uint32).ravel()


# Compiled into the kernels.
VISIBLE = visibility_table()
KEEP_BYTES = byte_masks()
TRIPLES = packed_triples()
# By direction: where the first line is, where the next one is, where lines begin.
FIRST_X = np.array([0, 3, 0, -3])
STEP_X = np.array([1, -1, -1, 1])
LOW_Y = np.array([-3, 0, -3, -6])


@intrinsic
def _load_word(_, array, index):
    """Eight bytes of a contiguous uint8 array, from any offset, as one word."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature, arguments, ir.IntType(64))
        return builder.load(place, align=1)

    return types.uint64(array, index), generate


@intrinsic
def _store_word(_, array, index, word):
    """Write a uint32 or uint64 into a contiguous uint8 array at any offset."""

    def generate(context, builder, signature, arguments):
        place = _pointer(context, builder, signature, arguments, arguments[2].type)
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return types.void(array, index, word), generate


@intrinsic
def _eight_words(_):
    """Eight uninitialised uint64 on the stack: no other array can alias them, which helps the compiler."""

    def generate(_context, builder, _signature, _arguments):
        with builder.goto_entry_block():
            return builder.alloca(ir.IntType(64), size=8)

    return types.CPointer(types.uint64)(), generate


def _pointer(context: Any, builder: Any, signature: Any, arguments: Any, word: ir.Type) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), word.as_pointer())


@njit(cache=True)
def _transpose(bits):
    """An 8 × 8 matrix of bits (a byte per row) mirrored at its diagonal."""
    swap = (bits ^ (bits >> np.uint64(7))) & np.uint64(0x00AA00AA00AA00AA)
    bits = bits ^ swap ^ (swap << np.uint64(7))
    swap = (bits ^ (bits >> np.uint64(14))) & np.uint64(0x0000CCCC0000CCCC)
    bits = bits ^ swap ^ (swap << np.uint64(14))
    swap = (bits ^ (bits >> np.uint64(28))) & np.uint64(0x00000000F0F0F0F0)
    return bits ^ swap ^ (swap << np.uint64(28))


@njit(cache=True)
def partial_view(cells, row_size, width, height, see_through_walls, out):
    """The agent's 7 × 7 view as codes, ordered as minigrid's image ([column, row from the far end]).

    cells uint8 [B · row_size], out uint8 [B · 49 + 1] (one byte more than the view).

    The grid is stored column by column, so seven cells along y are one word. Facing left or right, such a line is a row
    of the view (all cells equally far away); facing up or down it is a column. Visibility is computed on bits: one bit
    per cell, seven lines of seven bits.
    """
    lines = _eight_words()
    for row in range(cells.shape[0] // row_size):
        base = row * row_size
        x = np.int64(cells[base + AGENT_X])
        y = np.int64(cells[base + AGENT_Y])
        direction = np.int64(cells[base + DIRECTION])
        vertical = direction & 1
        # Line 0 is the nearest row, or the leftmost column of the view.
        first_x = x + FIRST_X[direction]
        step_x = STEP_X[direction]
        low_y = y + LOW_Y[direction]
        # Everything outside the grid is a wall. Along x the border, which is also wall, is read instead.
        before = -low_y if low_y < 0 else 0
        after = low_y + VIEW - height if low_y + VIEW > height else 0
        inside = (ALL_BYTES << np.uint64(8 * before)) & (SEVEN_BYTES >> np.uint64(8 * after))
        outside = WALLS & ~inside
        start = base + HEADER + low_y + before
        shift = np.uint64(8 * before)
        lines[7] = 0
        clear = np.uint64(0)  # byte: line, bit: place in the line, 1 if transparent
        for line in range(VIEW):
            column = first_x + line * step_x
            column = 0 if column < 0 else column if column < width else width - 1
            at = start + column * height
            word = ((_load_word(cells, at) << shift) & inside) | outside
            lines[line] = word
            opaque = ((((word + OPAQUE_CARRIES) & HIGH_BITS) >> SEVEN) * GATHER_BITS) >> np.uint64(56)
            clear |= (~opaque & LOW_SEVEN) << np.uint64(8 * line)
        place = row * CELLS
        if not see_through_walls:
            # Visibility spreads from row to row of the view; the rows are the bytes of `clear` (transposed where
            # lines are columns), nearest first, except facing up, where the nearest is the last place of a line.
            if vertical:
                clear = _transpose(clear)
            seen = np.uint64(8)  # the agent's own cell
            shown = np.uint64(0)
            for distance in range(VIEW):
                at = np.uint64(8 * (VIEW - 1 - distance if direction == 3 else distance))
                entry = np.uint64(VISIBLE[seen << SEVEN | (clear >> at & LOW_SEVEN)])
                shown |= (entry & LOW_SEVEN) << at
                seen = entry >> np.uint64(8)
            if vertical:
                shown = _transpose(shown)
            for line in range(VIEW):
                lines[line] &= KEEP_BYTES[shown >> np.uint64(8 * line) & LOW_SEVEN]
        # The image is stored column by column, far cells first. Where lines are rows they must become columns; then
        # each column is one store, whose eighth byte the next store overwrites.
        if not vertical:
            for pair in range(4):
                a, b = lines[2 * pair], lines[2 * pair + 1]
                swap = ((a >> np.uint64(8)) ^ b) & np.uint64(0x00FF00FF00FF00FF)
                lines[2 * pair], lines[2 * pair + 1] = a ^ (swap << np.uint64(8)), b ^ swap
            for pair in range(4):
                left = pair + (pair & 2)
                a, b = lines[left], lines[left + 2]
                swap = ((a >> np.uint64(16)) ^ b) & np.uint64(0x0000FFFF0000FFFF)
                lines[left], lines[left + 2] = a ^ (swap << np.uint64(16)), b ^ swap
            for pair in range(4):
                a, b = lines[pair], lines[pair + 4]
                swap = ((a >> np.uint64(32)) ^ b) & np.uint64(0x00000000FFFFFFFF)
                lines[pair], lines[pair + 4] = a ^ (swap << np.uint64(32)), b ^ swap
        for column in range(VIEW):
            word = lines[VIEW - 1 - column if direction == 2 else column]
            if direction != 3:
                word = ((word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8)) | (
                    (word >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
                )
                word = ((word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16)) | (
                    (word >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
                )
                word = ((word << np.uint64(32)) | (word >> np.uint64(32))) >> np.uint64(8)
            _store_word(out, place + VIEW * column, word)
        # Only now does the agent's own cell show what is carried: visibility used the cell under the agent.
        carried = cells[base + CARRIED_CODE]
        out[place + 27] = carried if carried else EMPTY


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
def expand(codes, count, image):
    """Codes to (object, colour, state) bytes: codes uint8, image uint8 [3 · count + 1].

    Each store writes a cell and one byte of the next, which the next store overwrites.
    """
    for index in range(count):
        _store_word(image, 3 * index, TRIPLES[codes[index]])


@njit(cache=True)
def rooms_kernel(rows, rooms, height, out):
    """The room of each world's agent: rooms uint8 [tasks, width · height], out int64 [B]."""
    for row in range(rows.shape[0]):
        task = np.int64(rows[row, TASK_0]) | np.int64(rows[row, TASK_1]) << 8 | np.int64(rows[row, TASK_2]) << 16
        out[row] = rooms[task, np.int64(rows[row, AGENT_X]) * height + np.int64(rows[row, AGENT_Y])]

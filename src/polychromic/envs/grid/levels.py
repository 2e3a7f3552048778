"""Several levels as arrays: the first row of bytes of each, their missions' programs, their rooms."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes
from polychromic.envs.grid.load import Level
from polychromic.errors import UserError

# Which of a rule's parameters are coordinates.
_COORDINATES = {
    codes.RULE_UNLOCK: (0, 1),
    codes.RULE_DONE_AT: (0, 1),
    codes.RULE_MEMORY: (0, 1, 2, 3),
    codes.RULE_PUT_NEAR: (1, 2),
    codes.RULE_TWO_DOORS: (0, 1, 2, 3),
}


@dataclass(frozen=True, eq=False)
class Levels:
    """Everything about the configurations of a world that never changes."""

    missions: tuple[str, ...]
    width: int  # of the stored grid, which has `margin` more cells on each side than the level
    height: int
    margin: int
    see_through_walls: bool
    first_rows: NDArray[np.uint8]  # [tasks, bytes]
    program: NDArray[np.int64]  # [tasks, PROGRAM]
    members: NDArray[np.uint8]  # [tasks, DESCRIPTIONS, 1 + most that fit one]
    objects: NDArray[np.uint8]  # [tasks, objects, 2]
    rooms: NDArray[np.uint8]  # [tasks, width · height]

    @cached_property
    def fingerprint(self) -> str:
        """Equal for equal levels, in every process."""
        digest = hashlib.sha256(repr((self.missions, self.width, self.height, self.see_through_walls)).encode())
        for array in (self.first_rows, self.program, self.members, self.objects, self.rooms):
            digest.update(repr(array.shape).encode() + array.tobytes())
        return digest.hexdigest()


def stack_levels(levels: Sequence[Level], horizons: Sequence[int]) -> Levels:
    """Join levels of the same size, each with the number of steps its episodes may take."""
    # The view shows walls outside the grid. Where the border is not all wall (MiniGrid-GoToDoor has doors in it), a
    # ring of walls around the grid keeps that exact.
    margin = int(any(not _walled(level.grid) for level in levels))
    levels = [_pad(level) for level in levels] if margin else levels
    sizes = {(level.width, level.height, level.see_through_walls) for level in levels}
    if len(sizes) != 1:
        raise UserError(f"the levels of one world must have the same size, these have {sorted(sizes)}")
    width, height, see_through_walls = sizes.pop()
    count = max(len(level.objects) for level in levels)
    # Words of eight bytes are read at any cell: the last cell needs seven more bytes after it.
    size = codes.HEADER + width * height + max(4 * count, 7)
    rows = np.full((len(levels), -(-size // 16) * 16), codes.NOWHERE, np.uint8)
    rows[:, : codes.HEADER] = 0
    objects = np.zeros((len(levels), count, 2), np.uint8)
    most = max(len(fitting) for level in levels for fitting in level.members)
    members = np.zeros((len(levels), codes.DESCRIPTIONS, 1 + most), np.uint8)
    program = np.zeros((len(levels), codes.PROGRAM), np.int64)
    for task, (level, horizon) in enumerate(zip(levels, horizons, strict=True)):
        row = rows[task]
        row[[codes.AGENT_X, codes.AGENT_Y, codes.DIRECTION]] = level.agent
        if level.carried:
            row[codes.CARRIED_OBJECT] = level.carried
            row[codes.CARRIED_CODE] = level.objects[level.carried - 1, 0]
        row[codes.TASK_0 : codes.TASK_2 + 1] = (task & 255, task >> 8 & 255, task >> 16)
        places = codes.HEADER + width * height
        row[codes.HEADER : places] = level.grid.ravel()
        present = len(level.objects)
        for block, column in enumerate((*level.positions.T, *level.tracked.T)):
            row[places + block * count : places + block * count + present] = column
        objects[task, :present] = level.objects
        for description, fitting in enumerate(level.members):
            members[task, description, : 1 + len(fitting)] = (len(fitting), *fitting)
        program[task] = level.program
        program[task, codes.HORIZON] = horizon
    return Levels(
        missions=tuple(level.mission for level in levels),
        width=width,
        height=height,
        margin=margin,
        see_through_walls=see_through_walls,
        first_rows=rows,
        program=program,
        members=members,
        objects=objects,
        rooms=np.stack([level.rooms.ravel() for level in levels]),
    )


def _walled(grid: NDArray[np.uint8]) -> bool:
    return all((edge == codes.WALL).all() for edge in (grid[0], grid[-1], grid[:, 0], grid[:, -1]))


def _pad(level: Level) -> Level:
    """The same level with one more ring of walls around it."""
    program = level.program.copy()
    for parameter in _COORDINATES.get(int(program[codes.RULE]), ()):
        program[codes.PARAMETERS + parameter] += 1
    x, y, direction = level.agent
    return dataclasses.replace(
        level,
        width=level.width + 2,
        height=level.height + 2,
        agent=(x + 1, y + 1, direction),
        grid=np.pad(level.grid, 1, constant_values=codes.WALL),
        rooms=np.pad(level.rooms, 1, constant_values=codes.NO_ROOM),
        positions=_shift(level.positions),
        tracked=_shift(level.tracked),
        program=program,
    )


def _shift(places: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.where(places == codes.NOWHERE, codes.NOWHERE, places + 1).astype(np.uint8)

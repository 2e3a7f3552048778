"""One byte per cell: the 47 things a cell can show, 4 more for the agent in the full view, and the layout of a row.

The order of the codes is chosen for the kernels: everything opaque is at the end, everything that can be picked up is
in one block, and a door's three states are 6 apart (one per colour), so that each rule is a comparison or an addition.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")

UNSEEN = 0
EMPTY = 1
GOAL = 2
LAVA = 3
FLOOR = 4  # 4 … 9, by colour
KEY = 10  # 10 … 15
BALL = 16  # 16 … 21
BOX = 22  # 22 … 27
OPEN_DOOR = 28  # 28 … 33
CLOSED_DOOR = 34  # 34 … 39: opaque from here on
LOCKED_DOOR = 40  # 40 … 45
WALL = 46
AGENT = 47  # 47 … 50, by direction; appears in the full view only
NUM_CODES = 51

# minigrid's object numbers (minigrid.core.constants.OBJECT_TO_IDX).
_OBJECTS = {
    "unseen": 0,
    "empty": 1,
    "wall": 2,
    "floor": 3,
    "door": 4,
    "key": 5,
    "ball": 6,
    "box": 7,
    "goal": 8,
    "lava": 9,
    "agent": 10,
}


def _triples() -> NDArray[np.uint8]:
    """[51, 3]: the (object, colour, state) triple that minigrid shows for each code."""
    table = np.zeros((NUM_CODES, 3), np.uint8)
    table[EMPTY] = (_OBJECTS["empty"], 0, 0)
    table[GOAL] = (_OBJECTS["goal"], COLOURS.index("green"), 0)
    table[LAVA] = (_OBJECTS["lava"], COLOURS.index("red"), 0)
    table[WALL] = (_OBJECTS["wall"], COLOURS.index("grey"), 0)
    for colour in range(6):
        for first, name in ((FLOOR, "floor"), (KEY, "key"), (BALL, "ball"), (BOX, "box")):
            table[first + colour] = (_OBJECTS[name], colour, 0)
        for state, first in enumerate((OPEN_DOOR, CLOSED_DOOR, LOCKED_DOOR)):
            table[first + colour] = (_OBJECTS["door"], colour, state)
    for direction in range(4):
        table[AGENT + direction] = (_OBJECTS["agent"], COLOURS.index("red"), direction)
    table.setflags(write=False)
    return table


# [51, 3] uint8: code -> (object, colour, state).
CODE_TRIPLES = _triples()
CODE_OF_TRIPLE = {tuple(int(part) for part in triple): code for code, triple in enumerate(CODE_TRIPLES)}

# The bytes of one world: this header, then the grid (column after column, as minigrid's images are ordered), then
# for each object its x, its y, and the x and y that the mission's verifier last saw.
AGENT_X = 0
AGENT_Y = 1
DIRECTION = 2
CARRIED_CODE = 3  # 0 where nothing is carried
CARRIED_OBJECT = 4  # object number + 1, 0 where nothing is carried
STEPS_LOW = 5
STEPS_HIGH = 6
ENDED = 7  # the sum of the flags below that are set
TERMINATED, TRUNCATED, SUCCEEDED = 1, 2, 4
TASK_0 = 8  # three bytes, little-endian
TASK_1 = 9
TASK_2 = 10
LATCHES = 11  # bits 0-3: clause done (inside And); bit 4: the first half of Before/After is done
CARRIED_BEFORE = 12  # four bytes, one per clause: what it saw carried when it was last verified (number + 1)
HEADER = 16
NOWHERE = 255  # x of an object that is carried, inside a box, or gone

# The columns of a task's program (int64).
RULE = 0
SEQUENCE = 1
SEQUENCE_STRICT = 2
HORIZON = 3
PARAMETERS = 4  # four numbers, for rules other than the BabyAI missions
CLAUSE_KIND = 8  # four each from here on
CLAUSE_STRICT = 12
MASK = 16  # bit k: object k fits the description (of what to move, for PutNext)
PROGRAM = 20

# The objects that fit each description: [8, 1 + objects], how many and then their numbers. Rows 0-3 are the clauses'
# (first) descriptions, rows 4-7 are what PutNext puts things next to.
DESCRIPTIONS = 8

NO_ROOM = 255  # in the map of rooms
MAX_OBJECTS = 64  # bits of a mask

# Kinds of clauses and sequences of the BabyAI language.
NO_CLAUSE, GO_TO, OPEN, PICK_UP, PUT_NEXT = range(5)
SINGLE, BEFORE, AFTER = range(3)

# What ends an episode, beyond goals, lava and time.
(
    RULE_NONE,
    RULE_BABYAI,
    RULE_PICK_UP,
    RULE_UNLOCK,
    RULE_FETCH,
    RULE_DONE_AT,
    RULE_MEMORY,
    RULE_PUT_NEAR,
    RULE_TWO_DOORS,
) = range(9)

"""The compiled part: step every world, verify its mission, and see what its agent sees.

All kernels read whole arrays by index (no slices) and run serially: they compile in seconds and take about a tenth of
a microsecond per world.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polychromic.envs.grid.codes import (
    AGENT,
    AGENT_X,
    AGENT_Y,
    BEFORE,
    BOX,
    CARRIED_BEFORE,
    CARRIED_CODE,
    CARRIED_OBJECT,
    CLAUSE_KIND,
    CLAUSE_STRICT,
    CLOSED_DOOR,
    DIRECTION,
    EMPTY,
    ENDED,
    GO_TO,
    GOAL,
    HEADER,
    HORIZON,
    KEY,
    LATCHES,
    LAVA,
    LOCKED_DOOR,
    MASK_A,
    MASK_B,
    NO_CLAUSE,
    NOWHERE,
    OPEN,
    OPEN_DOOR,
    PARAMETERS,
    PICK_UP,
    RULE,
    RULE_BABYAI,
    RULE_DONE_AT,
    RULE_FETCH,
    RULE_MEMORY,
    RULE_NONE,
    RULE_PICK_UP,
    RULE_PUT_NEAR,
    RULE_TWO_DOORS,
    RULE_UNLOCK,
    SEQUENCE,
    SEQUENCE_STRICT,
    SINGLE,
    STEPS_HIGH,
    STEPS_LOW,
    TASK_0,
    TASK_1,
    TASK_2,
    UNSEEN,
    WALL,
)

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
NUM_ACTIONS = 7
VIEW = 7
CONTINUE, SUCCESS, FAILURE = 0, 1, 2
FIRST_HALF_DONE = 16  # bit of LATCHES


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
def _object_at(rows, row, places, count, x, y):
    """The number of the object at (x, y), or -1. `places` is where the positions of the row begin."""
    for index in range(count):
        if rows[row, places + index] == x and rows[row, places + count + index] == y:
            return index
    return -1


@njit(cache=True)
def _verify_clause(rows, row, program, task, slot, action, cell_front, x_front, y_front, places, count):
    """One of GoTo, Open, PickUp, PutNext after an action: CONTINUE, SUCCESS or FAILURE."""
    kind = program[task, CLAUSE_KIND + slot]
    mask = program[task, MASK_A + slot]
    strict = program[task, CLAUSE_STRICT + slot] != 0
    tracked = places + 2 * count
    if kind == GO_TO:
        for index in range(count):
            if (
                (mask >> index) & 1
                and rows[row, tracked + index] == x_front
                and rows[row, tracked + count + index] == y_front
            ):
                return SUCCESS
        return CONTINUE
    if kind == OPEN:
        if action != TOGGLE:
            return CONTINUE
        if cell_front >= OPEN_DOOR and cell_front < WALL:
            if cell_front < CLOSED_DOOR:
                door = _object_at(rows, row, places, count, x_front, y_front)
                if door >= 0 and (mask >> door) & 1:
                    return SUCCESS
            if strict:
                return FAILURE
        return CONTINUE
    before = rows[row, CARRIED_BEFORE + slot]
    carried = rows[row, CARRIED_OBJECT]
    rows[row, CARRIED_BEFORE + slot] = carried
    if kind == PICK_UP:
        if action != PICKUP or carried == 0:
            return CONTINUE
        if before == 0 and (mask >> (np.int64(carried) - 1)) & 1:
            return SUCCESS
        if strict:
            return FAILURE
        return CONTINUE
    # PutNext
    if strict and action == PICKUP and carried != 0:
        return FAILURE
    if action != DROP or before == 0:
        return CONTINUE
    moved = np.int64(before) - 1
    if not (mask >> moved) & 1 or rows[row, places + moved] == NOWHERE:
        return CONTINUE
    x_moved = np.int64(rows[row, places + moved])
    y_moved = np.int64(rows[row, places + count + moved])
    fixed = program[task, MASK_B + slot]
    for index in range(count):
        if (fixed >> index) & 1 and rows[row, tracked + index] != NOWHERE:
            x_fixed = np.int64(rows[row, tracked + index])
            y_fixed = np.int64(rows[row, tracked + count + index])
            if abs(x_moved - x_fixed) + abs(y_moved - y_fixed) == 1:
                return SUCCESS
    return CONTINUE


@njit(cache=True)
def _verify_side(rows, row, program, task, slot, action, cell_front, x_front, y_front, places, count):
    """A single clause, or two joined by And (each stays done once it is done; a failure inside And is no failure)."""
    if program[task, CLAUSE_KIND + slot + 1] == NO_CLAUSE:
        return _verify_clause(rows, row, program, task, slot, action, cell_front, x_front, y_front, places, count)
    both = True
    for part in range(slot, slot + 2):
        if not rows[row, LATCHES] >> part & 1:
            if (
                _verify_clause(rows, row, program, task, part, action, cell_front, x_front, y_front, places, count)
                == SUCCESS
            ):
                rows[row, LATCHES] |= 1 << part
            else:
                both = False
    return SUCCESS if both else CONTINUE


@njit(cache=True)
def _verify_mission(rows, row, program, task, action, cell_front, x_front, y_front, places, count):
    """The whole BabyAI mission after an action: a side, or two sides in order."""
    sequence = program[task, SEQUENCE]
    if sequence == SINGLE:
        return _verify_side(rows, row, program, task, 0, action, cell_front, x_front, y_front, places, count)
    first, second = (0, 2) if sequence == BEFORE else (2, 0)
    if not rows[row, LATCHES] & FIRST_HALF_DONE:
        result = _verify_side(rows, row, program, task, first, action, cell_front, x_front, y_front, places, count)
        if result == FAILURE:
            return FAILURE
        if result == CONTINUE:
            # In strict missions the second half must not be fulfilled first; asking moves its own state on.
            if program[task, SEQUENCE_STRICT] and (
                _verify_side(rows, row, program, task, second, action, cell_front, x_front, y_front, places, count)
                == SUCCESS
            ):
                return FAILURE
            return CONTINUE
        rows[row, LATCHES] |= FIRST_HALF_DONE
    # The action that completes the first half is also the first that the second half sees.
    return _verify_side(rows, row, program, task, second, action, cell_front, x_front, y_front, places, count)


@njit(cache=True)
def step_kernel(rows, actions, program, objects, width, height, penalty, rewards, terminated, truncated):
    """Advance every world that has not ended; returns the row of the first invalid action (and changes nothing), or -1.

    rows uint8 [B, bytes], actions int64 [B], program int64 [tasks, PROGRAM], objects uint8 [tasks, objects, 2],
    rewards float32 [B], terminated and truncated bool [B].
    """
    batch = rows.shape[0]
    for row in range(batch):
        if actions[row] < 0 or actions[row] >= NUM_ACTIONS:
            return row
    count = objects.shape[1]
    places = HEADER + width * height
    tracked = places + 2 * count
    for row in range(batch):
        rewards[row] = 0.0
        if rows[row, ENDED]:
            terminated[row] = rows[row, ENDED] & 1 != 0
            truncated[row] = rows[row, ENDED] & 2 != 0
            continue
        task = (
            np.int64(rows[row, TASK_0]) | np.int64(rows[row, TASK_1]) << 8 | np.int64(rows[row, TASK_2]) << 16
        )
        steps = (np.int64(rows[row, STEPS_LOW]) | np.int64(rows[row, STEPS_HIGH]) << 8) + 1
        rows[row, STEPS_LOW] = steps & 255
        rows[row, STEPS_HIGH] = steps >> 8
        horizon = program[task, HORIZON]
        rule = program[task, RULE]
        action = actions[row]
        if rule == RULE_MEMORY and action == PICKUP:
            action = TOGGLE
        x = np.int64(rows[row, AGENT_X])
        y = np.int64(rows[row, AGENT_Y])
        direction = np.int64(rows[row, DIRECTION])
        x_front = x + (direction == 0) - (direction == 2)
        y_front = y + (direction == 1) - (direction == 3)
        front = HEADER + x_front * height + y_front
        cell = rows[row, front]
        carried_before = rows[row, CARRIED_OBJECT]
        result = CONTINUE

        if action == LEFT:
            rows[row, DIRECTION] = (direction + 3) & 3
        elif action == RIGHT:
            rows[row, DIRECTION] = (direction + 1) & 3
        elif action == FORWARD:
            if cell < KEY or (cell >= OPEN_DOOR and cell < CLOSED_DOOR):
                rows[row, AGENT_X] = x_front
                rows[row, AGENT_Y] = y_front
                if cell == GOAL:
                    result = SUCCESS
                elif cell == LAVA:
                    result = FAILURE
        elif action == PICKUP:
            if cell >= KEY and cell < OPEN_DOOR and carried_before == 0:
                index = _object_at(rows, row, places, count, x_front, y_front)
                rows[row, CARRIED_CODE] = cell
                rows[row, CARRIED_OBJECT] = index + 1
                rows[row, places + index] = NOWHERE
                rows[row, places + count + index] = NOWHERE
                rows[row, front] = EMPTY
        elif action == DROP:
            if cell == EMPTY and carried_before != 0:
                index = np.int64(carried_before) - 1
                rows[row, front] = rows[row, CARRIED_CODE]
                rows[row, places + index] = x_front
                rows[row, places + count + index] = y_front
                rows[row, CARRIED_CODE] = 0
                rows[row, CARRIED_OBJECT] = 0
            if rule == RULE_BABYAI:
                # Verifiers learn where things are on every drop, even one that fails, and at no other time.
                for index in range(2 * count):
                    rows[row, tracked + index] = rows[row, places + index]
        elif action == TOGGLE:
            if cell >= LOCKED_DOOR and cell < WALL:
                if rows[row, CARRIED_CODE] == KEY + cell - LOCKED_DOOR:
                    rows[row, front] = OPEN_DOOR + cell - LOCKED_DOOR
            elif cell >= CLOSED_DOOR and cell < LOCKED_DOOR:
                rows[row, front] = cell - 6
            elif cell >= OPEN_DOOR and cell < CLOSED_DOOR:
                rows[row, front] = cell + 6
            elif cell >= BOX and cell < OPEN_DOOR:
                index = _object_at(rows, row, places, count, x_front, y_front)
                inside = np.int64(objects[task, index, 1])
                rows[row, places + index] = NOWHERE
                rows[row, places + count + index] = NOWHERE
                rows[row, front] = EMPTY
                if inside != 0:
                    rows[row, front] = objects[task, inside - 1, 0]
                    rows[row, places + inside - 1] = x_front
                    rows[row, places + count + inside - 1] = y_front

        if rule != RULE_NONE:
            x = np.int64(rows[row, AGENT_X])
            y = np.int64(rows[row, AGENT_Y])
            direction = np.int64(rows[row, DIRECTION])
            x_front = x + (direction == 0) - (direction == 2)
            y_front = y + (direction == 1) - (direction == 3)
            carried = rows[row, CARRIED_OBJECT]
            target = program[task, PARAMETERS]
            target_y = program[task, PARAMETERS + 1]
            if rule == RULE_BABYAI:
                cell = rows[row, HEADER + x_front * height + y_front]
                verified = _verify_mission(
                    rows, row, program, task, action, cell, x_front, y_front, places, count
                )
                if verified != CONTINUE:
                    result = verified
            elif rule == RULE_PICK_UP:
                if action == PICKUP and carried == target:
                    result = SUCCESS
            elif rule == RULE_UNLOCK:
                door = rows[row, HEADER + target * height + target_y]
                if action == TOGGLE and door < CLOSED_DOOR:
                    result = SUCCESS
            elif rule == RULE_FETCH:
                if carried != 0:
                    result = SUCCESS if rows[row, CARRIED_CODE] == target else FAILURE
            elif rule == RULE_DONE_AT:
                if action == TOGGLE:
                    result = FAILURE
                elif action == DONE:
                    result = SUCCESS if abs(x - target) + abs(y - target_y) == 1 else FAILURE
            elif rule == RULE_MEMORY:
                if x == target and y == target_y:
                    result = SUCCESS
                elif x == program[task, PARAMETERS + 2] and y == program[task, PARAMETERS + 3]:
                    result = FAILURE
            elif rule == RULE_PUT_NEAR:
                if action == PICKUP and carried != 0 and rows[row, CARRIED_CODE] != target:
                    result = FAILURE
                elif action == DROP and carried_before != 0:
                    near = (
                        abs(x_front - target_y) <= 1 and abs(y_front - program[task, PARAMETERS + 2]) <= 1
                    )
                    result = SUCCESS if carried == 0 and near else FAILURE
            elif rule == RULE_TWO_DOORS:
                # The red door must be open before the step in which the blue one opens.
                red = HEADER + target * height + target_y
                blue = HEADER + program[task, PARAMETERS + 2] * height + program[task, PARAMETERS + 3]
                if rows[row, blue] < CLOSED_DOOR:
                    result = SUCCESS if rows[row, red] < CLOSED_DOOR else FAILURE

        ended = 0
        if result != CONTINUE:
            ended = 1
            if result == SUCCESS:
                rewards[row] = 1.0 - penalty * (steps / horizon)
        if steps >= horizon:
            ended |= 2
        rows[row, ENDED] = ended
        terminated[row] = ended & 1 != 0
        truncated[row] = ended & 2 != 0
    return -1


@njit(cache=True)
def partial_view(rows, width, height, see_through_walls, visible, out):
    """The agent's 7 × 7 view as codes, out uint8 [B · 49], ordered as minigrid's image: [column, row from the far end]."""
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

    `triples` uint32 [51] holds the three bytes of each code. `image` is a uint32 view that advances 3 bytes per element:
    each store writes a cell and one byte of the next, which the next store then corrects.
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
        task = (
            np.int64(rows[row, TASK_0]) | np.int64(rows[row, TASK_1]) << 8 | np.int64(rows[row, TASK_2]) << 16
        )
        out[row] = rooms[task, np.int64(rows[row, AGENT_X]) * height + np.int64(rows[row, AGENT_Y])]

"""The compiled step: move, pick up, drop, toggle, and verify the mission, for every world in one call.

The kernels read whole arrays by index (no slices) and run serially: they compile in seconds and take a small part of a
microsecond per world. Verification and step share this file because numba's cache looks at one file at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from polychromic.envs.grid.codes import (
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
    WALL,
)

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
NUM_ACTIONS = 7
CONTINUE, SUCCESS, FAILURE = 0, 1, 2
FIRST_HALF_DONE = 16  # bit of LATCHES


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
        task = np.int64(rows[row, TASK_0]) | np.int64(rows[row, TASK_1]) << 8 | np.int64(rows[row, TASK_2]) << 16
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
                verified = _verify_mission(rows, row, program, task, action, cell, x_front, y_front, places, count)
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
                    near = abs(x_front - target_y) <= 1 and abs(y_front - program[task, PARAMETERS + 2]) <= 1
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

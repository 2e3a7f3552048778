"""The compiled step: move, pick up, drop, toggle, and verify the mission, for every world in one call.

One function, whole arrays read by index, no slices: it compiles in seconds and takes a fraction of a microsecond per
world. Calling other functions would count references to every array, which costs more than the step itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from polychromic.envs.grid.codes import (
    AFTER,
    AGENT_X,
    AGENT_Y,
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
    MASK,
    NO_CLAUSE,
    NOWHERE,
    OPEN,
    OPEN_DOOR,
    PARAMETERS,
    PICK_UP,
    PUT_NEXT,
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
    SUCCEEDED,
    TASK_0,
    TASK_1,
    TASK_2,
    TERMINATED,
    TRUNCATED,
    WALL,
)

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
NUM_ACTIONS = 7
CONTINUE, SUCCESS, FAILURE = 0, 1, 2
FIRST_SIDE, LOOK_AHEAD, LAST_SIDE = 0, 1, 2
FIRST_SIDE_DONE = 16  # bit of LATCHES


@njit(cache=True)
def step_kernel(rows, actions, program, members, objects, width, height, penalty, rewards, terminated, truncated):
    """Advance every world that has not ended; returns the row of the first invalid action (and changes nothing), or -1.

    rows uint8 [B, bytes], actions int64 [B], program int64 [tasks, PROGRAM], members uint8 [tasks, DESCRIPTIONS, …],
    objects uint8 [tasks, objects, 2], rewards float32 [B], terminated and truncated bool [B].
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
            terminated[row] = rows[row, ENDED] & TERMINATED != 0
            truncated[row] = rows[row, ENDED] & TRUNCATED != 0
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
                index = 0
                while rows[row, places + index] != x_front or rows[row, places + count + index] != y_front:
                    index += 1
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
                index = 0
                while rows[row, places + index] != x_front or rows[row, places + count + index] != y_front:
                    index += 1
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
                # The mission is one side, or two sides in order; a side is one clause, or two joined by And. Each
                # round of this loop verifies one side.
                cell = rows[row, HEADER + x_front * height + y_front]
                sequence = program[task, SEQUENCE]
                second = 0 if sequence == AFTER else 2
                slot = 2 - second if sequence != SINGLE else 0
                stage = LAST_SIDE
                if sequence != SINGLE:
                    if rows[row, LATCHES] & FIRST_SIDE_DONE:
                        slot = second
                    else:
                        stage = FIRST_SIDE
                while True:
                    joined = program[task, CLAUSE_KIND + slot + 1] != NO_CLAUSE
                    side = SUCCESS
                    for part in range(slot, slot + 1 + joined):
                        if joined and rows[row, LATCHES] >> part & 1:
                            continue
                        clause = CONTINUE
                        kind = program[task, CLAUSE_KIND + part]
                        strict = program[task, CLAUSE_STRICT + part] != 0
                        if kind == GO_TO:
                            for member in range(1, 1 + np.int64(members[task, part, 0])):
                                index = tracked + np.int64(members[task, part, member])
                                if rows[row, index] == x_front and rows[row, count + index] == y_front:
                                    clause = SUCCESS
                        elif kind == OPEN:
                            if action == TOGGLE and cell >= OPEN_DOOR and cell < WALL:
                                if strict:
                                    clause = FAILURE
                                if cell < CLOSED_DOOR:
                                    for member in range(1, 1 + np.int64(members[task, part, 0])):
                                        index = places + np.int64(members[task, part, member])
                                        if rows[row, index] == x_front and rows[row, count + index] == y_front:
                                            clause = SUCCESS
                        else:
                            before = np.int64(rows[row, CARRIED_BEFORE + part])
                            rows[row, CARRIED_BEFORE + part] = carried
                            mask = program[task, MASK + part]
                            if action == PICKUP and carried != 0:
                                if kind == PICK_UP and before == 0 and (mask >> (np.int64(carried) - 1)) & 1:
                                    clause = SUCCESS
                                elif strict:
                                    clause = FAILURE
                            elif (
                                kind == PUT_NEXT
                                and action == DROP
                                and before != 0
                                and (mask >> (before - 1)) & 1
                                and rows[row, places + before - 1] != NOWHERE
                            ):
                                x_moved = np.int64(rows[row, places + before - 1])
                                y_moved = np.int64(rows[row, places + count + before - 1])
                                for member in range(1, 1 + np.int64(members[task, 4 + part, 0])):
                                    index = tracked + np.int64(members[task, 4 + part, member])
                                    away = abs(x_moved - np.int64(rows[row, index]))
                                    away += abs(y_moved - np.int64(rows[row, count + index]))
                                    if away == 1:
                                        clause = SUCCESS
                        # A clause done inside And stays done, and a failure there does not count.
                        if not joined:
                            side = clause
                        elif clause == SUCCESS:
                            rows[row, LATCHES] |= 1 << part
                        else:
                            side = CONTINUE
                    if stage == LAST_SIDE:
                        if side != CONTINUE:
                            result = side
                        break
                    if stage == LOOK_AHEAD:
                        if side == SUCCESS:
                            result = FAILURE
                        break
                    if side == FAILURE:
                        result = FAILURE
                        break
                    if side == SUCCESS:
                        # The action that completes the first side is also the first action that the last side sees.
                        rows[row, LATCHES] |= FIRST_SIDE_DONE
                        stage = LAST_SIDE
                    elif program[task, SEQUENCE_STRICT]:
                        # In strict missions the last side must not be fulfilled first; checking it advances its state.
                        stage = LOOK_AHEAD
                    else:
                        break
                    slot = second
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
            ended = TERMINATED
            if result == SUCCESS:
                ended |= SUCCEEDED
                rewards[row] = 1.0 - penalty * (steps / horizon)
        if steps >= horizon:
            ended |= TRUNCATED
        rows[row, ENDED] = ended
        terminated[row] = ended & TERMINATED != 0
        truncated[row] = ended & TRUNCATED != 0
    return -1

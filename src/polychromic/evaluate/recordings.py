"""Episodes that people can look at: of every configuration, one attempt for each distinct strategy.

An attempt is replayed from its actions, so nothing but these has to be kept while thousands are played.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polychromic.envs.grid import codes
from polychromic.finetuning.attempts import NO_ACTION, Attempts

MOST_STRATEGIES = 6


def record(world: Any, attempts: Attempts, *, most: int = MOST_STRATEGIES) -> list[dict[str, Any]]:
    """For every configuration its strategies, most successful first, each with its quickest attempt.

    Each is a dict in JSON's types: `rooms` (in the order of the first visit), `count` and `successes` of the attempts
    with this strategy, `solved` and `steps` of the one shown, `path` (x, y, direction of every moment, flat) and
    `changes` (moment, x, y, code of every cell that changed). `grid` holds the codes at the start, column by column.
    """
    each = len(attempts) // world.num_configurations
    chosen: list[int] = []
    found: list[dict[str, Any]] = [{"strategies": []} for _ in range(world.num_configurations)]
    for task, configuration in enumerate(found):
        own = np.arange(task * each, (task + 1) * each)
        kinds = []
        for label in np.unique(attempts.strategies[own]):
            members = own[attempts.strategies[own] == label]
            won = attempts.success[members]
            # The quickest success, or without one the first attempt.
            shown = members[np.argmin(np.where(won, attempts.lengths[members], np.iinfo(np.int64).max))]
            kinds.append((-int(won.sum()), -len(members), int(shown)))
        configuration["distinct"] = len(kinds)
        for wins, count, shown in sorted(kinds)[:most]:
            visited = attempts.visited(shown)
            _, first = np.unique(visited, return_index=True)
            configuration["strategies"].append(
                {
                    "rooms": visited[np.sort(first)].tolist(),
                    "count": -count,
                    "successes": -wins,
                    "solved": bool(attempts.success[shown]),
                    "steps": int(attempts.lengths[shown]),
                }
            )
            chosen.append(shown)
    moments = iter(_replay(world, attempts, np.array(chosen), each))
    for task, configuration in enumerate(found):
        configuration["grid"] = world.grids(world.start([task]))[0].ravel().tolist()
        for strategy in configuration["strategies"]:
            strategy |= next(moments)
    return found


def _replay(world: Any, attempts: Attempts, chosen: Any, each: int) -> list[dict[str, Any]]:
    """Path and changes of the chosen attempts, all replayed in one batch."""
    state = world.start(chosen // each)
    grids = world.grids(state)
    paths = [np.column_stack([world.positions(state), world.directions(state)])]
    changes: list[list[int]] = [[] for _ in chosen]
    for step in range(int(attempts.lengths[chosen].max(initial=0))):
        actions = attempts.actions[chosen, step].astype(np.int64)
        # Rows that have ended stay as they are, whatever the action.
        world.step(state, np.where(actions == NO_ACTION, 0, actions))
        now = world.grids(state)
        for row, x, y in np.argwhere(now != grids):
            changes[row] += [step + 1, int(x), int(y), int(now[row, x, y])]
        grids = now
        paths.append(np.column_stack([world.positions(state), world.directions(state)]))
    moments = np.stack(paths, axis=1)
    lengths = attempts.lengths[chosen]
    return [
        {"path": moments[row, : length + 1].ravel().tolist(), "changes": changes[row]}
        for row, length in enumerate(lengths.tolist())
    ]


def legend() -> dict[str, Any]:
    """What the codes in recordings mean, for whoever draws them: code -> kind, colour."""
    kinds = {codes.EMPTY: "empty", codes.GOAL: "goal", codes.LAVA: "lava", codes.WALL: "wall"}
    firsts = {
        codes.FLOOR: "floor",
        codes.KEY: "key",
        codes.BALL: "ball",
        codes.BOX: "box",
        codes.OPEN_DOOR: "open door",
        codes.CLOSED_DOOR: "closed door",
        codes.LOCKED_DOOR: "locked door",
    }
    named = {str(code): [kind, ""] for code, kind in kinds.items()}
    for first, kind in firsts.items():
        named |= {str(first + index): [kind, colour] for index, colour in enumerate(codes.COLOURS)}
    return named

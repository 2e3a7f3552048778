"""Episodes that people can look at: of every configuration, one attempt for each distinct strategy.

An attempt is replayed from its actions, so nothing but these has to be kept while thousands are played.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polychromic.envs.protocol import World
from polychromic.finetuning.attempts import Attempts

MOST_STRATEGIES = 6


def record(world: World, attempts: Attempts, *, most: int = MOST_STRATEGIES) -> list[dict[str, Any]]:
    """For every configuration its strategies, most successful first, each with its quickest attempt.

    Each is a dict in JSON's types: `rooms` (the places in the order of the first visit), `count` and `successes` of the
    attempts with this strategy, `solved` and `steps` of the one shown, and what the world's `replay` and `backdrop`
    say.
    """
    each = len(attempts) // world.num_configurations
    chosen: list[int] = []
    recordings: list[dict[str, Any]] = [{"strategies": []} for _ in range(world.num_configurations)]
    for number, recording in enumerate(recordings):
        own = np.arange(number * each, (number + 1) * each)
        kinds = []
        for label in np.unique(attempts.strategies[own]):
            members = own[attempts.strategies[own] == label]
            solved = attempts.solved[members]
            # The quickest success, or without one the first attempt.
            shown = members[np.argmin(np.where(solved, attempts.lengths[members], np.iinfo(np.int64).max))]
            kinds.append((-int(solved.sum()), -len(members), int(shown)))
        recording["distinct"] = len(kinds)
        for successes, count, shown in sorted(kinds)[:most]:
            visited = attempts.visited(shown)
            _, first = np.unique(visited, return_index=True)
            recording["strategies"].append(
                {
                    "rooms": visited[np.sort(first)].tolist(),
                    "count": -count,
                    "successes": -successes,
                    "solved": bool(attempts.solved[shown]),
                    "steps": int(attempts.lengths[shown]),
                }
            )
            chosen.append(shown)
    numbers = np.array(chosen)
    moments = iter(world.replay(numbers // each, attempts.actions[numbers], attempts.lengths[numbers]))
    for number, recording in enumerate(recordings):
        recording |= world.backdrop(number)
        for strategy in recording["strategies"]:
            strategy |= next(moments)
    return recordings

"""Perturbed starts (paper, section 6.3): the same grid and mission, with the agent somewhere else.

For each configuration: the rooms that the pretrained policy visits in 100 high-temperature rollouts, and 10 random
states in each. Starts depend on the pretrained policy and a seed alone, so every method is scored on the same ones.

A start must be solvable. From a cell that the agent could walk to from its own start, without moving anything and
without a key, it can walk back and solve the task as before; only such cells are taken. This leaves out, for
instance, the inside of a locked room whose key lies outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.metrics import pass_at_k
from polychromic.envs.grid import codes
from polychromic.errors import UserError
from polychromic.finetuning.attempts import play, attempt_all
from polychromic.evaluate.scores import figure
from polychromic.policies.inference import Evaluator

HIGH_TEMPERATURE = 2.0


@dataclass(frozen=True, eq=False)
class Starts:
    """States to start from: the configuration, cell (x, y), direction and room of each."""

    tasks: NDArray[np.int64]  # [S]
    positions: NDArray[np.int64]  # [S, 2]
    directions: NDArray[np.int64]  # [S]
    rooms: NDArray[np.int64]  # [S]

    def __len__(self) -> int:
        return len(self.tasks)


def perturbed_starts(
    world: Any,
    pretrained: Evaluator,
    *,
    seed: int = 0,
    rollouts: int = 100,
    temperature: float = HIGH_TEMPERATURE,
    per_room: int = 10,
) -> Starts:
    """Other starts for every configuration of a grid world, in the rooms that the pretrained policy can reach.

    Args:
        world: a grid world (`polychromic.make`).
        pretrained: the policy before fine-tuning, whatever policy is scored later.
        seed: of the rollouts and of the choice of states.
        rollouts: per configuration, to find the rooms.
        temperature: of these rollouts.
        per_room: states chosen in each room visited, in different cells; a room with fewer cells gives all it has.
    """
    if not hasattr(world, "start_at"):
        raise UserError(f"world is {world!r}; perturbed starts need a grid world, whose agent can be put anywhere")
    rng = np.random.default_rng([seed, 3])
    explored = attempt_all(pretrained, world, rng, attempts=rollouts, temperature=temperature)
    tasks, positions, rooms = [], [], []
    for task in range(world.num_configurations):
        own = range(task * rollouts, (task + 1) * rollouts)
        seen = np.unique(np.concatenate([explored.visited(attempt) for attempt in own]))
        cells = world.free_cells(task)
        first = world.positions(world.start([task]))[0]
        usable = within_walk(world, task)[cells.positions[:, 0], cells.positions[:, 1]]
        usable &= (cells.positions != first).any(axis=1)
        for room in seen:
            inside = np.flatnonzero(usable & (cells.rooms == room))
            chosen = rng.permutation(inside)[:per_room]
            tasks += [task] * len(chosen)
            rooms += [int(room)] * len(chosen)
            positions.append(cells.positions[chosen])
    where = np.concatenate(positions) if positions else np.zeros((0, 2), np.int64)
    if not len(where):
        raise UserError("no configuration has a cell for another start")
    return Starts(np.array(tasks), where, rng.integers(0, 4, len(where)), np.array(rooms))


def within_walk(world: Any, task: int) -> NDArray[np.bool_]:
    """[width, height]: cells that the agent can reach from its own start through doors that are not locked."""
    from scipy.ndimage import label

    state = world.start([task])
    grid = world.grids(state)[0]
    doors = (grid >= codes.OPEN_DOOR) & (grid < codes.LOCKED_DOOR)
    floor = (grid >= codes.FLOOR) & (grid < codes.KEY)
    areas, _ = label(doors | floor | (grid == codes.EMPTY) | (grid == codes.GOAL))
    x, y = world.positions(state)[0]
    return np.asarray((areas == areas[x, y]) & (areas > 0), np.bool_)


def score_starts(
    evaluator: Evaluator,
    world: Any,
    starts: Starts,
    rng: np.random.Generator,
    *,
    attempts: int = 4,
    temperature: float = 1.0,
    seed: int = 0,
) -> dict[str, Any]:
    """pass@1 from the starts, in JSON's types: the mean over all starts, its interval over configurations."""
    each = np.repeat(np.arange(len(starts)), attempts)
    state = world.start_at(starts.tasks[each], starts.positions[each], starts.directions[each])
    played = play(evaluator, world, state, rng, temperature=temperature)
    passed = pass_at_k(attempts, played.success.reshape(len(starts), attempts).sum(axis=1), 1)
    counts = np.bincount(starts.tasks, minlength=world.num_configurations)
    sums = np.bincount(starts.tasks, weights=passed, minlength=world.num_configurations)
    means = np.divide(sums, counts, out=np.zeros(len(sums)), where=counts > 0)
    return {
        "success": figure(means, seed, weights=counts),
        "starts": len(starts),
        "configurations": {"starts": counts.tolist(), "success": np.round(means, 6).tolist()},
        "attempts": attempts,
    }

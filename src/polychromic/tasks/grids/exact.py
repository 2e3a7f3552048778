"""How good is a memoryless policy on FourRooms, exactly? Dynamic programming over every state, no sampling.

In FourRooms nothing moves but the agent, so a state is a cell and a direction; the policy sees only its 7 × 7 view (or
the grid), and the task ends at the goal. That makes every probability of success a finite sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.errors import UserError
from polychromic.policies.inference import Evaluator, observe

FOUR_ROOMS = "MiniGrid-FourRooms-v0"


@dataclass(frozen=True)
class ExactScores:
    """One entry per configuration, from its own initial state; and the mean over all states as initial states."""

    success: NDArray[np.float64]  # chance of reaching the goal within the horizon, [tasks]
    reward: NDArray[np.float64]  # expected reward, [tasks]
    success_from_anywhere: NDArray[np.float64]  # mean chance over every free cell and direction, [tasks]

    def pass_at_k(self, k: int) -> float:
        """The mean over configurations of 1 − (1 − p)^k."""
        return float((1.0 - (1.0 - self.success) ** k).mean())


def exact_scores(world: Any, evaluator: Evaluator, *, temperature: float = 1.0) -> ExactScores:
    """Success and reward of a memoryless policy on every configuration of a FourRooms world.

        p_t(s) = Σ_a π(a | s) (1 if a reaches the goal, else p_{t+1}(s'))   with p_H = 0

    Args:
        world: `polychromic.make("fourrooms", …)`, in either observation.
        evaluator: the policy; it must have no memory.
        temperature: of the softmax.
    """
    if getattr(world, "task", "") != FOUR_ROOMS:
        raise UserError(f"world is {world!r}; exact scores need a FourRooms world, where only the agent moves")
    if evaluator.policy.memory_size:
        raise UserError("the policy has a memory; exact scores need one that sees only the present")
    columns = [_scores_of_task(world, evaluator, task, temperature) for task in range(world.num_configurations)]
    return ExactScores(*(np.array(column) for column in zip(*columns, strict=True)))


def _scores_of_task(world: Any, evaluator: Evaluator, task: int, temperature: float) -> tuple[float, float, float]:
    cells = world.free_cells(task).positions
    # The agent's own first cell is free too, once it has left.
    start = world.start([task])
    cells = np.unique(np.concatenate([cells, world.positions(start)]), axis=0)
    positions, directions = np.repeat(cells, 4, axis=0), np.tile(np.arange(4), len(cells))
    number = {
        (*cell, look): index
        for index, (cell, look) in enumerate(zip(map(tuple, positions.tolist()), directions.tolist(), strict=True))
    }
    states = world.start_at(np.full(len(positions), task), positions, directions)
    logits = evaluator(observe(world, states)).logits.astype(np.float64) / temperature
    policy = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy /= policy.sum(axis=1, keepdims=True)
    following = np.zeros(policy.shape, np.int64)
    reaches = np.zeros(policy.shape)
    for action in range(world.num_actions):
        after = states[np.arange(len(states))]
        result = world.step(after, np.full(len(after), action))
        reaches[:, action] = result.terminated
        places = zip(world.positions(after).tolist(), world.directions(after).tolist(), strict=True)
        # The goal itself is no state to go on from; where it was reached the entry is never used.
        following[:, action] = [number.get((x, y, look), 0) for (x, y), look in places]
    horizon = int(world.horizons[task])
    success, reward = np.zeros(len(positions)), np.zeros(len(positions))
    at_goal = (policy * reaches).sum(axis=1)
    going_on = policy * (1.0 - reaches)
    for step in range(horizon, 0, -1):
        success = at_goal + (going_on * success[following]).sum(axis=1)
        reward = at_goal * (1.0 - world.penalty * step / horizon) + (going_on * reward[following]).sum(axis=1)
    first = number[(*world.positions(start)[0].tolist(), int(world.directions(start)[0]))]
    return float(success[first]), float(reward[first]), float(success.mean())

"""How good is a memoryless policy on FourRooms, exactly? Dynamic programming over every state, no sampling.

In FourRooms only the agent moves, so a state is a cell and a direction; the policy sees only its 7 × 7 view (or the
grid), and an episode ends at the goal. So every probability of success is a finite sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid.world import GridWorld
from polychromic.errors import UserError
from polychromic.evaluate.scores import rounded
from polychromic.finetuning.attempts import Attempts
from polychromic.policies.inference import Evaluator

FOUR_ROOMS = "MiniGrid-FourRooms-v0"


@dataclass(frozen=True)
class ExactScores:
    """One entry per configuration, from its own initial state; and the mean over all states as initial states."""

    success: NDArray[np.float64]  # chance of reaching the goal within the horizon, [configurations]
    reward: NDArray[np.float64]  # expected reward, [configurations]
    success_from_anywhere: NDArray[np.float64]  # mean chance over every free cell and direction, [configurations]

    def pass_at_k(self, k: int) -> float:
        """The mean over configurations of 1 − (1 − p)^k."""
        return float((1.0 - (1.0 - self.success) ** k).mean())


def exact_scores(world: GridWorld, evaluator: Evaluator, *, temperature: float = 1.0) -> ExactScores:
    """Success and reward of a memoryless policy on every configuration of a FourRooms world.

        p_t(s) = Σ_a π(a | s) (1 if a reaches the goal, else p_{t+1}(s'))   with p_H = 0

    Args:
        world: `polychromic.make("fourrooms", …)`, in either observation.
        evaluator: the policy; it must have no memory.
        temperature: of the softmax.
    """
    if not isinstance(world, GridWorld) or world.task != FOUR_ROOMS:
        raise UserError(f"world is {world!r}; exact scores need a FourRooms world, where only the agent moves")
    if evaluator.policy.memory_size:
        raise UserError("the policy has a memory; exact scores need one that sees only the present")
    columns = [_scores_of(world, evaluator, number, temperature) for number in range(world.num_configurations)]
    return ExactScores(*(np.array(column) for column in zip(*columns, strict=True)))


def _scores_of(
    world: GridWorld, evaluator: Evaluator, configuration: int, temperature: float
) -> tuple[float, float, float]:
    cells = world.free_cells(configuration).positions
    # The agent's own first cell is free too, once it has left.
    start = world.start([configuration])
    cells = np.unique(np.concatenate([cells, world.positions(start)]), axis=0)
    positions, directions = np.repeat(cells, 4, axis=0), np.tile(np.arange(4), len(cells))
    number = {
        (*cell, look): index
        for index, (cell, look) in enumerate(zip(map(tuple, positions.tolist()), directions.tolist(), strict=True))
    }
    states = world.start_at(np.full(len(positions), configuration), positions, directions)
    logits = evaluator(world.inputs(states)).logits.astype(np.float64) / temperature
    policy = np.exp(logits - logits.max(axis=1, keepdims=True))
    policy /= policy.sum(axis=1, keepdims=True)
    following = np.zeros(policy.shape, np.int64)
    reaches = np.zeros(policy.shape)
    for action in range(world.num_actions):
        after = states[np.arange(len(states))]
        result = world.step(after, np.full(len(after), action))
        reaches[:, action] = result.terminated
        places = zip(world.positions(after).tolist(), world.directions(after).tolist(), strict=True)
        # No episode continues from the goal; an entry that reached it is never used.
        following[:, action] = [number.get((x, y, look), 0) for (x, y), look in places]
    horizon = int(world.horizons[configuration])
    success, reward = np.zeros(len(positions)), np.zeros(len(positions))
    at_goal = (policy * reaches).sum(axis=1)
    going_on = policy * (1.0 - reaches)
    for step in range(horizon, 0, -1):
        success = at_goal + (going_on * success[following]).sum(axis=1)
        reward = at_goal * (1.0 - world.time_penalty * step / horizon) + (going_on * reward[following]).sum(axis=1)
    first = number[(*world.positions(start)[0].tolist(), int(world.directions(start)[0]))]
    return float(success[first]), float(reward[first]), float(success.mean())


def measure(world: GridWorld, evaluator: Evaluator, attempts: Attempts, temperature: float) -> dict[str, Any] | None:
    """Exact success, rewards and pass@1 … pass@R of a memoryless policy, no sampling; None if there are none."""
    if temperature == 0 or world.time_penalty == 0 or evaluator.policy.memory_size:
        return None
    exact = exact_scores(world, evaluator, temperature=temperature)
    # Rewards are linear in the penalty: reward = success − penalty · E[t / H, success].
    time = (exact.success - exact.reward) / world.time_penalty
    most = len(attempts) // world.num_configurations
    curve = 1.0 - (1.0 - exact.success[:, None]) ** np.arange(1, most + 1)
    return {
        "success": rounded(exact.success.mean()),
        **{f"reward_{scale}": rounded((exact.success - scale * time).mean()) for scale in world.reward_scales},
        "success_from_anywhere": rounded(exact.success_from_anywhere.mean()),
        "pass_at_k": np.round(curve.mean(axis=0), 6).tolist(),
        "configurations": np.round(exact.success, 6).tolist(),
    }

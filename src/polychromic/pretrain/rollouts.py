"""How good is a policy on its configurations? Many rollouts of each, in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.metrics import pass_at_k
from polychromic.policies.inference import Evaluator, observe, sample_actions
from polychromic.policies.protocol import Params, Policy


@dataclass(frozen=True, eq=False)
class Scores:
    """rewards float32 [tasks, rollouts], the reward of each rollout (0 for a failure)."""

    rewards: NDArray[np.float32]

    @property
    def success(self) -> float:
        """The share of rollouts that succeeded."""
        return float((self.rewards > 0).mean())

    @property
    def reward(self) -> float:
        """The mean reward of a rollout."""
        return float(self.rewards.mean())

    def pass_at(self, ks: Sequence[int]) -> dict[int, float]:
        """pass@k, the mean over the tasks of its unbiased estimate."""
        tasks, rollouts = self.rewards.shape
        successes = (self.rewards > 0).sum(axis=1)
        values = pass_at_k(np.full(tasks, rollouts), successes, list(ks)).mean(axis=0)
        return dict(zip(ks, values.tolist(), strict=True))


def roll_out(
    policy: Policy,
    params: Params,
    world: Any,
    *,
    rollouts: int = 100,
    temperature: float = 1.0,
    seed: int = 0,
) -> Scores:
    """Play every task of the world `rollouts` times with actions drawn from the policy."""
    evaluate = Evaluator(policy, params, world.mission_tokens, sizes=(512,))
    rng = np.random.default_rng(seed)
    live = np.arange(world.num_tasks * rollouts)
    rewards = np.zeros(len(live), np.float32)
    state = world.start(live // rollouts)
    memory = np.zeros((len(live), policy.memory_size), np.float32) if policy.memory_size else None
    for _ in range(world.horizon):
        outputs = evaluate(observe(world, state), memory)
        actions, _ = sample_actions(outputs.logits, rng, temperature)
        result = world.step(state, actions)
        rewards[live] += result.reward
        going = ~(result.terminated | result.truncated)
        if not going.any():
            break
        memory = outputs.memory
        if not going.all():
            live, state = live[going], state[going]
            memory = None if memory is None else memory[going]
    return Scores(rewards.reshape(world.num_tasks, rollouts))

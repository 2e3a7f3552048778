"""Polychromic training with TRL's experimental `AsyncGRPOTrainer`, which generates and scores in a process of its own.

That process divides the rewards of each group by their spread, and no setting turns it off. But the class of its loop
can be replaced: ours scores as TRL's does, and then puts polychromic advantages in the place of the others.
"""

from __future__ import annotations

import asyncio
from typing import Any

from trl.experimental.async_grpo import AsyncGRPOTrainer
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker, RolloutGroup, _AsyncRolloutLoop

from polychromic.errors import UserError
from polychromic.integrations.rewards import columns_of
from polychromic.integrations.trl import PolychromicReward


class PolychromicRolloutLoop(_AsyncRolloutLoop):  # type: ignore[misc]
    """TRL's loop of generation and scoring, whose samples carry polychromic advantages.

    The rewards that sets are scored by are TRL's sums: the user's function, and what environments give.
    """

    def __init__(self, *, reward_funcs: list[Any], **settings: Any) -> None:
        self.polychromic = polychromic_among(reward_funcs)
        super().__init__(reward_funcs=[self.polychromic.reward_fn], **settings)

    async def _score_group(self, group: RolloutGroup) -> list[Any]:
        samples: list[Any] = await super()._score_group(group)
        counts = [len(sequences) for sequences in group.completions_sequences]
        completions = columns_of(group.prompts, group.completions, group.reward_kwargs)
        # A completion without rows trains nothing and has left no reward.
        kept = [place for place, count in enumerate(counts) if count]
        first = [sum(counts[:place]) for place in kept]
        advantages, metrics = await asyncio.to_thread(
            self.polychromic.of_group,
            [completions[place] for place in kept],
            [samples[row].metrics["reward"] for row in first],
            group.group_id,
        )
        for place, row, advantage in zip(kept, first, advantages, strict=True):
            for sample in samples[row : row + counts[place]]:
                sample.advantage = float(advantage)
                sample.metrics |= {f"polychromic/{name}": value for name, value in metrics.items()}
        return samples


def polychromic_among(functions: list[Any]) -> PolychromicReward:
    """The polychromic reward, if it is the only one beside the raw reward for the logs."""
    found = [function for function in functions if isinstance(function, PolychromicReward)]
    if len(found) != 1:
        raise UserError(f"reward_funcs holds {len(found)} PolychromicReward; it must hold exactly one")
    others = [function for function in functions if function is not found[0] and function is not found[0].raw]
    if others:
        raise UserError(
            f"reward_funcs holds {getattr(others[0], '__name__', others[0])} beside the polychromic reward, and "
            "AsyncGRPOTrainer has no weights: combine(...) makes one reward of several"
        )
    return found[0]


def check_async_trainer(trainer: AsyncGRPOTrainer) -> None:
    """Have the trainer's worker run our loop; refuse one in which something else would be done to advantages."""
    worker = trainer.rollout_worker
    if worker is None:  # the first process alone generates
        return
    if type(worker) is not AsyncRolloutWorker:
        raise UserError(
            f"rollout_worker is {type(worker).__name__}, which scores by itself; polychromic rewards need TRL's own"
        )
    reward = polychromic_among(worker._loop_kwargs["reward_funcs"])
    if reward.sets.scale == "batch":
        raise UserError("scale is 'batch'; AsyncGRPOTrainer scores one group at a time: give a number")
    size = worker._loop_kwargs["num_generations"]
    reward.sets.check_group_size("num_generations", size, by_kernel=reward.comparison.by_kernel)
    worker._loop_cls = PolychromicRolloutLoop

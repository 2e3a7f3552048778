"""Many attempts of a policy, for scoring. Observations are not kept, so thousands of attempts fit anywhere."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.protocol import World
from polychromic.errors import UserError
from polychromic.finetuning.collect import label_visits
from polychromic.finetuning.play import Successes, join_successes, play
from polychromic.policies.inference import CACHED_ROWS, Evaluator


@dataclass(frozen=True, eq=False)
class Attempts:
    """What came of K attempts, one entry each. Worlds without noise replay them exactly from `actions`."""

    rewards: NDArray[np.float32]  # what the world paid, [K]
    success: NDArray[np.bool_] | None  # whether the goal was reached, [K]; None if the world does not say
    lengths: NDArray[np.int64]  # steps taken, [K]
    strategies: NDArray[np.uint64]  # which set of places (rooms) was visited: equal numbers, equal sets, [K]
    entropies: NDArray[np.float64]  # mean entropy of the policy over the steps, in nats, at the temperature played, [K]
    places: NDArray[np.int64]  # where it began and where it was after each step; nothing after its length, [K, H + 1]
    actions: NDArray[Any]  # [K, H, …], after the end as `Actions.blank` fills them (−1 for numbered actions)

    def __len__(self) -> int:
        return len(self.rewards)

    def visited(self, attempt: int) -> NDArray[np.int64]:
        """The places of one attempt in order, its first and its last among them, [length + 1]."""
        return self.places[attempt, : self.lengths[attempt] + 1]

    @property
    def solved(self) -> NDArray[np.bool_]:
        """`success` where it must be known."""
        if self.success is None:
            raise UserError("the world does not say which episodes succeed; give from_gymnasium(success=…)")
        return self.success

    def rescaled_rewards(self, horizons: NDArray[np.int64], penalty: float) -> NDArray[np.float64]:
        """1 − penalty · t / H for a success after t steps and 0 for a failure, [K]; `horizons` holds each H, [K]."""
        return np.where(self.solved, 1.0 - penalty * self.lengths / horizons, 0.0)


def attempt(
    evaluator: Evaluator, world: World, state: Any, rng: np.random.Generator, *, temperature: float = 1.0
) -> Attempts:
    """Play every row of `state` to its end with actions drawn from the policy.

    temperature: of the policy's distribution; 0 takes the most likely action.

    With a key–value cache at most `CACHED_ROWS` rows are played together: more fit into no processor's own cache.
    """
    together = CACHED_ROWS if evaluator.policy.begin is not None else max(1, len(state))
    firsts = range(0, max(1, len(state)), together)
    parts = [_attempt(evaluator, world, state[first : first + together], rng, temperature) for first in firsts]
    joined = {
        one.name: np.concatenate([getattr(part, one.name) for part in parts])
        for one in fields(Attempts)
        if one.name != "success"
    }
    return Attempts(**joined, success=join_successes([part.success for part in parts], [len(part) for part in parts]))


def attempt_all(
    evaluator: Evaluator, world: World, rng: np.random.Generator, *, attempts: int, temperature: float = 1.0
) -> Attempts:
    """`attempts` attempts at every configuration of the world; those of configuration c are c · attempts …"""
    configurations = np.repeat(np.arange(world.num_configurations), attempts)
    return attempt(evaluator, world, world.start(configurations), rng, temperature=temperature)


def _attempt(evaluator: Evaluator, world: World, state: Any, rng: np.random.Generator, temperature: float) -> Attempts:
    """All rows of `state` in one call a step."""
    num, horizon = len(state), int(world.horizon)
    rewards, lengths, successes = np.zeros(num, np.float32), np.zeros(num, np.int64), Successes(world, state)
    entropies = np.zeros(num)
    actions, distribution = world.actions.blank(num, horizon), evaluator.policy.distribution
    places = np.zeros((num, horizon + 1), np.int64)
    places[:, 0] = world.places(state)
    for step, moment in enumerate(play(evaluator, world, state, rng, temperature=temperature)):
        live = moment.live
        entropies[live] += distribution.entropy(moment.outputs.logits, temperature)
        rewards[live] += moment.result.reward
        lengths[live] += 1
        actions[live, step] = moment.actions
        places[live, step + 1] = world.places(moment.state)
        successes.note(moment)
    row, column = np.nonzero(np.arange(horizon + 1) <= lengths[:, None])
    strategies = label_visits(row, places[row, column], num)
    return Attempts(rewards, successes.known, lengths, strategies, entropies / np.maximum(lengths, 1), places, actions)

"""Perturbed starts (paper, section 6.3): the same configuration, with the agent somewhere else.

For each configuration: the places that the pretrained policy visits in 100 high-temperature rollouts, and 10 random
states in each. Starts depend on the pretrained policy and a seed alone, so every method is scored on the same ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polychromic.core.metrics import pass_at_k
from polychromic.envs.protocol import Starts, World
from polychromic.errors import UserError
from polychromic.evaluate.scores import mean_of
from polychromic.finetuning.attempts import attempt, attempt_all
from polychromic.policies.inference import Evaluator

HIGH_TEMPERATURE = 2.0


def perturbed_starts(
    world: World,
    pretrained: Evaluator,
    *,
    seed: int = 0,
    rollouts: int = 100,
    temperature: float = HIGH_TEMPERATURE,
    per_place: int = 10,
) -> Starts:
    """Other starts for every configuration of a world, in the places that the pretrained policy can reach.

    Args:
        world: one whose agent can be put somewhere else (`World.can_start_elsewhere`); grid worlds are.
        pretrained: the policy before fine-tuning, whatever policy is scored later.
        seed: of the rollouts and of the choice of states.
        rollouts: per configuration, to find the places.
        temperature: of these rollouts.
        per_place: states chosen in each place visited; a small place gives all it has.
    """
    if not world.can_start_elsewhere:
        raise UserError(f"world is {world!r}; perturbed starts need a world whose agent can be put somewhere else")
    rng = np.random.default_rng([seed, 3])
    explored = attempt_all(pretrained, world, rng, attempts=rollouts, temperature=temperature)
    visited = [
        np.concatenate([explored.visited(number) for number in range(first, first + rollouts)])
        for first in range(0, world.num_configurations * rollouts, rollouts)
    ]
    return world.other_starts(visited, per_place, rng)


def score_starts(
    evaluator: Evaluator,
    world: World,
    starts: Starts,
    rng: np.random.Generator,
    *,
    attempts: int = 4,
    temperature: float = 1.0,
    seed: int = 0,
) -> dict[str, Any]:
    """pass@1 from the starts, in JSON's types: the mean over all starts, its interval over configurations."""
    state = world.start_from(starts, np.repeat(np.arange(len(starts)), attempts))
    played = attempt(evaluator, world, state, rng, temperature=temperature)
    passed = pass_at_k(attempts, played.solved.reshape(len(starts), attempts).sum(axis=1), 1)
    counts = np.bincount(starts.configurations, minlength=world.num_configurations)
    sums = np.bincount(starts.configurations, weights=passed, minlength=world.num_configurations)
    means = np.divide(sums, counts, out=np.zeros(len(sums)), where=counts > 0)
    return {
        "success": mean_of(means, seed, weights=counts),
        "starts": len(starts),
        "configurations": {"starts": counts.tolist(), "success": np.round(means, 6).tolist()},
        "attempts": attempts,
    }

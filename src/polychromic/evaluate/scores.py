"""What attempts say about a policy: means over configurations, with bootstrap intervals over configurations.

Configurations are what vary most and what one wants to speak about, so they are what is resampled. A configuration
carries the noise of its own attempts with it, so the intervals hold both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.intervals import CONFIDENCE, mean_interval
from polychromic.core.metrics import pass_at_k
from polychromic.envs.protocol import World
from polychromic.finetuning.attempts import Attempts

DIGITS = 6  # of the numbers in files


def summarise(
    attempts: Attempts, world: World, *, temperature: float, seed: int, confidence: float = CONFIDENCE
) -> dict[str, Any]:
    """The metrics of R attempts at every configuration, in JSON's types; those of success where it is known."""
    count = world.num_configurations
    each = len(attempts) // count
    strategies = attempts.strategies.reshape(count, each)
    per_configuration = {
        "return": attempts.rewards.reshape(count, each).mean(axis=1, dtype=np.float64),
        "entropy": attempts.entropies.reshape(count, each).mean(axis=1),
        "distinct_strategies": np.array([len(np.unique(row)) for row in strategies]),
    }
    of_success: dict[str, Any] = {}
    curve: dict[str, Any] = {}
    if attempts.success is not None:
        solved = attempts.success.reshape(count, each)
        lengths = attempts.lengths.reshape(count, each)
        successes = solved.sum(axis=1)
        distinct_solved = [len(np.unique(row[mask])) for row, mask in zip(strategies, solved, strict=True)]
        per_configuration = {
            "success": successes / each,
            "coverage": successes > 0,
            **per_configuration,
            "distinct_successful_strategies": np.array(distinct_solved),
        }
        curve["pass_at_k"] = pass_curve(pass_at_k(each, successes, np.arange(1, each + 1)), seed)
        of_success = {
            "successes": successes.tolist(),
            "mean_steps_to_success": [
                rounded(row[mask].mean()) if mask.any() else None for row, mask in zip(lengths, solved, strict=True)
            ],
        }
    for penalty in world.reward_scales:
        rewards = attempts.rescaled_rewards(np.repeat(world.horizons, each), penalty)
        per_configuration[f"reward_{penalty}"] = rewards.reshape(count, each).mean(axis=1)
    return {
        "temperature": temperature,
        "attempts": each,
        "confidence": confidence,
        **{name: mean_of(values, seed) for name, values in per_configuration.items()},
        **curve,
        # What is needed to pool several runs without resampling runs.
        "configurations": {
            **of_success,
            **{name: [rounded(value) for value in values] for name, values in per_configuration.items()},
        },
    }


def mean_of(values: ArrayLike, seed: int = 0, weights: ArrayLike | None = None) -> dict[str, float]:
    """A mean over configurations with its interval: {"mean", "low", "high"}."""
    mean, low, high = mean_interval(values, weights, rng=seed)
    return {"mean": rounded(mean), "low": rounded(low), "high": rounded(high)}


def pass_curve(values: NDArray[np.float64], seed: int = 0) -> dict[str, list[float]]:
    """pass@1 … pass@K from its estimates per configuration [configurations, K], with intervals."""
    mean, low, high = mean_interval(values, rng=seed)
    return {name: np.round(array, DIGITS).tolist() for name, array in (("mean", mean), ("low", low), ("high", high))}


def rounded(value: Any) -> float:
    """A number as files hold it."""
    return round(float(value), DIGITS)


def one_line(metrics: Mapping[str, Any], strategies: str) -> str:
    """The main metrics in a line for people; strategies: what they are called."""
    scales = [name.removeprefix("reward_") for name in metrics if name.startswith("reward_")]
    rewards = " ".join(f"{metrics[f'reward_{scale}']['mean']:.3f} ({scale})" for scale in scales)
    earned = metrics["return"]
    parts = [
        f"reward {rewards}" if rewards else f"return {earned['mean']:.4g} [{earned['low']:.4g}, {earned['high']:.4g}]"
    ]
    if "success" in metrics:
        success, curve = metrics["success"], metrics["pass_at_k"]["mean"]
        parts.insert(0, f"success {success['mean']:.3f} [{success['low']:.3f}, {success['high']:.3f}]")
        parts += [f"pass@{len(curve)} {curve[-1]:.3f}", f"coverage {metrics['coverage']['mean']:.2f}"]
    parts.append(f"entropy {metrics['entropy']['mean']:.2f}")
    parts.append(f"{metrics['distinct_strategies']['mean']:.1f} {strategies} a configuration")
    return ", ".join(parts)

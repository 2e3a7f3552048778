"""What attempts say about a policy: means over configurations, with bootstrap intervals over configurations.

Configurations are what vary most and what one wants to speak about, so they are what is resampled. A configuration
carries the noise of its own attempts with it, so the intervals hold both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.metrics import pass_at_k
from polychromic.finetuning.attempts import Attempts

CONFIDENCE = 0.95
RESAMPLES = 2000
PENALTIES = (0.5, 0.9)  # the paper's text, and what minigrid pays (which the paper's FourRooms figures fit better)
DIGITS = 6  # of the figures in files
ROOM_SETS = "room sets"  # what strategies are called in grids


def mean_interval(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    rng: np.random.Generator | int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The mean over configurations with its percentile bootstrap interval.

    Args:
        values: [configurations] or [configurations, K] (K figures at once, all on the same resamples).
        weights: of the configurations, [configurations]; none: all alike.
        rng: a generator or a seed.
        confidence: the share of intervals that should hold the mean of the population of configurations.
        resamples: bootstrap samples.

    Returns:
        mean, low, high, each of shape [] or [K].
    """
    table = np.asarray(values, np.float64)
    share = np.ones(len(table)) if weights is None else np.asarray(weights, np.float64)
    # How often each configuration occurs in a resample, times its weight: one product for all figures.
    drawn = np.random.default_rng(rng).multinomial(len(table), np.full(len(table), 1 / len(table)), resamples) * share
    total = drawn.sum(axis=1)
    drawn, total = drawn[total > 0], total[total > 0]
    means = (drawn @ table) / (total[:, None] if table.ndim == 2 else total)
    tail = 50 * (1 - confidence)
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return np.asarray(share @ table / share.sum()), np.asarray(low), np.asarray(high)


def summarise(
    attempts: Attempts, horizons: NDArray[np.int64], *, temperature: float, seed: int, confidence: float = CONFIDENCE
) -> dict[str, Any]:
    """The figures of `num_configurations · R` attempts at every configuration, in JSON's types.

    horizons: H of each configuration, [num_configurations].
    """
    tasks = len(horizons)
    each = len(attempts) // tasks
    successes = attempts.success.reshape(tasks, each).sum(axis=1)
    strategies = attempts.strategies.reshape(tasks, each)
    solved = attempts.success.reshape(tasks, each)
    distinct = np.array([len(np.unique(row)) for row in strategies])
    distinct_solved = np.array([len(np.unique(row[won])) for row, won in zip(strategies, solved, strict=True)])
    lengths = attempts.lengths.reshape(tasks, each)
    of_each_attempt = np.repeat(horizons, each)
    per_configuration = {
        "success": successes / each,
        "coverage": successes > 0,
        "entropy": attempts.entropies.reshape(tasks, each).mean(axis=1),
        "distinct_strategies": distinct,
        "distinct_successful_strategies": distinct_solved,
    }
    for penalty in PENALTIES:
        rewards = attempts.rescaled_rewards(of_each_attempt, penalty)
        per_configuration[f"reward_{penalty}"] = rewards.reshape(tasks, each).mean(axis=1)
    figures: dict[str, Any] = {
        "temperature": temperature,
        "attempts": each,
        "confidence": confidence,
        **{name: figure(values, seed) for name, values in per_configuration.items()},
        "pass_at_k": pass_curve(pass_at_k(each, successes, np.arange(1, each + 1)), seed),
    }
    # What is needed to pool several runs without resampling runs.
    figures["configurations"] = {
        "successes": successes.tolist(),
        **{name: [rounded(value) for value in values] for name, values in per_configuration.items()},
        "mean_steps_to_success": [
            rounded(row[won].mean()) if won.any() else None for row, won in zip(lengths, solved, strict=True)
        ],
    }
    return figures


def figure(values: ArrayLike, seed: int = 0, weights: ArrayLike | None = None) -> dict[str, float]:
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


def one_line(figures: Mapping[str, Any], strategies: str) -> str:
    """The main figures in a line for people; strategies: what they are called."""
    curve = figures["pass_at_k"]["mean"]
    last = len(curve)
    success = figures["success"]
    # Rewards that fall with time are those of the grid tasks.
    rewards = f"reward {figures['reward_0.5']['mean']:.3f} (0.5) {figures['reward_0.9']['mean']:.3f} (0.9), "
    return (
        f"success {success['mean']:.3f} [{success['low']:.3f}, {success['high']:.3f}], "
        f"{rewards if strategies == ROOM_SETS else ''}"
        f"pass@{last} {curve[-1]:.3f}, coverage {figures['coverage']['mean']:.2f}, "
        f"entropy {figures['entropy']['mean']:.2f}, "
        f"{figures['distinct_strategies']['mean']:.1f} {strategies} a configuration"
    )

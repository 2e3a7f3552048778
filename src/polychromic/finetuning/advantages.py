"""Who gets which advantage? GAE everywhere, then the polychromic advantage in the windows after rollout states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.closed_form import best_of_sets_with, mean_return_of_sets_with
from polychromic.core.credit import set_advantages
from polychromic.core.diversity import distinct_fraction
from polychromic.core.objectives import best_of, mean_return, polychromic_objective, score_sets
from polychromic.core.polychromic import polychromic_advantages
from polychromic.core.returns import discounted_return, gae
from polychromic.core.sets import all_sets, disjoint_sets, random_sets
from polychromic.errors import UserError
from polychromic.finetuning.config import Config, in_unit_range, load_callable, scheduled
from polychromic.finetuning.config_check import has_closed_form
from polychromic.finetuning.rollouts import Rollouts, Targets
from polychromic.policies.inference import row_hashes

OBJECTIVES: dict[str, Callable[..., Any]] = {
    "polychromic": polychromic_objective,
    "mean-return": mean_return,
    "best-of": best_of,
}
DIVERSITIES: dict[str, Callable[..., Any]] = {"distinct": distinct_fraction}
# A set former gets (num_rollouts, set_size, num_sets, num_groups, rng) and returns indices [groups, M, n].
SET_FORMERS: dict[str, Callable[..., Any]] = {
    "random": lambda rollouts, size, sets, groups, rng: random_sets(rollouts, size, sets, groups=(groups,), rng=rng),
    "disjoint": lambda rollouts, size, _, groups, rng: disjoint_sets(rollouts, size, groups=(groups,), rng=rng),
}


# What does not tell states apart: `mission` is a row of this iteration's table, and the configuration is in the key
# anyway; `memory` sums up how a state was reached, so that hardly one would be met twice.
NOT_PART_OF_THE_STATE = ("mission", "memory")


@dataclass
class VisitCounts:
    """N(s, a) over training: how often each action was drawn at each observation of each configuration."""

    counts: dict[int, int] = field(default_factory=dict)

    def add(self, rollouts: Rollouts) -> NDArray[np.float64]:
        """Count this iteration's steps and return N(s_t, a_t) of each, [S]."""
        configurations = np.repeat(rollouts.configurations, np.diff(rollouts.offsets))
        state = {name: value for name, value in rollouts.obs.items() if name not in NOT_PART_OF_THE_STATE}
        keys = row_hashes({**state, "~task": configurations, "~action": rollouts.actions})
        distinct, which, times = np.unique(keys, return_inverse=True, return_counts=True)
        totals = np.empty(len(distinct))
        for index, (key, count) in enumerate(zip(distinct.tolist(), times.tolist(), strict=True)):
            totals[index] = self.counts[key] = self.counts.get(key, 0) + count
        return totals[which]


def estimate(
    rollouts: Rollouts,
    config: Config,
    rng: np.random.Generator,
    *,
    progress: float = 0.0,
    visits: VisitCounts | None = None,
) -> Targets:
    """Advantages and value targets of every step.

    Args:
        rollouts: what was collected.
        config: the run's choices.
        rng: draws the random sets.
        progress: how far the run is, 0 … 1, for schedules.
        visits: the counts of the UCB bonus, added to if `config.ucb` is above 0.
    """
    base, value_targets = _single_trajectory_advantages(rollouts, config)
    advantages = base.copy()
    in_window = np.zeros(rollouts.num_steps, bool)
    stats: dict[str, float] = {"advantage_std": float(base.std())}
    if config.polychromic:
        per_group, scores_seen = group_advantages(rollouts, config, rng)
        per_step, in_window = _spread_over_windows(rollouts, per_group, config.window)
        weight = scheduled(config.polychromic_weight, config.polychromic_schedule, progress)
        advantages[in_window] = weight * per_step[in_window] + (1 - weight) * base[in_window]
        stats |= {
            "polychromic_std": float(per_step[in_window].std()),
            "polychromic_to_gae": float(per_step[in_window].std() / (base.std() + 1e-12)),
            "polychromic_share": float(in_window.mean()),
            "all_zero_groups": float((scores_seen == 0).mean()),
        }
    labels = rollouts.labels[rollouts.groups]
    stats["distinct_per_group"] = float(np.mean([len(set(group)) for group in labels.tolist()]))
    if config.ucb > 0:
        if visits is None:
            raise UserError(f"ucb is {config.ucb}, but no visit counts were given")
        counts = (visits if config.ucb_counts == "training" else VisitCounts()).add(rollouts)
        advantages += config.ucb * np.minimum(1.0, counts**-0.5)
    return Targets(
        _normalised(advantages, in_window, config.normalise).astype(np.float32),
        value_targets.astype(np.float32),
        stats,
    )


def group_advantages(
    rollouts: Rollouts, config: Config, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The set advantage of every member of every group, [G, N], and the largest set score of each group, [G].

    A group's largest score stands for "is there any signal": it is 0 where all scores are.
    """
    returns = _first_returns(rollouts, config.discount)
    scaled = np.asarray(in_unit_range(config)(returns), np.float64)
    if scaled.shape != returns.shape:
        raise UserError(f"return_map returned shape {scaled.shape}; one number per return is needed: {returns.shape}")
    if not (scaled.min() >= -1e-6 and scaled.max() <= 1 + 1e-6):
        spans = f"returns span {returns.min():.4g} to {returns.max():.4g}"
        if config.return_map != "range":
            raise UserError(f"return_map is {config.return_map!r}, which leaves [0, 1] where {spans}")
        raise UserError(
            f"return_range is {config.return_range}, but {spans}; give the lowest and the highest return of the task"
        )
    scaled = np.clip(scaled, 0.0, 1.0)[rollouts.groups]
    labels = rollouts.labels[rollouts.groups]
    num_groups, size = labels.shape
    if has_closed_form(config):
        return _over_all_sets(scaled, labels, config)
    if config.num_sets == 0:
        sets = np.broadcast_to(all_sets(size, config.set_size), (num_groups, *all_sets(size, config.set_size).shape))
    else:
        former = load_callable("set_former", config.set_former, SET_FORMERS)
        sets = former(size, config.set_size, config.num_sets, num_groups, rng)
    scores = score_sets(
        sets,
        scaled,
        labels=labels,
        objective=load_callable("objective", config.objective, OBJECTIVES),
        diversity=load_callable("diversity", config.diversity, DIVERSITIES),
    )
    return set_advantages(scores, sets, size, credit=config.credit), np.abs(scores).max(axis=-1)


def _over_all_sets(
    scaled: NDArray[np.float64], labels: NDArray[np.uint64], config: Config
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`group_advantages` over all C(N, n) sets in closed form: E[f | i in the set] − E[f]."""
    best = scaled.max(axis=1)
    if config.objective == "polychromic":
        # The best set has a score of 0 only if nothing was earned or all members are alike.
        alike = (labels == labels[:, :1]).all(axis=1)
        return polychromic_advantages(scaled, labels, set_size=config.set_size), np.where(alike, 0.0, best)
    closed = {"best-of": best_of_sets_with, "mean-return": mean_return_of_sets_with}[config.objective]
    scores = closed(scaled, config.set_size)
    return scores - scores.mean(axis=1, keepdims=True), best


def _first_returns(rollouts: Rollouts, discount: float) -> NDArray[np.float64]:
    """What each trajectory collected from its first step on, discounted, [K]."""
    return discounted_return(rollouts.rewards, rollouts.offsets, discount=discount)[rollouts.offsets[:-1]]


def _single_trajectory_advantages(
    rollouts: Rollouts, config: Config
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Advantages without sets, and value targets; both [S]."""
    final_values = rollouts.final_values if config.time_limit == "bootstrap" else None
    ends = rollouts.terminated if config.time_limit == "bootstrap" else None

    def estimated(gae_lambda: float) -> NDArray[np.float64]:
        return gae(
            rollouts.rewards,
            rollouts.values,
            rollouts.offsets,
            final_values=final_values,
            terminated=ends,
            discount=config.discount,
            gae_lambda=gae_lambda,
        )

    advantages = estimated(1.0 if config.advantage == "return" else config.gae_lambda)
    targets = (advantages if config.value_target == "gae" else estimated(1.0)) + rollouts.values
    if config.advantage in ("grpo", "rloo"):
        advantages = _group_relative(rollouts, config)
    return advantages, targets


def _group_relative(rollouts: Rollouts, config: Config) -> NDArray[np.float64]:
    """The same advantage at every step of a trajectory, from its return among those of its group."""
    returns = _first_returns(rollouts, config.discount)[rollouts.groups]
    size = returns.shape[1]
    centred = returns - returns.mean(axis=1, keepdims=True)
    if config.advantage == "rloo":
        relative = centred * size / max(size - 1, 1)  # R_i − mean of the others
    else:
        relative = centred / (returns.std(axis=1, keepdims=True) + 1e-8)
    per_trajectory = np.zeros(rollouts.num_trajectories)
    per_trajectory[rollouts.groups] = relative
    return np.repeat(per_trajectory, np.diff(rollouts.offsets))


def _spread_over_windows(
    rollouts: Rollouts, per_group: NDArray[np.float64], window: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Each member's advantage at its steps 0 … W (all for W = −1): values [S] and where they apply [S]."""
    per_trajectory = np.zeros(rollouts.num_trajectories)
    member = np.zeros(rollouts.num_trajectories, bool)
    per_trajectory[rollouts.groups] = per_group
    member[rollouts.groups] = True
    lengths = np.diff(rollouts.offsets)
    step = np.arange(rollouts.num_steps) - np.repeat(rollouts.offsets[:-1], lengths)
    inside = np.repeat(member, lengths) & ((step <= window) if window >= 0 else True)
    return np.repeat(per_trajectory, lengths), inside


def _normalised(advantages: NDArray[np.float64], in_window: NDArray[np.bool_], how: str) -> NDArray[np.float64]:
    if how == "joint":
        return _standardised(advantages)
    if how == "per-kind":
        result = advantages.copy()
        for kind in (in_window, ~in_window):
            if kind.any():
                result[kind] = _standardised(advantages[kind])
        return result
    return advantages


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((values - values.mean()) / (values.std() + 1e-8))

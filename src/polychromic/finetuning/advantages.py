"""Who gets which advantage? GAE everywhere, then what sets are worth, where `set_credit` says it goes.

Sets give each member i of a group A_i = E[f | i ∈ g] − E[f]. The paper puts it on the W + 1 steps after a rollout state
(`window`). The set policy gradient has u_i = n · A_i at every step of i, which the other rules estimate:

    trajectory:       A_t = u_i
    critic:           A_t = GAE of the rewards 0, …, 0, u_i; the critic learns to predict u
    control-variate:  A_t = α · GAE_t + u_i − α (R_i − R̄)      (`core.control_variate`)

With λ = 1 the expected update of each of the three is (1 − n/N) times the gradient of E[f] over sets of n rollouts: the
baseline E[f] contains the sets of i itself. `tests/finetuning/test_set_credit.py` proves it by enumeration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.core.closed_form import best_of_sets_with, mean_return_of_sets_with
from polychromic.core.control_variate import (
    credit_without_each,
    leave_one_out_slopes,
    mean_of_others,
    others,
    slopes,
)
from polychromic.core.credit import set_advantages
from polychromic.core.objectives import best_of, mean_return, polychromic_objective, score_sets
from polychromic.core.polychromic import polychromic_advantages
from polychromic.core.returns import discounted_return, gae
from polychromic.core.sets import all_sets, disjoint_sets, random_sets
from polychromic.errors import UserError
from polychromic.finetuning.config import Config, in_unit_range, load_callable, scheduled
from polychromic.finetuning.config_check import has_closed_form
from polychromic.finetuning.diversities import diversity_of, sets_to_draw
from polychromic.finetuning.rollouts import Rollouts, Targets
from polychromic.policies.inference import row_hashes

OBJECTIVES: dict[str, Callable[..., Any]] = {
    "polychromic": polychromic_objective,
    "mean-return": mean_return,
    "best-of": best_of,
}
# A set former gets (num_rollouts, set_size, num_sets, num_groups, rng) and returns indices [groups, M, n].
SET_FORMERS: dict[str, Callable[..., Any]] = {
    "random": lambda rollouts, size, sets, groups, rng: random_sets(rollouts, size, sets, groups=(groups,), rng=rng),
    "disjoint": lambda rollouts, size, _, groups, rng: disjoint_sets(rollouts, size, groups=(groups,), rng=rng),
}


@dataclass
class VisitCounts:
    """N(s, a) over training: how often each action was drawn at each observation of each configuration."""

    counts: dict[int, int] = field(default_factory=dict)

    def add(self, rollouts: Rollouts) -> NDArray[np.float64]:
        """Count this iteration's steps and return N(s_t, a_t) of each, [S]."""
        configurations = np.repeat(rollouts.configurations, np.diff(rollouts.offsets))
        named = rollouts.obs if rollouts.state_inputs is None else rollouts.state_inputs
        state = {name: rollouts.obs[name] for name in named}
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
    advantages, value_targets, by_sets, stats = step_advantages(rollouts, config, rng, progress=progress)
    labels = rollouts.labels[rollouts.groups]
    stats["distinct_per_group"] = float(np.mean([len(set(group)) for group in labels.tolist()]))
    if config.ucb > 0:
        if visits is None:
            raise UserError(f"ucb is {config.ucb}, but no visit counts were given")
        counts = (visits if config.ucb_counts == "training" else VisitCounts()).add(rollouts)
        advantages += config.ucb * np.minimum(1.0, counts**-0.5)
    return Targets(
        _normalised(advantages, by_sets, config.normalise).astype(np.float32),
        value_targets.astype(np.float32),
        stats,
    )


class StepAdvantages(NamedTuple):
    """Advantages before the UCB bonus and normalisation, in double precision."""

    advantages: NDArray[np.float64]  # [S]
    value_targets: NDArray[np.float64]  # [S]
    by_sets: NDArray[np.bool_]  # steps that have credit from sets, [S]
    stats: dict[str, float]


def step_advantages(
    rollouts: Rollouts, config: Config, rng: np.random.Generator, *, progress: float = 0.0
) -> StepAdvantages:
    """The first half of `estimate`: what every step gets, from its trajectory and from sets."""
    if not config.polychromic:
        base, value_targets = _single_trajectory_advantages(rollouts, config)
        return StepAdvantages(
            base, value_targets, np.zeros(rollouts.num_steps, bool), {"advantage_std": float(base.std())}
        )
    weight = scheduled(config.polychromic_weight, config.polychromic_schedule, progress)
    scored = _score_groups(rollouts, config, rng)
    if config.set_credit == "critic":
        found = _through_the_critic(rollouts, config, scored, weight)
    else:
        spread = {"window": _in_windows, "trajectory": _on_trajectories, "control-variate": _with_control_variate}
        base, value_targets = _single_trajectory_advantages(rollouts, config)
        by_step, by_sets, stats = spread[config.set_credit](rollouts, config, scored, base)
        advantages = base.copy()
        advantages[by_sets] = weight * by_step[by_sets] + (1 - weight) * base[by_sets]
        found = StepAdvantages(advantages, value_targets, by_sets, {"advantage_std": float(base.std()), **stats})
    found.stats["polychromic_share"] = float(found.by_sets.mean())
    found.stats["all_zero_groups"] = float((scored.largest == 0).mean())
    found.stats.update(scored.stats)
    return found


class _Scored(NamedTuple):
    """What sets say of groups."""

    advantages: NDArray[np.float64]  # A_i of every member, [G, N]
    largest: NDArray[np.float64]  # the largest set score of each group, [G]
    without: Callable[[], NDArray[np.float64]]  # n · A_j of the others j in the group without i, [G, N, N − 1]
    stats: dict[str, float]


_Spread = tuple[NDArray[np.float64], NDArray[np.bool_], dict[str, float]]  # by step [S], where [S], stats


def _in_windows(rollouts: Rollouts, config: Config, scored: _Scored, base: NDArray[np.float64]) -> _Spread:
    """A_i at the first W + 1 steps of each member."""
    by_step, inside = _spread_over_windows(rollouts, scored.advantages, config.window)
    return by_step, inside, _sizes(by_step[inside], base)


def _on_trajectories(rollouts: Rollouts, config: Config, scored: _Scored, base: NDArray[np.float64]) -> _Spread:
    """u_i at all steps of each member."""
    credit = _span(config) * config.set_size * scored.advantages
    by_step, inside = _spread_over_windows(rollouts, credit, -1)
    return by_step, inside, {**_sizes(by_step[inside], base), "set_credit_std": float(credit.std())}


def _with_control_variate(rollouts: Rollouts, config: Config, scored: _Scored, base: NDArray[np.float64]) -> _Spread:
    """α · GAE_t + u_i − α (R_i − R̄) at all steps of each member."""
    credit = _span(config) * config.set_size * scored.advantages
    returns = _control_returns(rollouts, config)[rollouts.groups]
    if config.control_variate == "in-group":
        alpha = np.broadcast_to(slopes(credit, returns)[:, None], returns.shape)
        mean = returns.mean(axis=1, keepdims=True)
    else:
        alpha = leave_one_out_slopes(_span(config) * scored.without(), returns, config.set_size)
        mean = mean_of_others(returns)
    residual, inside = _spread_over_windows(rollouts, credit - alpha * (returns - mean), -1)
    slope, _ = _spread_over_windows(rollouts, alpha, -1)
    stats = {
        **_sizes(residual[inside], base),  # of what sets add to PPO's signal
        "set_credit_std": float(credit.std()),
        "control_variate_slope": float(alpha.mean()),
    }
    return slope * base + residual, inside, stats


def _through_the_critic(rollouts: Rollouts, config: Config, scored: _Scored, weight: float) -> StepAdvantages:
    """GAE and value targets as if u_i were the only reward of i, at its last step; or, by weight, a mixture of both."""
    credit = _span(config) * config.set_size * scored.advantages
    paid = np.zeros(rollouts.num_trajectories)
    paid[rollouts.groups] = credit
    rewards = (1 - weight) * rollouts.rewards.astype(np.float64)
    rewards[rollouts.offsets[1:] - 1] += weight * paid
    base, value_targets = _single_trajectory_advantages(rollouts, config, rewards)
    returns = _control_returns(rollouts, config)[rollouts.groups]
    stats = {
        "advantage_std": float(base.std()),
        "polychromic_std": float(base.std()),
        # There is one critic, and no GAE of the task's own rewards: credit beside the same from the return.
        "polychromic_to_gae": float(credit.std() / ((returns - returns.mean(axis=1, keepdims=True)).std() + 1e-12)),
        "set_credit_std": float(credit.std()),
    }
    return StepAdvantages(base, value_targets, np.ones(rollouts.num_steps, bool), stats)


def _span(config: Config) -> float:
    """What a return of 1 is worth in rewards, so that credit and GAE, which are mixed, have the same unit."""
    low, high = config.return_range
    return high - low if config.return_map in ("range", "clipped") else 1.0


def _sizes(by_sets: NDArray[np.float64], base: NDArray[np.float64]) -> dict[str, float]:
    return {
        "polychromic_std": float(by_sets.std()),
        "polychromic_to_gae": float(by_sets.std() / (base.std() + 1e-12)),
    }


def _control_returns(rollouts: Rollouts, config: Config) -> NDArray[np.float64]:
    """What GAE with λ = 1 adds up from the first step on, [K]: the return, with V of the end where that bootstraps."""
    returns = _first_returns(rollouts, config.discount)
    if config.time_limit == "bootstrap":
        ahead = config.discount ** np.diff(rollouts.offsets) * rollouts.final_values
        returns = returns + np.where(rollouts.terminated, 0.0, ahead)
    return returns


def group_advantages(
    rollouts: Rollouts, config: Config, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The set advantage of every member of every group, [G, N], and the largest set score of each group, [G].

    A group's largest score stands for "is there any signal": it is 0 where all scores are.
    """
    scored = _score_groups(rollouts, config, rng)
    return scored.advantages, scored.largest


def _score_groups(rollouts: Rollouts, config: Config, rng: np.random.Generator) -> _Scored:
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
        return _Scored(*_over_all_sets(scaled, labels, config), lambda: _without_each(scaled, labels, config), {})
    draws = sets_to_draw(config)
    if draws == 0:
        sets = np.broadcast_to(all_sets(size, config.set_size), (num_groups, *all_sets(size, config.set_size).shape))
    else:
        former = load_callable("set_former", config.set_former, SET_FORMERS)
        sets = former(size, config.set_size, draws, num_groups, rng)
    diversity = diversity_of(config)
    measured: list[float] = []

    def of_sets(read: NDArray[Any]) -> Any:
        found = diversity.of_sets(read)
        measured.append(float(np.mean(found)))
        return found

    scores = score_sets(
        sets,
        scaled,
        **diversity.of_groups(rollouts),
        objective=load_callable("objective", config.objective, OBJECTIVES),
        diversity=of_sets,
    )
    return _Scored(
        set_advantages(scores, sets, size, credit=config.credit),
        np.abs(scores).max(axis=-1),
        lambda: credit_without_each(scores, np.asarray(sets), size, all_sets=draws == 0),
        {} if diversity.reads == "labels" else {"set_diversity": measured[0]},
    )


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


def _without_each(scaled: NDArray[np.float64], labels: NDArray[np.uint64], config: Config) -> NDArray[np.float64]:
    """u of the others in the group without i, over all sets in closed form, [G, N, N − 1]; a group at a time."""
    rest = others(scaled.shape[1])
    found = [_over_all_sets(group[rest], own[rest], config)[0] for group, own in zip(scaled, labels, strict=True)]
    return config.set_size * np.stack(found)


def _first_returns(rollouts: Rollouts, discount: float) -> NDArray[np.float64]:
    """What each trajectory collected from its first step on, discounted, [K]."""
    return discounted_return(rollouts.rewards, rollouts.offsets, discount=discount)[rollouts.offsets[:-1]]


def _single_trajectory_advantages(
    rollouts: Rollouts, config: Config, rewards: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Advantages without sets, and value targets, both [S]; of other rewards than the world's if they are given."""
    final_values = rollouts.final_values if config.time_limit == "bootstrap" else None
    ends = rollouts.terminated if config.time_limit == "bootstrap" else None

    def estimated(gae_lambda: float) -> NDArray[np.float64]:
        return gae(
            rollouts.rewards if rewards is None else rewards,
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

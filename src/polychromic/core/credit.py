"""How much of its sets' scores does a trajectory get?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import Floats, Ints, float_array, one_of, sets_of_groups, whole_number
from polychromic.core.objectives import Diversity, SetObjective, polychromic_objective, score_sets
from polychromic.errors import UserError

CREDITS = ("sum", "mean", "last")
BASELINES = ("mean", "leave_one_out")
MOST_ADVANTAGES = 10**9


def set_advantages(
    scores: ArrayLike,
    sets: ArrayLike,
    num_rollouts: int,
    *,
    credit: str = "sum",
    baseline: str = "mean",
) -> Floats:
    """The advantage of each rollout from the scores of the sets that hold it (paper, section 3.3).

        sum:   A_i = N / (M n) · Σ_{g∋i} (f(g) − f̂)    the set policy gradient (eq. 4), regrouped by trajectory
        mean:  A_i = mean over g∋i of (f(g) − f̂)        as in Poly-EPO
        last:  A_i = f(g) − f̂ for the last set g∋i      the pseudocode, taken literally

    A rollout that is in no set gets 0. With the mean baseline `sum` adds up to zero in every group, whatever
    the sets; `mean` does only where every rollout is in equally many sets.

    Args:
        scores: f(g), [..., M].
        sets: rollout indices [M, n] or [..., M, n].
        num_rollouts: N.
        credit: 'sum', 'mean' or 'last'.
        baseline: f̂ = 'mean', over all M sets (the paper's: it contains the set itself, which shrinks the expected
            gradient by 1 − 1/M), or 'leave_one_out', over the other M − 1 sets.

    Returns:
        [..., N].
    """
    num_rollouts = whole_number("num_rollouts", num_rollouts, at_least=1)
    one_of("credit", credit, CREDITS)
    one_of("baseline", baseline, BASELINES)
    set_scores = float_array("scores", scores)
    num_groups = math.prod(set_scores.shape[:-1])
    if num_groups * num_rollouts > MOST_ADVANTAGES:
        raise UserError(
            f"num_rollouts is {num_rollouts} and scores has {num_groups} groups: {num_groups * num_rollouts:.3g} "
            f"advantages do not fit into memory"
        )
    members = sets_of_groups(sets, num_rollouts, set_scores.shape[:-1], "scores")
    num_sets, set_size = members.shape[-2:]
    if num_sets != set_scores.shape[-1]:
        raise UserError(
            f"scores has shape {set_scores.shape} and sets has shape {members.shape}, which is {num_sets} sets; there "
            "must be one score per set"
        )
    centred = set_scores - set_scores.mean(axis=-1, keepdims=True)
    if baseline == "leave_one_out":
        if num_sets < 2:
            raise UserError(f"baseline is 'leave_one_out' with {num_sets} set; it needs at least 2 sets per group")
        centred *= num_sets / (num_sets - 1)
    if credit == "last":
        advantages = np.zeros((*set_scores.shape[:-1], num_rollouts))
        for index in range(num_sets):
            np.put_along_axis(advantages, members[..., index, :], centred[..., index, None], axis=-1)
        return advantages
    total = _sum_per_rollout(np.broadcast_to(centred[..., None], members.shape), members, num_rollouts)
    if credit == "mean":
        times = _sum_per_rollout(np.ones(members.shape), members, num_rollouts)
        return np.asarray(total / np.maximum(times, 1))
    return np.asarray(total * (num_rollouts / (num_sets * set_size)))


def leave_one_out_advantages(
    sets: ArrayLike,
    returns: ArrayLike,
    *,
    labels: Any = None,
    kernel: ArrayLike | None = None,
    objective: SetObjective = polychromic_objective,
    diversity: Diversity | None = None,
) -> Floats:
    """The per-trajectory credit that the paper compares itself with (section 3.1, after Tang et al.).

        A_i = N / (M n) · Σ_{g∋i} (f(g) − f(g ∖ {i}))

    Every trajectory of a set has its own baseline, so the members of a set do not share a signal.

    Args:
        sets: rollout indices [M, n] or [..., M, n], n ≥ 2.
        returns: [..., N]; `labels`, `kernel`, `objective`, `diversity` as in `score_sets`.

    Returns:
        [..., N].
    """
    group_returns = float_array("returns", returns)
    num_rollouts = group_returns.shape[-1]
    members = sets_of_groups(sets, num_rollouts, group_returns.shape[:-1], "returns")
    num_sets, set_size = members.shape[-2:]
    if set_size < 2:
        raise UserError("sets has set_size 1; leaving one out needs at least 2 members")

    def scores_of(subsets: Ints) -> Floats:
        return score_sets(
            subsets, group_returns, labels=labels, kernel=kernel, objective=objective, diversity=diversity
        )

    whole = scores_of(members)
    without = np.stack([scores_of(np.delete(members, i, axis=-1)) for i in range(set_size)], axis=-1)
    total = _sum_per_rollout(whole[..., None] - without, members, num_rollouts)
    return np.asarray(total * (num_rollouts / (num_sets * set_size)))


def _sum_per_rollout(values: Floats, members: Ints, num_rollouts: int) -> Floats:
    """Add values [..., M, n] up by the rollout each belongs to, [..., N]."""
    groups = members.shape[:-2]
    num_groups = int(np.prod(groups))
    first = np.arange(num_groups)[:, None] * num_rollouts
    slots = (members.reshape(num_groups, -1) + first).ravel()
    total = np.bincount(slots, weights=values.ravel(), minlength=num_groups * num_rollouts)
    return np.asarray(total.reshape(*groups, num_rollouts))

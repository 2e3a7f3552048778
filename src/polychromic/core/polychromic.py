"""Polychromic advantages in one call: from returns and labels of groups to an advantage per rollout."""

from __future__ import annotations

import warnings
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import (
    Floats,
    Ints,
    Seed,
    flag,
    float_array,
    generator,
    label_array,
    one_of,
    set_size_of,
    unit_interval,
    whole_number,
)
from polychromic.core.closed_form import mean_score_of_sets_with
from polychromic.core.credit import BASELINES, CREDITS, set_advantages
from polychromic.core.diversity import distinct_fraction
from polychromic.core.objectives import score_sets
from polychromic.core.sets import random_sets
from polychromic.errors import UserError


class DegenerateSetsWarning(UserWarning):
    """The sets asked for cannot differ in score, so that nothing would be learned from them."""


def polychromic_advantages(
    returns: ArrayLike,
    labels: Any,
    *,
    set_size: int,
    num_sets: int | str = "all",
    credit: str = "sum",
    baseline: str = "mean",
    homogeneous_zero: bool = True,
    group_ids: Any = None,
    rng: Seed = None,
) -> Floats:
    """The polychromic advantage of every rollout (paper, section 3.3, with eq. 7 as the objective).

        A_i = N / (M n) · Σ_{g∋i} (f_poly(g) − f̄),   f_poly(g) = mean return of g × distinct fraction of g

    With `num_sets="all"` the M = C(N, n) sets are averaged exactly in closed form, at a cost that does not depend
    on C(N, n): A_i = E[f | i ∈ g] − E[f]. The credits 'sum' and 'mean' coincide there. The result adds up to zero
    in every group, so a trainer that subtracts a group's mean leaves it unchanged.

    Sets are compared with each other, so there must be several: where set_size is the whole group, num_sets is 1, or
    set_size is 1 under the rule d = 0, every advantage is 0, and a `DegenerateSetsWarning` says so.

    Args:
        returns: [..., N], in [0, 1]; the last axis is a group of rollouts from the same state.
        labels: [..., N]; equal labels mark rollouts that count as the same.
        set_size: n. Larger sets press longer for diversity: once n draws all differ, there is nothing to gain.
        num_sets: 'all', or M random sets per group (the paper's M = 4).
        credit: 'sum', 'mean' or 'last', as in `set_advantages`; 'last' needs a number of sets.
        baseline: 'mean' or 'leave_one_out', as in `set_advantages`.
        homogeneous_zero: the paper's d = 0 for sets whose members are all alike; False gives Poly-EPO's objective.
        group_ids: if given, `returns` and `labels` are flat [total] and rollouts with the same id form a group, in
            any order and of any size from `set_size` on.
        rng: a generator or a seed for the random sets.

    Returns:
        The shape of `returns`.
    """
    values = unit_interval("returns", float_array("returns", returns))
    label_codes = label_array(labels, values.shape)
    one_of("credit", credit, CREDITS)
    one_of("baseline", baseline, BASELINES)
    flag("homogeneous_zero", homogeneous_zero)
    set_size = whole_number("set_size", set_size, at_least=1)
    if isinstance(num_sets, str):
        one_of("num_sets", num_sets, ("all",))
        if credit == "last":
            raise UserError("credit is 'last' with num_sets='all'; the last of all sets means nothing: give a number")
    else:
        num_sets = whole_number("num_sets", num_sets, at_least=1)
    draws = None if isinstance(num_sets, str) else generator(rng)

    def of_groups(group_returns: Floats, group_labels: Any) -> Floats:
        size = set_size_of(set_size, group_returns.shape[-1])
        _warn_if_degenerate(group_returns.shape[-1], size, num_sets, homogeneous_zero)
        if group_returns.size == 0:
            return np.zeros(group_returns.shape)
        if isinstance(num_sets, str):
            score = mean_score_of_sets_with(group_returns, group_labels, size, homogeneous_zero)
            advantages = score - score.sum(axis=-1, keepdims=True) / score.shape[-1]
            if baseline == "leave_one_out":
                count = comb(group_returns.shape[-1], size)
                advantages *= count / max(count - 1, 1)
            # A trainer may divide by a group's deviation: what is 0 but for rounding must be 0.
            return np.where(np.abs(advantages) < 1e-15, 0.0, advantages)
        sets = random_sets(group_returns.shape[-1], size, num_sets, groups=group_returns.shape[:-1], rng=draws)
        scores = score_sets(
            sets,
            group_returns,
            labels=group_labels,
            diversity=lambda members: distinct_fraction(members, homogeneous_zero=homogeneous_zero),
        )
        return set_advantages(scores, sets, group_returns.shape[-1], credit=credit, baseline=baseline)

    if group_ids is None:
        if values.shape[-1] == 0:
            raise UserError(f"returns has shape {values.shape}; a group needs at least one rollout")
        return of_groups(values, label_codes)
    if values.ndim != 1:
        raise UserError(f"returns has shape {values.shape}; with group_ids it must be flat, [total]")
    advantages = np.zeros_like(values)
    for rows in _rows_by_group_size(group_ids, len(values), set_size):
        advantages[rows] = of_groups(values[rows], label_codes[rows])
    return advantages


def _warn_if_degenerate(num_rollouts: int, set_size: int, num_sets: int | str, homogeneous_zero: bool) -> None:
    reason = None
    if set_size == num_rollouts:
        reason = f"set_size is {set_size}, the whole group: there is only one set"
    elif num_sets == 1:
        reason = "num_sets is 1: there is nothing to compare the set with"
    elif set_size == 1 and homogeneous_zero:
        reason = "set_size is 1: a set of one is homogeneous and scores 0"
    if reason:
        warnings.warn(f"every advantage is 0, because {reason}", DegenerateSetsWarning, stacklevel=4)


def _rows_by_group_size(group_ids: Any, total: int, set_size: int) -> list[Ints]:
    """Row indices [groups of one size, size], one entry per size, so that each size is one vectorised call."""
    ids = label_array(group_ids, (total,), name="group_ids")
    names, codes, sizes = np.unique(ids, return_inverse=True, return_counts=True)
    if len(sizes) and sizes.min() < set_size:
        short = int(sizes.argmin())
        example = list(group_ids)[int(np.argmax(ids == names[short]))]
        raise UserError(
            f"group_ids: group {example!r} has {sizes[short]} rollout(s); sets of {set_size} need at least {set_size}"
        )
    order = np.argsort(codes, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return [order[starts[sizes == size][:, None] + np.arange(size)].astype(np.int64) for size in np.unique(sizes)]

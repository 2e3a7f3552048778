"""Polychromic advantages in one call: from returns and labels (or a kernel) of groups to an advantage per rollout."""

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
    square_kernel,
    unit_interval,
    whole_number,
)
from polychromic.core.closed_form import mean_score_of_sets_with
from polychromic.core.credit import BASELINES, CREDITS, set_advantages
from polychromic.core.diversity import distinct_fraction, vendi_diversity
from polychromic.core.objectives import Diversity, score_sets
from polychromic.core.sets import all_sets, random_sets
from polychromic.errors import UserError


class DegenerateSetsWarning(UserWarning):
    """The requested sets cannot differ in score, so nothing would be learned from them."""


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
        set_size: n. Larger sets ask for more diversity: once n draws all differ, there is nothing to gain.
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
            raise UserError("credit is 'last' with num_sets='all'; 'all' has no last set: give a number")
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
            # A trainer may divide by a group's standard deviation, so a 0 must not carry rounding errors.
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


def polychromic_kernel_advantages(
    returns: ArrayLike,
    kernel: ArrayLike,
    *,
    set_size: int,
    num_sets: int | str = "all",
    credit: str = "sum",
    diversity: Diversity = vendi_diversity,
    rng: Seed = None,
) -> Floats:
    """`polychromic_advantages` for graded similarity instead of labels.

    f(g) = mean return of g × diversity of g's part of the kernel. There is no closed form, so `num_sets="all"`
    enumerates the C(N, n) sets, at most a million of them.

    Args:
        returns: [..., N], in [0, 1].
        kernel: [..., N, N] similarities, as `kernel_from_embeddings` makes them.
        set_size: n.
        num_sets: 'all', or M random sets per group.
        credit: 'sum', 'mean' or 'last', as in `set_advantages`.
        diversity: from kernels [..., M, n, n] to [..., M] in [0, 1]; `mean_pairwise_distance`, say.
        rng: a generator or a seed for the random sets.

    Returns:
        [..., N], adding up to zero in every group where the credit is 'sum'.
    """
    values = unit_interval("returns", float_array("returns", returns))
    sets = _sets_of_groups(values.shape, set_size, num_sets, rng)
    scores = score_sets(sets, values, kernel=square_kernel("kernel", kernel), diversity=diversity)
    return set_advantages(scores, sets, values.shape[-1], credit=credit)


def mean_set_score(
    returns: ArrayLike,
    labels: Any = None,
    *,
    kernel: ArrayLike | None = None,
    set_size: int,
    num_sets: int | str = "all",
    homogeneous_zero: bool = True,
    rng: Seed = None,
) -> Floats:
    """f̄, the mean polychromic score of the sets of a group: what training should raise.

    With returns of 1 it is the mean diversity of the sets.

    Args:
        returns: [..., N], in [0, 1].
        labels: [..., N], or
        kernel: [..., N, N], whose sets are scored by `vendi_diversity`.
        set_size: n.
        num_sets: for a kernel, 'all' or how many random sets to average over; labels are averaged over all sets
            in closed form whatever it is.
        homogeneous_zero: the paper's d = 0 rule, for labels.
        rng: a generator or a seed for the random sets.

    Returns:
        [...], in [0, 1].
    """
    values = unit_interval("returns", float_array("returns", returns))
    if (labels is None) == (kernel is None):
        raise UserError("labels and kernel: give exactly one of them")
    if kernel is None:
        size = set_size_of(set_size, values.shape[-1])
        codes = label_array(labels, values.shape)
        return np.asarray(mean_score_of_sets_with(values, codes, size, homogeneous_zero).mean(axis=-1))
    sets = _sets_of_groups(values.shape, set_size, num_sets, rng)
    return np.asarray(score_sets(sets, values, kernel=kernel).mean(axis=-1))


def _sets_of_groups(shape: tuple[int, ...], set_size: int, num_sets: int | str, rng: Seed) -> Ints:
    if isinstance(num_sets, str):
        one_of("num_sets", num_sets, ("all",))
        return all_sets(shape[-1], set_size)
    return random_sets(shape[-1], set_size, num_sets, groups=shape[:-1], rng=rng)


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

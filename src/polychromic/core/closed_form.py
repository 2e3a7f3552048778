r"""The average over all C(N, n) sets of a group, without enumerating one.

The polychromic score of a set g is a product of a sum of returns and a count of distinct labels,

    n² f(g) = Σ_{j∈g} R_j · Σ_b 1{g holds label b},

so its average over the sets that hold rollout i (label a) is a sum over pairs (rollout j, label b) of

    R_j · P(j ∈ g and b ∈ labels(g) | i ∈ g),

a hypergeometric probability that depends on b only through m_b, the number of rollouts with that label. With

    one(m), two(m) = chance that a label with m rollouts is among the other draws, given one or two fixed rollouts
    c = (n − 1)/(N − 1) = P(j ∈ g | i ∈ g),   S = Σ_j R_j,   S_a = Σ_{j with label a} R_j

it splits into j = i (a is sure), j ≠ i with label a (a is sure) and j with another label b (a and b are sure):

      R_i (1 + Σ_{b≠a} one_b)
    + c (S_a − R_i) (1 + Σ_{b≠a} two_b)
    + c Σ_{b≠a} S_b (2 + Σ_{d≠a,b} two_d)

and the rule d = 0 for sets that hold only label a takes off, with h(m) = C(m − 1, n − 1)/C(N − 1, n − 1),

      h_a (R_i + (n − 1)/(m_a − 1) (S_a − R_i)).

Sorted by R_i, S_a and what a group shares, every coefficient is a function of m_a alone: a table per (N, n). The cost
of a group is O(N) after its labels are sorted. `tests/core/test_polychromic.py` compares it with enumeration.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.core.checks import Floats, Ints


def mean_score_of_sets_with(returns: Floats, labels: NDArray[Any], set_size: int, homogeneous_zero: bool) -> Floats:
    """E[f_poly(g) | i ∈ g] for g uniform over all sets of `set_size`, [..., N] → [..., N].

    Its mean over i is the average score of all sets, because every rollout is in equally many of them.
    """
    num_rollouts = returns.shape[-1]
    reward = returns.reshape(-1, num_rollouts)
    slot = _label_slots(labels.reshape(-1, num_rollouts))
    same_count = np.bincount(slot)[slot].reshape(reward.shape)  # m_a of each rollout's label a
    same_reward = np.bincount(slot, weights=reward.ravel())[slot].reshape(reward.shape)  # S_a
    tables = _tables(num_rollouts, set_size, homogeneous_zero)
    own, shared, one_per_rollout, two_per_rollout, two = tables.by_count[:, same_count]
    total = _total(reward)
    # Σ_b x_b is the sum over rollouts of x_b / m_b, so that only arrays [groups, N] are needed.
    score = (
        reward * (own + _total(one_per_rollout))
        + tables.chance_of_other
        * ((total - reward) * (1.0 - two + _total(two_per_rollout)) + total - _total(reward * two))
        - same_reward * shared
    )
    return np.asarray(score / set_size**2).reshape(returns.shape)


def best_of_sets_with(returns: Floats, set_size: int) -> Floats:
    r"""E[max_{j∈g} R_j | i ∈ g] for g uniform over all sets of `set_size`, [..., N] → [..., N].

    In ascending order, rollout k = 0 … N − 1 is the best of a set that holds i < k if k is drawn and the other n − 2
    come from the k − 1 rollouts below k besides i; i itself is, if all n − 1 others come from the i below it:

        E_i = (C(i, n − 1) R_i + Σ_{k>i} C(k − 1, n − 2) R_k) / C(N − 1, n − 1).

    Equal returns may come in either order: the maximum is the same.
    """
    num_rollouts = returns.shape[-1]
    own, above = _best_of_tables(num_rollouts, set_size)
    order = np.argsort(returns, axis=-1, kind="stable")
    ascending = np.take_along_axis(returns, order, axis=-1)
    better = np.cumsum((ascending * above)[..., ::-1], axis=-1)[..., ::-1] - ascending * above
    scores = np.empty_like(ascending)
    np.put_along_axis(scores, order, ascending * own + better, axis=-1)
    return scores


@lru_cache(maxsize=256)
def _best_of_tables(num_rollouts: int, set_size: int) -> tuple[Floats, Floats]:
    """C(k, n − 1) and C(k − 1, n − 2), each over C(N − 1, n − 1), for k = 0 … N − 1."""
    whole = comb(num_rollouts - 1, set_size - 1)
    # Python divides integers of any length and rounds once, so nothing overflows.
    own = np.array([comb(k, set_size - 1) / whole for k in range(num_rollouts)])
    above = np.array([comb(k - 1, set_size - 2) / whole if k and set_size > 1 else 0.0 for k in range(num_rollouts)])
    own.flags.writeable = above.flags.writeable = False  # shared by all later calls
    return own, above


def mean_return_of_sets_with(returns: Floats, set_size: int) -> Floats:
    """E[mean of R over g | i ∈ g] for g uniform over all sets of `set_size`, [..., N] → [..., N].

    R_i/n + (n − 1)/n · mean of the other returns.
    """
    others = (returns.sum(axis=-1, keepdims=True) - returns) / max(returns.shape[-1] - 1, 1)
    return np.asarray((returns + (set_size - 1) * others) / set_size)


class _Tables(NamedTuple):
    by_count: Floats  # [5, N + 1], a row per coefficient, indexed by m
    chance_of_other: float  # c


@lru_cache(maxsize=256)
def _tables(num_rollouts: int, set_size: int, homogeneous_zero: bool) -> _Tables:
    """The coefficients by m = 0 … N: of R_i, of S_a, one(m)/m, two(m)/m and two(m)."""
    count = np.arange(num_rollouts + 1)
    one = 1.0 - _chance_of_missing(num_rollouts - 1, set_size - 1)[count]
    two = 1.0 - _chance_of_missing(num_rollouts - 2, set_size - 2)[count]
    chance_of_other = (set_size - 1) / max(num_rollouts - 1, 1)
    own, shared = 1.0 - one, chance_of_other * (1.0 - two)
    if homogeneous_zero:
        # All other members come from the m − 1 rollouts with i's label: the draws miss the N − m with another.
        alike = _chance_of_missing(num_rollouts - 1, set_size - 1)[num_rollouts - count]
        others_alike = alike * (set_size - 1) / np.maximum(count - 1, 1)
        own, shared = own - alike + others_alike, shared + others_alike
    rollouts = np.maximum(count, 1)
    by_count = np.stack([own, shared, one / rollouts, two / rollouts, two])
    by_count.flags.writeable = False  # shared by all later calls
    return _Tables(by_count, chance_of_other)


def _chance_of_missing(pool: int, draws: int) -> Floats:
    """C(pool − m, draws) / C(pool, draws), m = 0, 1, …: the chance that `draws` of `pool` miss m marked ones.

    A running product of ratios: no binomial coefficient is ever formed, so nothing can overflow. The table continues to
    m = pool + 2, past the largest possible m, so that any count can index it; those entries are 0.
    """
    table = np.ones(max(pool, 0) + 3)
    if draws > 0:  # without draws no marked one can be hit
        marked = np.arange(pool + 2)
        table[1:] = np.cumprod(np.clip((pool - marked - draws) / np.maximum(pool - marked, 1), 0.0, None))
    return table


def _label_slots(labels: NDArray[Any]) -> Ints:
    """A number per (group, label) pair, 0, 1, 2, …: labels [groups, N] → [groups · N]."""
    num_rollouts = labels.shape[-1]
    order = (labels.argsort(axis=-1) + np.arange(0, labels.size, num_rollouts)[:, None]).ravel()
    ordered = labels.ravel()[order]
    starts = np.empty(labels.size, dtype=np.int64)
    starts[1:] = ordered[1:] != ordered[:-1]
    starts[::num_rollouts] = 1  # the same label in the next group is another pair
    slots = np.empty_like(starts)
    slots[order] = starts.cumsum() - 1
    return slots


def _total(values: Floats) -> Floats:
    """Σ over a group, as a column."""
    return np.asarray(np.add.reduce(values, axis=-1, keepdims=True))

r"""The average over all C(N, n) sets of a group, without enumerating one.

The polychromic score of a set g is a product of a sum of returns and a count of distinct labels,

    f(g) = (1/n) Σ_{j∈g} R_j · (1/n) Σ_b 1{g holds label b},

so its average over the sets that hold rollout i is a sum over pairs (rollout j, label b) of

    P(j ∈ g and b ∈ labels(g) | i ∈ g),

a hypergeometric probability that depends on b only through m_b, the number of rollouts with that label. Summed up,
the cost of a group is O(N) after its labels are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.checks import Floats, Ints


def mean_score_of_sets_with(returns: Floats, labels: NDArray[Any], set_size: int, homogeneous_zero: bool) -> Floats:
    """E[f_poly(g) | i ∈ g] for g uniform over all sets of `set_size`, [..., N] → [..., N].

    Its mean over i is the average score of all sets, because every rollout is in equally many of them.
    """
    groups, num_rollouts = returns.shape[:-1], returns.shape[-1]
    reward = returns.reshape(-1, num_rollouts)
    label, group_of_label = _labels_within_groups(labels.reshape(-1, num_rollouts))
    count = np.bincount(label.ravel())  # m_b
    label_reward = _sums(label.ravel(), reward.ravel(), len(count))  # s_b = Σ_{j with label b} R_j

    # Chance that a label with m rollouts outside the fixed ones is among the other draws, for one fixed rollout (i)
    # and for two (i and j).
    present_given_one = (1.0 - _chance_of_missing(num_rollouts - 1, set_size - 1))[count]
    present_given_two = (1.0 - _chance_of_missing(num_rollouts - 2, set_size - 2))[count]

    def per_group(per_label: Floats) -> Floats:
        """Σ_b per group, as a column."""
        return _sums(group_of_label, per_label, len(reward))[:, None]

    own_two = present_given_two[label]
    same_reward = label_reward[label]
    total_reward = reward.sum(axis=-1, keepdims=True)
    # Labels in the set, given that it holds i: i's own, and each other label with its chance.
    labels_with_i = 1.0 + per_group(present_given_one) - present_given_one[label]
    # The same given i and j: one label is sure if j shares i's, two if it does not.
    other_labels = per_group(present_given_two) - own_two
    labels_with_same = 1.0 + other_labels
    reward_with_others = (total_reward - same_reward) * (2.0 + other_labels) - (
        per_group(label_reward * present_given_two) - same_reward * own_two
    )
    chance_of_j = (set_size - 1) / max(num_rollouts - 1, 1)
    score = reward * labels_with_i + chance_of_j * ((same_reward - reward) * labels_with_same + reward_with_others)
    if homogeneous_zero:
        score -= _homogeneous_part(reward, same_reward, count[label], set_size)
    return np.asarray(score / set_size**2).reshape(*groups, num_rollouts)


def _homogeneous_part(reward: Floats, same_reward: Floats, same_count: Ints, set_size: int) -> Floats:
    """E[Σ_{j∈g} R_j · 1{all labels of g alike} | i ∈ g]: what the d = 0 rule takes off."""
    num_rollouts = reward.shape[-1]
    # C(m − 1, n − 1) / C(N − 1, n − 1): all other members come from the m − 1 rollouts with i's label.
    chance = _chance_of_missing(num_rollouts - 1, set_size - 1)[num_rollouts - same_count]
    share = (set_size - 1) / np.maximum(same_count - 1, 1)
    return np.asarray(chance * (reward + share * (same_reward - reward)))


def _chance_of_missing(pool: int, draws: int) -> Floats:
    """C(pool − m, draws) / C(pool, draws), m = 0 … pool + 2: the chance that `draws` of `pool` miss m marked ones.

    A running product of ratios: no binomial coefficient is ever formed, so nothing can overflow. The last entries
    (more marked ones than fit beside the draws) are 0.
    """
    if draws <= 0:
        # Nothing is drawn, so nothing marked can be hit.
        return np.ones(max(pool, 0) + 3)
    marked = np.arange(pool + 2)
    ratios = (pool - marked - draws) / np.maximum(pool - marked, 1)
    return np.concatenate([[1.0], np.cumprod(np.clip(ratios, 0.0, None))])


def _sums(slots: Ints, values: Floats, num_slots: int) -> Floats:
    return np.asarray(np.bincount(slots, weights=values, minlength=num_slots), np.float64)


def _labels_within_groups(labels: NDArray[Any]) -> tuple[Ints, Ints]:
    """Consecutive codes for (group, label) pairs, [groups, N], and the group that each code belongs to."""
    codes = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    num_labels = int(codes.max()) + 1
    pairs = codes + np.arange(len(labels))[:, None] * num_labels
    found, within = np.unique(pairs, return_inverse=True)
    return within.reshape(labels.shape), found // num_labels

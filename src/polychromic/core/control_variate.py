r"""The return as a control variate for set credit.

The set policy gradient multiplies every log-probability of trajectory i with

    u_i = n · (E[f | i ∈ g] − E[f]),

and α · (R_i − R̄) is the part of u_i that the return explains, α = cov(u, R) / var(R). A critic knows that part step by
step: α · GAE_t stands in its place, and only the residual u_i − α (R_i − R̄) is left for the trajectory as a whole,

    A_t = α · GAE_t + u_i − α (R_i − R̄).

With λ = 1 this is u_i − α (V(s_t) + rewards before t − R̄): a baseline that the action at t cannot change, as long as α
and R̄ do not depend on trajectory i. So they come from the other members of its group, by `leave_one_out_slopes`.
"""

from __future__ import annotations

import numpy as np

from polychromic.core.checks import Floats, Ints

VARIES = 1e-9  # deviations below this share of the largest value are rounding


def slopes(credit: Floats, returns: Floats) -> Floats:
    """α = cov(u, R) / var(R) over the last axis, 0 where R does not vary: [..., N] and [..., N] → [...]."""
    centred = returns - returns.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1)
    varies = np.sqrt(variance) > VARIES * np.abs(returns).max(axis=-1)
    covariance = (centred * credit).mean(axis=-1)
    return np.asarray(np.where(varies, covariance / np.where(varies, variance, 1.0), 0.0))


def leave_one_out_slopes(credit_without: Floats, returns: Floats, set_size: int) -> Floats:
    """α_i of every member from the others alone.

        α_i = (1 − n/N) (N − 2)/(N − 1 − n) · cov(u⁻ⁱ, R) / var(R)   over j ≠ i

    The factor takes α from a group of N − 1 to one of N: sets overlap, so in a group of N credit is (N − n)/(N − 1)
    times what a member adds by itself. With it α_i (R_i − mean of the others) is u_i where f is the mean return.

    Args:
        credit_without: u⁻ⁱ_j, the credit of j in the group without i, [..., N, N − 1].
        returns: [..., N].
        set_size: n ≤ N − 2.

    Returns:
        [..., N].
    """
    size = returns.shape[-1]
    scale = (1 - set_size / size) * (size - 2) / (size - 1 - set_size)
    return np.asarray(scale * slopes(credit_without, returns[..., others(size)]))


def others(size: int) -> Ints:
    """Row i holds 0 … N − 1 without i, [N, N − 1]."""
    column = np.arange(size - 1)
    return np.asarray(column + (column >= np.arange(size)[:, None]))


def mean_of_others(values: Floats) -> Floats:
    """[..., N] → [..., N]."""
    size = values.shape[-1]
    return np.asarray((values.sum(axis=-1, keepdims=True) - values) / (size - 1))


def credit_without_each(scores: Floats, sets: Ints, size: int, *, all_sets: bool) -> Floats:
    """u⁻ⁱ_j = (N − 1)/M' · Σ (f(g) − f̂) over the M' sets g that hold j and not i, [..., N, N − 1].

    The sets that do not hold i do not depend on it. Fewer than two of them say nothing: 0.

    Args:
        scores: f(g), [..., M].
        sets: rollout indices [..., M, n].
        size: N.
        all_sets: whether these are all sets there are. If they are M random ones, f̂ shrinks credit by 1 − 1/M; here
            by as much as in the whole group, and not by the 1 − 1/M' of the few that are left.
    """
    num_sets = scores.shape[-1]
    member = np.zeros((*scores.shape, size))
    np.put_along_axis(member, sets, 1.0, axis=-1)
    absent = np.swapaxes(1.0 - member, -1, -2)  # [..., N, M]
    left = absent.sum(axis=-1)  # M', [..., N]
    centred = scores - scores.mean(axis=-1, keepdims=True)
    mean = (absent * centred[..., None, :]).sum(axis=-1) / np.maximum(left, 1)  # f̂ of the sets without i
    total = absent @ (member * centred[..., None]) - mean[..., None] * (absent @ member)
    factor = (size - 1) / np.maximum(left, 1)
    if not all_sets:
        factor *= (1 - 1 / num_sets) * left / np.maximum(left - 1, 1)
    credit = np.where(left[..., None] > 1, total * factor[..., None], 0.0)
    return np.take_along_axis(credit, np.broadcast_to(others(size), (*credit.shape[:-1], size - 1)), axis=-1)

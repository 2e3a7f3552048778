"""Returns and advantages of single trajectories, on ragged batches.

Steps of all trajectories lie one after another in flat arrays [S]; `offsets` [K + 1] says where each begins:
trajectory k owns steps offsets[k] … offsets[k + 1] − 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import Floats, Ints, float_array
from polychromic.errors import UserError


def discounted_return(rewards: ArrayLike, offsets: ArrayLike, *, discount: float = 1.0) -> Floats:
    """R(τ) = Σ_t γ^t r_t from each step to the end of its trajectory, [S].

    The return of trajectory k as a whole is the entry at offsets[k].
    """
    reward = float_array("rewards", rewards)
    bounds = _bounds(offsets, len(reward))
    _in_unit_interval("discount", discount)
    # A(t) = r(t) + γ A(t + 1), which is GAE with λ = 1 and no critic.
    return _backward_sum(reward, bounds, float(discount), np.zeros(len(bounds) - 1))


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    offsets: ArrayLike,
    *,
    final_values: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
    discount: float = 1.0,
    gae_lambda: float = 0.95,
) -> Floats:
    """Generalised advantage estimation (Schulman et al. 2016; paper, extended pseudocode).

        δ_t = r_t + γ V(s_{t+1}) − V(s_t),   A_t = δ_t + γ λ A_{t+1}

    Value targets are `gae(...) + values`.

    Args:
        rewards: r_t, [S].
        values: V(s_t), [S].
        offsets: [K + 1], as described at the top of this module.
        final_values: V of the state after the last step of each trajectory, [K]. Not given: every end counts as
            terminal, which is the paper's reading of its time limit.
        terminated: [K]; where True the end is terminal and its final value is ignored. Not given: all ends with a
            final value are truncations and bootstrap from it.
        discount: γ.
        gae_lambda: λ.

    Returns:
        A_t, [S].
    """
    reward = float_array("rewards", rewards)
    value = float_array("values", values)
    if value.shape != reward.shape or reward.ndim != 1:
        raise UserError(f"values has shape {value.shape} and rewards {reward.shape}; both must be flat and alike, [S]")
    bounds = _bounds(offsets, len(reward))
    _in_unit_interval("discount", discount)
    _in_unit_interval("gae_lambda", gae_lambda)
    num_trajectories = len(bounds) - 1
    bootstrap = np.zeros(num_trajectories)
    if final_values is not None:
        bootstrap = _per_trajectory("final_values", final_values, num_trajectories)
        if terminated is not None:
            bootstrap = np.where(_per_trajectory("terminated", terminated, num_trajectories) > 0, 0.0, bootstrap)
    elif terminated is not None and not np.all(terminated):
        raise UserError("terminated has False entries but final_values is not given; truncated ends bootstrap from it")
    next_value = np.empty_like(value)
    next_value[:-1] = value[1:]
    occupied = np.diff(bounds) > 0
    next_value[bounds[1:][occupied] - 1] = bootstrap[occupied]
    delta = reward + discount * next_value - value
    return _backward_sum(delta, bounds, float(discount * gae_lambda), np.zeros(num_trajectories))


def _backward_sum(terms: Floats, bounds: Ints, factor: float, start: Floats) -> Floats:
    """x_t = terms_t + factor · x_{t+1} within each trajectory, all trajectories in step from their ends."""
    lengths = np.diff(bounds)
    result = np.empty_like(terms)
    # Longest first, so that the trajectories still running at step `back` from the end are a prefix.
    order = np.argsort(-lengths, kind="stable")
    running = start[order].astype(np.float64)
    last = bounds[1:][order] - 1
    sorted_lengths = lengths[order]
    for back in range(int(lengths.max(initial=0))):
        alive = int(np.searchsorted(-sorted_lengths, -back, side="left"))
        rows = last[:alive] - back
        running[:alive] = terms[rows] + factor * running[:alive]
        result[rows] = running[:alive]
    return result


def _bounds(offsets: ArrayLike, num_steps: int) -> Ints:
    bounds = np.asarray(offsets)
    if bounds.ndim != 1 or len(bounds) < 1 or bounds.dtype.kind not in "iu":
        raise UserError(f"offsets has shape {bounds.shape} and dtype {bounds.dtype}; it must be integers [K + 1]")
    bounds = bounds.astype(np.int64)
    if bounds[0] != 0 or bounds[-1] != num_steps or (np.diff(bounds) < 0).any():
        raise UserError(
            f"offsets runs from {bounds[0]} to {bounds[-1]}; it must rise from 0 to the number of steps, {num_steps}"
        )
    return bounds


def _per_trajectory(name: str, value: ArrayLike, num_trajectories: int) -> Floats:
    array = float_array(name, value)
    if array.shape != (num_trajectories,):
        raise UserError(f"{name} has shape {array.shape}; offsets describe {num_trajectories} trajectories")
    return array


def _in_unit_interval(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise UserError(f"{name} is {value}; it must lie between 0 and 1")

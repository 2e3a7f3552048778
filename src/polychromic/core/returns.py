"""Returns and advantages of single trajectories, on ragged batches.

Steps of all trajectories follow one another in flat arrays [S]; `offsets` [K + 1] says where each begins:
trajectory k owns steps offsets[k] … offsets[k + 1] − 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import Floats, Ints, bool_array, float_array, int_array, real_number
from polychromic.errors import UserError


def discounted_return(rewards: ArrayLike, offsets: ArrayLike, *, discount: float = 1.0) -> Floats:
    """R(τ) = Σ_t γ^t r_t from each step to the end of its trajectory, [S].

    The return of trajectory k as a whole is the entry at offsets[k].
    """
    reward = _flat("rewards", rewards)
    return _backward_sum(reward, _bounds(offsets, len(reward)), real_number("discount", discount, 0.0, 1.0))


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
    reward, value = _flat("rewards", rewards), _flat("values", values)
    if value.shape != reward.shape:
        raise UserError(
            f"values has shape {value.shape} and rewards {reward.shape}; both must have the same shape, [S]"
        )
    bounds = _bounds(offsets, len(reward))
    discount = real_number("discount", discount, 0.0, 1.0)
    gae_lambda = real_number("gae_lambda", gae_lambda, 0.0, 1.0)
    num_trajectories = len(bounds) - 1
    terminal = np.full(num_trajectories, final_values is None)
    if terminated is not None:
        terminal = _per_trajectory("terminated", bool_array("terminated", terminated), num_trajectories)
    bootstrap = np.zeros(num_trajectories)
    if final_values is not None:
        value_after = _per_trajectory("final_values", float_array("final_values", final_values), num_trajectories)
        bootstrap = np.where(terminal, 0.0, value_after)
    elif not terminal.all():
        raise UserError("terminated has False entries but final_values is not given; truncated ends bootstrap from it")
    next_value = np.empty_like(value)
    next_value[:-1] = value[1:]
    occupied = np.diff(bounds) > 0
    next_value[bounds[1:][occupied] - 1] = bootstrap[occupied]
    delta = reward + discount * next_value - value
    return _backward_sum(delta, bounds, discount * gae_lambda)


def _backward_sum(terms: Floats, bounds: Ints, factor: float) -> Floats:
    """x_t = terms_t + factor · x_{t+1} within each trajectory; all trajectories advance together, from their ends."""
    lengths = np.diff(bounds)
    result = np.empty_like(terms)
    # Longest first, so that the trajectories still running at step `back` from the end are a prefix.
    order = np.argsort(-lengths, kind="stable")
    running = np.zeros(len(lengths))
    last = bounds[1:][order] - 1
    sorted_lengths = lengths[order]
    for back in range(int(lengths.max(initial=0))):
        alive = int(np.searchsorted(-sorted_lengths, -back, side="left"))
        rows = last[:alive] - back
        running[:alive] = terms[rows] + factor * running[:alive]
        result[rows] = running[:alive]
    return result


def _bounds(offsets: ArrayLike, num_steps: int) -> Ints:
    bounds = int_array("offsets", offsets)
    if bounds.ndim != 1 or len(bounds) < 1:
        raise UserError(f"offsets has shape {bounds.shape}; it must be flat, [K + 1]")
    if bounds[0] != 0 or bounds[-1] != num_steps or (np.diff(bounds) < 0).any():
        raise UserError(
            f"offsets runs from {bounds[0]} to {bounds[-1]}; it must rise from 0 to the number of steps, {num_steps}"
        )
    return bounds


def _flat(name: str, value: ArrayLike) -> Floats:
    array = float_array(name, value)
    if array.ndim != 1:
        raise UserError(f"{name} has shape {array.shape}; it must be flat, [S], all trajectories one after another")
    return array


def _per_trajectory(name: str, array: NDArray[Any], num_trajectories: int) -> NDArray[Any]:
    if array.shape != (num_trajectories,):
        raise UserError(f"{name} has shape {array.shape}; offsets describe {num_trajectories} trajectories")
    return array

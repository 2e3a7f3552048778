"""The data of one iteration: rollouts as flat arrays, then the targets of the update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rollouts:
    """Trajectories as a struct of arrays.

    The S steps of all K trajectories follow one another; trajectory k owns steps offsets[k] … offsets[k + 1] − 1.
    A trunk rollout is a vine from the initial state, so both kinds look alike here.
    """

    obs: dict[str, NDArray[Any]]  # the policy's inputs, each [S, …]
    tables: dict[str, NDArray[Any]]  # shared by all steps (the missions of these configurations), indexed by `obs`
    actions: NDArray[Any]  # [S, …]
    log_probs: NDArray[np.float32]  # log π_β(a_t | s_t), [S]
    logits: NDArray[np.float32]  # the parameters of π_β's distribution, [S, A]
    values: NDArray[np.float32]  # V(s_t), [S]
    rewards: NDArray[np.float32]  # [S]
    offsets: NDArray[np.int64]  # [K + 1]
    configurations: NDArray[np.int64]  # of each trajectory, [K]
    terminated: NDArray[np.bool_]  # ended by the task itself and not by the time limit, [K]
    success: NDArray[np.bool_] | None  # reached the goal, [K]; None if the world does not say
    final_values: NDArray[np.float32]  # V of the state after the last step, [K]; 0 where terminated
    labels: NDArray[np.uint64]  # which set of places it visited, [K]: equal labels, equal sets
    groups: NDArray[np.int64]  # trajectories that share their first state, [G, N]
    num_trunks: int  # trajectories 0 … num_trunks − 1 start at the initial state
    horizon: int = 0  # the most steps that a trajectory can have
    state_inputs: tuple[str, ...] | None = None  # those of `obs` that distinguish states; None: all
    visited: NDArray[np.bool_] | None = None  # which of the P places of all trajectories each of them visited, [K, P]
    features: NDArray[np.float64] | None = None  # what the world's `feature` says of each, [K, D]; None: not asked

    @property
    def num_steps(self) -> int:
        """S."""
        return len(self.actions)

    @property
    def num_trajectories(self) -> int:
        """K."""
        return len(self.configurations)

    @property
    def returns(self) -> NDArray[np.float64]:
        """The undiscounted return of each trajectory from its first state on, [K]."""
        sums = np.concatenate([[0.0], np.cumsum(self.rewards, dtype=np.float64)])
        return np.asarray(sums[self.offsets[1:]] - sums[self.offsets[:-1]])


@dataclass(frozen=True)
class Targets:
    """The targets of the update, one entry per step, and metrics to log."""

    advantages: NDArray[np.float32]  # [S]
    value_targets: NDArray[np.float32]  # [S]
    stats: dict[str, float]

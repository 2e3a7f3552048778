"""What a forkable world is: a value that can be copied at any moment and continued many times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray


class StepResult(NamedTuple):
    """What one call of `World.step` returns, one entry per row."""

    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


@runtime_checkable
class WorldState(Protocol):
    """The states of a batch of episodes, one per row.

    `state[rows]` is an independent copy of those rows. Rows may repeat, so a fork is `state[[3] * 8]`.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> WorldState: ...


@runtime_checkable
class World(Protocol):
    """An environment that can be forked: `start`, `observe`, `step` on whole batches.

    Rows that have ended (terminated or truncated) stay ended: stepping them changes nothing, gives
    reward 0 and reports their flags again.
    """

    num_actions: int
    num_configurations: int
    horizon: int
    missions: Sequence[str]

    def start(self, tasks: ArrayLike) -> WorldState:
        """Fresh episodes, one row per entry of `tasks` (indices of configurations)."""
        ...

    def observe(self, state: Any) -> Mapping[str, NDArray[Any]]:
        """What the policy sees: arrays with one row per episode."""
        ...

    def step(self, state: Any, actions: ArrayLike) -> StepResult:
        """Advance every live row of `state` in place, in one call."""
        ...

    def concatenate(self, states: Iterable[Any]) -> WorldState:
        """The rows of several states in one state, as independent copies."""
        ...

    def places(self, state: Any) -> NDArray[np.int64]:
        """Where each row is, as diversity reads it (the room, the node); one integer per row."""
        ...

"""The rows of a wrapped world: what `start` gives, and what `state[rows]` forks."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.gymnasium.pool import Drop, Pool
from polychromic.envs.gymnasium.workers import RemotePool
from polychromic.errors import UserError

if TYPE_CHECKING:
    from polychromic.envs.gymnasium.world import GymnasiumWorld


class GymnasiumState:
    """Episodes, one per row; `state[rows]` is an independent copy that costs little until it moves."""

    def __init__(
        self,
        world: GymnasiumWorld,
        arrays: dict[str, NDArray[Any]],
        observations: dict[str, NDArray[Any]],
    ) -> None:
        self._world = world
        self._broken: str | None = None
        self.configurations: NDArray[np.int64] = arrays["configurations"]
        self.lengths: NDArray[np.int64] = arrays["lengths"]
        self.terminated: NDArray[np.bool_] = arrays["terminated"]
        self.truncated: NDArray[np.bool_] = arrays["truncated"]
        self._places: NDArray[np.int64] = arrays["places"]
        self._success: NDArray[np.bool_] = arrays["success"]
        # The rows' numbers in their pools; -1 once a row has ended and needs its environment no more.
        self._rows: NDArray[np.int64] = arrays["rows"]
        self._workers: NDArray[np.int64] = arrays["workers"]
        self._observations = observations
        when_forgotten = weakref.finalize(self, release, world._pools, self._rows, self._workers)
        when_forgotten.atexit = False

    def __len__(self) -> int:
        return len(self.configurations)

    def __getitem__(self, rows: Any) -> GymnasiumState:
        return self._world._fork(self, rows)

    # Without these two a copy would hold the very rows of the original, and release them with it.
    def __copy__(self) -> GymnasiumState:
        return self[:]

    def __deepcopy__(self, _memo: Any) -> GymnasiumState:
        return self[:]

    def __reduce__(self) -> Any:
        raise UserError(
            "a state of from_gymnasium holds live environments and cannot be pickled; keep its "
            "configurations and the actions that were taken"
        )

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Rows whose episode is over."""
        return self.terminated | self.truncated


def release(pools: Sequence[Pool | RemotePool], rows: NDArray[np.int64], workers: NDArray[np.int64]) -> None:
    """Tell the pools that these rows will not be used again."""
    for index, pool in enumerate(pools):
        mine = rows[(workers == index) & (rows >= 0)]
        if mine.size:
            pool.tell(Drop(tuple(mine.tolist())))

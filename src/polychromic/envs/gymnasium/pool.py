"""The rows of a wrapped world, in this process or in others: fork by sharing, copy on the first move.

A fork costs one dictionary entry. Rows that have not moved since they were forked share one environment;
the first of them to move duplicates it, and the last one takes it over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from polychromic.envs.gymnasium.episodes import (
    EnvironmentFailed,
    Episode,
    Recipe,
    advance,
    begin,
    describe,
    duplicate,
    renew,
)
from polychromic.envs.gymnasium.generators import Key


class Begin(NamedTuple):
    """Reset `seed` for a new row; `key` renews its noise."""

    row: int
    seed: int
    key: Key | None


class Fork(NamedTuple):
    """A new row in the state of `parent`."""

    row: int
    parent: int
    key: Key | None


class Drop(NamedTuple):
    """These rows will not be used again."""

    rows: tuple[int, ...]


class Move(NamedTuple):
    """One step of a row."""

    row: int
    action: Any


class Seen(NamedTuple):
    """What a row shows after it began or moved."""

    observation: tuple[np.ndarray, ...]
    place: Hashable
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    success: bool | None = None


@dataclass
class _Shared:
    """An episode and the number of rows that stand in its state."""

    episode: Episode
    owners: int


@dataclass
class _Row:
    shared: _Shared
    # New noise that this row takes as soon as it has an environment to itself.
    key: Key | None


class Pool:
    """Rows by number. `tell` queues what needs no answer, `ask` runs the queue and then answers."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._rows: dict[int, _Row] = {}
        # Appended to by finalizers, which may run at any moment: nothing but this queue is touched there.
        self._pending: deque[Fork | Drop] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    def tell(self, message: Fork | Drop) -> None:
        self._pending.append(message)

    def ask(self, messages: Iterable[Begin | Move]) -> list[Seen]:
        """Begin or move rows, in order."""
        while self._pending:
            message = self._pending.popleft()
            if isinstance(message, Fork):
                parent = self._rows[message.parent]
                parent.shared.owners += 1
                self._rows[message.row] = _Row(parent.shared, message.key)
            else:
                for row in message.rows:
                    self._drop(row)
        roots: dict[int, _Shared] = {}  # one reset for all rows that begin with the same seed
        return [
            self._begin(message, roots) if isinstance(message, Begin) else self._move(message) for message in messages
        ]

    def close(self) -> None:
        """Forget every row and close the environments that were made for them."""
        for row in list(self._rows):
            self._drop(row)

    def _begin(self, message: Begin, roots: dict[int, _Shared]) -> Seen:
        shared = roots.get(message.seed)
        if shared is None or self._recipe.method == "none":
            episode = self._guard(message.seed, "reset", lambda: begin(self._recipe, message.seed))
            shared = roots[message.seed] = _Shared(episode, 0)
        shared.owners += 1
        self._rows[message.row] = _Row(shared, message.key)
        return Seen(shared.episode.observation, self._place(shared.episode))

    def _move(self, message: Move) -> Seen:
        row = self._rows[message.row]
        seed = row.shared.episode.seed
        if row.shared.owners > 1:
            twin = self._guard(seed, "fork", lambda: duplicate(self._recipe, row.shared.episode))
            row.shared.owners -= 1
            row.shared = _Shared(twin, 1)
        episode = row.shared.episode
        if row.key is not None:
            key, row.key = row.key, None
            self._guard(seed, "reseed", lambda: renew(self._recipe, episode, key))
        reward, terminated, truncated = self._guard(
            seed, "step", lambda: advance(self._recipe, episode, message.action)
        )
        success = self._success(episode)
        return Seen(episode.observation, self._place(episode), reward, terminated, truncated, success)

    def _drop(self, number: int) -> None:
        row = self._rows.pop(number, None)
        if row is None:
            return
        row.shared.owners -= 1
        # A copy may hold the same window or handle as the object it was copied from: memory frees it instead.
        if row.shared.owners == 0 and self._recipe.method != "copy":
            row.shared.episode.env.close()

    def _place(self, episode: Episode) -> Hashable:
        place = self._recipe.place
        return 0 if place is None else self._guard(episode.seed, "place", lambda: place(episode.env))

    def _success(self, episode: Episode) -> bool | None:
        asked = self._recipe.success
        if asked is None:
            return episode.success
        return bool(self._guard(episode.seed, "success", lambda: asked(episode.env)))

    def _guard(self, seed: int, doing: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except (EnvironmentFailed, ValueError) as error:
            # Our own words (UserError is a ValueError) need no wrapping; an environment's ValueError does.
            if type(error).__module__.startswith("polychromic"):
                raise
            raise _failure(seed, doing, error) from error
        except Exception as error:
            raise _failure(seed, doing, error) from error


def _failure(seed: int, doing: str, error: Exception) -> EnvironmentFailed:
    return EnvironmentFailed(f"{doing} of the environment with seed {seed}: {describe(error)}")

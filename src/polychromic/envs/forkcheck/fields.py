"""What a fork does to the fields of an environment, right away and later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium

from polychromic.envs.forkcheck.diagnosis import spell
from polychromic.envs.forkcheck.outside import changed, look, outside
from polychromic.envs.forkcheck.picture import (
    Path,
    Picture,
    differences,
    prefixes,
    severed,
    shared_parts,
    take,
)

_COUNTS = ("int", "bool")


class Fields:
    """Takes pictures of environments during a proof. Each dict names the fields with one fault, as a user would."""

    def __init__(self, *, same_object: bool) -> None:
        # A copy has all fields of its original; a new environment only those that the seed fixes.
        self._same_object = same_object
        self._unstable: set[Path] = set()  # differ between two episodes with the same seed and actions
        self._state: set[Path] = set()  # what changes in an episode, and everything that contains it
        self._parts: dict[str, tuple[Any, Picture]] = {}
        self._links: dict[str, list[tuple[Any, Picture]]] = {}
        self.lost: dict[str, None] = {}  # different or missing on either side, right after the fork
        self.severed: dict[str, None] = {}  # one object in the original and two in the copy, or vice versa
        self.damaged: dict[str, None] = {}  # changed in the original by the fork
        self.shared: dict[str, None] = {}  # the same object in both, and it changes as the copy steps
        self.later: dict[str, None] = {}  # the same after the fork, but different after the same steps
        self.unseeded: dict[str, None] = {}  # generators in use that no seed reaches
        self.unfixed: dict[str, None] = {}  # other fields that the seed does not fix
        self.closed: dict[str, None] = {}  # what cannot be inspected
        self.noise_outside: dict[str, None] = {}
        self.state_outside: dict[str, None] = {}
        self.drawn = False

    def begin(self, env: Any) -> None:
        """An undisturbed episode has been reset."""
        self._reset = take(env)
        self._variables = outside(self._reset)
        self._outside = look(self._variables)

    def end(self, env: Any, other: Any, same: bool) -> None:
        """The episode has ended; `other` is the environment of an earlier one with the same seed and actions."""
        ended = take(env)
        noise, state = changed(self._outside, self._variables, outside(ended))
        self.noise_outside |= dict.fromkeys(noise)
        self.state_outside |= dict.fromkeys(state)
        moved = differences(self._reset, ended)
        self._state |= prefixes(moved)
        generators = {path for path in ended.generators() if path in self._state}
        self.drawn = self.drawn or bool(generators)
        self.closed |= _spelled(env, ended.closed)
        if same:
            unstable = differences(ended, take(other))
            self._unstable |= set(unstable)
            unseeded = [path for path in unstable if path in generators]
            self.unseeded |= _spelled(env, unseeded)
            self.unfixed |= _spelled(env, [path for path in unstable if path in self._state and path not in unseeded])

    def before_fork(self, env: Any) -> None:
        """The original is about to be forked."""
        self._before = take(env)

    def after_fork(self, env: Any, twin: Any) -> None:
        """The original has been forked."""
        ours, theirs = take(env), take(twin)
        lost = differences(ours, theirs)
        self.lost |= _spelled(env, lost if self._same_object else self._stable(lost))
        self._links = {
            spell(env, path): [(part, _look(part)) for part in parts] for path, parts in severed(ours, theirs).items()
        }
        damaged = [
            path
            for path in differences(self._before, ours)
            if not (self._before.at(path)[0] in _COUNTS and ours.at(path)[0] in _COUNTS)  # a count of forks, say
        ]
        self.damaged |= _spelled(env, damaged)
        self._parts = {spell(env, path): (part, take(part)) for path, part in shared_parts(ours, theirs).items()}

    def after_steps(self) -> None:
        """The copy has taken steps and the original none."""
        for name, (part, stood) in self._parts.items():
            if differences(stood, take(part)):
                self.shared[name] = None
        self._parts = {}

    def after_own_steps(self) -> None:
        """The original has taken steps: which of the objects that the fork split have changed?"""
        for name, parts in self._links.items():
            if any(differences(stood, _look(part)) for part, stood in parts):
                self.severed[name] = None
        self._links = {}

    def after_same_steps(self, env: Any, twins: Sequence[Any]) -> None:
        """Original and copies have taken the same steps with the same outcomes."""
        ours = take(env)
        for twin in twins:
            self.later |= _spelled(env, self._stable(differences(ours, take(twin))))

    def _stable(self, paths: Iterable[Path]) -> list[Path]:
        return [path for path in paths if not any(path[:depth] in self._unstable for depth in range(len(path) + 1))]


def _look(part: Any) -> Picture:
    return take(part, stop=gymnasium.Env)


def generator_states(env: Any) -> dict[Path, Any]:
    """The state of every generator that can be reached from the environment object."""
    picture = take(env)
    return {path: picture.values[path] for path in picture.generators()}


def shared_generators(env: Any, twin: Any) -> list[str]:
    """Generators that both share."""
    ours = take(env).generators()
    theirs = {id(value) for value in take(twin).generators().values()}
    return [spell(env, path) for path, value in ours.items() if id(value) in theirs]


def _spelled(env: Any, paths: Iterable[Path]) -> dict[str, None]:
    return dict.fromkeys(spell(env, path) for path in paths)

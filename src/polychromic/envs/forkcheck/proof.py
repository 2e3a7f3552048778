"""The proof itself: what an original and its forks do must be what an undisturbed episode does.

It needs three functions (begin, step, fork), so that the same code checks a Gymnasium environment and a whole
world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from polychromic.envs.actions import Actions
from polychromic.envs.forkcheck.fields import Fields
from polychromic.envs.gymnasium.episodes import describe, same_arrays
from polychromic.errors import UserError


class Outcome(NamedTuple):
    """What one step shows of an episode."""

    keys: tuple[str, ...]
    observation: tuple[np.ndarray, ...]
    reward: float
    terminated: bool
    truncated: bool

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


class Subject(Protocol):
    """What is proven: episodes that can begin, step and be forked."""

    def begin(self, task: int) -> tuple[Any, Outcome]: ...
    def step(self, episode: Any, action: Any) -> Outcome: ...
    def fork(self, episode: Any) -> Any: ...
    def act(self, episode: Any, rng: np.random.Generator) -> Any: ...


@dataclass
class Findings:
    """The first failure of each property, as text; empty if it holds."""

    forks: int = 0
    steps: int = 0
    replay: str = ""
    future: str = ""
    original: str = ""
    siblings: str = ""
    fork_error: str = ""
    # (task, moment, actions up to the moment, actions after it) of every fork, for further checks
    moments: list[tuple[int, int, list[Any], list[Any]]] = field(default_factory=list)


def difference(expected: Outcome, got: Outcome) -> str:
    """The first difference, as text; empty if there is none."""
    if not same_arrays(expected.observation, got.observation):
        for key, left, right in zip(expected.keys, expected.observation, got.observation, strict=False):
            if not same_arrays((left,), (right,)):
                return f"the observation '{key}' differs"
        return "the observation differs"
    for name in ("reward", "terminated", "truncated"):
        left, right = getattr(expected, name), getattr(got, name)
        if left != right and not (left != left and right != right):
            return f"{name} is {right} instead of {left}"
    return ""


def step_alone(subject: Subject, episode: Any, action: Any) -> Outcome:
    """A step of an episode that was never forked; if it fails, the environment is at fault."""
    try:
        return subject.step(episode, action)
    except Exception as error:
        raise UserError(f"the environment fails without any fork: step({action}) raised {describe(error)}") from error


def record(subject: Subject, task: int, steps: int, rng: np.random.Generator) -> tuple[Any, list[Any], list[Outcome]]:
    """An undisturbed episode: its last state, its actions and its outcomes (one more than actions)."""
    episode, outcome = subject.begin(task)
    actions: list[Any] = []
    trace = [outcome]
    while len(actions) < steps and not trace[-1].ended:
        actions.append(subject.act(episode, rng))
        trace.append(step_alone(subject, episode, actions[-1]))
    return episode, actions, trace


def compare(subject: Subject, episode: Any, actions: Sequence[Any], trace: Sequence[Outcome], moment: int) -> str:
    """Continue `episode` with `actions`; the first difference from `trace`, as text."""
    for offset, (action, expected) in enumerate(zip(actions, trace, strict=True), start=1):
        try:
            got = subject.step(episode, action)
        except Exception as error:
            return f"step {moment + offset} raised {describe(error)}"
        words = difference(expected, got)
        if words:
            return f"at step {moment + offset}, {words}"
    return ""


def forward(subject: Subject, task: int, actions: Sequence[Any]) -> Any:
    """A fresh episode that has taken `actions`."""
    episode, _ = subject.begin(task)
    for action in actions:
        step_alone(subject, episode, action)
    return episode


def prove(
    subject: Subject, tasks: Sequence[int], steps: int, actions: Actions, seed: int, fields: Fields | None = None
) -> Findings:
    """Run undisturbed episodes, then fork them at the start, in the middle and just before their end.

    With `fields`, episodes must have an `env`, whose fields are compared at all of these moments.
    """
    rng = np.random.default_rng(seed)
    findings = Findings()
    for task in tasks:
        ended, taken, trace = record(subject, task, steps, rng)
        findings.steps += len(taken)
        again, first = subject.begin(task)
        if fields:
            fields.begin(again.env)
        words = difference(trace[0], first)
        words = (f"at the reset, {words}" if words else "") or compare(subject, again, taken, trace[1:], 0)
        findings.replay = findings.replay or (words and f"task {task}: {words}")
        if fields:
            fields.end(again.env, ended.env, same=not words)
        last = max(len(taken) - 1, 0)
        for moment in sorted({0, len(taken) // 2, last}):
            head, tail = taken[:moment], taken[moment:]
            findings.moments.append((task, moment, head, tail))
            where = f"task {task}, forked after {moment} steps"
            expected = None if words else trace[moment + 1 :]
            _prove_fork(subject, findings, where, task, head, tail, expected, actions, rng, fields)
    return findings


def _prove_fork(
    subject: Subject,
    findings: Findings,
    where: str,
    task: int,
    head: list[Any],
    tail: list[Any],
    expected: list[Outcome] | None,
    actions: Actions,
    rng: np.random.Generator,
    fields: Fields | None,
) -> None:
    original = forward(subject, task, head)
    if fields:
        fields.before_fork(original.env)
    try:
        follower = subject.fork(original)
        if fields:
            fields.after_fork(original.env, follower.env)
        stranger = subject.fork(original)
        grandchild = subject.fork(subject.fork(stranger))
    except Exception as error:
        findings.fork_error = findings.fork_error or f"{where}: {describe(error)}"
        return
    findings.forks += 4
    moment = len(head)
    # 1. A copy that takes the original's actions ends up where the original would.
    if expected is None:  # the episode cannot be repeated; use the copy's future instead
        expected = []
        for action in tail:
            try:
                expected.append(subject.step(follower, action))
            except Exception as error:
                findings.future = findings.future or f"{where}: raised {describe(error)}"
                return
            if expected[-1].ended:
                break
        tail = tail[: len(expected)]
    else:
        words = compare(subject, follower, tail, expected, moment)
        findings.future = findings.future or (words and f"{where}: {words}")
    if fields:
        fields.after_steps()
    # 2. A copy that takes other actions does not affect the original.
    stranger_ended = False
    for offset, action in enumerate(tail):
        if not stranger_ended:
            try:
                stranger_ended = subject.step(stranger, actions.random(rng)).ended
            except Exception as error:
                findings.future = findings.future or f"{where}: raised {describe(error)}"
                stranger_ended = True
        words = compare(subject, original, [action], [expected[offset]], moment + offset)
        if words:
            findings.original = findings.original or f"{where}: {words}"
            break
    if fields:
        fields.after_own_steps()
    # 3. A copy of a copy is still in the state in which it was made.
    words = compare(subject, grandchild, tail, expected, moment)
    findings.siblings = findings.siblings or (words and f"{where}: {words}")
    # 4. After the same steps all of them hold the same values.
    if fields and not (findings.replay or findings.future or findings.original or findings.siblings):
        fields.after_same_steps(original.env, (follower.env, grandchild.env))

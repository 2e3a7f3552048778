"""Prove on the user's own environment that a fork is faithful, or say in words what fails and what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from polychromic.envs.forkcheck import diagnosis
from polychromic.envs.forkcheck.proof import Findings, Outcome, compare, forward, prove, step_alone
from polychromic.envs.forkcheck.report import Check, ForkReport
from polychromic.envs.gymnasium.episodes import (
    Episode,
    Method,
    Recipe,
    advance,
    begin,
    describe,
    duplicate,
    renew,
)
from polychromic.envs.gymnasium.generators import GENERATORS, spell
from polychromic.envs.gymnasium.observations import Tokenize
from polychromic.envs.gymnasium.probe import TEXT_LENGTH, maker_of, recipe_of
from polychromic.envs.protocol import World
from polychromic.errors import UserError

Act = Callable[[Any, np.random.Generator], int]

REPLAY = "same seed, same episode"
STATE = "the copy has every field"
FUTURE = "the copy has the same future"
ORIGINAL = "the original is undisturbed"
SIBLINGS = "copies leave each other alone"
NOISE = "independent noise after reseeding"


def check_fork(
    env: Any,
    *,
    seeds: Sequence[int] | None = None,
    steps: int = 64,
    fork: Literal["auto", "copy", "clone", "replay"] = "auto",
    clone: Callable[[Any], Any] | None = None,
    restore: Callable[[Any, Any], None] | None = None,
    reseed: Callable[[Any, int], None] | None = None,
    act: Act | None = None,
    seed: int = 0,
    text_length: int = TEXT_LENGTH,
    tokenize: Tokenize | None = None,
) -> ForkReport:
    """Prove that forks are faithful: same future, original undisturbed, independent noise.

    Args:
        env: a function that makes an environment, a registered id, an environment with a spec, a world of
            `from_gymnasium` (checked as it is set up), or any other world (checked through its protocol).
        seeds: reset seeds, by default 0, 1, 2; for a world that is not Gymnasium's, its tasks.
        steps: length of the episodes that are forked at their start, middle and end.
        fork, clone, restore, reseed, text_length, tokenize: as for `from_gymnasium`; `auto` tries the ways in turn.
            A world has its own.
        act: `act(env, rng)` chooses the actions (from 0); without it they are uniformly random. With a good
            player the proof reaches states that random actions do not.
        seed: fixes the random actions of the proof.
    """
    tasks, seeds = seeds, range(3) if seeds is None else seeds
    if not len(seeds) or steps < 1:
        raise UserError(f"seeds is {list(seeds)} and steps is {steps}; give at least one of each")
    recipe = getattr(env, "recipe", None)
    world = not isinstance(env, type) and isinstance(env, World)
    if isinstance(recipe, Recipe) or world:
        given: dict[str, Any] = {
            "fork": None if fork == "auto" else fork,
            "clone": clone,
            "restore": restore,
            "reseed": reseed,
            "text_length": None if text_length == TEXT_LENGTH else text_length,
            "tokenize": tokenize,
        }
        unused = given if isinstance(recipe, Recipe) else given | {"act": act}
        for name, value in unused.items():
            if value is not None:
                raise UserError(f"{name} is given, but a world is checked as it is; leave {name} out")
    if isinstance(recipe, Recipe):
        return prove_method(recipe, seeds, steps, act, seed)
    if world:
        return _prove_world(env, tasks, steps, seed)
    made = maker_of(env)
    recipe = recipe_of(
        made,
        seeds[0],
        "copy" if fork == "auto" else fork,
        text_length=text_length,
        tokenize=tokenize,
        clone=clone,
        restore=restore,
        reseed=reseed,
    )
    if fork == "auto":
        return prove_methods(recipe, seeds, steps, act, seed)
    return prove_method(recipe, seeds, steps, act, seed)


def prove_methods(
    recipe: Recipe, seeds: Sequence[int], steps: int, act: Act | None = None, seed: int = 0
) -> ForkReport:
    """The first way of forking that is faithful: the user's clone, else a copy; else a replay."""
    methods: tuple[Method, ...] = ("clone" if recipe.clone else "copy", "replay")
    rejected: list[ForkReport] = []
    for method in methods:
        report = prove_method(dataclasses.replace(recipe, method=method), seeds, steps, act, seed)
        if report.ok:
            break
        rejected.append(report)
    return dataclasses.replace(report, rejected=tuple(rejected if report.ok else rejected[:-1]))


def prove_method(recipe: Recipe, seeds: Sequence[int], steps: int, act: Act | None = None, seed: int = 0) -> ForkReport:
    """All checks of one way of forking."""
    subject = _EnvSubject(recipe, act)
    name, drawn, strange, foreign, ez_pickle = _look_outside(subject, seeds[0], steps, seed)
    findings = prove(subject, seeds, steps, recipe.num_actions, seed)
    noise = _prove_noise(subject, findings, foreign, drawn)
    checks = _checks(findings, recipe.method, ez_pickle, strange, foreign)
    if recipe.method != "replay" and not findings.fork_error:
        checks.insert(1, _prove_fields(subject, findings, ez_pickle and recipe.method == "copy"))
    return ForkReport(name, recipe.method, (*checks, noise))


class _EnvSubject:
    """Single environments."""

    def __init__(self, recipe: Recipe, act: Act | None) -> None:
        self.recipe = recipe
        self._act = act
        self._keys = tuple(leaf.key for leaf in recipe.layout.leaves)

    def begin(self, task: int) -> tuple[Episode, Outcome]:
        try:
            episode = begin(self.recipe, task)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"the environment fails without any fork: seed {task} raised {describe(error)}") from error
        return episode, Outcome(self._keys, episode.observation, 0.0, False, False)

    def step(self, episode: Episode, action: int) -> Outcome:
        reward, terminated, truncated = advance(self.recipe, episode, action)
        return Outcome(self._keys, episode.observation, reward, terminated, truncated)

    def fork(self, episode: Episode) -> Episode:
        return duplicate(self.recipe, episode)

    def act(self, episode: Episode, rng: np.random.Generator) -> int:
        if self._act is None:
            return int(rng.integers(self.recipe.num_actions))
        return int(self._act(episode.env, rng))


class _WorldSubject:
    """One row of a world, through its protocol alone."""

    def __init__(self, world: World) -> None:
        self._world = world

    def begin(self, task: int) -> tuple[Any, Outcome]:
        state = self._world.start([task])
        return state, self._outcome(state, 0.0, False, False)

    def step(self, state: Any, action: int) -> Outcome:
        reward, terminated, truncated = self._world.step(state, np.array([action]))
        return self._outcome(state, float(reward[0]), bool(terminated[0]), bool(truncated[0]))

    def fork(self, state: Any) -> Any:
        return state[[0]]

    def act(self, state: Any, rng: np.random.Generator) -> int:  # noqa: ARG002
        return int(rng.integers(self._world.num_actions))

    def _outcome(self, state: Any, reward: float, terminated: bool, truncated: bool) -> Outcome:
        seen = dict(self._world.observe(state))
        seen["place"] = self._world.places(state)
        arrays = tuple(np.array(value) for value in seen.values())
        return Outcome(tuple(seen), arrays, reward, terminated, truncated)


def _prove_world(world: World, tasks: Sequence[int] | None, steps: int, seed: int) -> ForkReport:
    chosen = range(min(3, world.num_configurations)) if tasks is None else tasks
    wrong = [task for task in chosen if not 0 <= task < world.num_configurations]
    if wrong:
        raise UserError(f"seeds holds {wrong[0]}; the tasks of this world are 0 to {world.num_configurations - 1}")
    findings = prove(_WorldSubject(world), chosen, steps, world.num_actions, seed)
    checks = _checks(findings, "state[rows]", False, [], [])
    return ForkReport(type(world).__name__, "state[rows]", tuple(checks))


def _look_outside(
    subject: _EnvSubject, task: int, steps: int, seed: int
) -> tuple[str, bool, list[str], list[str], bool]:
    """Its name; does it draw after the reset; state and randomness outside of it that change; is it EzPickle."""
    rng = np.random.default_rng(seed)
    episode, outcome = subject.begin(task)
    before = diagnosis.outside(episode.env)
    stood = diagnosis.generator_states(episode.env)
    for _ in range(steps):
        outcome = step_alone(subject, episode, subject.act(episode, rng))
        if outcome.ended:
            break
    random, state = diagnosis.changed_outside(before, diagnosis.outside(episode.env))
    drawn = stood != diagnosis.generator_states(episode.env)
    spec = episode.env.spec
    name = spec.id if spec is not None else type(episode.env.unwrapped).__name__
    return name, drawn, state, random, diagnosis.is_ez_pickle(episode.env)


def _checks(findings: Findings, method: str, ez_pickle: bool, strange: list[str], foreign: list[str]) -> list[Check]:
    """Findings in words, with what to do about them."""
    seen = f"{findings.forks} forks in {findings.steps} steps"
    outside = ""
    if foreign:
        outside = f" It draws from {diagnosis.listed(foreign)}, which all copies share."
    elif strange:
        outside = f" It changes {diagnosis.listed(strange)}, which all copies share."
    seeded = (
        "draw only from self.np_random, call super().reset(seed=seed) first in reset, and keep nothing in "
        "modules, classes or the clock"
    )
    if method == "copy" and ez_pickle:
        cure = "use fork='replay', or give clone= and restore="
    elif outside:
        cure = "keep generators and state in the environment object; what modules and classes hold is not copied"
    elif method == "copy":
        cure = "use fork='replay', give clone= and restore=, or let __deepcopy__ copy every field"
    elif method == "clone":
        cure = "clone and restore must cover the wrappers too (a time limit's count, say); or use fork='replay'"
    elif method == "replay":
        cure = seeded
    else:
        cure = "state[rows] must own its arrays and objects; a world with noise of its own must not renew it here"
    if findings.fork_error:
        return [
            _replay_check(findings, outside, seeded),
            Check(FUTURE, False, f"no copy could be made: {findings.fork_error}", cure),
        ]
    return [
        _replay_check(findings, outside, seeded),
        _check(FUTURE, findings.future, seen, outside, cure),
        _check(ORIGINAL, findings.original, seen, outside, cure),
        _check(SIBLINGS, findings.siblings, seen, outside, cure),
    ]


def _replay_check(findings: Findings, outside: str, cure: str) -> Check:
    return _check(REPLAY, findings.replay, "every episode could be repeated exactly", outside, cure)


def _check(name: str, wrong: str, right: str, outside: str, cure: str) -> Check:
    return Check(name, False, f"{wrong}.{outside}", cure) if wrong else Check(name, True, right)


def _prove_fields(subject: _EnvSubject, findings: Findings, ez_pickle: bool) -> Check:
    """Fields and generators right after a fork: what a short episode may never show in its behaviour."""
    if ez_pickle:
        return Check(
            STATE,
            False,
            "the environment is copied by its constructor's arguments only (EzPickle): a copy starts anew",
            "use fork='replay', or give clone= and restore=",
        )
    lost: list[str] = []
    shared: list[str] = []
    for task, _, head, tail in findings.moments:
        episode, _ = subject.begin(task)
        before = diagnosis.fields(episode.env)
        for action in head:
            subject.step(episode, action)
        twin = subject.fork(episode)
        lost += diagnosis.lost_fields(before, episode.env, twin.env)
        shared += _shared_and_changed(subject, episode, twin, tail)
    lost, shared = list(dict.fromkeys(lost)), list(dict.fromkeys(shared))
    if lost:
        return Check(
            STATE,
            False,
            f"{diagnosis.listed(lost)}: changed since the reset, and different or missing in the copy",
            "use fork='replay', or make __deepcopy__ (or clone and restore) cover these fields",
        )
    if shared:
        return Check(
            STATE,
            False,
            f"{diagnosis.listed(shared)}: one object in original and copy, which changes as the copy steps",
            "use fork='replay', or make __deepcopy__ (or clone and restore) copy what these fields hold",
        )
    return Check(STATE, True, "all fields that change in an episode are the same in the copy")


def _shared_and_changed(subject: _EnvSubject, original: Episode, twin: Episode, actions: list[int]) -> list[str]:
    """Step the twin: which of the objects that it shares with the original change by that."""
    shared = diagnosis.shared_parts(original.env, twin.env)
    names = {path: spell(original.env, path) for path in shared}
    stood = {path: diagnosis.fields(part) for path, part in shared.items()}
    changed: list[str] = []
    for action in actions:
        if not shared:
            break
        try:
            ended = subject.step(twin, action).ended
        except Exception:  # the check of its future says so
            break
        for path in [path for path, part in shared.items() if diagnosis.fields(part) != stood[path]]:
            changed.append(names[path])
            del shared[path]
        if ended:
            break
    return changed


def _prove_noise(subject: _EnvSubject, findings: Findings, foreign: list[str], drawn: bool) -> Check:
    """Copies with two keys go two ways, copies with one key go one way, and the original goes its own."""
    recipe = subject.recipe
    if foreign:
        return Check(
            NOISE,
            False,
            f"it draws from {diagnosis.listed(foreign)}, which no copy has to itself",
            "draw from self.np_random only, and let reset seed it with super().reset(seed=seed)",
        )
    if findings.fork_error or findings.future:
        return Check(NOISE, False, "not tried, because copies are not faithful", "see above")
    different = tried = 0
    for task, moment, head, tail in findings.moments:
        original = forward(subject, task, head)
        one, other, same = (subject.fork(original) for _ in range(3))
        shared = diagnosis.shared_objects(original.env, one.env, GENERATORS)
        if shared and drawn:
            return Check(
                NOISE,
                False,
                f"original and copy share one generator: {diagnosis.listed(shared)}",
                "let __deepcopy__ copy the generator, or use fork='replay'",
            )
        try:
            for episode, key in ((one, 1), (other, 2), (same, 1)):
                renew(recipe, episode, (key,))
        except Exception as error:
            return Check(NOISE, False, f"reseeding raised {describe(error)}", "correct reseed=")
        stood, others = diagnosis.generator_states(one.env), diagnosis.generator_states(other.env)
        trace: list[Outcome] = []
        for action in tail:
            trace.append(subject.step(one, action))
            if trace[-1].ended:
                break
        now = diagnosis.generator_states(one.env)
        missed = [path for path in stood if stood[path] == others.get(path) and stood[path] != now.get(path)]
        if missed:
            names = diagnosis.listed([spell(one.env, path) for path in missed])
            return Check(
                NOISE,
                False,
                f"task {task}, forked after {moment} steps: reseeding does not reach {names}, which is drawn from",
                "give reseed=, a function (env, seed) that seeds all of it, or leave yours out",
            )
        words = compare(subject, same, tail[: len(trace)], trace, moment)
        if words:
            return Check(
                NOISE,
                False,
                f"task {task}, forked after {moment} steps: two copies with one seed differ: {words}",
                "some randomness is out of reach; give reseed=, a function (env, seed) that seeds all of it",
            )
        tried += 1
        different += bool(compare(subject, other, tail[: len(trace)], trace, moment))
    if different:
        return Check(NOISE, True, f"{different} of {tried} pairs of copies with two seeds went two ways")
    if drawn:
        return Check(NOISE, True, "it draws numbers as it steps, but nothing that was seen depended on them")
    return Check(
        NOISE,
        True,
        "no generator was used after the reset; if the environment has noise all the same, give reseed=",
    )

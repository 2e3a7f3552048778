"""Prove on the user's own environment that a fork is faithful, or say what fails and what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from polychromic.envs.forkcheck import diagnosis
from polychromic.envs.forkcheck.fields import Fields, generator_states, shared_generators
from polychromic.envs.forkcheck.proof import Findings, Outcome, compare, forward, prove
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
from polychromic.envs.gymnasium.observations import Tokenize
from polychromic.envs.gymnasium.probe import TEXT_LENGTH, maker_of, recipe_of
from polychromic.envs.protocol import World
from polychromic.errors import UserError

PROOF_SEEDS = 3
PROOF_STEPS = 64

Act = Callable[[Any, np.random.Generator], Any]

REPLAY = "same seed, same episode"
STATE = "the copy has every field"
FUTURE = "the copy has the same future"
ORIGINAL = "the original is undisturbed"
SIBLINGS = "copies leave each other alone"
OUTSIDE = "nothing outside of it changes"
NOISE = "independent noise after reseeding"


def check_fork(
    env: Any,
    *,
    seeds: Sequence[int] | None = None,
    steps: int = PROOF_STEPS,
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
        seeds: reset seeds, by default 0, 1, 2; for a world that is not Gymnasium's, its configurations.
        steps: length of the episodes, which are forked at their start, middle and end.
        fork, clone, restore, reseed, text_length, tokenize: as for `from_gymnasium`; `auto` tries each way in turn.
            A world brings its own.
        act: `act(env, rng)` chooses the actions, as a world takes them (numbered ones from 0); not given: random ones.
            With a good player the proof reaches states that random actions do not.
        seed: fixes the random actions of the proof.
    """
    configurations, seeds = seeds, range(PROOF_SEEDS) if seeds is None else seeds
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
        return _prove_world(env, configurations, steps, seed)
    maker = maker_of(env)
    recipe = recipe_of(
        maker,
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
    """The first faithful way of forking: the user's clone, or a copy, or a replay."""
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
    fields = Fields(same_object=recipe.method == "copy")
    findings = prove(subject, seeds, steps, recipe.actions, seed, fields)
    env = subject.begin(seeds[0])[0].env
    ez_pickle = recipe.method == "copy" and diagnosis.is_ez_pickle(env)
    checks = _checks(findings, recipe.method, ez_pickle, fields)
    if not findings.fork_error:
        checks.insert(1, _field_check(fields, recipe.method, ez_pickle))
    checks += [_outside_check(fields), _prove_noise(subject, findings, fields)]
    return ForkReport(
        env.spec.id if env.spec is not None else type(env.unwrapped).__name__, recipe.method, tuple(checks)
    )


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

    def step(self, episode: Episode, action: Any) -> Outcome:
        reward, terminated, truncated = advance(self.recipe, episode, action)
        return Outcome(self._keys, episode.observation, reward, terminated, truncated)

    def fork(self, episode: Episode) -> Episode:
        return duplicate(self.recipe, episode)

    def act(self, episode: Episode, rng: np.random.Generator) -> Any:
        if self._act is None:
            return self.recipe.actions.random(rng)
        chosen = self._act(episode.env, rng)
        action = self.recipe.actions.one(chosen)
        if action is None:
            raise UserError(f"act gave {chosen!r}; actions are {self.recipe.actions}")
        return action


class _WorldSubject:
    """One row of a world, through its protocol alone."""

    def __init__(self, world: World) -> None:
        self._world = world

    def begin(self, task: int) -> tuple[Any, Outcome]:
        state = self._world.start([task])
        return state, self._outcome(state, 0.0, False, False)

    def step(self, state: Any, action: Any) -> Outcome:
        reward, terminated, truncated = self._world.step(state, np.array([action]))
        return self._outcome(state, float(reward[0]), bool(terminated[0]), bool(truncated[0]))

    def fork(self, state: Any) -> Any:
        return state[[0]]

    def act(self, state: Any, rng: np.random.Generator) -> Any:  # noqa: ARG002
        return self._world.actions.random(rng)

    def _outcome(self, state: Any, reward: float, terminated: bool, truncated: bool) -> Outcome:
        seen = dict(self._world.observe(state))
        seen["place"] = self._world.places(state)
        arrays = tuple(np.array(value) for value in seen.values())
        return Outcome(tuple(seen), arrays, reward, terminated, truncated)


def _prove_world(world: World, configurations: Sequence[int] | None, steps: int, seed: int) -> ForkReport:
    chosen = range(min(3, world.num_configurations)) if configurations is None else configurations
    wrong = [number for number in chosen if not 0 <= number < world.num_configurations]
    if wrong:
        raise UserError(
            f"seeds holds {wrong[0]}; the configurations of this world are 0 to {world.num_configurations - 1}"
        )
    findings = prove(_WorldSubject(world), chosen, steps, world.actions, seed)
    checks = _checks(findings, "state[rows]", False, None)
    return ForkReport(type(world).__name__, "state[rows]", tuple(checks))


def _checks(findings: Findings, method: str, ez_pickle: bool, fields: Fields | None) -> list[Check]:
    """The findings as checks, with what to do about them."""
    seen = f"{findings.forks} forks in {findings.steps} steps"
    outside = ""
    if fields and fields.noise_outside:
        outside = f" It draws from {diagnosis.listed(fields.noise_outside)}, which all copies share."
    elif fields and fields.state_outside:
        outside = f" It changes {diagnosis.listed(fields.state_outside)}, which all copies share."
    seeded = (
        "draw only from self.np_random, call super().reset(seed=seed) first in reset, and keep nothing in "
        "modules, classes or the clock"
    )
    if ez_pickle:
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
        cure = "state[rows] must own its arrays and objects; a world with noise of its own must not reseed it here"
    replay = findings.replay
    if fields and fields.unseeded and not replay:
        replay = f"no seed reaches {diagnosis.listed(fields.unseeded)}, which is drawn from"
    repeated = _check(REPLAY, replay, "every episode could be repeated exactly", outside, seeded)
    if findings.fork_error:
        return [repeated, Check(FUTURE, False, f"no copy could be made: {findings.fork_error}", cure)]
    return [
        repeated,
        _check(FUTURE, findings.future, seen, outside, cure),
        _check(ORIGINAL, findings.original, seen, outside, cure),
        _check(SIBLINGS, findings.siblings, seen, outside, cure),
    ]


def _check(name: str, wrong: str, right: str, outside: str, cure: str) -> Check:
    return Check(name, False, f"{wrong}.{outside}", cure) if wrong else Check(name, True, right)


def _field_check(fields: Fields, method: Method, ez_pickle: bool) -> Check:
    """All fields and generators: state that a short episode may never show in its behaviour."""
    cover = "use fork='replay', or make __deepcopy__ (or clone and restore) "
    if method == "replay":
        cover = "make reset(seed=...) fix them, and keep them in the environment object; give clone= and restore= to "
    if ez_pickle:
        return Check(
            STATE,
            False,
            "the environment is copied by its constructor's arguments only (EzPickle): a copy starts again",
            "use fork='replay', or give clone= and restore=",
        )
    for names, what, cure in (
        (fields.lost, "different or missing in the copy or in the original", "cover these fields"),
        (
            fields.shared,
            "the same object in original and copy, and it changes as the copy steps",
            "copy what these fields hold",
        ),
        (fields.damaged, "changed in the original by the fork", "leave the original as it is"),
        (
            fields.severed,
            "one object on one side of the fork and two on the other",
            "keep one object as one object",
        ),
        (
            fields.later,
            "the same after the fork, but different after the same steps",
            "copy what these fields depend on",
        ),
    ):
        if names:
            return Check(STATE, False, f"{diagnosis.listed(names)}: {what}", cover + cure)
    sentence = "all fields are the same in the copy"
    if fields.closed:
        sentence += f"; not inspected: {diagnosis.listed(fields.closed)}"
    if fields.unfixed:
        sentence += f"; not fixed by the seed: {diagnosis.listed(fields.unfixed)}"
    return Check(STATE, True, sentence)


def _outside_check(fields: Fields) -> Check:
    """Steps change nothing in modules, classes and functions."""
    names = [*fields.noise_outside, *fields.state_outside]
    if names:
        return Check(
            OUTSIDE,
            False,
            f"{diagnosis.listed(names)}: changed by steps, and shared by all copies",
            "keep generators and state in the environment object; what modules and classes hold is not copied",
        )
    return Check(OUTSIDE, True, "steps change no variable of a module, class or function that its code reaches")


def _prove_noise(subject: _EnvSubject, findings: Findings, fields: Fields) -> Check:
    """Copies with different keys diverge, copies with the same key agree, and the original is not affected."""
    recipe = subject.recipe
    if fields.noise_outside:
        return Check(
            NOISE,
            False,
            f"it draws from {diagnosis.listed(fields.noise_outside)}, which all copies share",
            "draw from self.np_random only, and let reset seed it with super().reset(seed=seed)",
        )
    if findings.fork_error or findings.future:
        return Check(NOISE, False, "not tried: copies are not faithful", "see above")
    different = tried = 0
    for task, moment, head, tail in findings.moments:
        original = forward(subject, task, head)
        first, second, same = (subject.fork(original) for _ in range(3))
        shared = shared_generators(original.env, first.env)
        if shared and fields.drawn:
            return Check(
                NOISE,
                False,
                f"original and copy share a generator: {diagnosis.listed(shared)}",
                "let __deepcopy__ copy the generator, or use fork='replay'",
            )
        try:
            for episode, key in ((first, 1), (second, 2), (same, 1)):
                renew(recipe, episode, (key,))
        except Exception as error:
            return Check(NOISE, False, f"reseeding raised {describe(error)}", "correct reseed=")
        stood, others = generator_states(first.env), generator_states(second.env)
        trace: list[Outcome] = []
        for action in tail:
            trace.append(subject.step(first, action))
            if trace[-1].ended:
                break
        now = generator_states(first.env)
        missed = [path for path in stood if stood[path] == others.get(path) and stood[path] != now.get(path)]
        if missed:
            names = diagnosis.listed([diagnosis.spell(first.env, path) for path in missed])
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
                f"task {task}, forked after {moment} steps: two copies with the same seed differ: {words}",
                "some randomness was not reseeded; give reseed=, a function (env, seed) that seeds all of it",
            )
        tried += 1
        different += bool(compare(subject, second, tail[: len(trace)], trace, moment))
    if different:
        return Check(NOISE, True, f"{different} of {tried} pairs of copies with different seeds diverged")
    if fields.drawn:
        return Check(NOISE, True, "it draws numbers as it steps, but nothing observed depends on them")
    return Check(
        NOISE,
        True,
        "no generator was used after the reset; if the environment has noise all the same, give reseed=",
    )

"""Wrapped environments: copies of states, late noise, and mistakes in what the user's functions return."""

from __future__ import annotations

import copy
import dataclasses
import decimal
import enum
import gc
import pickle
from functools import partial

import faulty_envs
import gymnasium
import minigrid  # noqa: F401  (registers its levels)
import numpy as np
import pytest
from faulty_envs import EveryKind, Failing, LateGenerator, NoisyWalk, SeededGenerators, Talking, Walk

import polychromic
from polychromic.envs.forkcheck.fields import generator_states
from polychromic.envs.gymnasium.generators import reseed_generators
from polychromic.errors import UserError

copied = partial(polychromic.from_gymnasium, horizon=60, fork="copy")


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy])
def test_a_copied_state_is_a_fork(copier):
    world = copied(Walk, [0], reseed_on_fork=False)
    state = world.start([0, 0])
    before = world.observe(state)["observation"]
    twin = copier(state)
    world.step(twin, [2, 2])
    assert np.array_equal(world.observe(state)["observation"], before)
    assert state.lengths.tolist() == [0, 0]
    del state
    gc.collect()
    world.step(twin, [1, 1])  # its environments did not go with the original
    assert twin.lengths.tolist() == [2, 2]


def test_a_state_cannot_be_pickled():
    with pytest.raises(UserError, match="live environments and cannot be pickled"):
        pickle.dumps(copied(Walk, [0]).start([0]))


@pytest.mark.parametrize("seed", [-1, "x", 0.5])
def test_a_wrong_reseed_changes_nothing(seed):
    world = copied(NoisyWalk, [0], seed=5)
    with pytest.raises(UserError, match="seed is"):
        world.reseed(seed)
    state, expected = world.start([0]), copied(NoisyWalk, [0], seed=5).start([0])
    assert world.step(state, [1]).reward == expected._world.step(expected, [1]).reward


@pytest.mark.parametrize("fork", ["copy", "replay"])
@pytest.mark.parametrize(("make_env", "task", "moment"), [(LateGenerator, 0, 8), (SeededGenerators, 2, 1)])
def test_late_and_seeded_generators_get_noise_of_their_own(make_env, task, moment, fork):
    world = polychromic.from_gymnasium(make_env, range(3), horizon=60, fork=fork)
    state = world.start([task])
    for _ in range(moment):
        world.step(state, [1])
    twins = state[[0] * 6]
    world.step(twins, [1] * 6)
    assert len(np.unique(world.observe(twins)["observation"][:, 1])) == 6


@pytest.mark.parametrize("name", ["Taxi-v4", "BabyAI-GoTo-v0", "OwnGeneratorWalk", "SeededGenerators"])
def test_reseeding_reaches_every_generator_that_the_proof_sees(name):
    env = getattr(faulty_envs, name)() if hasattr(faulty_envs, name) else gymnasium.make(name)
    env.reset(seed=2)
    stood = generator_states(env)
    reseed_generators(env, (1,))
    assert stood
    now = generator_states(env)
    assert all(now[path] != state for path, state in stood.items())
    assert len(set(map(str, now.values()))) == len(now), "a stream of its own for each"


@pytest.mark.parametrize("wrapped", [False, True])
def test_make_env_must_make_a_new_object(wrapped):
    env = Walk()
    make_env = (lambda: gymnasium.wrappers.TimeLimit(env, 9)) if wrapped else (lambda: env)
    for call in (partial(copied, make_env, [0]), partial(polychromic.check_fork, make_env)):
        with pytest.raises(UserError, match="returned the same environment object twice"):
            call()


def test_the_second_environment_is_closed():
    made = []

    class Closing(Walk):
        def close(self):
            made.remove(self)

    def make_env():
        made.append(Closing())
        return made[-1]

    world = polychromic.from_gymnasium(make_env, [0], horizon=5, fork="replay")
    assert not made
    world.close()


class Odd(EveryKind):
    """After the first step it shows `change` in place of a part of the observation."""

    def __init__(self, at_reset=False, **change):
        self.at_reset, self.change = at_reset, change

    def see(self):
        return super().see() | (self.change if self.last or self.at_reset else {})


class Bare(EveryKind):
    """Leaves out a nested part from the first observation on."""

    def see(self):
        return super().see() | {"camera": {}}


def first_step(make_env):
    world = copied(make_env, [0])
    world.step(world.start([0]), [1])


@pytest.mark.parametrize(
    ("make_env", "words"),
    [
        (Bare, r"lacks 'camera\.left'"),
        (partial(Odd, pair=(1,)), r"lacks 'pair\.1'"),
        (partial(Odd, pair=None), r"lacks 'pair\.0'"),
        (partial(Odd, at_reset=True, pair=(1,)), r"lacks 'pair\.1'"),
        (partial(Odd, camera={"left": [[300, 0], [0, 0]]}), r"'camera\.left' does not fit its space's uint8"),
        (partial(Odd, counts=["one", "two"]), "'counts' does not fit its space's int64"),
        (partial(Odd, text=None), "'text' is None; it was text at the first reset"),
    ],
)
def test_wrong_observations_are_named(make_env, words):
    with pytest.raises(UserError, match=words):
        polychromic.check_fork(make_env, seeds=[0], steps=4)
    with pytest.raises(UserError, match=words):
        first_step(make_env)


@pytest.mark.parametrize(
    ("tokenize", "words"),
    [
        (lambda text: {"y": [1]}[text], "does not give token ids: KeyError"),
        (lambda _: [2**40], "does not give token ids: OverflowError"),
        (lambda _: 7, r"has shape \(\); give a list of token ids"),
    ],
)
def test_wrong_token_ids_are_named(tokenize, words):
    for call in (
        partial(polychromic.check_fork, steps=4),
        lambda *args, **given: copied(*args, [0], **given).start([0]),
    ):
        with pytest.raises(UserError, match=words):
            call(Talking, tokenize=tokenize)


class Room:
    """Without `__eq__`: equal only to itself."""


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (lambda _: Room(), "of type Room, which is compared by identity"),
        (lambda env: ("room", Room() if env.count else 0), "of type Room, which is compared by identity"),
        (lambda _: float("nan"), "holds NaN, which equals nothing"),
        (lambda _: np.float32("nan"), "holds NaN, which equals nothing"),
        (lambda _: complex("nan"), "holds NaN, which equals nothing"),
        (lambda _: (1, decimal.Decimal("nan")), "holds NaN, which equals nothing"),
        (lambda _: np.datetime64("NaT"), "holds NaT, which equals nothing"),
        (lambda _: lambda: 0, "compared by identity"),
    ],
)
def test_a_place_that_equals_only_itself_is_refused(place, words):
    world = copied(Walk, [0], place=place)
    with pytest.raises(UserError, match=f"what place returned holds .*{words}|what place returned {words}") as caught:
        world.step(world.start([0]), [1])
    assert "\n" not in str(caught.value)


def test_places_that_are_equal_when_they_mean_the_same_are_one():
    class Cell(enum.Enum):
        START = "start"

    @dataclasses.dataclass(frozen=True)
    class Named:
        name: str

    for place in (lambda _: Cell.START, lambda _: Named("a"), lambda _: ("a", None, 1.5), lambda _: None):
        world = copied(Walk, [0], place=place)
        assert world.places(world.start([0] * 3)).tolist() == [0, 0, 0]


def test_a_place_of_more_than_64_bits_is_named():
    world = copied(Walk, [0], place=lambda env: 2**63 - 1 + env.count)
    state = world.start([0])
    assert world.places(state).tolist() == [2**63 - 1]
    with pytest.raises(UserError, match=r"place gave 9223372036854775808; integers have at most 64 bits"):
        world.step(state, [1])


def test_a_spoilt_state_says_what_can_still_be_used():
    world = copied(Failing, [0])
    state = world.start([0])
    for _ in range(4):
        fork = state[:]
        world.step(state, [1])
    with pytest.raises(RuntimeError, match="the fifth"):
        world.step(state, [1])
    with pytest.raises(UserError, match="Start a new one, or use a fork made before"):
        world.step(state, [1])
    world.step(fork, [1])

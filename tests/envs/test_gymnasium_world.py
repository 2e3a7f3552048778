"""Wrapped environments: rows, forks, noise, ended rows, errors."""

from __future__ import annotations

import gc
import itertools
from functools import partial

import gymnasium
import numpy as np
import pytest
from faulty_envs import CannotBeCopied, EveryKind, Failing, NoisyWalk, OwnGeneratorWalk, TupleWalk, Walk
from hypothesis import given, settings
from hypothesis import strategies as st

import polychromic
from polychromic.envs.protocol import World, WorldState
from polychromic.errors import UserError

exact = partial(polychromic.from_gymnasium, horizon=100, reseed_on_fork=False, reseed_on_start=False)


def text_of(codes):
    """What an observation of text says: Unicode code points, padded with 0."""
    return "".join(chr(code) for code in codes if code)


def gymnasium_episode(make_env, seed, actions):
    """What Gymnasium itself shows: observations (one more than actions), rewards, ends."""
    env = make_env()
    observation, _ = env.reset(seed=seed)
    shown = [np.array(observation)]
    rewards, ends = [], []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(int(action))
        shown.append(np.array(observation))
        rewards.append(reward)
        ends.append((terminated, truncated))
        if terminated or truncated:
            break
    return shown, rewards, ends


@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "Taxi-v4"])
@pytest.mark.parametrize("fork", ["copy", "replay"])
def test_rows_are_gymnasiums_own_episodes(name, fork):
    world = exact(name, range(4), fork=fork)
    state = world.start([0, 1, 2, 3])
    assert isinstance(world, World)
    assert isinstance(state, WorldState)
    actions = np.random.default_rng(0).integers(world.num_actions, size=(30, 4))
    episodes = [gymnasium_episode(partial(gymnasium.make, name), row, actions[:, row]) for row in range(4)]
    for moment in range(30):
        seen = world.observe(state)["observation"]
        result = world.step(state, actions[moment])
        state = state[:]  # every step goes through a fork
        for row, (shown, rewards, ends) in enumerate(episodes):
            assert np.array_equal(seen[row], shown[min(moment, len(shown) - 1)])
            alive = moment < len(rewards)
            assert result.reward[row] == np.float32(rewards[moment] if alive else 0)
            assert (result.terminated[row], result.truncated[row]) == ends[min(moment, len(ends) - 1)]
    assert [len(rewards) for _, rewards, _ in episodes] == state.lengths.tolist()


schedules = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(0, 9), st.integers(0, 2)),
        st.tuples(st.just("fork"), st.integers(0, 9), st.integers(1, 3)),
        st.tuples(st.just("drop"), st.integers(0, 9), st.just(0)),
    ),
    min_size=12,
    max_size=40,
)


@pytest.mark.parametrize("fork", ["copy", "replay", "clone"])
@given(schedule=schedules)
@settings(max_examples=60, deadline=None)
def test_copies_are_independent_under_every_schedule(fork, schedule):
    """Any order of steps, forks, forks of forks and drops: each row is where its own actions lead."""
    world = noisy_world(fork)
    family = [(world.start([0]), 7, [])]
    for verb, which, amount in schedule:
        index = which % len(family)
        state, seed, history = family[index]
        if verb == "step":
            world.step(state, [amount])
            family[index] = (state, seed, [*history, amount])
        elif verb == "fork":
            copies = state[[0] * amount]
            family += [(copies[row], seed, list(history)) for row in range(amount)]
        elif len(family) > 1:
            del family[index]
    # Rows that secretly share an environment show it only when each of them moves.
    for state, seed, history in [*family, *reversed(family)]:
        history += [2]
        world.step(state, [2])
        assert_is_episode(world, state, seed, history)


@pytest.mark.parametrize("fork", ["copy", "replay", "clone"])
def test_copies_are_independent_in_every_order(fork):
    """An original, two copies and a copy of a copy, forked in mid-episode, move in all 24 orders."""
    world = noisy_world(fork)
    for order in itertools.permutations(range(4)):
        original = world.start([0])
        world.step(original, [2])
        child, sibling = original[[0]], original[[0]]
        rows = [original, child, sibling, child[[0]]]
        histories = [[2], [2], [2], [2]]
        for action in (0, 2, 1):
            for row in order:
                chosen = (action + row) % 3
                world.step(rows[row], [chosen])
                histories[row].append(chosen)
                assert_is_episode(world, rows[row], 7, histories[row])


@pytest.mark.parametrize("fork", ["copy", "replay", "clone"])
def test_concatenated_rows_go_on_on_their_own(fork):
    world = noisy_world(fork)
    first, second = world.start([0]), world.start([1])
    world.step(first, [2])
    together = world.concatenate([first, second])
    world.step(together, [1, 0])
    world.step(first, [0])
    assert_is_episode(world, together[[0]], 7, [2, 1])
    assert_is_episode(world, together[[1]], 8, [0])
    assert_is_episode(world, first, 7, [2, 0])
    assert_is_episode(world, second, 8, [])


def noisy_world(fork):
    given = {}
    if fork == "clone":
        given = {
            "clone": lambda env: (env.cell, env.count, env.view.copy(), env.np_random.bit_generator.state),
            "restore": restore_walk,
        }
    return exact(NoisyWalk, [7, 8], fork=fork, **given)


def assert_is_episode(world, state, seed, actions):
    shown, _, _ = gymnasium_episode(NoisyWalk, seed, actions)
    assert np.array_equal(world.observe(state)["observation"][0], shown[-1])
    assert state.lengths[0] == len(shown) - 1


def restore_walk(env, snapshot):
    env.cell, env.count, view, bits = snapshot
    env.view = view.copy()
    env.np_random.bit_generator.state = bits


@pytest.mark.parametrize("make_env", [NoisyWalk, OwnGeneratorWalk])
@pytest.mark.parametrize("fork", ["copy", "replay"])
def test_forks_get_noise_of_their_own(make_env, fork):
    def futures(seed, original_first):
        world = polychromic.from_gymnasium(make_env, [3], horizon=50, fork=fork, seed=seed)
        state = world.start([0, 0])
        for _ in range(3):
            world.step(state, [1, 1])
        twins = state[[0, 0, 1]]
        parts = [state, twins] if original_first else [twins, state]
        traces = {id(part): [] for part in parts}
        for part in parts:
            for _ in range(4):
                world.step(part, np.ones(len(part), int))
                traces[id(part)].append(world.observe(part)["observation"][:, 1])
        return np.concatenate([np.array(traces[id(part)]).T for part in (state, twins)])

    first = futures(0, original_first=True)
    assert len(np.unique(first, axis=0)) == 5, "two starts and three copies, five streams of noise"
    assert np.array_equal(first, futures(0, original_first=False)), "who moves first changes nothing"
    assert not np.array_equal(first, futures(1, original_first=True))


def test_noise_repeats_after_reseed():
    world = polychromic.from_gymnasium(NoisyWalk, [3], horizon=50)
    traces = []
    for _ in range(2):
        world.reseed(11)
        state = world.start([0])[[0, 0]]
        traces.append([world.step(state, [1, 1]).reward for _ in range(5)])
    assert np.array_equal(*traces)


def test_without_reseeding_copies_share_the_future_but_not_the_generator():
    world = exact(NoisyWalk, [3])
    state = world.start([0])
    twins = state[[0, 0]]
    for _ in range(4):
        rewards = world.step(twins, [1, 1]).reward
        assert rewards[0] == rewards[1] == world.step(state, [1]).reward[0]


def test_the_users_reseed_is_used():
    calls = []
    world = polychromic.from_gymnasium(
        Walk, [0], horizon=9, reseed=lambda _, seed: calls.append(seed), reseed_on_start=False, fork="copy"
    )
    state = world.start([0])
    world.step(state[[0, 0]], [1, 1])
    assert len(set(calls)) == 2


def test_observations_of_every_kind():
    world = polychromic.from_gymnasium(EveryKind, [0], horizon=3, text_length=12)
    state = world.start([0, 0])
    world.step(state, [0, 2])
    seen = world.observe(state)
    assert set(seen) == {"camera.left", "pair.0", "pair.1", "counts", "text"}
    assert seen["camera.left"].dtype == np.uint8
    assert seen["camera.left"][:, 0, 0].tolist() == [5, 7]
    assert seen["pair.0"].tolist() == [5, 7]
    assert seen["pair.1"].shape == (2, 3)
    assert seen["text"].dtype == np.int32
    assert [text_of(row) for row in seen["text"]] == ["took 5", "took 7"]
    words = polychromic.from_gymnasium(
        EveryKind, [0], horizon=3, text_length=2, tokenize=lambda text: [len(word) for word in text.split()]
    )
    assert words.observe(words.start([0]))["text"].tolist() == [[4, 1]]
    with pytest.raises(UserError, match=r"has 6 tokens, text_length is 4"):
        polychromic.from_gymnasium(EveryKind, [0], horizon=3, text_length=4).start([0])


def test_blackjack_tuple_observations():
    world = polychromic.from_gymnasium("Blackjack-v1", range(5), horizon=10)
    seen = world.observe(world.start(range(5)))
    assert set(seen) == {"0", "1", "2"}
    assert all(array.shape == (5,) for array in seen.values())


def test_observations_are_the_callers_to_keep():
    world = exact(Walk, [0])
    state = world.start([0])
    before = world.observe(state)
    kept = before["observation"].copy()
    world.step(state, [2])
    assert np.array_equal(before["observation"], kept)
    before["observation"][:] = 77
    assert not np.any(world.observe(state)["observation"] == 77)


def test_ended_rows_stay_ended_and_hold_no_environment():
    world = exact(Walk, [0], horizon=5)
    state = world.start([0, 0])
    for _ in range(5):
        result = world.step(state, [1, 1])
    assert result.truncated.all()
    assert not result.terminated.any()
    seen = world.observe(state)["observation"]
    twins = state[[0, 1, 1]]
    again = world.step(twins, [99, -1, 0])
    assert again.reward.tolist() == [0, 0, 0]
    assert again.truncated.all()
    assert np.array_equal(world.observe(twins)["observation"], seen[[0, 1, 1]])
    world.start([])
    assert len(world._pools[0]) == 0


def test_forgotten_states_release_their_environments():
    world = exact(Walk, [0])
    state = world.start([0])
    copies = [state[[0] * 10] for _ in range(5)]
    world.step(copies[0], [1] * 10)
    assert len(world._pools[0]) == 51
    del copies
    gc.collect()
    world.step(state, [1])
    assert len(world._pools[0]) == 1


def test_lazy_forks_copy_no_more_than_needed():
    copies = []

    class Counted(Walk):
        def __deepcopy__(self, memo):
            copies.append(1)
            twin = type(self)()
            twin.__dict__ = dict(vars(self)) | {"view": self.view.copy()}
            return twin

    world = exact(Counted, [0], fork="copy")
    state = world.start([0])
    twins = state[[0] * 8]
    assert not copies, "a fork alone copies nothing"
    world.step(twins, [1] * 8)
    assert len(copies) == 8, "the untouched original keeps the ninth"
    world.step(state, [1])
    assert len(copies) == 8


def test_places():
    tuples = exact(Walk, range(6), place=lambda env: ("cell", env.cell))
    state = tuples.start(range(6))
    cells = tuples.observe(state)["observation"][:, 0]
    places = tuples.places(state)
    assert len(np.unique(places)) == len(np.unique(cells))
    assert all(len({*places[cells == cell].tolist()}) == 1 for cell in cells)
    numbered = exact(Walk, range(6), place=lambda env: env.cell)
    assert np.array_equal(numbered.places(numbered.start(range(6))), cells)
    none = exact(Walk, [0])
    assert none.places(none.start([0, 0])).tolist() == [0, 0]
    assert (numbered.names_places, none.names_places) == (True, False)
    mixed = exact(Walk, [0], place=lambda env: "start" if env.count == 0 else 1)
    with pytest.raises(UserError, match="integers only or no integers"):
        mixed.step(mixed.start([0]), [1])


def test_missions():
    world = exact("BabyAI-GoToObj-v0", [1, 2], mission=lambda env: env.unwrapped.mission)
    assert all(text.startswith("go to") for text in world.missions)
    mission = world.observe(world.start([1]))["mission"][0]
    assert text_of(mission) == world.missions[1]
    assert exact(Walk, [0, 1]).missions == ("", "")


def test_auto_chooses_what_it_can_prove():
    assert exact(NoisyWalk, [0]).recipe.method == "copy"
    assert exact(CannotBeCopied, [0]).recipe.method == "replay"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seeds": []}, "seeds is empty"),
        ({"seeds": [0, -1]}, "seeds holds -1"),
        ({"seeds": [0.5]}, r"seeds holds 0\.5"),
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": None}, "horizon is not given"),
        ({"fork": "magic"}, "fork is 'magic'"),
        ({"fork": "clone"}, "needs the functions clone and restore"),
        ({"clone": lambda env: env}, "belong together"),
        ({"num_workers": -1}, "num_workers is -1"),
        ({"num_workers": "2"}, "num_workers is '2'"),
        ({"seeds": 3}, "seeds is 3; give a list of reset seeds"),
        ({"horizon": True}, "horizon is True"),
        ({"horizon": "9"}, "horizon is '9'"),
        ({"make_env": "polychromic/grid-v0"}, "there is no level ''"),
        ({"seed": -1}, "seed is -1"),
        ({"make_env": "CartPole-v9"}, "did you mean 'CartPole-v1'"),
        ({"make_env": lambda: 3}, "it must return a gymnasium.Env"),
        ({"make_env": 3}, "neither a function"),
        ({"make_env": TupleWalk}, "must be Discrete, MultiDiscrete, MultiBinary or a Box of floats"),
        ({"reseed_on_fork": "no"}, "reseed_on_fork is 'no'; it must be True or False"),
    ],
)
def test_wrong_arguments_are_named(given, words):
    arguments = {"make_env": Walk, "seeds": [0], "horizon": 5} | given
    with pytest.raises(UserError, match=words):
        polychromic.from_gymnasium(arguments.pop("make_env"), arguments.pop("seeds"), **arguments)


def test_a_mission_that_raises_is_named():
    world = polychromic.from_gymnasium(Walk, [0], horizon=5, mission=lambda env: env.no_such_field)
    with pytest.raises(UserError, match="mission raised AttributeError"):
        _ = world.missions


def test_wrong_calls_change_nothing():
    world = exact(Walk, [0, 1])
    state = world.start([0, 1])
    seen = world.observe(state)["observation"]
    for actions, words in [
        ([1], "1 entries for 2 rows"),
        ([1, 3], "action 3 of row 1"),
        ([-1, 0], "action -1 of row 0"),
        ([0.5, 1.0], "give integers"),
    ]:
        with pytest.raises(UserError, match=words):
            world.step(state, actions)
    for wrong in (2, -1):
        with pytest.raises(UserError, match=f"configuration {wrong} does not exist; this world has 0 to 1"):
            world.start([wrong])
    with pytest.raises(UserError, match="do not fit a state of 2 rows"):
        state[[2]]
    with pytest.raises(UserError, match="another world"):
        exact(Walk, [0]).observe(state)
    assert np.array_equal(world.observe(state)["observation"], seen)
    assert state.lengths.tolist() == [0, 0]
    world.step(state, [1, 1])


def test_an_environment_that_raises_spoils_its_state_only():
    world = exact(Failing, [0], fork="copy")
    state = world.start([0, 0])
    for _ in range(4):
        world.step(state, [1, 1])
    twin = state[[0]]
    with pytest.raises(RuntimeError, match="step of the environment with seed 0: ArithmeticError: the fifth"):
        world.step(state, [1, 1])
    with pytest.raises(UserError, match="not usable any more"):
        world.observe(state)
    assert world.observe(twin)["observation"].shape == (1, 2)
    world.step(world.start([0]), [1])


def test_closed_worlds_say_so():
    with exact(Walk, [0]) as world:
        state = world.start([0])
    with pytest.raises(UserError, match="closed"):
        world.step(state, [0])

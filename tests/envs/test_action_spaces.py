"""Actions of every kind in Gymnasium worlds: what `env.step` is given, forks, and what is refused."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import polychromic
from polychromic.envs.actions import Vector
from polychromic.errors import UserError


class Echo(gymnasium.Env):
    """Shows and keeps what it was given."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)

    def __init__(self, space):
        self.action_space = space

    def reset(self, *, seed=None, **_options):
        super().reset(seed=seed)
        self.given = []
        return np.zeros(1), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.given.append(action)
        return np.array([float(np.sum(action))]), 0.0, False, False, {}


def echo(space, **options):
    return polychromic.from_gymnasium(lambda: Echo(space), [0], horizon=9, **options)


def last_given(world, state, row=0):
    return world._pools[0]._rows[state._rows[row]].shared.episode.env.given[-1]


SPACES = {
    "one": spaces.Box(-2, 2, (1,), np.float32),
    "uneven": spaces.Box(np.array([0.0, -10.0]), np.array([1.0, 30.0]), dtype=np.float64),
    "square": spaces.Box(-1, 1, (2, 3), np.float32),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "half": spaces.Box(np.array([0.0], np.float32), np.array([np.inf], np.float32)),
    "several": spaces.MultiDiscrete([3, 2]),
    "shifted": spaces.MultiDiscrete([3, 2], start=[5, -1]),
    "flags": spaces.MultiBinary(4),
    "shifted number": spaces.Discrete(3, start=7),
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("fork", ["copy", "replay"])
def test_random_actions_and_their_forks_are_in_the_space(name, fork):
    world = echo(SPACES[name], fork=fork)
    rng = np.random.default_rng(0)
    state = world.start([0, 0])
    for _ in range(3):
        drawn = world.actions.random(rng, 2)
        assert drawn.shape == (2, *world.actions.shape)
        world.step(state, drawn)  # the environment itself checks that it contains it
    twins = state[[0, 0, 1]]
    same = world.actions.random(rng, 1)
    world.step(twins, np.repeat(same, 3, axis=0))
    world.step(state, np.repeat(same, 2, axis=0))
    seen, again = world.observe(state)["observation"], world.observe(twins)["observation"]
    np.testing.assert_array_equal(again, seen[[0, 0, 1]])


def test_numbers_are_clipped_and_take_the_shape_of_the_space():
    world = echo(SPACES["square"])
    state = world.start([0])
    world.step(state, [[0.5, -3.0, 3.0, 0.0, 1.0, -0.25]])
    np.testing.assert_array_equal(last_given(world, state), np.float32([[0.5, -1, 1], [0, 1, -0.25]]))
    world.step(state, np.zeros((1, 2, 3)))  # its own shape is right too
    assert (world.actions.shape, world.actions.outputs) == ((6,), 12)


def test_a_step_keeps_nothing_of_the_array_that_it_was_given():
    world = echo(SPACES["one"], fork="replay")
    state = world.start([0])
    given = np.array([[1.5]], np.float32)
    world.step(state, given)
    given[:] = -1
    twin = state[[0, 0]]
    world.step(twin, [[0.0], [0.0]])
    assert last_given(world, twin) == 0
    assert world.observe(state)["observation"].tolist() == [[1.5]]


def test_the_range_of_a_policy_is_that_of_the_space():
    uneven = echo(SPACES["uneven"]).actions
    assert uneven.centre.tolist() == [0.5, 10.0]
    assert uneven.scale.tolist() == [0.5, 20.0]
    for name in ("unbounded", "half"):
        free = echo(SPACES[name]).actions
        assert set(free.centre) == {0.0}
        assert set(free.scale) == {1.0}
    assert echo(SPACES["half"]).actions.describe() == {"actions": {"low": [0.0], "high": [None]}}
    policy = polychromic.policy_for(echo(SPACES["uneven"]), hidden=(4,))
    said = polychromic.Evaluator(policy.policy, policy.params)({"observation": np.zeros((1, 1))}).logits[0]
    np.testing.assert_allclose(said[:2], [0.5, 10.0], atol=0.5)
    np.testing.assert_allclose(np.exp(said[2:]), [0.5, 20.0], rtol=0.05)


def test_wrong_actions_are_named():
    world = echo(spaces.Box(-1, 1, (2,), np.float32))
    state = world.start([0, 0])
    for actions, words in [
        ([[0.0, 1.0]], "actions has 1 entries for 2 rows"),
        ([[0.0, 1.0], [np.nan, 0.0]], r"action \[nan  0.\] of row 1 does not exist; actions are 2 finite numbers each"),
        ([0.0, 1.0], r"float64 with shape \(2,\); give numbers, 2 per row"),
        ([["a", "b"], ["c", "d"]], "give numbers, 2 per row"),
    ]:
        with pytest.raises(UserError, match=words):
            world.step(state, actions)
    several = echo(SPACES["several"])
    with pytest.raises(UserError, match=r"action \[0 2\] of row 0 does not exist; actions are 2 whole numbers each"):
        several.step(several.start([0]), [[0, 2]])
    with pytest.raises(UserError, match=r"low is .* no action is between them"):
        Vector([1.0], [0.0])


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(0, 9, (2,), np.int64), "a Box of floats: make it MultiDiscrete"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), r"the action space is Tuple\(.*make it one of these"),
        (spaces.Dict({"go": spaces.Discrete(2)}), "make it one of these"),
    ],
)
def test_spaces_without_an_array_are_refused(space, words):
    with pytest.raises(UserError, match=words):
        echo(space)


@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_forks_of_continuous_environments_are_proved(name):
    report = polychromic.check_fork(name, seeds=[0], steps=20)
    assert report.ok
    assert report.method == "copy"
    assert polychromic.check_fork(polychromic.make(name, seeds=[0]), seeds=[0], steps=5).ok


def test_a_player_of_the_fork_check_gives_actions_as_a_world_takes_them():
    assert polychromic.check_fork("Pendulum-v1", seeds=[0], steps=5, act=lambda _env, rng: rng.uniform(-2, 2, 1)).ok
    with pytest.raises(UserError, match=r"act gave \[0.0, 1.0\]; actions are a finite number each"):
        polychromic.check_fork("Pendulum-v1", seeds=[0], steps=5, act=lambda _env, _rng: [0.0, 1.0])


def test_other_bounds_are_another_world():
    described = [polychromic.envs.protocol.description(echo(spaces.Box(-1, high, (1,), np.float32))) for high in (1, 2)]
    assert described[0]["actions"] == {"low": [-1.0], "high": [1.0]}
    assert described[0] != described[1]
    assert "num_actions" not in described[0]

"""The protocol: starts, forks, ends, rooms, errors that leave the state as it was."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polychromic
from polychromic.envs.grid import codes, step, view
from polychromic.envs.grid.missions import WORDS, token_table, tokenize
from polychromic.envs.protocol import World, WorldState
from polychromic.errors import UserError

FORWARD, PICKUP, TOGGLE, DONE = 2, 3, 5, 6


@pytest.fixture(scope="module")
def goto():
    return polychromic.make("goto", seeds=range(6))


@pytest.fixture(scope="module")
def rooms():
    return polychromic.make("fourrooms", seeds=range(6))


def play(env, state, actions):
    for row in actions:
        result = env.step(state, row)
    return result


def test_the_protocol_is_kept(goto):
    state = goto.start([0, 1, 1])
    assert isinstance(goto, World)
    assert isinstance(state, WorldState)
    seen = goto.observe(state)
    assert seen["image"].shape == (3, 7, 7, 3)
    assert seen["image"].dtype == np.uint8
    assert seen["mission"].shape == (3, goto.mission_tokens.shape[1])
    assert goto.configurations(state).tolist() == [0, 1, 1]
    words = [WORDS[token] for token in seen["mission"][1] if token]
    assert words == goto.missions[1].split()
    result = goto.step(state, [0, 1, 2])
    assert result.reward.dtype == np.float32
    assert goto.steps(state).tolist() == [1, 1, 1]
    assert goto.directions(state)[0] == (seen["direction"][0] - 1) % 4


def test_codes_expand_to_the_image_in_both_views(goto):
    full = polychromic.make("goto", seeds=range(6), observation="full")
    for env in (goto, full):
        state = env.start(range(6))
        image = env.code_triples[env.codes(state)].reshape(6, *env.image_shape)
        assert np.array_equal(image, env.observe(state)["image"])
    assert full.image_shape == (22, 22, 3)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_fork_has_the_same_future_and_leaves_its_source_alone(goto, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    state = goto.start(rng.integers(6, size=4))
    play(goto, state, rng.integers(7, size=(data.draw(st.integers(1, 40)), 4)))
    rows = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=9))
    before = state.bytes.copy()
    fork = state[rows]
    actions = rng.integers(7, size=(20, 4))
    play(goto, fork, actions[:, rows])
    assert np.array_equal(state.bytes, before)
    play(goto, state, actions)
    assert np.array_equal(fork.bytes, state.bytes[rows])


def test_rows_are_chosen_by_indices_masks_slices_and_numbers(goto):
    state = goto.start([0, 1, 2, 3])
    assert goto.configurations(state[[3, 3, 0]]).tolist() == [3, 3, 0]
    assert goto.configurations(state[np.array([True, False, True, False])]).tolist() == [0, 2]
    assert goto.configurations(state[1:3]).tolist() == [1, 2]
    assert goto.configurations(state[2]).tolist() == [2]
    assert len(state[[]]) == 0
    assert [goto.configurations(row).tolist() for row in state] == [[0], [1], [2], [3]]
    both = goto.concatenate([state[[1]], state[[0, 2]]])
    assert goto.configurations(both).tolist() == [1, 0, 2]


def test_an_empty_batch_is_fine(goto):
    state = goto.start([])
    assert goto.observe(state)["image"].shape == (0, 7, 7, 3)
    assert goto.codes(state).shape == (0, 49)
    assert goto.step(state, []).reward.shape == (0,)
    assert goto.places(state).shape == (0,)


def reach_the_goal(env, configuration):
    """Put the agent in front of FourRooms' goal."""
    full = polychromic.make("fourrooms", seeds=env.level_seeds, observation="full")
    grid = full.codes(full.start([configuration])).reshape(19, 19)
    x, y = np.argwhere(grid == codes.GOAL)[0]
    free = {tuple(cell) for cell in env.free_cells(configuration).positions.tolist()}
    for direction, (dx, dy) in enumerate([(1, 0), (0, 1), (-1, 0), (0, -1)]):
        if (x - dx, y - dy) in free:
            return env.start_at([configuration], [(x - dx, y - dy)], [direction]), (x, y)
    raise AssertionError("the goal cannot be reached")


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 1 - 0.5 / 100), ({"reward": "package"}, 1 - 0.9 / 100), ({"time_penalty": 0.2, "horizon": 10}, 1 - 0.2 / 10)],
)
def test_success_pays_what_the_options_say_and_ends_the_row_for_good(options, expected):
    env = polychromic.make("fourrooms", seeds=range(3), **options)
    state, goal = reach_the_goal(env, 1)
    reward, terminated, truncated = env.step(state, [FORWARD])
    assert reward[0] == np.float32(expected)
    assert terminated[0]
    assert not truncated[0]
    assert tuple(env.positions(state)[0]) == goal
    ended = state.bytes.copy()
    room = env.places(state)
    again = env.step(state, [FORWARD])
    assert (again.reward[0], again.terminated[0], again.truncated[0]) == (0, True, False)
    assert np.array_equal(state.bytes, ended)
    assert env.places(state) == room
    assert env.ended(state).all()


def test_time_runs_out_at_the_horizon(rooms):
    state = rooms.start([0])
    results = [rooms.step(state, [DONE]) for _ in range(100)]
    assert [bool(result.truncated[0]) for result in results] == [False] * 99 + [True]
    assert not results[-1].terminated[0]
    own = polychromic.make("BabyAI-GoTo-v0", seeds=[0], horizon=None)
    assert own.horizon == 576


def test_rooms_of_fourrooms_are_its_quadrants(rooms):
    cells = rooms.free_cells(0)
    state = rooms.start_at([0] * len(cells.rooms), cells.positions.astype(np.uint8), [0] * len(cells.rooms))
    assert np.array_equal(rooms.places(state), cells.rooms)
    x, y = cells.positions.T
    assert np.array_equal(cells.rooms, (x >= 9) + 2 * (y >= 9))
    assert rooms.num_rooms == 4


def test_rooms_of_babyai_are_minigrids(goto):
    import gymnasium
    import minigrid  # noqa: F401

    env = gymnasium.make("BabyAI-GoTo-v0").unwrapped
    env.reset(seed=3)
    cells = goto.free_cells(3)
    for (x, y), room in zip(cells.positions.tolist(), cells.rooms.tolist(), strict=True):
        assert env.room_from_pos(x, y) is env.get_room(room % 3, room // 3)
        assert env.grid.get(x, y) is None


def test_rooms_elsewhere_are_what_walls_and_doors_enclose():
    env = polychromic.make("MiniGrid-DoorKey-8x8-v0", seeds=range(3))
    assert env.num_rooms == 2
    assert polychromic.make("MiniGrid-MultiRoom-N6-v0", seeds=range(2)).num_rooms == 6
    assert polychromic.make("MiniGrid-Empty-5x5-v0", seeds=[0]).num_rooms == 1
    # The doorway belongs to the room on its right.
    level = env.levels
    grid = level.first_rows[0, codes.HEADER : codes.HEADER + 64].reshape(8, 8)
    x, y = np.argwhere((grid >= codes.LOCKED_DOOR) & (grid < codes.WALL))[0]
    rooms = level.rooms[0].reshape(8, 8)
    assert rooms[x, y] == rooms[x + 1, y] == 1
    assert rooms[x - 1, y] == 0


def test_the_same_seeds_give_the_same_world():
    one, two = (polychromic.make("bosslevel", seeds=[7, 3]) for _ in range(2))
    assert np.array_equal(one.levels.first_rows, two.levels.first_rows)
    assert one.missions == two.missions


def test_missions_are_padded_to_the_length_that_is_asked():
    env = polychromic.make("goto", seeds=range(2), mission_length=12)
    assert env.observe(env.start([0]))["mission"].shape == (1, 12)
    assert token_table(["", "go to"]).tolist() == [[0, 0], tokenize("go to")]
    with pytest.raises(UserError, match="mission_length is 3; it must be at least 5"):
        polychromic.make("goto", seeds=range(2), mission_length=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "gotoo"}, "did you mean 'goto'"),
        ({"task": "BabyAI-GoTo-v1"}, "did you mean 'BabyAI-GoTo"),
        ({"task": "MiniGrid-Dynamic-Obstacles-8x8-v0"}, "does not cover MiniGrid-Dynamic-Obstacles-8x8-v0"),
        ({"task": "goto", "seeds": []}, "seeds: expected 1"),
        ({"task": "goto", "seeds": [-1]}, "seeds: expected integers of at least 0, got -1"),
        ({"task": "goto", "seeds": 5}, "seeds: expected integers"),
        ({"task": ["goto"]}, r"expected a name, .* got \['goto'\]"),
        ({"task": "zebra"}, "choose from fourrooms, goto"),
        ({"task": "goto", "horizon": 0}, "horizon is 0"),
        ({"task": "goto", "horizon": True}, "horizon is True"),
        ({"task": "goto", "horizon": 50.0}, r"horizon is 50\.0"),
        ({"task": "goto", "reward": "mine"}, "reward is 'mine'"),
        ({"task": "goto", "time_penalty": 1.5}, r"time_penalty is 1\.5"),
        ({"task": "goto", "time_penalty": "a"}, "time_penalty is 'a'"),
        ({"task": "goto", "observation": "whole"}, "observation is 'whole'"),
        ({"task": "goto", "seeds": [0], "mission_length": "a"}, "mission_length is 'a'"),
    ],
)
def test_a_wrong_argument_of_make_is_named(arguments, message):
    task = arguments.pop("task")
    with pytest.raises(UserError, match=message):
        polychromic.make(task, **arguments)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0, 7, 0], "row 1 has 7, expected 0 … 6"),
        ([0, 0, -1], "row 2 has -1"),
        ([0, 0], r"expected one per row, shape \(3,\), got shape \(2,\)"),
        ([0.5, 0, 0], "expected integers"),
        ([[0], [1, 2], [3]], "actions cannot be read"),
        (None, "expected one per row"),
    ],
)
def test_wrong_actions_leave_the_state_unchanged(goto, actions, message):
    state = goto.start([0, 1, 2])
    before = state.bytes.copy()
    with pytest.raises(UserError, match=message):
        goto.step(state, actions)
    assert np.array_equal(state.bytes, before)


def test_wrong_configurations_positions_and_states_are_refused(goto, rooms):
    with pytest.raises(UserError, match="configurations: 6 is out of range; this world has 0 … 5"):
        goto.start([0, 6])
    with pytest.raises(UserError, match=r"configurations: expected a list of indices, got \[0\.5\]"):
        goto.start([0.5])
    with pytest.raises(UserError, match=r"\(0, 0\), which is not a free cell of configuration 2"):
        goto.start_at([2], [(0, 0)], [0])
    with pytest.raises(UserError, match="not a free cell"):
        goto.start_at([2], [(99, 1)], [0])
    with pytest.raises(UserError, match="not a free cell"):
        goto.start_at([2], np.array([(0, 1)], np.uint8), [0])
    with pytest.raises(UserError, match="directions"):
        goto.start_at([2], goto.free_cells(2).positions[:1], [4])
    with pytest.raises(UserError, match="a state of this world"):
        goto.step(rooms.start([0]), [0])
    with pytest.raises(UserError, match="configurations cannot be read"):
        goto.start([[0], [1, 2]])
    with pytest.raises(UserError, match="at least one state"):
        goto.concatenate([])
    with pytest.raises(UserError, match="row is 9; it must be between -1 and 0"):
        goto.render(goto.start([0]), 9)


@pytest.mark.parametrize(
    "name", ["configurations", "steps", "ended", "positions", "directions", "carried", "places", "codes"]
)
def test_whatever_reads_a_state_checks_it(goto, rooms, name):
    for wrong in (rooms.start([0]), None):
        with pytest.raises(UserError, match="a state of this world"):
            getattr(goto, name)(wrong)


@pytest.mark.parametrize("rows", [9, [9], [-4], [0.5], [True, False], [[0, 1], [1, 2]], [[0], [1, 2]], "a", None])
def test_wrong_rows_are_refused(goto, rows):
    state = goto.start([0, 1, 2])
    with pytest.raises(UserError, match="do not fit a state of 3 rows"):
        state[rows]


@pytest.mark.parametrize(
    ("rows", "configurations", "message"),
    [
        ([9], [0], "do not fit"),
        ([0.0], [0], "do not fit"),
        ([0, 1, 2], [0], "expected one per row, 3, got 1"),
        ([0, 0], [0, 1], "each row once"),
        ([0], [9], "out of range"),
    ],
)
def test_a_wrong_restart_changes_nothing(goto, rows, configurations, message):
    state = goto.start([3, 4, 5])
    missions = goto.observe(state)["mission"]
    before = state.bytes.copy()
    with pytest.raises(UserError, match=message):
        goto.restart(state, rows, configurations)
    assert np.array_equal(state.bytes, before)
    assert np.array_equal(goto.observe(state)["mission"], missions)
    goto.restart(state, [True, False, True], [1, 2])
    assert goto.configurations(state).tolist() == [1, 4, 2]
    assert np.array_equal(goto.observe(state)["mission"], goto.mission_tokens[[1, 4, 2]])


def test_any_kind_of_array_runs_the_one_compiled_kernel(goto):
    read_only = np.zeros(3, np.int64)
    read_only.setflags(write=False)
    unaligned = np.frombuffer(bytearray(25), np.uint8)[1:].view(np.int64)
    strided = np.zeros(6, np.int64)[::2]
    for rows in ([0, 1, 2], slice(None, None, -1), [True, True, True]):
        state = goto.start([0, 1, 2])[rows]
        for actions in ([0, 0, 0], strided, read_only, unaligned, np.zeros(3, np.int32), np.zeros(3, ">i8")):
            goto.step(state, actions)
        assert goto.steps(state).tolist() == [6, 6, 6]
        goto.observe(state)
        goto.codes(state)
        goto.places(state)
    for kernel in (step.step_kernel, view.partial_view, view.expand, view.rooms_kernel):
        assert len(kernel.signatures) == 1


def test_a_time_penalty_is_refused_beside_the_packages_own():
    with pytest.raises(UserError, match=r"time_penalty is 0.2, but reward='package' has its own of 0.9"):
        polychromic.make("goto", seeds=[0], reward="package", time_penalty=0.2)


def test_numpy_numbers_are_numbers():
    assert polychromic.make("goto", seeds=np.arange(2), horizon=np.int64(50)).horizon == 50


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_a_copied_or_pickled_state_goes_on(goto, through):
    state = goto.start([0, 1, 2])
    play(goto, state, np.full((5, 3), FORWARD))
    goto.observe(state)
    other = through(state)
    goto.step(other, [0, 1, 2])
    assert goto.steps(state).tolist() == [5, 5, 5]
    again = polychromic.make("goto", seeds=range(6), observation="full", mission_length=20)
    goto.step(state, [0, 1, 2])
    assert np.array_equal(other.bytes, state.bytes)
    assert again.observe(other)["mission"].shape == (3, 20)
    assert np.array_equal(goto.observe(other)["image"], goto.observe(state)["image"])
    for different in ({"seeds": range(1, 7)}, {"seeds": range(6), "horizon": 99}):
        with pytest.raises(UserError, match="a state of this world"):
            polychromic.make("goto", **different).observe(other)


def test_loading_levels_prints_nothing():
    code = "import polychromic; polychromic.make('bosslevel', seeds=range(12))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Sampling rejected" not in shown.stdout


def test_render_is_minigrids_picture(goto):
    import gymnasium

    for level, env in (("BabyAI-GoTo-v0", goto), ("MiniGrid-GoToDoor-5x5-v0", None)):
        env = env or polychromic.make(level, seeds=range(4))
        reference = gymnasium.make(level).unwrapped
        reference.reset(seed=2)
        state = env.start([2])
        for action in (0, 2, 2, 1, 2):
            reference.step(action)
            env.step(state, [action])
        picture = env.render(state, tile_size=8)
        assert np.array_equal(picture, reference.get_full_render(highlight=True, tile_size=8))

"""The engine against real minigrid: every registered level is either exact or refused by name."""

import itertools

import numpy as np
import pytest

from polychromic.envs.grid import codes, view
from polychromic.envs.grid.command import refusal
from polychromic.envs.grid.differential import compare_level
from polychromic.envs.grid.load import load_level
from polychromic.envs.grid.missions import UNKNOWN, tokenize
from polychromic.envs.grid.tasks import registered_levels

REFUSED = ("MiniGrid-Dynamic-Obstacles-", "MiniGrid-WFC-")

# One level per kind of mission and rule, with the players that reach its interesting states.
THOROUGH = [
    ("BabyAI-BossLevel-v0", "bot"),  # sequences of every kind, half done at forks
    ("BabyAI-MiniBossLevel-v0", "noisy bot"),
    ("BabyAI-SynthSeq-v0", "noisy bot"),
    ("BabyAI-PutNextLocal-v0", "bot"),  # carries while it is forked
    ("BabyAI-PutNextS5N2Carrying-v0", "noisy bot"),
    ("BabyAI-MoveTwoAcrossS5N2-v0", "noisy bot"),
    ("BabyAI-OpenDoorsOrderN4Debug-v0", "noisy bot"),  # strict: can fail
    ("BabyAI-PickupDistDebug-v0", "random"),
    ("BabyAI-KeyInBox-v0", "bot"),
    ("BabyAI-UnlockToUnlock-v0", "bot"),
    ("BabyAI-GoToRedBallGrey-v0", "bot"),
]


@pytest.mark.parametrize("level", registered_levels())
def test_each_registered_level_is_exact_or_refused_by_name(level):
    reason = refusal(level)
    if reason is not None:
        assert level.startswith(REFUSED)
        assert level in reason
        return
    assert not level.startswith(REFUSED)
    assert UNKNOWN not in tokenize(load_level(level, 0).mission)
    tally = compare_level(level, range(2), "random", horizon=40, check_full=True)
    assert tally.steps > 2
    assert not tally.mismatches, tally.first_mismatch


@pytest.mark.parametrize(("level", "player"), THOROUGH)
def test_missions_are_exact_through_forks(level, player):
    tally = compare_level(level, range(4), player)
    assert not tally.mismatches, tally.first_mismatch
    assert tally.forks.total() > 0
    if player == "bot":
        assert tally.bot_solved == 4


def test_the_thorough_levels_fork_while_carrying_and_half_way_through_sequences():
    carrying = compare_level("BabyAI-PutNextLocal-v0", range(10, 16), "bot")
    assert carrying.forks_carrying.total() > 0
    half_done = compare_level("BabyAI-MoveTwoAcrossS5N2-v0", range(10, 16), "bot")
    assert half_done.forks_half_done.total() > 0
    assert not carrying.mismatches
    assert not half_done.mismatches


def test_a_strict_mission_fails_where_minigrid_fails():
    tally = compare_level("BabyAI-OpenDoorsOrderN4Debug-v0", range(8), "noisy bot", horizon=100)
    assert tally.failures > 0
    assert not tally.mismatches, tally.first_mismatch


@pytest.mark.parametrize(
    "level", ["BabyAI-BossLevel-v0", "BabyAI-OpenDoorLoc-v0", "MiniGrid-FourRooms-v0", "MiniGrid-GoToDoor-5x5-v0"]
)
def test_a_perturbed_start_is_minigrids_place_agent(level):
    player = "noisy bot" if level.startswith("BabyAI") else "random"
    tally = compare_level(level, range(4), player, horizon=60, perturbed=True)
    assert not tally.mismatches, tally.first_mismatch


def test_the_comparison_notices_a_wrong_engine(monkeypatch):
    """A test that cannot fail proves nothing: with the colours of two codes swapped it must."""
    wrong = codes.CODE_TRIPLES.copy()
    wrong[[codes.WALL, codes.GOAL]] = wrong[[codes.GOAL, codes.WALL]]
    monkeypatch.setattr(
        "polychromic.envs.grid.world.GridWorld.observe",
        lambda self, state: {
            "image": wrong[self.codes(state)].reshape(len(state), *self.image_shape),
            "direction": self.directions(state),
        },
    )
    tally = compare_level("MiniGrid-FourRooms-v0", range(1), "random", horizon=5)
    assert tally.mismatches["image"] > 0
    assert "MiniGrid-FourRooms-v0" in tally.first_mismatch


def test_visibility_equals_process_vis_on_random_views():
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Wall

    rng = np.random.default_rng(0)
    for density in (0.05, 0.2, 0.4):
        for _ in range(40):
            walls = rng.random((7, 7)) < density
            walls[3, 6] = False
            grid = Grid(7, 7)
            for x, y in np.argwhere(walls):
                grid.set(int(x), int(y), Wall())
            expected = grid.process_vis(agent_pos=(3, 6))
            seen, shown = 8, np.zeros((7, 7), bool)
            for y in range(6, -1, -1):
                clear = sum(int(not walls[x, y]) << x for x in range(7))
                entry = int(view.VISIBLE[seen * 128 + clear])
                shown[:, y] = [entry >> x & 1 for x in range(7)]
                seen = entry >> 8
            assert np.array_equal(shown, expected)


def test_the_visibility_table_is_symmetric():
    """The kernel reads mirrored lines as they are, which needs this."""
    mirror = np.array([int(f"{mask:07b}"[::-1], 2) for mask in range(128)])
    for seen, clear in itertools.product(range(128), repeat=2):
        entry, other = int(view.VISIBLE[seen * 128 + clear]), int(view.VISIBLE[mirror[seen] * 128 + mirror[clear]])
        assert mirror[entry & 127] == other & 127
        assert mirror[entry >> 8] == other >> 8


def test_codes_are_minigrids_triples():
    from minigrid.core.constants import OBJECT_TO_IDX
    from minigrid.core.world_object import WorldObj

    assert len(codes.CODE_OF_TRIPLE) == codes.NUM_CODES == len(codes.CODE_TRIPLES)
    for triple in codes.CODE_TRIPLES[codes.GOAL : codes.AGENT]:
        assert tuple(WorldObj.decode(*triple.tolist()).encode()) == tuple(triple.tolist())
    assert codes.CODE_TRIPLES[codes.AGENT, 0] == OBJECT_TO_IDX["agent"]

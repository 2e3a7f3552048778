"""What the gallery runs: its tasks, what is compared, and which settings each method may choose from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from examples.gallery import exits, lake, several_ways

import polychromic as poly
from polychromic.envs.protocol import World

SEEDS = range(10, 13)  # of the comparison; 0 to 2 were used while the tasks were designed
SEARCH_SEED = 100  # of the runs that settings are chosen by; none of the seeds above
ENOUGH = 0.95  # success from which strategies count
ATTEMPTS = 128  # at each configuration, of the policies in the end
ENTROPY, VINES, ALL_SETS = "ppo with an entropy bonus", "poly-ppo with vines", "poly-ppo over all sets"
NO_VINES = {"num_sets": 0, "forks_per_rollout": 0}

COMMON: dict[str, Any] = {
    "budget": 136,
    "critic_learning_rate": 3e-3,
    "evaluate_every": 10,
    "evaluation_rollouts": 64,
    "checkpoint_every": 10,
}
# Four settings for each method, all of which run once.
CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "ppo": [{"method": "ppo", "actor_learning_rate": rate} for rate in (3e-4, 1e-3, 3e-3, 1e-2)],
    ENTROPY: [
        {"method": "ppo", "actor_learning_rate": 1e-3, "entropy_coefficient": bonus}
        for bonus in (0.003, 0.01, 0.03, 0.1)
    ],
    VINES: [
        {"method": "poly-ppo", "actor_learning_rate": rate, "set_credit": credit}
        for rate in (3e-4, 1e-3)
        for credit in ("window", "trajectory")
    ],
    ALL_SETS: [
        {"method": "poly-ppo", "actor_learning_rate": rate, "set_credit": credit, **NO_VINES}
        for rate in (1e-3, 3e-3)
        for credit in ("trajectory", "control-variate")
    ],
}


@dataclass(frozen=True)
class Study:
    """One page of the gallery."""

    name: str
    title: str
    world: Callable[[], World]
    base: Callable[[World], Any]  # the policy that all runs start from
    strategies: str  # what differs between strategies, for people
    changed: Callable[[], Mapping[str, World]]  # worlds that no policy was trained on
    change: str  # what they are
    seen_from: Callable[[], World]  # the same world with a place for every cell of the picture
    shape: tuple[int, int]  # rows and columns of the picture
    settings: dict[str, Any] = field(default_factory=dict)


def _exits(**options: Any) -> World:
    make = functools.partial(exits.Exits, **options)
    return poly.from_gymnasium(make, [0], place=exits.exit_of, horizon=24, fork="copy")


def _exits_cells() -> World:
    return poly.from_gymnasium(exits.Exits, [0], place=lambda env: 9 * env.at[1] + env.at[0], horizon=24, fork="copy")


def _lake(hole: int = -1) -> World:
    return poly.from_gymnasium(functools.partial(lake.make_lake, hole), [0], **lake.FROZEN)


def _ways(*locked: int) -> World:
    make = functools.partial(several_ways.SeveralWays, locked=locked)
    return poly.from_gymnasium(make, range(2), place=several_ways.place, horizon=several_ways.HORIZON, fork="copy")


PIXELS = 24


def _ways_cells() -> World:
    def cell(env: Any) -> int:
        column, row = np.clip((env.position + 1.2) / 2.4 * PIXELS, 0, PIXELS - 1).astype(int)
        return int((PIXELS - 1 - row) * PIXELS + column)

    return poly.from_gymnasium(
        several_ways.SeveralWays, range(2), place=cell, horizon=several_ways.HORIZON, fork="copy"
    )


STUDIES: dict[str, Study] = {
    "exits": Study(
        name="exits",
        title="Four exits",
        world=_exits,
        base=poly.policy_for,
        strategies="exits",
        changed=lambda: {name: _exits(locked=name) for name in exits.EXITS.values()},
        change="each of the exits locked in turn",
        seen_from=_exits_cells,
        shape=(9, 9),
        settings={"iterations": 40},
    ),
    "lake": Study(
        name="lake",
        title="FrozenLake",
        world=_lake,
        base=lambda world: poly.clone(world, lake.demonstrator(), episodes=200, epochs=30),
        strategies="paths",
        changed=lambda: {str(hole): _lake(hole) for hole in lake.ICE[::4]},
        change="one more hole in the ice, at each of 13 cells in turn",
        seen_from=_lake,
        shape=(8, 8),
        settings={"iterations": 40},
    ),
    "ways": Study(
        name="ways",
        title="Five doors",
        world=_ways,
        base=lambda world: poly.clone(world, several_ways.demonstrator(), episodes=200, epochs=30),
        strategies="doors",
        changed=lambda: {str(door): _ways(door) for door in range(several_ways.DOORS)},
        change="each of the doors locked in turn",
        seen_from=_ways_cells,
        shape=(PIXELS, PIXELS),
        settings={"iterations": 32, "evaluate_every": 8},
    ),
}


def counted(visits: np.ndarray, shape: tuple[int, int]) -> list[list[float]]:
    """The share of attempts that visit each cell of a picture, from booleans [attempts, cells]."""
    return np.round(visits.mean(axis=0).reshape(shape), 3).tolist()  # type: ignore[no-any-return]

"""What a world is: episodes as values that can be copied at any moment and continued many times.

`World` carries everything in which worlds differ. Whoever plays, scores, reports or shows episodes asks its members and
never what kind of world it is.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.envs.actions import Actions, Choice
from polychromic.errors import UserError

Arrays = dict[str, NDArray[Any]]


class StepResult(NamedTuple):
    """What one call of `World.step` returns, one entry per row."""

    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


@runtime_checkable
class WorldState(Protocol):
    """The states of a batch of episodes, one per row.

    `state[rows]` is an independent copy of those rows. Rows may repeat, so a fork is `state[[3] * 8]`.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class Starts:
    """States to start from instead of the configurations' own, S of them: what `World.other_starts` chose."""

    configurations: NDArray[np.int64]  # [S]
    places: NDArray[np.int64]  # [S], as `World.places` names them
    where: Mapping[str, NDArray[Any]]  # what the world needs to begin there, each [S, …]

    def __len__(self) -> int:
        return len(self.configurations)


@dataclass(frozen=True, eq=False)
class Episode:
    """What `World.feature` gets: a rollout of T steps, from where its set branches off."""

    observations: Any  # what `World.observe` showed at its T + 1 moments: an array, or a dict of several
    actions: NDArray[Any]  # [T]
    rewards: NDArray[np.float32]  # [T]
    places: NDArray[np.int64]  # of its T + 1 moments

    def __len__(self) -> int:
        return len(self.actions)


class World(abc.ABC):
    """An environment in several configurations: `start`, `observe`, `step` on whole batches of episodes.

    Derive from it, set the attributes and write the methods below that are marked as required; the others have
    defaults for worlds that have nothing to say about them. Rows that have ended (terminated or truncated) stay ended:
    stepping them changes nothing, gives reward 0 and reports their flags again.
    """

    # ------------------------------------------------------------------ required

    num_actions: int
    """Actions are 0 … num_actions − 1; only where `actions` says nothing else."""
    num_configurations: int
    """How many starts there are: levels, prompts, reset seeds."""
    horizon: int
    """The most steps that an episode can take."""

    @abc.abstractmethod
    def start(self, configurations: ArrayLike) -> Any:
        """Fresh episodes, one row per entry of `configurations` (indices 0 … num_configurations − 1)."""

    @abc.abstractmethod
    def observe(self, state: Any) -> Mapping[str, NDArray[Any]]:
        """What there is to see: arrays with one row per episode."""

    @abc.abstractmethod
    def step(self, state: Any, actions: ArrayLike) -> StepResult:
        """Advance every live row of `state` in place, in one call."""

    @abc.abstractmethod
    def concatenate(self, states: Iterable[Any]) -> Any:
        """The rows of several states in one state, as independent copies."""

    @property
    def actions(self) -> Actions:
        """What an action is: one of `num_actions`, unless a world says otherwise (`polychromic.envs.actions`)."""
        return Choice(self.num_actions)

    # ------------------------------------------------------------------ who it is

    task: str = ""
    """The name of its task, as files and reports say it; empty: the name of its class."""
    level_seeds: tuple[int, ...] = ()
    """A number for each configuration that its task makes the same one from again; empty where there is none."""
    spec: Any = None
    """The `TaskSpec` that made it; None for a world that no task made."""
    options: Mapping[str, Any] = MappingProxyType({})
    """The options that its task was given, as `TaskSpec.options` names them."""
    strategies: str = "strategies"
    """What people call the kinds of trajectories that `places` distinguishes."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({task_name(self)!r}, {self.num_configurations} configurations)"

    @property
    def missions(self) -> Sequence[str]:
        """A text for each configuration."""
        return ("",) * self.num_configurations

    @property
    def horizons(self) -> NDArray[np.int64]:
        """The most steps of each configuration, [num_configurations]."""
        return np.full(self.num_configurations, self.horizon, np.int64)

    def describe(self) -> dict[str, Any]:
        """What distinguishes it from other worlds of its class, as JSON: a run resumes only where this is equal.

        The seed of its noise is not part of it: a run reseeds the world in every iteration from its own seed.
        """
        return {}

    # ------------------------------------------------------------------ what a policy reads

    observations_repeat: bool = False
    """Whether few of the rows that an iteration sees are distinct, so that it pays to remember what a policy said."""

    table_inputs: tuple[str, ...] = ()
    """Those of `inputs` that are row numbers of `tables`: they say nothing that the configuration does not."""

    def inputs(self, state: Any) -> Arrays:
        """What a policy reads of each row. Entries may be row numbers of `tables`."""
        return dict(self.observe(state))

    def tables(self) -> Arrays:
        """What all rows share and `inputs` point into (the missions of all configurations, say)."""
        return {}

    def restricted(self, inputs: Arrays, configurations: NDArray[np.int64]) -> tuple[Arrays, Arrays]:
        """`inputs` of episodes of these configurations alone, with tables that hold nothing else.

        Tables of different configurations may differ in shape if zeros at the end of any axis change nothing.
        """
        del configurations
        return inputs, self.tables()

    def input_kinds(self) -> dict[str, dict[str, Any]]:
        """What each of `inputs` is, as `polychromic.policies.spaces` reads it; empty: not known."""
        return {}

    def misfit(self, header: Mapping[str, Any]) -> str:
        """Why a policy cannot play here, by what its file says of it; empty if nothing speaks against it.

        header: `architecture`, `observation`, `vocabulary`, `words_seen`. Shapes are compared for any policy elsewhere.
        """
        del header
        return ""

    # ------------------------------------------------------------------ what is read of episodes

    names_places: bool = False
    """Whether `places` says anything; without places all trajectories count as alike."""
    reward_scales: tuple[float, ...] = ()
    """Time penalties p for which evaluations also give the reward 1 − p · t/H of a success after t steps."""

    return_range: tuple[float, float] | None = None
    """The lowest and the highest return of an episode, or of what is left of one; None: not known."""

    def places(self, state: Any) -> NDArray[np.int64]:
        """Where each row is, as diversity reads it (the room, the node): one integer per row."""
        return np.zeros(len(state), np.int64)

    feature: Callable[[Episode], ArrayLike] | None = None
    """A vector of an episode, for diversities that read more than places: an embedding, where it ended. None: there
    is none."""

    def succeeded(self, state: Any) -> NDArray[np.bool_] | None:
        """Which rows have reached their goal, [B]; None where nobody says, and then no success rate is claimed."""
        del state
        return None

    # ------------------------------------------------------------------ noise, forks, other starts

    has_noise: bool = False
    """Whether episodes draw random numbers of their own, which `reseed` fixes."""
    can_fork: bool = True
    """Whether `state[rows]` continues an episode faithfully; without it there are no vines."""
    can_start_elsewhere: bool = False
    """Whether `other_starts` and `start_from` are there."""

    def reseed(self, seed: int) -> None:
        """Fix the noise of all starts and forks from here on."""

    def other_starts(self, visited: Sequence[NDArray[np.int64]], per_place: int, rng: np.random.Generator) -> Starts:
        """Starts in the places `visited` of each configuration, up to `per_place` in each, all of them solvable."""
        raise UserError(f"world is {self!r}; perturbed starts need a world whose agent can be put somewhere else")

    def start_from(self, starts: Starts, rows: NDArray[np.int64]) -> Any:
        """Fresh episodes that begin at `starts`, one for each of `rows` (numbers of starts, which may repeat)."""
        raise UserError(f"world is {self!r}; it has no other starts than its configurations")

    # ------------------------------------------------------------------ what people see

    can_draw: bool = False
    """Whether `picture` gives images."""

    def picture(self, state: Any, row: int = 0, *, tile_size: int = 32) -> NDArray[np.uint8]:
        """An image of one row, uint8 [height, width, 3]."""
        raise UserError(f"world is {self!r}; it has no pictures")

    def text(self, state: Any, row: int = 0, *, colours: bool = False) -> str:
        """One row for a terminal; `colours`: with ANSI escapes."""
        del colours
        seen = {name: np.asarray(value)[row] for name, value in self.observe(state).items()}
        return "\n".join(f"{name}: {np.array2string(value, threshold=20)}" for name, value in seen.items())

    def scenery(self) -> dict[str, Any]:
        """What the report's viewer needs to draw recorded episodes, as JSON; empty: episodes are shown as `text`.

        The viewer of grids needs `grid_shape` [width, height] and `legend` {code: [kind, colour]}, as in
        `envs.grid.recordings`. A task can bring a viewer of its own (`polychromic.Viewer`).
        """
        return {}

    def replay(
        self, configurations: NDArray[np.int64], actions: NDArray[Any], lengths: NDArray[np.int64]
    ) -> list[dict[str, Any]]:
        """Every moment of these episodes for the viewer, as JSON; asked only where `scenery` says something.

        Of each episode `path` (x, y, direction of every moment, flat) and `changes` (moment, x, y, code, flat).
        actions: [K, H, …]; those after `lengths` [K] mean nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has scenery but no replay")

    def backdrop(self, configuration: int) -> dict[str, Any]:
        """What the viewer draws behind every episode of a configuration, as JSON.

        For grids `grid`, its codes by column, and `rooms`, where the number of each room is written (x, y, flat).
        """
        del configuration
        return {}


def check_is_world(candidate: object) -> None:
    """Refuse what is not a world, or one that lacks a number that every world has."""
    if not isinstance(candidate, World):
        raise UserError(f"world is a {type(candidate).__name__}; it must be a polychromic.World")
    numbered = ("num_actions",) if type(candidate).actions is World.actions else ()
    for name in (*numbered, "num_configurations", "horizon"):
        value = getattr(candidate, name, None)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            kind = type(candidate).__name__
            raise UserError(f"{kind}.{name} is {value!r}; every world has a whole number there, at least 1")


def description(world: World) -> dict[str, Any]:
    """What must agree for a run to resume in a world, as JSON."""
    kind = type(world)
    described = {
        "world": f"{kind.__module__}.{kind.__qualname__}",
        "task": task_name(world),
        "num_configurations": world.num_configurations,
        "horizon": int(world.horizon),
        "level_seeds": [int(seed) for seed in world.level_seeds],
        **world.actions.describe(),
        **({"feature": _name_of(world.feature)} if world.feature is not None else {}),
        **world.describe(),
    }
    # Options that the world does not describe itself: whoever reads the description makes the same world from it.
    more = {name: value for name, value in world.options.items() if name not in described}
    return {**described, "options": more} if more else described


def _name_of(function: Any) -> str:
    """module.name of a function, a method or an object that can be called."""
    name = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if name else _name_of(type(function))


def task_name(world: World) -> str:
    """The task of a world, or the name of its class."""
    return world.task or type(world).__name__

"""The grid engine as a world: `make` builds it, its methods run whole batches, its states are rows of bytes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import one_of, read_array, real_number, whole_number
from polychromic.envs.grid import codes, step, view
from polychromic.envs.grid.levels import Levels, stack_levels
from polychromic.envs.grid.load import load_level
from polychromic.envs.grid.missions import WORDS, token_table
from polychromic.envs.grid.tasks import level_id
from polychromic.envs.protocol import StepResult
from polychromic.envs.rows import take_rows
from polychromic.errors import UserError

MAX_HORIZON = 65_535
MAX_TASKS = 1 << 24
VIEW_CELLS = view.VIEW * view.VIEW


class GridState:
    """The states of a batch of episodes: `bytes` uint8 [B, row], one contiguous row per world.

    `state[rows]` is an independent copy of those rows (indices that may repeat, a slice, or a mask).
    """

    __slots__ = ("bytes", "fingerprint", "mission")

    def __init__(self, rows: NDArray[np.uint8], fingerprint: str) -> None:
        self.bytes = rows
        self.fingerprint = fingerprint  # of the levels that the rows belong to
        self.mission: NDArray[np.int32] | None = None  # the missions' tokens, gathered once: rows keep their task

    def __len__(self) -> int:
        return len(self.bytes)

    def __getitem__(self, rows: Any) -> GridState:
        return GridState(take_rows(self.bytes, rows), self.fingerprint)

    def __copy__(self) -> GridState:
        return self[:]

    def __reduce__(self) -> Any:
        """Pickles and deep copies are states of every world with the same levels, in other processes too."""
        return GridState, (self.bytes, self.fingerprint)

    def __repr__(self) -> str:
        ended = int(np.count_nonzero(self.bytes[:, codes.ENDED]))
        return f"GridState({len(self)} rows, {ended} ended, {self.bytes.shape[1]} bytes each)"


class Cells(NamedTuple):
    """Free cells of a level: positions int64 [cells, 2] (x, y) and the room of each, int64 [cells]."""

    positions: NDArray[np.int64]
    rooms: NDArray[np.int64]


class GridWorld:
    """A grid level in several configurations, forkable and exact with minigrid.

    Attributes: `num_actions` (7: left, right, forward, pick up, drop, toggle, done), `num_configurations`, `horizon` (the most
    steps an episode can take; `horizons` int64 [tasks] has each task's), `missions` (the texts), `mission_tokens` int32
    [tasks, length] (ids of words in `vocabulary`, 0 is padding), `task` (the id), `seeds`,
    `observation` ("partial" or "full"), `image_shape` (of one observation), `num_codes` (51) and `code_triples` uint8
    [51, 3] (code -> object, colour, state), `vocabulary` (the word of each token id), `num_rooms`.
    """

    num_actions = step.NUM_ACTIONS
    num_codes = codes.NUM_CODES
    code_triples = codes.CODE_TRIPLES
    vocabulary = WORDS

    def __init__(
        self,
        task: str,
        seeds: Sequence[int],
        levels: Levels,
        penalty: float,
        observation: Literal["partial", "full"],
        mission_length: int | None = None,
    ) -> None:
        self.task = task
        self.seeds = tuple(seeds)
        self.levels = levels
        self.penalty = penalty
        self.observation = observation
        self.missions = levels.missions
        self.num_configurations = len(levels.missions)
        self.horizons = levels.program[:, codes.HORIZON].copy()
        self.horizon = int(self.horizons.max())
        self.mission_tokens = token_table(levels.missions, mission_length)
        self.num_rooms = int(levels.rooms[levels.rooms != codes.NO_ROOM].max()) + 1
        self.grid_shape = (levels.width - 2 * levels.margin, levels.height - 2 * levels.margin)
        shape = (view.VIEW, view.VIEW) if observation == "partial" else self.grid_shape
        self.image_shape = (*shape, 3)
        self._cells = shape[0] * shape[1]

    def __repr__(self) -> str:
        return f"GridWorld({self.task!r}, {self.num_configurations} tasks, horizon {self.horizon}, {self.observation} view)"

    # ------------------------------------------------------------------ the protocol

    def start(self, tasks: ArrayLike) -> GridState:
        """Fresh episodes, one row per entry of `tasks` (indices of configurations, 0 … num_configurations − 1)."""
        return GridState(self.levels.first_rows.take(self._task_index(tasks), axis=0), self.levels.fingerprint)

    def observe(self, state: GridState) -> dict[str, NDArray[Any]]:
        """`image` uint8 [B, 7, 7, 3] (or [B, width, height, 3] for the full view), `direction` uint8 [B], `mission`
        int32 [B, length] (padded with 0; read-only, as it is shared between calls)."""
        self._check(state)
        cells = self._shown(state)
        # One byte more than the image, see `view.expand`.
        buffer = np.empty(3 * len(cells) - 2, np.uint8)
        view.expand(cells, len(cells) - 1, buffer)
        # Worlds that pad missions to different lengths may share a state.
        if state.mission is None or state.mission.shape[1] != self.mission_tokens.shape[1]:
            state.mission = self.mission_tokens.take(self.tasks(state), axis=0)
            state.mission.setflags(write=False)
        return {
            "image": buffer[:-1].reshape(-1, *self.image_shape),
            "direction": state.bytes[:, codes.DIRECTION].copy(),
            "mission": state.mission,
        }

    def step(self, state: GridState, actions: ArrayLike) -> StepResult:
        """Advance every live row in place. Rewards are given on success only: 1 − penalty · t / H.

        A wrong number of actions or an action outside 0 … 6 raises `UserError` and leaves the state as it was.
        """
        self._check(state)
        levels, rows = self.levels, state.bytes
        moves, batch = read_array("actions", actions), len(rows)
        if moves.shape != (batch,):
            raise UserError(f"actions: expected one per row, shape ({batch},), got shape {moves.shape}")
        if moves.dtype.kind not in "iu" and batch:
            raise UserError(f"actions: expected integers 0 … {self.num_actions - 1}, got {moves.dtype}")
        # The kernel is compiled for one kind of array; strided or read-only ones would be compiled for again.
        if moves.dtype != np.int64 or not moves.flags.carray:
            moves = np.array(moves, np.int64, order="C")
        reward = np.empty(batch, np.float32)
        terminated, truncated = np.empty(batch, np.bool_), np.empty(batch, np.bool_)
        bad = step.step_kernel(
            rows,
            moves,
            levels.program,
            levels.members,
            levels.objects,
            levels.width,
            levels.height,
            self.penalty,
            reward,
            terminated,
            truncated,
        )
        if bad >= 0:
            raise UserError(f"actions: row {bad} has {moves[bad]}, expected 0 … {self.num_actions - 1}")
        return StepResult(reward, terminated, truncated)

    def places(self, state: GridState) -> NDArray[np.int64]:
        """The room each agent is in, int64 [B], 0 … num_rooms − 1; of an ended row, the room it ended in.

        On a grid of rooms a doorway (a door or a gap in a wall) belongs to the room on its right or below it; see
        `polychromic.envs.grid.rooms` for the other levels.
        """
        self._check(state)
        out = np.empty(len(state.bytes), np.int64)
        view.rooms_kernel(state.bytes, self.levels.rooms, self.levels.height, out)
        return out

    def restart(self, state: GridState, rows: ArrayLike, tasks: ArrayLike) -> None:
        """Replace these rows (numbers or a mask) by fresh episodes of these tasks, one per row, in place."""
        self._check(state)
        fresh, index = self._task_index(tasks), take_rows(np.arange(len(state)), rows)
        if len(fresh) != len(index):
            raise UserError(f"tasks: expected one per row, {len(index)}, got {len(fresh)}")
        if len(set(index.tolist())) != len(index):
            raise UserError(f"rows: expected each row once, got {rows!r}")
        if state.mission is not None and not np.array_equal(self.tasks(state)[index], fresh):
            state.mission = None
        state.bytes[index] = self.levels.first_rows.take(fresh, axis=0)

    # ------------------------------------------------------------------ what policies and collectors read

    def codes(self, state: GridState) -> NDArray[np.uint8]:
        """What `observe` shows, one code per cell: uint8 [B, 49] (full view: [B, width · height]), same order as the
        image; `code_triples[codes]` is the image."""
        self._check(state)
        return self._shown(state)[:-1].reshape(len(state), self._cells)

    def tasks(self, state: GridState) -> NDArray[np.int64]:
        """The configuration of each row, int64 [B]."""
        self._check(state)
        parts = state.bytes[:, codes.TASK_0 : codes.TASK_2 + 1].astype(np.int64)
        return parts[:, 0] | parts[:, 1] << 8 | parts[:, 2] << 16

    def steps(self, state: GridState) -> NDArray[np.int64]:
        """How many steps each row has taken, int64 [B]."""
        self._check(state)
        low, high = state.bytes[:, codes.STEPS_LOW], state.bytes[:, codes.STEPS_HIGH]
        return low.astype(np.int64) | high.astype(np.int64) << 8

    def ended(self, state: GridState) -> NDArray[np.bool_]:
        """Which rows have ended (terminated or truncated), bool [B]."""
        self._check(state)
        return np.not_equal(state.bytes[:, codes.ENDED], 0)

    def positions(self, state: GridState) -> NDArray[np.int64]:
        """Where each agent is, int64 [B, 2] (x, y)."""
        self._check(state)
        return state.bytes[:, codes.AGENT_X : codes.AGENT_Y + 1].astype(np.int64) - self.levels.margin

    def directions(self, state: GridState) -> NDArray[np.int64]:
        """Where each agent looks, int64 [B]: 0 right, 1 down, 2 left, 3 up."""
        self._check(state)
        return state.bytes[:, codes.DIRECTION].astype(np.int64)

    def carried(self, state: GridState) -> NDArray[np.uint8]:
        """The code of what each agent carries, 0 for nothing, uint8 [B]."""
        self._check(state)
        return state.bytes[:, codes.CARRIED_CODE].copy()

    def grids(self, state: GridState) -> NDArray[np.uint8]:
        """The code of every cell of the whole grid, without the agent: uint8 [B, width, height]."""
        self._check(state)
        levels = self.levels
        cells = state.bytes[:, codes.HEADER : codes.HEADER + levels.width * levels.height]
        inside = slice(levels.margin, -levels.margin or None)
        return cells.reshape(len(state), levels.width, levels.height)[:, inside, inside].copy()

    def concatenate(self, states: Iterable[GridState]) -> GridState:
        """The rows of several states of this world in one state (a copy)."""
        states = list(states)
        if not states:
            raise UserError("states: expected at least one state, got none")
        for state in states:
            self._check(state)
        return GridState(np.concatenate([state.bytes for state in states]), self.levels.fingerprint)

    def render(
        self, state: GridState, row: int = 0, *, tile_size: int = 32, highlight: bool = True
    ) -> NDArray[np.uint8]:
        """A picture of one row, uint8 [height · tile_size, width · tile_size, 3], drawn with minigrid's own tiles; what
        the agent sees is highlighted."""
        from polychromic.envs.grid.render import render_row

        self._check(state)
        index = whole_number("row", row, at_least=-len(state), at_most=len(state) - 1)
        tile = whole_number("tile_size", tile_size, at_least=1)
        return render_row(state.bytes[index], self.levels, tile, highlight)

    # ------------------------------------------------------------------ perturbed starts

    def free_cells(self, task: int) -> Cells:
        """The empty cells of a configuration's rooms at its start, where `start_at` may put the agent."""
        task = int(self._task_index([task])[0])
        free = self._free()[task]
        x, y = np.divmod(np.flatnonzero(free), self.levels.height)
        positions = np.stack([x, y], axis=1).astype(np.int64) - self.levels.margin
        return Cells(positions, self.levels.rooms[task][free].astype(np.int64))

    def start_at(self, tasks: ArrayLike, positions: ArrayLike, directions: ArrayLike) -> GridState:
        """Fresh episodes with the agent somewhere else: the grid and the mission are kept, no step is counted.

        positions [B, 2] (x, y) must be empty cells, directions [B] are 0 … 3. "The ball on your left" stays the ball
        that was on the left of the configuration's own start, as after minigrid's `place_agent`.
        """
        index = self._task_index(tasks)
        places, looks = read_array("positions", positions), read_array("directions", directions)
        if places.shape != (len(index), 2) or places.dtype.kind not in "iu":
            raise UserError(f"positions: expected integers [{len(index)}, 2], got {places.dtype} {places.shape}")
        if looks.shape != (len(index),) or looks.dtype.kind not in "iu" or ((looks < 0) | (looks > 3)).any():
            raise UserError(f"directions: expected {len(index)} integers 0 … 3, got {looks.tolist()}")
        levels, places = self.levels, places.astype(np.int64)  # cells have more numbers than a byte
        inside = ((places >= 0) & (places < self.grid_shape)).all(axis=1)
        cells = (places[:, 0] + levels.margin) * levels.height + places[:, 1] + levels.margin
        wrong = ~inside | ~self._free()[index, np.where(inside, cells, 0)]
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise UserError(
                f"positions: row {row} has {tuple(places[row].tolist())}, which is not a free cell of "
                f"task {index[row]}; free_cells(task) lists them"
            )
        state = self.start(index)
        state.bytes[:, [codes.AGENT_X, codes.AGENT_Y]] = places + levels.margin
        state.bytes[:, codes.DIRECTION] = looks
        return state

    # ------------------------------------------------------------------ checks

    def _free(self) -> NDArray[np.bool_]:
        """[tasks, cells]: empty at the start, and in a room."""
        levels = self.levels
        grids = levels.first_rows[:, codes.HEADER : codes.HEADER + levels.width * levels.height]
        free: NDArray[np.bool_] = (grids == codes.EMPTY) & (levels.rooms != codes.NO_ROOM)
        return free

    def _check(self, state: GridState) -> None:
        if not isinstance(state, GridState) or state.fingerprint != self.levels.fingerprint:
            raise UserError(f"state: expected a state of this world, got {state!r}")

    def _shown(self, state: GridState) -> NDArray[np.uint8]:
        """The view of every row as codes, flat, and one byte that is not part of it (see `view.partial_view`)."""
        rows, levels = state.bytes, self.levels
        cells = np.empty(len(rows) * self._cells + 1, np.uint8)
        if self.observation == "partial":
            view.partial_view(rows.ravel(), rows.shape[1], levels.width, levels.height, levels.see_through_walls, cells)
        else:
            view.full_view(rows, levels.width, levels.height, levels.margin, cells)
        return cells

    def _task_index(self, tasks: ArrayLike) -> NDArray[np.int64]:
        index = read_array("tasks", tasks)
        if index.size == 0:
            return np.zeros(0, np.int64)
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise UserError(f"tasks: expected a list of configuration indices, got {tasks!r}")
        wrong = (index < 0) | (index >= self.num_configurations)
        if wrong.any():
            raise UserError(
                f"tasks: {index[wrong][0]} is out of range; this world has configurations 0 … {self.num_configurations - 1}"
            )
        return index.astype(np.int64, copy=False)


def make(
    task: str,
    *,
    seeds: Iterable[int] = range(50),
    horizon: int | None = 100,
    time_penalty: float | None = None,
    reward: Literal["penalty", "package"] = "penalty",
    observation: Literal["partial", "full"] = "partial",
    mission_length: int | None = None,
) -> GridWorld:
    """A forkable grid world: `fourrooms`, `goto`, `pickup`, `synthseq`, `bosslevel`, or a minigrid id.

    seeds: one configuration per seed, exactly the level that `gymnasium.make(id)` shows after `reset(seed=seed)`.
    horizon: the most steps of an episode; None takes each level's own.
    time_penalty: success after t of H steps gives 1 − time_penalty · t / H; 0.5 if not given.
    reward: "package" gives minigrid's own 1 − 0.9 · t / H instead, and leaves no time penalty to choose.
    observation: "partial" is the agent's 7 × 7 view, "full" the whole grid as minigrid's FullyObsWrapper shows it.
    mission_length: pad missions to this many tokens (default: the longest of these configurations).
    """
    level = level_id(task)
    chosen = _seeds(seeds)
    if horizon is not None:
        horizon = whole_number("horizon", horizon, at_least=1, at_most=MAX_HORIZON)
    one_of("reward", reward, ("penalty", "package"))
    if reward == "package" and time_penalty is not None:
        raise UserError(
            f"time_penalty is {time_penalty!r}, but reward='package' has its own of 0.9; leave one of the two out"
        )
    penalty = (
        0.9 if reward == "package" else real_number("time_penalty", 0.5 if time_penalty is None else time_penalty, 0, 1)
    )
    one_of("observation", observation, ("partial", "full"))
    loaded = [load_level(level, seed) for seed in chosen]
    levels = stack_levels(loaded, [horizon or one.own_horizon for one in loaded])
    longest = token_table(levels.missions).shape[1]
    if mission_length is not None:
        mission_length = whole_number("mission_length", mission_length, at_least=longest, why="the longest mission")
    return GridWorld(level, chosen, levels, penalty, observation, mission_length)


def _seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    try:
        chosen = tuple(operator.index(seed) for seed in seeds)
    except TypeError as error:
        raise UserError(f"seeds: expected integers, got {seeds!r}") from error
    if not 0 < len(chosen) <= MAX_TASKS:
        raise UserError(f"seeds: expected 1 … {MAX_TASKS} seeds, got {len(chosen)}")
    if min(chosen) < 0:
        raise UserError(f"seeds: expected integers from 0 on, got {min(chosen)}")
    return chosen

"""The grid engine as a world: `make` builds it, its methods run whole batches, its states are rows of bytes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import one_of, read_array, real_number, whole_number
from polychromic.envs.grid import codes, fit, recordings, step, view
from polychromic.envs.grid.levels import Levels, stack_levels
from polychromic.envs.grid.load import load_level
from polychromic.envs.grid.missions import WORDS, token_table
from polychromic.envs.grid.starts import starts_in_rooms
from polychromic.envs.grid.tasks import level_id
from polychromic.envs.grid.terminal import grid_text
from polychromic.envs.protocol import Arrays, Starts, StepResult, World
from polychromic.envs.rows import take_rows
from polychromic.errors import UserError

MAX_HORIZON = 65_535
ROOM_SETS = "room sets"  # the strategies of a grid world
MAX_CONFIGURATIONS = 1 << 24


class GridState:
    """The states of a batch of episodes: `bytes` uint8 [B, row], one contiguous row per world.

    `state[rows]` is an independent copy of those rows (indices that may repeat, a slice, or a mask).
    """

    __slots__ = ("bytes", "fingerprint", "mission")

    def __init__(self, rows: NDArray[np.uint8], fingerprint: str) -> None:
        self.bytes = rows
        self.fingerprint = fingerprint  # of the levels that the rows belong to
        # The missions' tokens, gathered once: rows keep their configuration.
        self.mission: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.bytes)

    def __getitem__(self, rows: Any) -> GridState:
        return GridState(take_rows(self.bytes, rows), self.fingerprint)

    def __copy__(self) -> GridState:
        return self[:]

    def __deepcopy__(self, memo: dict[int, Any]) -> GridState:
        twin = self[:]
        twin.mission = self.mission  # which is read-only
        return twin

    def __reduce__(self) -> Any:
        """A pickled state belongs to every world with the same levels, in other processes too."""
        return GridState, (self.bytes, self.fingerprint)

    def __repr__(self) -> str:
        ended = int(np.count_nonzero(self.bytes[:, codes.ENDED]))
        return f"GridState({len(self)} rows, {ended} ended, {self.bytes.shape[1]} bytes each)"


class Cells(NamedTuple):
    """Free cells of a level: positions int64 [cells, 2] (x, y) and the room of each, int64 [cells]."""

    positions: NDArray[np.int64]
    rooms: NDArray[np.int64]


class GridWorld(World):
    """A grid level in several configurations, forkable and exact with minigrid.

    In addition to the members of `World`: `mission_tokens` int32 [num_configurations, length] (ids of words in
    `vocabulary`, 0 is padding), `observation` ("partial" or "full"), `image_shape` (of one observation), `num_codes`
    (51) and `code_triples` uint8 [51, 3] (code -> object, colour, state), `num_rooms`, `time_penalty`. The actions are
    left, right, forward, pick up, drop, toggle, done; the places are rooms.
    """

    num_actions = step.NUM_ACTIONS
    num_codes = codes.NUM_CODES
    code_triples = codes.CODE_TRIPLES
    vocabulary = WORDS
    observations_repeat = True
    names_places = True
    table_inputs = ("mission",)
    strategies = ROOM_SETS
    return_range = (0.0, 1.0)
    reward_scales = (0.5, 0.9)  # the paper's text, and minigrid's own (which the paper's FourRooms rewards match)
    can_start_elsewhere = True
    can_draw = True

    def __init__(
        self,
        task: str,
        level_seeds: Sequence[int],
        levels: Levels,
        time_penalty: float,
        observation: Literal["partial", "full"],
        mission_length: int | None = None,
    ) -> None:
        self.task = task
        self.level_seeds = tuple(level_seeds)
        self.levels = levels
        self.time_penalty = time_penalty
        self.observation = observation
        self.num_configurations = len(levels.missions)
        self.horizon = int(self.horizons.max())
        self.mission_tokens = token_table(levels.missions, mission_length)
        self.num_rooms = int(levels.rooms[levels.rooms != codes.NO_ROOM].max()) + 1
        self.grid_shape = (levels.width - 2 * levels.margin, levels.height - 2 * levels.margin)
        shape = (view.VIEW, view.VIEW) if observation == "partial" else self.grid_shape
        self.image_shape = (*shape, 3)
        self._cells = shape[0] * shape[1]

    def __repr__(self) -> str:
        return (
            f"GridWorld({self.task!r}, {self.num_configurations} configurations, horizon {self.horizon}, "
            f"{self.observation} view)"
        )

    @property
    def missions(self) -> Sequence[str]:
        """The mission of each configuration."""
        return self.levels.missions

    @property
    def horizons(self) -> NDArray[np.int64]:
        """The most steps of each configuration, [num_configurations]."""
        return self.levels.program[:, codes.HORIZON].copy()

    def describe(self) -> dict[str, Any]:
        """Time penalty and observation."""
        return {"time_penalty": float(self.time_penalty), "observation": self.observation}

    # ------------------------------------------------------------------ the protocol

    def start(self, configurations: ArrayLike) -> GridState:
        """Fresh episodes, one row per entry of `configurations` (indices 0 … num_configurations − 1)."""
        return GridState(self.levels.first_rows.take(self._index(configurations), axis=0), self.levels.fingerprint)

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
            state.mission = self.mission_tokens.take(self.configurations(state), axis=0)
            state.mission.setflags(write=False)
        return {
            "image": buffer[:-1].reshape(-1, *self.image_shape),
            "direction": state.bytes[:, codes.DIRECTION].copy(),
            "mission": state.mission,
        }

    def step(self, state: GridState, actions: ArrayLike) -> StepResult:
        """Advance every live row in place. Rewards are given on success only: 1 − time_penalty · t / H.

        A wrong number of actions or an action outside 0 … 6 raises `UserError` and leaves the state as it was.
        """
        self._check(state)
        levels, rows = self.levels, state.bytes
        moves, batch = read_array("actions", actions), len(rows)
        if moves.shape != (batch,):
            raise UserError(f"actions: expected one per row, shape ({batch},), got shape {moves.shape}")
        if moves.dtype.kind not in "iu" and batch:
            raise UserError(f"actions: expected integers 0 … {self.num_actions - 1}, got {moves.dtype}")
        # The kernel is compiled for one kind of array; strided or read-only ones would compile it again.
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
            self.time_penalty,
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

    def succeeded(self, state: GridState) -> NDArray[np.bool_]:
        """Which rows have fulfilled their mission, [B]; a success on the last step counts even if it pays nothing."""
        self._check(state)
        return np.asarray((state.bytes[:, codes.ENDED] & codes.SUCCEEDED) != 0)

    def restart(self, state: GridState, rows: ArrayLike, configurations: ArrayLike) -> None:
        """Replace these rows (indices or a mask) by fresh episodes of these configurations, one per row, in place."""
        self._check(state)
        fresh, index = self._index(configurations), take_rows(np.arange(len(state)), rows)
        if len(fresh) != len(index):
            raise UserError(f"configurations: expected one per row, {len(index)}, got {len(fresh)}")
        if len(set(index.tolist())) != len(index):
            raise UserError(f"rows: expected each row once, got {rows!r}")
        if state.mission is not None and not np.array_equal(self.configurations(state)[index], fresh):
            state.mission = None
        state.bytes[index] = self.levels.first_rows.take(fresh, axis=0)

    # ------------------------------------------------------------------ what policies and collectors read

    def inputs(self, state: GridState) -> Arrays:
        """Codes instead of images, and the row of each mission in `tables` instead of its tokens."""
        return {
            "codes": self.codes(state),
            "direction": self.directions(state).astype(np.int32),
            "mission": self.configurations(state).astype(np.int32),
        }

    def tables(self) -> Arrays:
        """The tokens of all missions, so that each is encoded once."""
        return {"missions": self.mission_tokens}

    def restricted(self, inputs: Arrays, configurations: NDArray[np.int64]) -> tuple[Arrays, Arrays]:
        """`mission` as a row of a table of these configurations' missions alone, cut to the longest of them.

        Its length is rounded up to a multiple of 8, so that what reads the table is compiled for few lengths.
        """
        row = np.zeros(self.num_configurations, np.int32)
        row[configurations] = np.arange(len(configurations))
        missions = self.mission_tokens[configurations]
        longest = max(1, int(np.count_nonzero(missions.any(axis=0))))
        return {**inputs, "mission": row[inputs["mission"]]}, {"missions": missions[:, : -(-longest // 8) * 8]}

    def misfit(self, header: Mapping[str, Any]) -> str:
        """Whether cells, codes and words are those that the policy was trained on."""
        return fit.cells_misfit(
            header, self.image_shape, self.code_triples, self.observation, self.num_actions
        ) or fit.words_misfit(header, self.vocabulary, self.missions, self.mission_tokens)

    def codes(self, state: GridState) -> NDArray[np.uint8]:
        """What `observe` shows, one code per cell: uint8 [B, 49] (full view: [B, width · height]), same order as the
        image; `code_triples[codes]` is the image."""
        self._check(state)
        return self._shown(state)[:-1].reshape(len(state), self._cells)

    def configurations(self, state: GridState) -> NDArray[np.int64]:
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
        """The direction each agent faces, int64 [B]: 0 right, 1 down, 2 left, 3 up."""
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

    # ------------------------------------------------------------------ what people see

    def picture(self, state: GridState, row: int = 0, *, tile_size: int = 32) -> NDArray[np.uint8]:
        """`render`, with what the agent sees highlighted."""
        return self.render(state, row, tile_size=tile_size)

    def text(self, state: GridState, row: int = 0, *, colours: bool = False) -> str:
        """The whole grid, two characters per cell."""
        x, y = self.positions(state)[row].tolist()
        return grid_text(self.grids(state)[row], x, y, int(self.directions(state)[row]), colours=colours)

    def scenery(self) -> dict[str, Any]:
        """The size of the grid and what its codes mean."""
        return {"grid_shape": list(self.grid_shape), "legend": recordings.legend()}

    def backdrop(self, configuration: int) -> dict[str, Any]:
        """The codes of the grid at the start, column by column, and where the number of each room is written."""
        grid = self.grids(self.start([configuration]))[0]
        return {"grid": grid.ravel().tolist(), "rooms": recordings.room_centres(self.free_cells(configuration))}

    def replay(
        self, configurations: NDArray[np.int64], actions: NDArray[np.int32], lengths: NDArray[np.int64]
    ) -> list[dict[str, Any]]:
        """The agent's path and the changed cells."""
        return recordings.replay(self, configurations, actions, lengths)

    # ------------------------------------------------------------------ perturbed starts

    def other_starts(self, visited: Sequence[NDArray[np.int64]], per_place: int, rng: np.random.Generator) -> Starts:
        """Free cells in the rooms visited, each within a walk of the configuration's own start."""
        return starts_in_rooms(self, visited, per_place, rng)

    def start_from(self, starts: Starts, rows: NDArray[np.int64]) -> GridState:
        """`start_at` for what `other_starts` chose."""
        where = starts.where
        return self.start_at(starts.configurations[rows], where["positions"][rows], where["directions"][rows])

    def free_cells(self, configuration: int) -> Cells:
        """The empty cells of a configuration's rooms at its start, where `start_at` may put the agent."""
        index = int(self._index([configuration])[0])
        free = self._free()[index]
        x, y = np.divmod(np.flatnonzero(free), self.levels.height)
        positions = np.stack([x, y], axis=1).astype(np.int64) - self.levels.margin
        return Cells(positions, self.levels.rooms[index][free].astype(np.int64))

    def start_at(self, configurations: ArrayLike, positions: ArrayLike, directions: ArrayLike) -> GridState:
        """Fresh episodes with the agent somewhere else: the grid and the mission are kept, no step is counted.

        positions [B, 2] (x, y) must be empty cells, directions [B] are 0 … 3. "The ball on your left" stays the ball
        that was on the left of the configuration's own start, as after minigrid's `place_agent`.
        """
        index = self._index(configurations)
        places, looks = read_array("positions", positions), read_array("directions", directions)
        if places.shape != (len(index), 2) or places.dtype.kind not in "iu":
            raise UserError(f"positions: expected integers [{len(index)}, 2], got {places.dtype} {places.shape}")
        if looks.shape != (len(index),) or looks.dtype.kind not in "iu" or ((looks < 0) | (looks > 3)).any():
            raise UserError(f"directions: expected {len(index)} integers 0 … 3, got {looks.tolist()}")
        levels, places = self.levels, places.astype(np.int64)  # a byte cannot number all cells
        inside = ((places >= 0) & (places < self.grid_shape)).all(axis=1)
        cells = (places[:, 0] + levels.margin) * levels.height + places[:, 1] + levels.margin
        wrong = ~inside | ~self._free()[index, np.where(inside, cells, 0)]
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise UserError(
                f"positions: row {row} has {tuple(places[row].tolist())}, which is not a free cell of "
                f"configuration {index[row]}; free_cells lists them"
            )
        state = self.start(index)
        state.bytes[:, [codes.AGENT_X, codes.AGENT_Y]] = places + levels.margin
        state.bytes[:, codes.DIRECTION] = looks
        return state

    # ------------------------------------------------------------------ checks

    def _free(self) -> NDArray[np.bool_]:
        """[configurations, cells]: empty at the start, and in a room."""
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

    def _index(self, configurations: ArrayLike) -> NDArray[np.int64]:
        index = read_array("configurations", configurations)
        if index.size == 0:
            return np.zeros(0, np.int64)
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise UserError(f"configurations: expected a list of indices, got {configurations!r}")
        wrong = (index < 0) | (index >= self.num_configurations)
        if wrong.any():
            raise UserError(
                f"configurations: {index[wrong][0]} is out of range; this world has 0 … {self.num_configurations - 1}"
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
    reward: "package" gives minigrid's own 1 − 0.9 · t / H instead, and excludes time_penalty.
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
            f"time_penalty is {time_penalty!r}, but reward='package' has its own of 0.9; give only one of the two"
        )
    penalty = (
        0.9 if reward == "package" else real_number("time_penalty", 0.5 if time_penalty is None else time_penalty, 0, 1)
    )
    one_of("observation", observation, ("partial", "full"))
    loaded = [load_level(level, seed) for seed in chosen]
    levels = stack_levels(loaded, [horizon or each.own_horizon for each in loaded])
    longest = token_table(levels.missions).shape[1]
    if mission_length is not None:
        mission_length = whole_number("mission_length", mission_length, at_least=longest, why="the longest mission")
    return GridWorld(level, chosen, levels, penalty, observation, mission_length)


def _seeds(seeds: Iterable[int]) -> tuple[int, ...]:
    try:
        chosen = tuple(operator.index(seed) for seed in seeds)
    except TypeError as error:
        raise UserError(f"seeds: expected integers, got {seeds!r}") from error
    if not 0 < len(chosen) <= MAX_CONFIGURATIONS:
        raise UserError(f"seeds: expected 1 … {MAX_CONFIGURATIONS} seeds, got {len(chosen)}")
    if min(chosen) < 0:
        raise UserError(f"seeds: expected integers of at least 0, got {min(chosen)}")
    return chosen

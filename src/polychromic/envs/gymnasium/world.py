"""Any Gymnasium environment as a world that can be forked."""

from __future__ import annotations

import dataclasses
import itertools
import numbers
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import check_label, flag, read_array, whole_number
from polychromic.envs.actions import Actions, Choice
from polychromic.envs.forkcheck.check import PROOF_SEEDS, PROOF_STEPS, prove_methods
from polychromic.envs.gymnasium.episodes import EnvironmentFailed, MakeEnv, Recipe, describe, reset_env
from polychromic.envs.gymnasium.generators import Key
from polychromic.envs.gymnasium.names import describe_maker, environment_name, qualified_name
from polychromic.envs.gymnasium.observations import Tokenize, kind_of
from polychromic.envs.gymnasium.pool import Begin, Fork, Move, Pool, Seen
from polychromic.envs.gymnasium.probe import TEXT_LENGTH, horizon_of, maker_of, recipe_of, seeds_of
from polychromic.envs.gymnasium.state import GymnasiumState, release
from polychromic.envs.gymnasium.workers import RemotePool, pack
from polychromic.envs.protocol import Episode, StepResult, World
from polychromic.envs.rows import take_rows
from polychromic.errors import Notice, UserError

HANDED_ON = -2  # the number of a row that another state continues, in a world that cannot be forked


def from_gymnasium(
    make_env: MakeEnv | str,
    seeds: Iterable[int],
    *,
    place: Callable[[Any], Hashable] | None = None,
    feature: Callable[[Episode], ArrayLike] | None = None,
    success: Callable[[Any], bool] | None = None,
    mission: Callable[[Any], str] | None = None,
    horizon: int | None = None,
    fork: Literal["auto", "copy", "clone", "replay", "none"] = "auto",
    clone: Callable[[Any], Any] | None = None,
    restore: Callable[[Any, Any], None] | None = None,
    reseed_on_fork: bool = True,
    reseed_on_start: bool = True,
    reseed: Callable[[Any, int], None] | None = None,
    seed: int = 0,
    text_length: int = TEXT_LENGTH,
    tokenize: Tokenize | None = None,
    num_workers: int = 0,
    return_range: tuple[float, float] | None = None,
) -> GymnasiumWorld:
    """A forkable world of the environments that `make_env` makes.

    Args:
        make_env: makes one environment, or the id of a registered one.
        seeds: one reset seed per configuration; configuration `i` is `env.reset(seed=seeds[i])`.
        place: what diversity reads, from the environment itself: `lambda env: env.unwrapped.agent_pos`.
            Integers are kept; anything else hashable is numbered by this world in the order of first
            appearance. Without it every place is 0, and `names_places` is False.
        feature: a vector of an episode (`observations`, `actions`, `rewards`, `places`), which the diversities `vendi`
            and `cosine` and your own functions read: an embedding, where it ended, how it moved.
        success: whether an episode has reached its goal, from the environment after its last step. Without it the
            environment's own word counts, `info["is_success"]` or `info["success"]` of the last step; where there is
            neither, no success rate is claimed.
        mission: the text of a configuration, read from the freshly reset environment. Without it texts are empty.
        horizon: truncate after this many steps, besides what the environment does itself. Needed when the
            environment announces no `max_episode_steps`.
        fork: `copy` the whole object, `clone` with the two functions below, `replay` the actions from the
            seed, or `auto`: the first of them that `check_fork` finds faithful on the first three seeds. With `none`,
            or if `auto` finds none, the world cannot be forked: every method runs there, without vines.
        clone: takes a snapshot of an environment, for environments that offer one.
        restore: puts a snapshot into another environment that was reset with the same seed.
        reseed_on_fork: give every copy noise of its own, so that futures from one state are independent.
            Nothing changes for environments that draw no random numbers after their reset.
        reseed_on_start: the same for `start`: a configuration fixes where an episode begins, not its luck. False makes
            an episode that is never forked the very one that Gymnasium gives for the seed.
        reseed: `reseed(env, seed)` for randomness that is not in a NumPy or `random` generator inside the
            environment object.
        seed: fixes all the noise above; two worlds with one seed and the same calls see the same.
        text_length: tokens of a text observation, padded with 0.
        tokenize: token ids of a text, from 1 upwards. Without it: its Unicode code points.
        num_workers: processes to spread the rows over; 0 keeps them in this one. A copy lives where its
            original lives.
        return_range: the lowest and the highest return of an episode, or of what is left of one, for set objectives.
            Without it fine-tuning estimates them from the pretrained policy's rollouts.
    """
    maker = maker_of(make_env)
    seeds = seeds_of(seeds)
    num_workers = whole_number("num_workers", num_workers, at_least=0)
    if feature is not None and not callable(feature):
        raise UserError(f"feature is {feature!r}; it must be a function of an episode")
    seed = whole_number("seed", seed, at_least=0)
    reseed_on_fork = flag("reseed_on_fork", reseed_on_fork)
    reseed_on_start = flag("reseed_on_start", reseed_on_start)
    recipe = recipe_of(
        maker,
        seeds[0],
        "copy" if fork == "auto" else fork,
        text_length=text_length,
        tokenize=tokenize,
        clone=clone,
        restore=restore,
        reseed=reseed,
        place=place,
        success=success,
    )
    if fork == "auto":
        report = prove_methods(recipe, seeds[:PROOF_SEEDS], PROOF_STEPS)  # as far as check_fork goes
        if not report.ok:
            warnings.warn(
                f"{report.subject} cannot be forked faithfully, so that runs have no vines; "
                "polychromic.check_fork (polychromic check-env) says why, fork='none' that you know",
                Notice,
                stacklevel=2,
            )
        recipe = dataclasses.replace(recipe, method=report.method if report.ok else "none")
    return GymnasiumWorld(
        recipe,
        seeds,
        horizon=horizon_of(maker, horizon),
        mission=mission,
        reseed_on_fork=reseed_on_fork,
        reseed_on_start=reseed_on_start,
        seed=seed,
        num_workers=num_workers,
        return_range=_range_of(return_range),
        feature=feature,
    )


class GymnasiumWorld(World):
    """See `from_gymnasium`, which makes it. Close it, or use it in a `with` block, when it has workers."""

    has_noise = True  # it may have: this cannot be seen from outside

    def __init__(
        self,
        recipe: Recipe,
        seeds: tuple[int, ...],
        *,
        horizon: int,
        mission: Callable[[Any], str] | None,
        reseed_on_fork: bool,
        reseed_on_start: bool,
        seed: int,
        num_workers: int,
        return_range: tuple[float, float] | None = None,
        feature: Callable[[Episode], ArrayLike] | None = None,
    ) -> None:
        self.recipe = recipe
        self.feature = feature
        self.level_seeds = seeds
        if isinstance(recipe.actions, Choice):
            self.num_actions = recipe.actions.count
        self.num_configurations = len(seeds)
        self.horizon = horizon
        self.names_places = recipe.place is not None
        self.can_fork = recipe.method != "none"
        self.return_range = return_range
        self.task = environment_name(recipe.make_env)
        self._mission = mission
        self._reseed_on_fork = reseed_on_fork
        self._reseed_on_start = reseed_on_start
        self._numbers = itertools.count()
        self._place_numbers: dict[Hashable, int] = {}
        self._places_are_numbers: bool | None = None
        self._tells_success = recipe.success is not None  # or as soon as an environment says so by itself
        self._closed = ""  # once it is closed: why, in words
        self._pools: Sequence[Pool | RemotePool]
        if num_workers:
            packed = pack(recipe)
            self._pools = [RemotePool(packed, index) for index in range(num_workers)]
        else:
            self._pools = [Pool(recipe)]
        self.reseed(seed)

    @property
    def actions(self) -> Actions:
        """By the action space: numbered, several choices at once, or vectors of numbers."""
        return self.recipe.actions

    def describe(self) -> dict[str, Any]:
        """How its environment is made, forked and read."""
        return {
            **describe_maker(self.recipe.make_env),
            "fork": self.recipe.method,
            "place": qualified_name(self.recipe.place) if self.recipe.place else None,
            **({"success": qualified_name(self.recipe.success)} if self.recipe.success else {}),
            "reseed_on_fork": self._reseed_on_fork,
            "reseed_on_start": self._reseed_on_start,
        }

    def __enter__(self) -> GymnasiumWorld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and close the environments; states of this world cannot be used any more."""
        self._close("")

    def _close(self, why: str) -> None:
        if self._closed:
            return
        self._closed = f"this world is closed{why}; make a new one with from_gymnasium"
        for pool in self._pools:  # all at once: each may be busy with a step
            if isinstance(pool, RemotePool):
                pool.hang_up()
        for pool in self._pools:
            pool.close()

    def reseed(self, seed: int) -> None:
        """Fix the noise of all starts and forks from here on (at the top of an iteration, say)."""
        self._seed = whole_number("seed", seed, at_least=0)
        self._keys = itertools.count()

    @cached_property
    def missions(self) -> tuple[str, ...]:
        """The text of every configuration; the first use resets one environment for each."""
        if self._mission is None:
            return ("",) * self.num_configurations
        texts = []
        for seed in self.level_seeds:
            env = self.recipe.make_env()
            reset_env(env, seed)
            try:
                texts.append(str(self._mission(env)))
            except Exception as error:
                raise UserError(f"mission raised {describe(error)} after reset(seed={seed})") from error
            env.close()
        return tuple(texts)

    def start(self, configurations: ArrayLike) -> GymnasiumState:
        """Fresh episodes, one row per entry of `configurations`; rows of one configuration share its reset."""
        self._check_open()
        chosen = _integers("configurations", configurations)
        bad = chosen[(chosen < 0) | (chosen >= self.num_configurations)]
        if bad.size:
            raise UserError(f"configuration {bad[0]} does not exist; this world has 0 to {self.num_configurations - 1}")
        count = len(chosen)
        # Dealt out in turn, so that a batch of one configuration is spread too.
        workers = np.arange(count) % len(self._pools)
        rows = np.array([next(self._numbers) for _ in range(count)], np.int64)
        messages: list[Begin | Move] = [
            Begin(int(row), self.level_seeds[configuration], self._key(self._reseed_on_start))
            for row, configuration in zip(rows, chosen, strict=True)
        ]
        arrays = {
            "configurations": chosen.copy(),
            "lengths": np.zeros(count, np.int64),
            "terminated": np.zeros(count, bool),
            "truncated": np.zeros(count, bool),
            "places": np.zeros(count, np.int64),
            "success": np.zeros(count, bool),
            "rows": rows,
            "workers": workers,
        }
        state = GymnasiumState(self, arrays, self.recipe.layout.empty(count))
        self._record(state, np.arange(count), self._ask(workers, messages))
        return state

    def observe(self, state: GymnasiumState) -> dict[str, NDArray[Any]]:
        """Arrays with one row per episode, as `envs.gymnasium.observations` lays them out; yours to keep."""
        self._check_state(state)
        return {key: array.copy() for key, array in state._observations.items()}

    def input_kinds(self) -> dict[str, dict[str, Any]]:
        """Classes, texts, images and numbers, by the observation space."""
        return {leaf.key: kind_of(leaf) for leaf in self.recipe.layout.leaves}

    def step(self, state: GymnasiumState, actions: ArrayLike) -> StepResult:
        """Advance every live row in place. Ended rows take any action and give reward 0."""
        self._check_open()
        self._check_state(state)
        chosen = self._read_actions(actions)
        if len(chosen) != len(state):
            raise UserError(f"actions has {len(chosen)} entries for {len(state)} rows; give one action per row")
        live = np.flatnonzero(~state.ended)
        bad = live[self.actions.wrong(chosen[live])]
        if bad.size:
            raise UserError(f"action {chosen[bad[0]]} of row {bad[0]} does not exist; actions are {self.actions}")
        if (state._rows[live] == HANDED_ON).any():
            raise UserError("this world cannot be forked: another state continues rows of this one; step that one")
        reward = np.zeros(len(state), np.float32)
        messages: list[Begin | Move] = [
            Move(int(state._rows[row]), action)
            for row, action in zip(live, self.actions.listed(chosen[live]), strict=True)
        ]
        try:
            seen = self._ask(state._workers[live], messages)
            state.lengths[live] += 1
            self._record(state, live, seen)
            reward[live] = [one.reward for one in seen]
            state.terminated[live] = [one.terminated for one in seen]
            state.truncated[live] = [one.truncated for one in seen]
            state.truncated[live] |= state.lengths[live] >= self.horizon
            state._success[live] = [bool(one.success) for one in seen]
            self._tells_success |= any(one.success is not None for one in seen)
            over = live[state.ended[live]]
            release(self._pools, state._rows[over], state._workers[over])
            state._rows[over] = -1
        except BaseException as error:
            state._broken = f"{type(error).__name__} in an earlier step"
            raise
        return StepResult(reward, state.terminated.copy(), state.truncated.copy())

    def places(self, state: GymnasiumState) -> NDArray[np.int64]:
        """Where each row is, as the `place` function says; 0 everywhere without one."""
        self._check_state(state)
        return state._places.copy()

    def succeeded(self, state: GymnasiumState) -> NDArray[np.bool_] | None:
        """Which rows have reached their goal, by `success` or the environment's own word; None if nobody says."""
        self._check_state(state)
        return state._success.copy() if self._tells_success else None

    def concatenate(self, states: Iterable[GymnasiumState]) -> GymnasiumState:
        """The rows of several states of this world in one state (independent copies)."""
        parts = [self._forked(state, slice(None)) for state in states]
        if not parts:
            raise UserError("states is empty; at least one state is needed")
        arrays, observations = (
            {key: np.concatenate([part[which][key] for part in parts]) for key in parts[0][which]} for which in (0, 1)
        )
        return GymnasiumState(self, arrays, observations)

    def _fork(self, state: GymnasiumState, rows: Any) -> GymnasiumState:
        return GymnasiumState(self, *self._forked(state, rows))

    def _forked(self, state: GymnasiumState, rows: Any) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """New rows of the pools that continue the given ones: what a state is made of."""
        self._check_open()
        self._check_state(state)
        chosen = take_rows(np.arange(len(state)), rows)
        parents = state._rows[chosen]
        workers = state._workers[chosen]
        children = np.full(len(chosen), -1, np.int64)
        if not self.can_fork:
            self._hand_on(state, chosen)
            children = parents
        for index in np.flatnonzero(parents >= 0) if self.can_fork else ():
            children[index] = next(self._numbers)
            self._pools[workers[index]].tell(
                Fork(int(children[index]), int(parents[index]), self._key(self._reseed_on_fork))
            )
        arrays = {
            "configurations": state.configurations[chosen],
            "lengths": state.lengths[chosen],
            "terminated": state.terminated[chosen],
            "truncated": state.truncated[chosen],
            "places": state._places[chosen],
            "success": state._success[chosen],
            "rows": children,
            "workers": workers,
        }
        return arrays, {key: array[chosen] for key, array in state._observations.items()}

    def _hand_on(self, state: GymnasiumState, chosen: NDArray[np.int64]) -> None:
        """Let another state go on with these rows; this one cannot move them any more."""
        live = chosen[state._rows[chosen] >= 0]
        if len(np.unique(live)) < len(live):
            raise UserError("this world cannot be forked, so that a row cannot be continued twice")
        state._rows[live] = HANDED_ON

    def _key(self, wanted: bool) -> Key | None:
        return (self._seed, next(self._keys)) if wanted else None

    def _ask(self, workers: NDArray[np.int64], messages: list[Begin | Move]) -> list[Seen]:
        """The answers in the order of `messages`; every worker works at the same time."""
        if isinstance(self._pools[0], Pool):
            return self._pools[0].ask(messages)
        try:
            return self._ask_workers(workers, messages)
        except (UserError, EnvironmentFailed):
            raise
        except BaseException as error:  # between question and answer: the next call would read this one's answer
            self._close(f" ({type(error).__name__} came while its workers were busy)")
            raise

    def _ask_workers(self, workers: NDArray[np.int64], messages: list[Begin | Move]) -> list[Seen]:
        asked: list[tuple[NDArray[np.int64], RemotePool]] = []
        errors: list[Exception] = []
        for index, pool in enumerate(self._pools):
            mine = np.flatnonzero(workers == index)
            if mine.size:
                assert isinstance(pool, RemotePool)
                try:
                    pool.send([messages[position] for position in mine])
                    asked.append((mine, pool))
                except EnvironmentFailed as error:
                    errors.append(error)
        answers: list[Any] = [None] * len(messages)
        for mine, pool in asked:  # every answer is fetched, or the next one would be read as this one
            answer = pool.receive()
            if isinstance(answer, Exception):
                errors.append(answer)
                continue
            for position, one in zip(mine, answer, strict=True):
                answers[position] = one
        if errors:
            raise errors[0]
        return answers

    def _record(self, state: GymnasiumState, rows: NDArray[np.int64], seen: list[Seen]) -> None:
        places = [self._place_number(one.place) for one in seen]
        for index, leaf in enumerate(self.recipe.layout.leaves):
            if seen:
                state._observations[leaf.key][rows] = np.stack([one.observation[index] for one in seen])
        state._places[rows] = places

    def _place_number(self, place: Hashable) -> int:
        is_number = isinstance(place, numbers.Integral)
        if self._places_are_numbers is None:
            self._places_are_numbers = is_number
        if is_number != self._places_are_numbers:
            raise UserError(f"place gave {place!r} after other kinds; give integers only or no integers at all")
        if isinstance(place, numbers.Integral):
            if not -(2**63) <= place < 2**63:
                raise UserError(f"place gave {place}; integers have at most 64 bits, give text or a tuple instead")
            return int(place)
        try:
            if place not in self._place_numbers:  # so is all that equals only itself, every time
                check_label(place, "what place returned")
            return self._place_numbers.setdefault(place, len(self._place_numbers))
        except TypeError as error:
            raise UserError(f"place gave {place!r}, which cannot be hashed; give an integer, text or tuple") from error

    def _read_actions(self, values: ArrayLike) -> NDArray[Any]:
        given = np.atleast_1d(read_array("actions", values))
        chosen = np.zeros((0, *self.actions.shape), self.actions.dtype) if not given.size else self.actions.rows(given)
        if chosen is None:
            raise UserError(f"actions is an array of {given.dtype} with shape {given.shape}; give {self.actions.form}")
        return chosen

    def _check_open(self) -> None:
        if self._closed:
            raise UserError(self._closed)

    def _check_state(self, state: GymnasiumState) -> None:
        if not isinstance(state, GymnasiumState) or state._world is not self:
            raise UserError("this state belongs to another world; use the world whose start() made it")
        if state._broken:
            raise UserError(
                f"this state is not usable any more: {state._broken}. Start a new one, or use a fork made before"
            )


def _range_of(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    try:
        low, high = map(float, given)
    except (TypeError, ValueError) as error:
        raise UserError(f"return_range is {given!r}; it must be two numbers") from error
    if not -np.inf < low < high < np.inf:
        raise UserError(f"return_range is {given!r}; its lowest must be below its highest, and both finite")
    return low, high


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.atleast_1d(read_array(name, values))
    if array.size == 0 and array.ndim == 1:
        return array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UserError(f"{name} is an array of {array.dtype} with shape {array.shape}; give integers, one per row")
    return array.astype(np.int64)

"""Is the engine exact? Play real minigrid and the engine side by side and compare everything, forks included.

minigrid plays an episode (random actions, BabyAI's expert bot, or the bot with random actions mixed in); along the
way the whole environment is copied and the copy plays on by itself. Then the engine replays all episodes of a level
in one batch, forks its states at the same moments, and every image, direction, reward, flag, position and carried
object is compared at every step.
"""

from __future__ import annotations

import contextlib
import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes
from polychromic.envs.grid.expert import Expert, expert_for
from polychromic.envs.grid.load import make_minigrid, quiet
from polychromic.envs.grid.world import Cells, GridState, GridWorld, make

Player = Literal["random", "bot", "noisy bot"]

# Random players walk more than they turn, so that they run into things.
_ACTION_WEIGHTS = np.array([0.15, 0.15, 0.34, 0.12, 0.1, 0.12, 0.02])
_NOISE = 0.25
_FORK_STEPS = 24
_LONGEST = 200  # steps of an episode that the bot does not play


@dataclass
class Episode:
    """What minigrid showed: one entry per step, after the action; the first entry of `views` is before any action."""

    task: int
    parent: int | None = None  # the episode this one was forked from,
    at: int = 0  # after this many of its steps
    actions: list[int] = field(default_factory=list)
    views: list[tuple[Any, ...]] = field(default_factory=list)  # image, direction, carried, position, full image
    outcomes: list[tuple[float, bool, bool]] = field(default_factory=list)
    kind: str = ""
    forked_carrying: bool = False
    forked_half_done: bool = False


@dataclass
class Tally:
    """Counts over episodes; `mismatches` counts steps by what differed."""

    steps: int = 0
    episodes: int = 0
    bot_solved: int = 0
    failures: int = 0
    forks: Counter[str] = field(default_factory=Counter)
    forks_carrying: Counter[str] = field(default_factory=Counter)
    forks_half_done: Counter[str] = field(default_factory=Counter)
    mismatches: Counter[str] = field(default_factory=Counter)
    first_mismatch: str = ""

    def add(self, other: Tally) -> None:
        """Add the counts of `other`."""
        self.first_mismatch = self.first_mismatch or other.first_mismatch
        for name in ("steps", "episodes", "bot_solved", "failures"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("forks", "forks_carrying", "forks_half_done", "mismatches"):
            getattr(self, name).update(getattr(other, name))


def compare_level(
    level: str,
    seeds: Sequence[int],
    player: Player,
    *,
    horizon: int | None = None,
    check_full: bool = False,
    perturbed: bool = False,
    fork: bool = True,
    random_seed: int = 0,
) -> Tally:
    """One episode and its forks per seed: minigrid against the engine.

    horizon: None takes the level's own. check_full: compare the view of the whole grid as well. perturbed: let
    minigrid's `place_agent` put the agent elsewhere first. fork: False plays the episodes alone.
    """
    rng = np.random.default_rng([random_seed, *seeds[:1]])
    world = make(level, seeds=seeds, horizon=horizon, reward="package")
    env = make_minigrid(level, **({} if horizon is None else {"max_steps": horizon}))
    with quiet():
        episodes: list[Episode] = []
        tally = Tally()
        for task, seed in enumerate(seeds):
            shown, _ = env.reset(seed=int(seed))
            if perturbed:
                _place_agent(env, world.free_cells(task))
            played = _play(env, task, player, rng, check_full, fork, len(episodes))
            # minigrid's *Carrying levels put the object into the agent's hands after making this observation.
            if not perturbed and "Carrying" not in level:
                _expect(tally, "image", shown["image"], played[0].views[0][0], f"{level} seed {seed} at reset")
            episodes += played
            tally.bot_solved += player == "bot" and played[0].outcomes[-1][0] > 0
    full = make(level, seeds=seeds, horizon=horizon, reward="package", observation="full") if check_full else None
    _replay(world, full, episodes, tally, f"{level}, {player}", perturbed)
    for episode in episodes:
        tally.failures += episode.outcomes[-1][1] and not episode.outcomes[-1][0]
        if episode.parent is not None:
            tally.forks[episode.kind] += 1
            tally.forks_carrying[episode.kind] += episode.forked_carrying
            tally.forks_half_done[episode.kind] += episode.forked_half_done
    return tally


# ---------------------------------------------------------------------- minigrid


def _play(
    env: Any, task: int, player: Player, rng: np.random.Generator, full: bool, fork: bool, index: int
) -> list[Episode]:
    """An episode and its forks (an early and a late one, if it lasts). The episode continues after each fork was
    played, so that a fork that disturbs it would show."""
    episode = Episode(task, kind=_mission_kind(env))
    expert = expert_for(env) if player != "random" else None
    episode.views.append(_view(env, env.gen_obs(), full))
    forks: list[Episode] = []
    fork_at = {int(rng.integers(1, 12)), int(rng.integers(12, 80))} if fork else set()
    while not episode.outcomes or not any(episode.outcomes[-1][1:]):
        if len(episode.actions) in fork_at:
            forks.append(_fork(env, expert, rng, full, episode, index))
        expert = _advance(env, expert, player, rng, full, episode)
        if len(episode.actions) >= _LONGEST and (player != "bot" or expert is None):
            break
    return [episode, *forks]


def _place_agent(env: Any, rooms: Cells) -> None:
    """minigrid's `place_agent`, repeated if it chose a cell outside the rooms (MultiRoom's rooms do not fill its grid).
    If it finds no place (rooms of one cell), the agent stays."""
    inside = {(x, y) for x, y in rooms.positions.tolist()}
    stay = env.agent_pos, env.agent_dir
    for _ in range(20):
        with contextlib.suppress(RecursionError):
            env.place_agent()
            if tuple(map(int, env.agent_pos)) in inside:
                return
    env.agent_pos, env.agent_dir = stay


def _fork(
    env: Any, expert: Expert | None, rng: np.random.Generator, full: bool, parent: Episode, index: int
) -> Episode:
    """Copy the whole environment and let the copy play on by itself for a while."""
    twin, advisor = copy.deepcopy((env, expert))
    fork = Episode(parent.task, parent=index, at=len(parent.actions), kind=parent.kind)
    fork.forked_carrying = env.carrying is not None
    fork.forked_half_done = _half_done(getattr(env, "instrs", None))
    for _ in range(_FORK_STEPS):
        advisor = _advance(twin, advisor, "noisy bot", rng, full, fork)
        if any(fork.outcomes[-1][1:]):
            break
    return fork


def _advance(
    env: Any, expert: Expert | None, player: Player, rng: np.random.Generator, full: bool, episode: Episode
) -> Expert | None:
    """One action: the expert's, or a random one. Returns the expert, None once it has given up."""
    action = int(rng.choice(len(_ACTION_WEIGHTS), p=_ACTION_WEIGHTS))
    if expert is not None:
        advice = expert.advice()
        if advice is None:
            expert = None
        elif player == "bot" or rng.random() > _NOISE:
            action = advice
    seen, reward, terminated, truncated, _ = env.step(action)
    if expert is not None:
        expert.told(action)
    episode.actions.append(action)
    episode.outcomes.append((float(reward), bool(terminated), bool(truncated)))
    episode.views.append(_view(env, seen, full))
    return expert


def _view(env: Any, seen: dict[str, Any], full: bool) -> tuple[Any, ...]:
    carried = 0 if env.carrying is None else codes.CODE_OF_TRIPLE[tuple(map(int, env.carrying.encode()))]
    x, y = map(int, env.agent_pos)
    whole = None
    if full:
        whole = env.grid.encode()
        whole[x, y] = (10, 0, env.agent_dir)
    return seen["image"], seen["direction"], carried, (x, y), whole


def _mission_kind(env: Any) -> str:
    instruction = getattr(env, "instrs", None)
    return "goal" if instruction is None else _kind(instruction)


def _kind(instruction: Any) -> str:
    name = type(instruction).__name__.removesuffix("Instr")
    if not hasattr(instruction, "instr_a"):
        return name
    return f"{name}({_kind(instruction.instr_a)}, {_kind(instruction.instr_b)})"


def _half_done(instruction: Any) -> bool:
    if not hasattr(instruction, "instr_a"):
        return False
    return (
        "success" in (instruction.a_done, instruction.b_done)
        or _half_done(instruction.instr_a)
        or _half_done(instruction.instr_b)
    )


# ---------------------------------------------------------------------- the engine


def _replay(
    world: GridWorld,
    full: GridWorld | None,
    episodes: Sequence[Episode],
    tally: Tally,
    name: str,
    perturbed: bool,
) -> None:
    """Replay the episodes in one batch, then their forks in another, comparing after every step."""
    roots = [index for index, episode in enumerate(episodes) if episode.parent is None]
    forks = [index for index, episode in enumerate(episodes) if episode.parent is not None]
    row_of = {index: row for row, index in enumerate(roots)}
    parents: dict[int, GridState] = {}

    def remember(time: int, state: GridState) -> None:
        for index in forks:
            parent = episodes[index].parent
            if episodes[index].at == time and parent is not None:
                parents[index] = state[[row_of[parent]]]

    tasks = [episodes[index].task for index in roots]
    state = world.start(tasks)
    if perturbed:
        first = [episodes[index].views[0] for index in roots]
        state = world.start_at(tasks, [view[3] for view in first], [view[1] for view in first])
    _run(world, full, state, [episodes[index] for index in roots], tally, name, remember)
    if forks:
        state = world.concatenate(parents[index] for index in forks)
        _run(world, full, state, [episodes[index] for index in forks], tally, f"{name}, forked", None)


def _run(
    world: GridWorld,
    full: GridWorld | None,
    state: GridState,
    episodes: Sequence[Episode],
    tally: Tally,
    name: str,
    remember: Any,
) -> None:
    tally.episodes += len(episodes)
    longest = max(len(episode.actions) for episode in episodes)
    for time in range(longest + 1):
        live = [row for row, episode in enumerate(episodes) if len(episode.actions) >= time]
        if time:
            actions = np.full(len(episodes), 6)
            actions[live] = [episodes[row].actions[time - 1] for row in live]
            result = world.step(state, actions)
            expected = np.array([episodes[row].outcomes[time - 1] for row in live])
            for column, what in enumerate(("reward", "terminated", "truncated")):
                wanted = expected[:, column].astype(result[column].dtype)
                _expect(tally, what, wanted, result[column][live], f"{name}, step {time}")
            tally.steps += len(live)
        if not time and remember is None:
            continue  # a fork has no view yet
        wanted_views = [episodes[row].views[_view_index(episodes[row], time)] for row in live]
        seen = world.observe(state)
        where = f"{name}, step {time}"
        _expect(tally, "image", np.stack([v[0] for v in wanted_views]), seen["image"][live], where)
        _expect(tally, "direction", np.array([v[1] for v in wanted_views]), seen["direction"][live], where)
        _expect(tally, "carried", np.array([v[2] for v in wanted_views]), world.carried(state)[live], where)
        _expect(tally, "position", np.array([v[3] for v in wanted_views]), world.positions(state)[live], where)
        if full is not None:
            image = full.observe(state)["image"][live]
            _expect(tally, "full image", np.stack([v[4] for v in wanted_views]), image, where)
        if remember is not None:
            remember(time, state)


def _view_index(episode: Episode, time: int) -> int:
    """Forks have no view from before their first action."""
    return time if episode.parent is None else time - 1


def _expect(tally: Tally, what: str, wanted: NDArray[Any], got: NDArray[Any], where: str) -> None:
    if not np.array_equal(wanted, got):
        tally.mismatches[what] += 1
        tally.first_mismatch = tally.first_mismatch or f"{what} differs in {where}"

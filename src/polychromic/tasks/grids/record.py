"""Record demonstrations: chunks of seeds over processes, every finished chunk on disk, the same file every time."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal

from polychromic.envs.grid.levels import stack_levels
from polychromic.envs.grid.load import make_minigrid, quiet, read_level
from polychromic.envs.grid.tasks import level_id
from polychromic.envs.grid.world import GridWorld
from polychromic.errors import UserError
from polychromic.files import alone_in, read_json, remove_partial, write_json
from polychromic.pretrain.demonstrations import (
    Demonstrations,
    concatenate,
    first_episodes,
    load_demonstrations,
    record,
    save_demonstrations,
    take,
)
from polychromic.tasks.grids.experts import level_expert

CHUNK = 20  # level seeds per unit of work; part of what makes a recording repeatable
# If fewer than this share of this many levels are solved, the recording would take too long.
ENOUGH_LEVELS, LEAST_SHARE = 500, 0.01


@dataclass(frozen=True)
class Recording:
    """What to record. The same recording gives the same episodes on any number of processes."""

    task: str
    """`fourrooms`, `goto`, `pickup`, `synthseq`, `bosslevel`, or the Gymnasium id of a BabyAI level."""
    episodes: int = 1000
    """How many episodes; levels the expert does not solve within the horizon are left out and counted."""
    first_seed: int = 0
    """The first level seed; the next ones follow."""
    horizon: int = 100
    """The maximum steps of an episode."""
    observation: Literal["partial", "full"] = "partial"
    """The agent's 7 × 7 view or the whole grid; `polychromic pretrain` can replay either as the other."""

    def check(self, workers: int = 1) -> None:
        """Refuse invalid numbers, and levels without an expert."""
        least = {"episodes": 1, "first_seed": 0, "horizon": 1}
        for name, value in {**{name: getattr(self, name) for name in least}, "workers": workers}.items():
            if value < least.get(name, 1):
                raise UserError(f"{name} is {value}; it must be at least {least.get(name, 1)}")
        level_expert(level_id(self.task))


def record_demonstrations(recording: Recording, out: Path, workers: int = 2, progress: Any = None) -> Demonstrations:
    """Record, or resume an interrupted recording; `progress(episodes)` is called as they come in."""
    recording.check(workers)
    recording = replace(recording, task=level_id(recording.task))
    expert_name, _ = level_expert(recording.task)
    made = {
        "expert": expert_name,
        "horizon": recording.horizon,
        "first_seed": recording.first_seed,
        "minigrid": version("minigrid"),
        "polychromic": version("polychromic"),
    }
    folder = out.with_name(out.name + ".parts")
    with alone_in(folder):
        remove_partial(out.parent, (out.name,))
        _claim(folder, recording, made)
        parts: list[Demonstrations] = []
        solved = 0
        chunks = _chunks(recording, folder, made, workers)
        for number, part in enumerate(chunks):
            if part is not None:
                parts.append(take(part, range(min(len(part), recording.episodes - solved))))
                solved += len(parts[-1])
            if progress is not None:
                progress(solved)
            tried = (number + 1) * CHUNK
            hopeless = tried >= ENOUGH_LEVELS and solved < LEAST_SHARE * tried
            if solved == recording.episodes or hopeless:
                break
        chunks.close()  # before the folder is removed
        if solved < recording.episodes:
            shutil.rmtree(folder)  # with a longer horizon it would be useless
            raise UserError(
                f"horizon: of the first {tried} levels of {recording.task} the {expert_name} solves {solved} within "
                f"{recording.horizon} steps; give it more"
            )
        demos = replace(concatenate(parts), made={**made, "levels_tried": 0}, source=str(out))
        demos = first_episodes(demos, solved)
        save_demonstrations(out, demos)
        shutil.rmtree(folder)
        return demos


def _claim(folder: Path, recording: Recording, made: dict[str, Any]) -> None:
    """A folder of finished chunks belongs to one kind of recording (the number of episodes may grow)."""
    settings = {"task": recording.task, "observation": recording.observation, "chunk": CHUNK, **made}
    note = folder / "recording.json"
    if note.exists():
        try:
            before = read_json(note, dict[str, Any])
        except UserError as error:
            raise UserError(f"{error}; remove the folder to start again") from error
        for name in settings:
            if before.get(name) != settings[name]:
                raise UserError(
                    f"{note}: an unfinished recording has {name} = {before.get(name)!r}, this one has "
                    f"{settings[name]!r}; finish that one, remove the folder, or choose another --out"
                )
        return
    write_json(note, settings)


def _chunks(
    recording: Recording, folder: Path, made: dict[str, Any], workers: int
) -> Generator[Demonstrations | None, None, None]:
    """The chunks in the order of their seeds, with a few recorded ahead."""
    if workers == 1:
        for number in itertools.count():
            if not _is_done(folder, number):
                _record_chunk(recording, folder, number, made)
            yield _read_chunk(folder, number)
    # Not fork: the parent may have started JAX's threads.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        try:
            ahead: deque[Future[None] | None] = deque()
            for number in itertools.count():
                while len(ahead) < 2 * workers:
                    later = number + len(ahead)
                    done = _is_done(folder, later)
                    ahead.append(None if done else pool.submit(_record_chunk, recording, folder, later, made))
                task = ahead.popleft()
                if task is not None:
                    task.result()
                yield _read_chunk(folder, number)
        finally:
            pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """In a worker: exit when the parent was killed, as the worker would otherwise wait forever."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _read_chunk(folder: Path, number: int) -> Demonstrations | None:
    path = _chunk_path(folder, number)
    return load_demonstrations(path) if path.exists() else None


def _is_done(folder: Path, number: int) -> bool:
    path = _chunk_path(folder, number)
    return path.exists() or path.with_suffix(".none").exists()


def _chunk_path(folder: Path, number: int) -> Path:
    return folder / f"chunk-{number:06d}.npz"


def _record_chunk(recording: Recording, folder: Path, number: int, made: dict[str, Any]) -> None:
    """Record one chunk of seeds; a chunk without a single solved level leaves an empty note."""
    path = _chunk_path(folder, number)
    _, expert = level_expert(recording.task)
    env = make_minigrid(recording.task)
    env.gen_obs = dict  # observations come from the replay below; minigrid's own would take a third of the time
    first = recording.first_seed + number * CHUNK
    seeds, levels, actions = [], [], []
    for seed in range(first, first + CHUNK):
        with quiet():
            env.reset(seed=seed)
            level = read_level(recording.task, env)
            taken = expert(env, recording.horizon)
        if taken is not None:
            seeds.append(seed)
            levels.append(level)
            actions.append(taken)
    if not seeds:
        path.with_suffix(".none").touch()
        return
    stacked = stack_levels(levels, [recording.horizon] * len(levels))
    world = GridWorld(recording.task, seeds, stacked, time_penalty=0.0, observation=recording.observation)
    save_demonstrations(path, record(world, actions, made))

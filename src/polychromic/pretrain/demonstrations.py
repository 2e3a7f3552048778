"""Demonstrations as flat arrays, and their files: compressed, self-describing, refused if damaged."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid.codes import NUM_CODES
from polychromic.envs.grid.missions import unknown_words
from polychromic.envs.grid.step import NUM_ACTIONS
from polychromic.envs.grid.world import GridWorld, make
from polychromic.errors import UserError
from polychromic.files import CHECKSUM, Int, checked, decode_json, whole_file

FORMAT = "polychromic-demonstrations-1"
ARRAYS = ("codes", "directions", "actions", "offsets", "seeds")
# The errors that reading a damaged archive can raise.
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
    *(ValueError, EOFError, OSError, TypeError, AttributeError, KeyError, RuntimeError, SyntaxError, MemoryError),
)
NO_SEED = -1  # for episodes whose level cannot be generated again (imported ones)


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Episodes one after another: episode k holds the steps offsets[k] … offsets[k + 1] − 1."""

    task: str  # Gymnasium id
    observation: str  # "partial" or "full"
    image_size: tuple[int, int]  # cells, (width, height)
    codes: NDArray[np.uint8]  # [steps, width · height], what was seen before each action
    directions: NDArray[np.uint8]  # [steps]
    actions: NDArray[np.uint8]  # [steps]
    offsets: NDArray[np.int64]  # [episodes + 1]
    seeds: NDArray[np.int64]  # [episodes], the level seed of each
    missions: tuple[str, ...]  # of each episode
    made: Mapping[str, Any] = field(default_factory=dict)  # expert, horizon, versions, episodes left out
    source: str = "<memory>"  # the file they came from, for messages

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of each episode, [episodes]."""
        return np.diff(self.offsets)


def replay(
    task: str, seeds: Sequence[int], actions: Sequence[Sequence[int]], observation: str, made: Mapping[str, Any]
) -> Demonstrations:
    """The demonstrations that these actions give on these levels, as the grid engine shows them."""
    lengths = np.array([len(row) for row in actions], np.int64)
    world = make(task, seeds=seeds, horizon=max(1, int(lengths.max())), observation=observation)  # type: ignore[arg-type]
    return record(world, actions, made)


def record(world: GridWorld, actions: Sequence[Sequence[int]], made: Mapping[str, Any]) -> Demonstrations:
    """Play one episode per configuration of the world and record what is seen before each action."""
    lengths = np.array([len(row) for row in actions], np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    cells = world.image_shape[0] * world.image_shape[1]
    seen = np.empty((int(offsets[-1]), cells), np.uint8)
    looks = np.empty(len(seen), np.uint8)
    flat = np.array([action for row in actions for action in row], np.uint8)
    live = np.arange(world.num_configurations)
    state = world.start(live)
    for time in range(int(lengths.max(initial=0))):
        keep = lengths[live] > time
        if not keep.all():
            live, state = live[keep], state[keep]
        steps = offsets[live] + time
        seen[steps], looks[steps] = world.codes(state), world.directions(state)
        world.step(state, flat[steps].astype(np.int64))
    return Demonstrations(
        task=world.task,
        observation=world.observation,
        image_size=(world.image_shape[0], world.image_shape[1]),
        codes=seen,
        directions=looks,
        actions=flat,
        offsets=offsets,
        seeds=np.array(world.level_seeds, np.int64),
        missions=tuple(world.missions),
        made=made,
    )


def see_as(demos: Demonstrations, observation: str, chunk: int = 500) -> Demonstrations:
    """The same episodes with the other observation, by replaying their actions on their levels."""
    if observation == demos.observation:
        return demos
    if (demos.seeds == NO_SEED).any():
        raise UserError(
            f"{demos.source}: seeds: these demonstrations show '{demos.observation}' and do not know their level "
            f"seeds, so they cannot be replayed as '{observation}'"
        )
    parts = []
    for first in range(0, len(demos), chunk):
        episodes = range(first, min(first + chunk, len(demos)))
        rows = [demos.actions[demos.offsets[k] : demos.offsets[k + 1]].tolist() for k in episodes]
        parts.append(replay(demos.task, demos.seeds[list(episodes)].tolist(), rows, observation, demos.made))
    return replace(concatenate(parts), source=demos.source)


def take(demos: Demonstrations, episodes: Sequence[int] | NDArray[np.int64]) -> Demonstrations:
    """Some of the episodes, in the given order."""
    episodes = np.asarray(episodes, np.int64)
    steps = np.concatenate([np.arange(demos.offsets[k], demos.offsets[k + 1]) for k in episodes] or [np.zeros(0, int)])
    return replace(
        demos,
        codes=demos.codes[steps],
        directions=demos.directions[steps],
        actions=demos.actions[steps],
        offsets=np.concatenate([[0], np.cumsum(demos.lengths[episodes])]),
        seeds=demos.seeds[episodes],
        missions=tuple(demos.missions[k] for k in episodes),
    )


def first_episodes(demos: Demonstrations, count: int) -> Demonstrations:
    """The first episodes, as if recording had stopped there: levels tried after the last of them are not counted."""
    part = take(demos, range(count))
    first_seed = demos.made.get("first_seed")
    if "levels_tried" not in demos.made or not isinstance(first_seed, int):
        return part
    tried = int(part.seeds[-1]) - first_seed + 1
    return replace(part, made={**demos.made, "levels_tried": tried, "levels_unsolved": tried - count})


def concatenate(parts: Sequence[Demonstrations]) -> Demonstrations:
    """Episodes of several demonstrations of one task and observation."""
    first = parts[0]
    for part in parts:
        for name in ("task", "observation", "image_size"):
            if getattr(part, name) != getattr(first, name):
                raise UserError(
                    f"{part.source}: {name} is {getattr(part, name)!r}, {getattr(first, name)!r} in {first.source}: "
                    "they cannot be joined"
                )
    lengths = np.concatenate([part.lengths for part in parts])
    return replace(
        first,
        codes=np.concatenate([part.codes for part in parts]),
        directions=np.concatenate([part.directions for part in parts]),
        actions=np.concatenate([part.actions for part in parts]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        seeds=np.concatenate([part.seeds for part in parts]),
        missions=tuple(mission for part in parts for mission in part.missions),
    )


def content_hash(demos: Demonstrations) -> str:
    """SHA-256 of what was seen and done (not of how the file stores it)."""
    digest = hashlib.sha256()
    digest.update(json.dumps([demos.task, demos.observation, demos.image_size, demos.missions]).encode())
    for array in (demos.codes, demos.directions, demos.actions, demos.offsets, demos.seeds):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# ---------------------------------------------------------------------- files


def save_demonstrations(path: str | os.PathLike[str], demos: Demonstrations) -> None:
    """Write a compressed NumPy archive with a checksum; the file appears whole or not at all."""
    header: dict[str, Any] = {
        "format": FORMAT,
        "task": demos.task,
        "observation": demos.observation,
        "image_size": list(demos.image_size),
        "missions": list(demos.missions),
        "made": dict(demos.made),
    }
    arrays = {name: getattr(demos, name) for name in ARRAYS}
    header[CHECKSUM] = _checksum(header, arrays)
    text = np.frombuffer(json.dumps(header, ensure_ascii=False).encode(), np.uint8)
    with whole_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, header=text, **arrays)


def load_demonstrations(path: str | os.PathLike[str], task: str | None = None) -> Demonstrations:
    """Read and check a file; `task` (a Gymnasium id), where given, must be the one it was made for.

    If the file has a checksum, it must match. Files of earlier versions have none.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file; `polychromic demos TASK --out {path}` makes one") from error
    except _DAMAGES as error:
        # NumPy takes anything else for a pickle, and says how to load it unsafely.
        why = "it is not an archive of arrays" if "pickle" in str(error) else " ".join(str(error).split())
        raise UserError(f"{path}: not a complete demonstrations file ({why})") from error
    for name, array in arrays.items():  # NumPy hands over what is no array as bytes
        if not isinstance(array, np.ndarray):
            raise UserError(f"{path}: not a complete demonstrations file ('{name}' is not an array)")
    header = _read_header(path, arrays)
    if task is not None and header["task"] != task:
        raise UserError(f"{path}: task is {header['task']}, expected {task}")
    width, height = header["image_size"]
    steps = arrays["actions"].size if "actions" in arrays else 0
    episodes = len(header["missions"])
    shapes = {
        "codes": (np.uint8, (steps, width * height)),
        "directions": (np.uint8, (steps,)),
        "actions": (np.uint8, (steps,)),
        "offsets": (np.int64, (episodes + 1,)),
        "seeds": (np.int64, (episodes,)),
    }
    for name, (kind, shape) in shapes.items():
        if name not in arrays:
            raise UserError(f"{path}: '{name}' is missing")
        if arrays[name].dtype != kind or arrays[name].shape != shape:
            raise UserError(
                f"{path}: '{name}' is {arrays[name].dtype} {arrays[name].shape}, expected {np.dtype(kind)} {shape}"
            )
    for name, below in (("codes", NUM_CODES), ("directions", 4), ("actions", NUM_ACTIONS)):
        if steps and arrays[name].max() >= below:
            raise UserError(f"{path}: '{name}' holds {arrays[name].max()}, expected numbers below {below}")
    offsets = arrays["offsets"]
    if offsets[0] != 0 or offsets[-1] != steps or (np.diff(offsets) < 1).any():
        raise UserError(f"{path}: 'offsets' do not cut {steps} steps into {episodes} episodes")
    if (arrays["seeds"] < NO_SEED).any():
        raise UserError(f"{path}: 'seeds' holds {arrays['seeds'].min()}, expected {NO_SEED} (not known) or more")
    check_missions(path, header["missions"])
    if CHECKSUM in header and header.pop(CHECKSUM) != _checksum(header, arrays):
        raise UserError(f"{path} is damaged: its checksum does not match its content")
    return Demonstrations(
        task=header["task"],
        observation=header["observation"],
        image_size=(width, height),
        codes=arrays["codes"],
        directions=arrays["directions"],
        actions=arrays["actions"],
        offsets=offsets,
        seeds=arrays["seeds"],
        missions=tuple(header["missions"]),
        made=header["made"],
        source=str(path),
    )


def _checksum(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of everything in a file: the compressed archive itself only has sums of 32 bits for each part."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in ARRAYS:
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def check_missions(source: str | os.PathLike[str], missions: Sequence[str]) -> None:
    """Refuse a mission with a word that has no token, naming the file, the episode and the word."""
    for episode, mission in enumerate(missions):
        strange = unknown_words(mission)
        if strange:
            raise UserError(
                f"{source}: 'missions': episode {episode} has the mission '{mission}', whose word '{strange[0]}' is "
                "not in the vocabulary"
            )


class _Header(TypedDict):
    task: str
    observation: str
    image_size: tuple[Int, Int]
    missions: list[str]
    made: dict[str, Any]


def _read_header(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    if "header" not in arrays:
        raise UserError(f"{path}: 'header' is missing; this is not a demonstrations file")
    header = decode_json(arrays["header"].tobytes(), f"{path}: 'header' is not JSON")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        file_format = header.get("format") if isinstance(header, dict) else None
        raise UserError(f"{path}: format is {file_format!r}, expected '{FORMAT}'")
    checked(header, _Header, f"{path}: header")
    if header["observation"] not in ("partial", "full"):
        raise UserError(f"{path}: header: 'observation' is {header['observation']!r}, expected 'partial' or 'full'")
    if min(header["image_size"]) < 1:
        raise UserError(f"{path}: header: 'image_size' is {header['image_size']}; it must be two whole numbers above 0")
    if not header["missions"]:
        raise UserError(f"{path}: header: 'missions' is empty: there is no episode")
    return header

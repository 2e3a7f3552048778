"""Minari datasets, read and written as plain arrays (needs `polychromic[minari]`).

`recorded_episodes` reads any of them. The others know MiniGrid and BabyAI levels; their layout is that of
`minigrid/BabyAI-*/optimal-v0` and `D4RL/minigrid/fourrooms-v0`: observations are dicts of `image` (uint8, object,
colour and state of each cell), `direction` and `mission`, one more of them than actions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.errors import UserError


class MinariEpisode(NamedTuple):
    """One episode of T steps."""

    images: NDArray[np.uint8]  # [T + 1, width, height, 3]
    directions: NDArray[np.int64]  # [T + 1]
    mission: str
    actions: NDArray[np.int64]  # [T]
    rewards: NDArray[np.float64]  # [T]
    terminated: bool  # at the last step
    seed: int | None  # that the level was reset with, if it is known


def read_minari(dataset_id: str) -> tuple[str, list[MinariEpisode]]:
    """The Gymnasium id and the episodes of a local Minari dataset."""
    dataset = _loaded(dataset_id)
    spec = dataset.spec.env_spec
    if spec is None:
        raise UserError(f"{dataset_id}: env_spec is missing, so the level it was made on is not known")
    indices = list(dataset.episode_indices)
    seeds = [entry.get("seed") for entry in dataset.storage.get_episode_metadata(indices)]
    episodes = []
    for number, (episode, seed) in enumerate(zip(dataset.iterate_episodes(), seeds, strict=True)):
        seen = episode.observations
        missing = {"image", "direction", "mission"} - set(seen if isinstance(seen, dict) else ())
        if missing:
            raise UserError(f"{dataset_id}: observations of episode {number} have no '{sorted(missing)[0]}'")
        images = np.asarray(seen["image"])
        if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
            raise UserError(
                f"{dataset_id}: 'image' of episode {number} is {images.dtype} {images.shape}, "
                "expected uint8 [steps + 1, width, height, 3]"
            )
        mission = seen["mission"][0]
        episodes.append(
            MinariEpisode(
                images=images,
                directions=np.asarray(seen["direction"], np.int64),
                mission=mission.decode() if isinstance(mission, bytes) else str(mission),
                actions=np.asarray(episode.actions, np.int64),
                rewards=np.asarray(episode.rewards, np.float64),
                terminated=bool(episode.terminations[-1]),
                seed=None if seed is None else int(seed),
            )
        )
    return str(spec.id), episodes


def recorded_episodes(dataset_id: str) -> list[tuple[Any, NDArray[Any]]]:
    """Observations (one more than actions) and actions of every episode of a local dataset, of any spaces."""
    return [(episode.observations, np.asarray(episode.actions)) for episode in _loaded(dataset_id).iterate_episodes()]


def write_minari(dataset_id: str, env: Any, episodes: Sequence[MinariEpisode], algorithm: str) -> None:
    """Write episodes as a new local Minari dataset. env: the Gymnasium environment they were played in."""
    minari = _minari()
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    if dataset_id in minari.list_local_datasets():
        raise UserError(
            f"{dataset_id}: there is a local Minari dataset of this name; choose another or delete it first"
        )
    size = episodes[0].images.shape[1:]
    text = "".join(sorted({letter for episode in episodes for letter in episode.mission}))
    space = spaces.Dict(
        {
            "direction": spaces.Discrete(4),
            "image": spaces.Box(0, 255, size, np.uint8),
            "mission": spaces.Text(max(len(episode.mission) for episode in episodes), min_length=1, charset=text),
        }
    )
    buffers = []
    for number, episode in enumerate(episodes):
        steps = len(episode.actions)
        last = np.arange(steps) == steps - 1
        buffers.append(
            EpisodeBuffer(
                id=number,
                seed=episode.seed,
                observations={
                    "direction": list(episode.directions),
                    "image": list(episode.images),
                    "mission": [episode.mission] * (steps + 1),
                },
                actions=list(episode.actions),
                rewards=list(episode.rewards),
                terminations=list(last & episode.terminated),
                truncations=list(last & (not episode.terminated)),
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that no author and no code_permalink are given
        minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            env=env,
            algorithm_name=algorithm,
            observation_space=space,
            action_space=env.action_space,
            data_format="hdf5",
            jpeg_encoding=False,  # codes, not pictures: they must come back exactly
        )


def _loaded(dataset_id: str) -> Any:
    try:
        return _minari().load_dataset(dataset_id)
    except (FileNotFoundError, ValueError, KeyError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{dataset_id}: Minari cannot load this dataset ({error}); see `minari list local`") from error


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise UserError("Minari is not installed: pip install 'polychromic[minari]'") from error
    return minari

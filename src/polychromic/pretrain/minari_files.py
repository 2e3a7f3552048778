"""Demonstrations from and to Minari datasets; `polychromic import-minari` and `polychromic export-minari`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import tyro
from numpy.typing import NDArray

from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.envs.grid.load import quiet
from polychromic.envs.grid.tasks import level_id
from polychromic.envs.grid.world import make
from polychromic.errors import UserError
from polychromic.integrations.minari import MinariEpisode, read_minari, write_minari
from polychromic.pretrain.demonstrations import (
    NO_SEED,
    Demonstrations,
    check_missions,
    load_demonstrations,
    save_demonstrations,
)


def from_minari(dataset_id: str) -> Demonstrations:
    """The demonstrations in a local Minari dataset.

    A level seed is kept only if its level shows the episode's first observation and mission here, so that the
    configurations chosen from it are the levels that were demonstrated.
    """
    level, episodes = read_minari(dataset_id)
    level = level_id(level)
    width, height = episodes[0].images.shape[1:3]
    observation: Literal["partial", "full"] = "partial" if (width, height) == (7, 7) else "full"
    check_missions(dataset_id, [episode.mission for episode in episodes])
    codes = [_codes(dataset_id, number, episode.images[:-1]) for number, episode in enumerate(episodes)]
    seeds = np.array([NO_SEED if episode.seed is None else episode.seed for episode in episodes], np.int64)
    for number in np.flatnonzero(seeds != NO_SEED):
        world = make(level, seeds=[int(seeds[number])], observation=observation)
        seen = world.codes(world.start([0]))[0]
        if world.missions[0] != episodes[number].mission or not np.array_equal(seen, codes[number][0]):
            seeds[number] = NO_SEED
    lengths = [len(episode.actions) for episode in episodes]
    return Demonstrations(
        task=level,
        observation=observation,
        image_size=(width, height),
        codes=np.concatenate(codes),
        directions=np.concatenate([episode.directions[:-1] for episode in episodes]).astype(np.uint8),
        actions=np.concatenate([episode.actions for episode in episodes]).astype(np.uint8),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        seeds=seeds,
        missions=tuple(episode.mission for episode in episodes),
        made={"minari": dataset_id, "seeds_confirmed": int((seeds != NO_SEED).sum())},
        source=dataset_id,
    )


def to_minari(demos: Demonstrations, dataset_id: str) -> None:
    """Write demonstrations as a new local Minari dataset, with the rewards that minigrid itself gives.

    The episodes are replayed on their levels, which shows the last observation and gives the rewards.
    """
    import gymnasium
    from minigrid.wrappers import FullyObsWrapper

    if (demos.seeds == NO_SEED).any():
        raise UserError(
            f"{demos.source}: seeds: these demonstrations do not know their level seeds, so they cannot be replayed"
        )
    recorded = demos.made.get("horizon")
    horizon = max(recorded if isinstance(recorded, int) else 1, int(demos.lengths.max()))
    world = make(
        demos.task,
        seeds=demos.seeds.tolist(),
        horizon=horizon,
        reward="package",
        observation="partial" if demos.observation == "partial" else "full",
    )
    episodes = []
    for k in range(len(demos)):
        steps = slice(int(demos.offsets[k]), int(demos.offsets[k + 1]))
        state = world.start([k])
        rewards = []
        result = None
        for action in demos.actions[steps]:
            result = world.step(state, [int(action)])
            rewards.append(float(result.reward[0]))
        seen = np.concatenate([demos.codes[steps], world.codes(state)])
        looks = np.concatenate([demos.directions[steps], world.directions(state)])
        episodes.append(
            MinariEpisode(
                images=CODE_TRIPLES[seen].reshape(len(seen), *demos.image_size, 3),
                directions=looks.astype(np.int64),
                mission=demos.missions[k],
                actions=demos.actions[steps].astype(np.int64),
                rewards=np.array(rewards),
                terminated=result is not None and bool(result.terminated[0]),
                seed=int(demos.seeds[k]),
            )
        )
    with quiet():
        env = gymnasium.make(demos.task, max_steps=horizon, disable_env_checker=True)
        env = env if demos.observation == "partial" else FullyObsWrapper(env)  # type: ignore[no-untyped-call]
        write_minari(dataset_id, env, episodes, str(demos.made.get("expert", "")))


def import_minari(dataset: tyro.conf.Positional[str], out: Path) -> int:
    """Turn a local Minari dataset of a MiniGrid or BabyAI level into a demonstrations file.

    Args:
        dataset: the dataset's id, for example minigrid/BabyAI-GoTo/optimal-v0.
        out: the file to write (.npz).
    """
    demos = from_minari(dataset)
    save_demonstrations(out, demos)
    confirmed = demos.made["seeds_confirmed"]
    print(
        f"{out}: {len(demos)} episodes of {demos.task}, {len(demos.actions)} steps; {confirmed} level seeds confirmed"
    )
    return 0


def export_minari(file: tyro.conf.Positional[Path], dataset: tyro.conf.Positional[str]) -> int:
    """Write a demonstrations file as a new local Minari dataset.

    Args:
        file: a file that `polychromic demos` made.
        dataset: the id of the new dataset, for example minigrid/BabyAI-GoTo/mine-v0.
    """
    demos = load_demonstrations(file)
    to_minari(demos, dataset)
    print(f"{dataset}: {len(demos)} episodes of {demos.task}")
    return 0


def _codes(dataset_id: str, episode: int, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The codes [steps, cells] of images [steps, width, height, 3]; an unknown cell is refused."""
    table = np.full((16, 8, 4), -1, np.int64)
    table[tuple(CODE_TRIPLES.T)] = np.arange(len(CODE_TRIPLES))
    flat = images.reshape(len(images), -1, 3).astype(np.int64)
    inside: NDArray[np.bool_] = np.all(flat < np.array(table.shape), axis=2)
    codes = np.where(inside, table[tuple(np.where(inside[..., None], flat, 0).transpose(2, 0, 1))], -1)
    if (codes < 0).any():
        step, cell = np.argwhere(codes < 0)[0]
        triple = flat[step, cell].tolist()
        raise UserError(f"{dataset_id}: 'image' of episode {episode}, step {step} has a cell {triple} of no known kind")
    return codes.astype(np.uint8)

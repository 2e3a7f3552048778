"""Which episodes to train on, which to test on, and which levels to fine-tune on: decided once, written to a file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polychromic.errors import UserError
from polychromic.files import whole_file
from polychromic.pretrain.demonstrations import NO_SEED, Demonstrations, content_hash

FORMAT = "polychromic-configurations-1"
Source = Literal["test", "all"]


@dataclass(frozen=True)
class Split:
    """Episodes (indices into the demonstrations) for training and for validation, and the fine-tuning configurations.

    `configurations` are level seeds: `polychromic.make(task, seeds=split.configurations)` is the fine-tuning world.
    """

    task: str
    demonstrations: str  # content hash
    seed: int
    source: Source  # where the configurations and the training episodes come from, see `split_episodes`
    train: tuple[int, ...]
    test: tuple[int, ...]
    configurations: tuple[int, ...]


def split_episodes(
    demos: Demonstrations,
    *,
    seed: int = 0,
    num_configurations: int = 50,
    source: Source = "test",
    test_share: float = 0.2,
) -> Split:
    """80 % of the episodes to train on, 20 % to test on, and different levels to fine-tune on.

    Episodes with the same level seed stay together, so that no level of the test part is trained on; where seeds
    repeat, the test part may be slightly larger.

    source "test": the configurations are drawn from the test part, so the policy never saw them (GoTo, Pickup,
    FourRooms). source "all": the policy is trained on all episodes, and the configurations are drawn from all of them
    (SynthSeq, BossLevel); the test part is then also training data.
    """
    if source not in ("test", "all"):
        raise UserError(f"source: expected 'test' or 'all', got {source!r}")
    order = _levels_together(demos.seeds, np.random.default_rng([seed, 0]).permutation(len(demos)))
    num_test = max(1, round(test_share * len(demos)))
    if num_test < len(order):
        last = demos.seeds[order[num_test - 1]]
        num_test += 0 if last == NO_SEED else int((demos.seeds[order[num_test:]] == last).sum())
    test = np.sort(order[:num_test])
    train = np.arange(len(demos)) if source == "all" else np.sort(order[num_test:])
    if len(train) == 0:
        raise UserError(
            f"{demos.source}: {len(demos)} episodes of {len(np.unique(demos.seeds))} levels cannot be split; "
            "record more"
        )
    pool = test if source == "test" else np.arange(len(demos))
    known = pool[demos.seeds[pool] != NO_SEED]
    known = known[np.sort(np.unique(demos.seeds[known], return_index=True)[1])]  # each level once
    if len(known) < num_configurations:
        raise UserError(
            f"{demos.source}: {num_configurations} configurations are needed, but the {source} part has {len(known)} "
            "different levels with a known seed; record at least "
            f"{round(num_configurations / (test_share if source == 'test' else 1))} episodes"
        )
    chosen = np.random.default_rng([seed, 1]).choice(known, num_configurations, replace=False)
    return Split(
        task=demos.task,
        demonstrations=content_hash(demos),
        seed=seed,
        source=source,
        train=tuple(train.tolist()),
        test=tuple(test.tolist()),
        configurations=tuple(np.sort(demos.seeds[chosen]).tolist()),
    )


def _levels_together(seeds: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order, with all episodes of a level moved up to its first one; unknown levels count as different."""
    level = np.where(seeds == NO_SEED, -1 - np.arange(len(seeds)), seeds)[order]
    _, first, which = np.unique(level, return_index=True, return_inverse=True)
    return order[np.argsort(first[which], kind="stable")]


def save_split(path: str | os.PathLike[str], split: Split) -> None:
    """Write the split as JSON; the file appears whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(json.dumps({"format": FORMAT, **asdict(split)}) + "\n")

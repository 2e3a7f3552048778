"""How different are the rollouts of a set? By a short name, or by a function of labels, places or features.

What a function reads is the name of its first argument:

    labels    [..., n]      a number for each rollout's set of places: equal numbers, equal sets (any other name, too)
    places    [..., n, P]   booleans: which of the P places of this iteration each rollout visited
    features  [..., n, D]   the vector that the world's `feature` gives of each rollout
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import comb
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from polychromic.core.diversity import (
    distinct_fraction,
    kernel_from_embeddings,
    kernel_from_places,
    mean_pairwise_distance,
    vendi_diversity,
)
from polychromic.core.sets import MOST_GRADED_SETS
from polychromic.envs.protocol import World
from polychromic.errors import UserError
from polychromic.finetuning.config import Config, load_callable
from polychromic.finetuning.config_check import has_closed_form
from polychromic.finetuning.rollouts import Rollouts

Reads = Literal["labels", "places", "features"]


class Diversity(NamedTuple):
    """What is read of rollouts, and what is made of it."""

    reads: Reads
    of_sets: Callable[..., Any]  # of what is read of sets, or of the kernels of sets [..., n, n] -> [...], in [0, 1]
    kernel: Callable[[NDArray[Any]], NDArray[np.float64]] | None = None  # of what is read of groups [..., N, …]

    def of_groups(self, rollouts: Rollouts) -> dict[str, Any]:
        """What `core.score_sets` gets of the groups."""
        read = {"labels": rollouts.labels, "places": rollouts.visited, "features": rollouts.features}[self.reads]
        if read is None:
            raise UserError(f"diversity reads {self.reads}, but these rollouts were collected without them")
        members = read[rollouts.groups]
        if self.kernel is not None:
            return {"kernel": self.kernel(members)}
        return {"labels" if self.reads == "labels" else "features": members}


def _half_cosines(features: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray((1.0 + kernel_from_embeddings(features)) / 2.0)


DIVERSITIES: Mapping[str, Diversity] = MappingProxyType(
    {
        "distinct": Diversity("labels", distinct_fraction),
        "jaccard": Diversity("places", mean_pairwise_distance, kernel_from_places),
        "vendi": Diversity("features", vendi_diversity, kernel_from_embeddings),
        "cosine": Diversity("features", mean_pairwise_distance, _half_cosines),
    }
)


def diversity_of(config: Config) -> Diversity:
    """The diversity of a run."""
    if config.diversity in DIVERSITIES:
        return DIVERSITIES[config.diversity]
    function = load_callable("diversity", config.diversity, {name: one.of_sets for name, one in DIVERSITIES.items()})
    return Diversity(_read_by(function), function)


def _read_by(function: Callable[..., Any]) -> Reads:
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):  # functions written in C may have no signature
        first = ""
    return first if first in get_args(Reads) else "labels"  # type: ignore[return-value]


def sets_to_draw(config: Config) -> int:
    """How many sets of a group are drawn; 0 where all of them are taken: without a closed form 2,000 at most."""
    many = not has_closed_form(config) and comb(config.group_size, config.set_size) > MOST_GRADED_SETS
    return MOST_GRADED_SETS if config.num_sets == 0 and many else config.num_sets


def check_diversity(world: World, config: Config) -> None:
    """Refuse a diversity that would find nothing to read in a world."""
    if not config.polychromic:
        return
    reads = diversity_of(config).reads
    if reads == "features" and world.feature is None:
        raise UserError(
            f"diversity is {config.diversity!r}, which reads features, and the world has none; give "
            "from_gymnasium(feature=…), a function of an episode that returns a vector, or set world.feature"
        )
    if reads != "features" and not world.names_places:
        raise UserError(
            "the world names no places, so all rollouts would count as alike; "
            "give from_gymnasium(place=…), or token_world(place=… or label=…)"
        )

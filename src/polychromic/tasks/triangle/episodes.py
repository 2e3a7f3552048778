"""Answers for the report's viewer: which nodes in which order, and whether the triangle is new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.tokens.world import TokenWorld
from polychromic.tasks.triangle.answers import FIRST_NODE, read_answers
from polychromic.tasks.triangle.graphs import graph_of


def replay(
    world: TokenWorld, configurations: NDArray[np.int64], actions: NDArray[np.int32], lengths: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Of each answer its `nodes` in the order in which they were named, its `words`, and whether it is `novel`."""
    told: list[dict[str, Any]] = [{} for _ in configurations]
    for configuration in np.unique(configurations):
        rows = np.flatnonzero(configurations == configuration)
        novel = read_answers(graph_of(world.level_seeds[configuration]), actions[rows]).novel
        for row, new in zip(rows, novel, strict=True):
            tokens = actions[row, : lengths[row]].tolist()
            told[row] = {
                "nodes": [token - FIRST_NODE for token in tokens if token >= FIRST_NODE],
                "words": " ".join(map(world.word, tokens)),
                "novel": bool(new),
            }
    return told


def backdrop(seed: int) -> dict[str, Any]:
    """The number of nodes of a graph and its edges (u, v, flat)."""
    graph = graph_of(seed)
    return {"nodes": graph.num_nodes, "edges": np.argwhere(np.triu(graph.adjacent)).ravel().tolist()}

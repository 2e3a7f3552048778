"""The hidden graphs of triangle discovery and their pretraining samples, each from one number.

The recipe is that of the Algorithmic Creativity benchmark (Nagarajan et al. 2025): about three random edges per
node, then edges between neighbours of a node until it has about six triangles; samples of single edges and triangles.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NUM_NODES = 999
NUM_SAMPLES = 15_000
TRIANGLE_SHARE = 1 / 3
DEGREE, SLACK, TRIANGLES_PER_NODE = 3, 1.2, 6


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph and the samples that were drawn from it."""

    adjacent: NDArray[np.bool_]  # [nodes, nodes]
    triangles: NDArray[np.int64]  # every triangle, nodes in ascending order, [T, 3]
    triangle_samples: NDArray[np.int64]  # the triangles to pretrain on, as they were drawn (a, b, c), [N_t, 3]
    edge_samples: NDArray[np.int64]  # the edges to pretrain on, (u, v), [N_e, 2]

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.adjacent)

    @functools.cached_property
    def known_triangles(self) -> NDArray[np.int64]:
        """Numbers of the triangles in the pretraining samples, each once, in ascending order."""
        return np.unique(triangle_numbers(self.triangle_samples, self.num_nodes))

    @functools.cached_property
    def known_orderings(self) -> NDArray[np.int64]:
        """Numbers of the ordered triples in the pretraining samples, each once, in ascending order."""
        return np.unique(ordered_numbers(self.triangle_samples, self.num_nodes))

    @property
    def num_undiscovered(self) -> int:
        """How many triangles are in no pretraining sample: the most that can be discovered."""
        return len(self.triangles) - len(self.known_triangles)


def triangle_numbers(triples: NDArray[np.int64], num_nodes: int = NUM_NODES) -> NDArray[np.int64]:
    """One number for each set of three nodes, [N]: the order of the nodes in `triples` [N, 3] does not matter."""
    return ordered_numbers(np.sort(triples, axis=1), num_nodes)


def ordered_numbers(triples: NDArray[np.int64], num_nodes: int = NUM_NODES) -> NDArray[np.int64]:
    """One number for each triple (a, b, c) in this order, [N]."""
    return np.asarray((triples[:, 0] * num_nodes + triples[:, 1]) * num_nodes + triples[:, 2])


@functools.lru_cache(maxsize=32)
def graph_of(number: int, num_nodes: int = NUM_NODES, num_samples: int = NUM_SAMPLES) -> Graph:
    """Graph number `number` and its samples; the same number gives the same graph everywhere."""
    adjacent = draw_graph(np.random.default_rng([number, 0]), num_nodes)
    triangle_samples, edge_samples = draw_samples(adjacent, np.random.default_rng([number, 1]), num_samples)
    return Graph(adjacent, all_triangles(adjacent), triangle_samples, edge_samples)


def draw_graph(rng: np.random.Generator, num_nodes: int = NUM_NODES) -> NDArray[np.bool_]:
    """A random graph with many triangles, as its adjacency matrix [nodes, nodes]."""
    adjacent = np.zeros((num_nodes, num_nodes), bool)
    degree = np.zeros(num_nodes, np.int64)
    for node in range(num_nodes):
        free = ~adjacent[node] & (degree <= DEGREE * SLACK)
        free[node] = False
        pool = np.flatnonzero(free)
        wanted = min(max(0, DEGREE - int(degree[node])), len(pool))
        chosen = rng.choice(pool, wanted, replace=False)
        adjacent[node, chosen] = adjacent[chosen, node] = True
        degree[chosen] += 1
        degree[node] += wanted
    count = np.zeros(num_nodes, np.int64)
    for node in range(num_nodes):
        neighbours = np.flatnonzero(adjacent[node])  # edges are only added between neighbours, so this does not change
        while len(neighbours) >= 2 and count[node] < TRIANGLES_PER_NODE:
            first, second = rng.choice(neighbours, 2, replace=False)
            adjacent[first, second] = adjacent[second, first] = True
            count[[node, first, second]] += 1
    return adjacent


def all_triangles(adjacent: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Every triangle of a graph once, nodes in ascending order, [T, 3]."""
    first, second = np.nonzero(np.triu(adjacent))
    pair, third = np.nonzero(adjacent[first] & adjacent[second])
    ascending = third > second[pair]
    return np.stack([first[pair], second[pair], third], axis=1)[ascending]


def draw_samples(
    adjacent: NDArray[np.bool_], rng: np.random.Generator, num_samples: int = NUM_SAMPLES
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Triangles (a, b, c) and edges (u, v) to pretrain on; each sample is a triangle with probability 1/3.

    A triangle is a uniform node with two of its neighbours, drawn again from a new node until the two are adjacent; an
    edge is a uniform node with a uniform neighbour.
    """
    num_triangles = int((rng.random(num_samples) < TRIANGLE_SHARE).sum())
    degree = adjacent.sum(axis=1)
    # Neighbours of each node in one row, its own first.
    table = np.argsort(~adjacent, axis=1, kind="stable")

    def neighbours_of(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(table[nodes, (rng.random(len(nodes)) * degree[nodes]).astype(np.int64)])

    triangles: list[NDArray[np.int64]] = [np.zeros((0, 3), np.int64)]
    while sum(map(len, triangles)) < num_triangles:
        nodes = rng.integers(0, len(adjacent), 4 * num_triangles)
        triples = np.stack([nodes, neighbours_of(nodes), neighbours_of(nodes)], axis=1)
        triangles.append(triples[adjacent[triples[:, 1], triples[:, 2]]])
        if not len(triangles[-1]) and not len(all_triangles(adjacent)):
            raise ValueError("the graph has no triangle to draw")
    nodes = rng.integers(0, len(adjacent), num_samples - num_triangles)
    return np.concatenate(triangles)[:num_triangles], np.stack([nodes, neighbours_of(nodes)], axis=1)

"""Triangle discovery: name a triangle of a hidden graph, token by token. What answers mean and what they are worth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.core.checks import one_of, whole_number
from polychromic.envs.tokens.world import TokenWorld, token_world
from polychromic.errors import UserError
from polychromic.tasks.triangle.graphs import NUM_NODES, Graph, graph_of, ordered_numbers, triangle_numbers

# 6 + 2 + 10 + 999 = 1,017 words. Token 0 also pads a sequence past its end.
SPECIAL = ("<mask>", "<sep>", "<a>", "</a>", "<q>", "</q>")
KINDS = ("edge:", "tri:")
NUM_GRAPHS = 10
SEPARATOR, END = SPECIAL.index("<sep>"), SPECIAL.index("</a>")
FIRST_KIND = len(SPECIAL)
FIRST_GRAPH = FIRST_KIND + len(KINDS)
FIRST_NODE = FIRST_GRAPH + NUM_GRAPHS
NUM_TOKENS = FIRST_NODE + NUM_NODES
VOCABULARY = (*SPECIAL, *KINDS, *(f"graph{g}" for g in range(NUM_GRAPHS)), *(str(n) for n in range(NUM_NODES)))
ANSWER_LENGTH = 9  # a b <sep> b c <sep> c a </a>
NODE_PLACES = (0, 1, 3, 4, 6, 7)

Counting = Literal["strict", "original"]


def prompt(graph: int, kind: str = "tri:") -> list[int]:
    """The start of a sequence: the word of graph number `graph` (its last digit) and that of the kind of sample."""
    return [FIRST_GRAPH + graph % NUM_GRAPHS, FIRST_KIND + KINDS.index(kind)]


def triangle_answers(triples: NDArray[np.int64]) -> NDArray[np.int32]:
    """`a b <sep> b c <sep> c a </a>` for triples (a, b, c) of nodes, [N, 3] -> [N, 9]."""
    a, b, c = (triples + FIRST_NODE).T
    separator, end = np.full(len(a), SEPARATOR), np.full(len(a), END)
    return np.stack([a, b, separator, b, c, separator, c, a, end], axis=1).astype(np.int32)


def edge_answers(pairs: NDArray[np.int64]) -> NDArray[np.int32]:
    """`u v <sep> v u </a>` for edges (u, v), [N, 2] -> [N, 6]."""
    u, v = (pairs + FIRST_NODE).T
    return np.stack([u, v, np.full(len(u), SEPARATOR), v, u, np.full(len(u), END)], axis=1).astype(np.int32)


class Named(NamedTuple):
    """What N answers named."""

    valid: NDArray[np.bool_]  # a triangle of the graph, [N]
    numbers: NDArray[np.int64]  # which one, [N]; equal numbers, equal triangles; of invalid answers −1
    novel: NDArray[np.bool_]  # valid and in no pretraining sample, [N]


def read_answers(graph: Graph, answers: NDArray[Any], counting: Counting = "strict") -> Named:
    """Which triangles were named in answers [N, L], the tokens after the prompt; any other form is invalid.

    counting: "strict": a triangle is its set of three nodes; the three pairs must be edges and must fit together.
        "original": as in the benchmark's own evaluation, the third pair may be any two nodes and the orderings of one
        triangle count as different, in the pretraining samples too.
    """
    one_of("counting", counting, ("strict", "original"))
    answers = np.asarray(answers, np.int64)
    padded = np.full((len(answers), ANSWER_LENGTH), -1, np.int64)
    width = min(answers.shape[1], ANSWER_LENGTH)
    padded[:, :width] = answers[:, :width]
    nodes = padded[:, NODE_PLACES] - FIRST_NODE
    a, b, b_again, c, c_again, a_again = nodes.T
    in_form = ((nodes >= 0) & (nodes < graph.num_nodes)).all(axis=1)
    in_form &= (padded[:, 2] == SEPARATOR) & (padded[:, 5] == SEPARATOR) & (padded[:, 8] == END)
    in_form &= b == b_again
    if counting == "strict":
        in_form &= (c == c_again) & (a == a_again)
    a, b, c = (np.where(in_form, part, 0) for part in (a, b, c))
    valid = in_form & graph.adjacent[a, b] & graph.adjacent[b, c]
    triples = np.stack([a, b, c], axis=1)
    if counting == "strict":
        valid &= graph.adjacent[c, a]
        numbers, known = triangle_numbers(triples, graph.num_nodes), graph.known_triangles
    else:
        valid &= a != c
        numbers, known = ordered_numbers(triples, graph.num_nodes), graph.known_orderings
    return Named(valid, np.where(valid, numbers, -1), valid & ~np.isin(numbers, known))


def triangle_world(seeds: Iterable[int] = (0, 1, 2)) -> TokenWorld:
    """Triangle discovery on these graphs: +1 for naming a triangle of the hidden graph, the places are its nodes.

    seeds: numbers of graphs (`graph_of`), one configuration each. The word of a graph is that of its last digit, so
        graphs 0 … 9 share a vocabulary without clashes, and so do 10 … 19.
    """
    chosen = tuple(whole_number("seeds", seed, at_least=0) for seed in seeds)
    words = [seed % NUM_GRAPHS for seed in chosen]
    if not chosen or len(set(words)) < len(words):
        raise UserError(f"seeds: expected graphs that differ in their last digit, which is their word, got {chosen}")

    def reward(configurations: NDArray[np.int64], answers: NDArray[np.int64]) -> NDArray[np.float32]:
        paid = np.zeros(len(configurations), np.float32)
        for configuration in np.unique(configurations):
            rows = configurations == configuration
            paid[rows] = read_answers(graph_of(chosen[configuration]), answers[rows]).valid
        return paid

    world = token_world(
        prompts=[prompt(seed) for seed in chosen],
        num_tokens=NUM_TOKENS,
        end=END,
        max_tokens=ANSWER_LENGTH,
        reward=reward,
        place=lambda token: token - FIRST_NODE if token >= FIRST_NODE else None,
        vocabulary=VOCABULARY,
        task="triangle",
        seeds=chosen,
    )
    world.strategies = "sets of nodes"
    return world

"""Validity, diversity and creativity of answers that name triangles, in JSON types.

Validity is the share of answers that are triangles of the graph, diversity the number of distinct ones, creativity the
share of answers that are distinct triangles in no pretraining sample. The last two depend on the number of answers,
so both are given as curves over k: expected values over all choices of k of the R answers, without bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.metrics import distinct_at_k, pass_at_k
from polychromic.envs.protocol import World
from polychromic.finetuning.attempts import Attempts
from polychromic.tasks.triangle.answers import Counting, read_answers
from polychromic.tasks.triangle.graphs import graph_of

KS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 200, 256, 400, 512, 700, 1000, 2000, 4000, 10_000)
COUNTINGS: tuple[Counting, ...] = ("strict", "original")
CURVES = ("validity_pass_at_k", "creativity_pass_at_k", "diff_at_k", "creative_at_k")


def measure(world: World, evaluator: Any, attempts: Attempts, temperature: float) -> dict[str, Any]:
    """`discoveries` as an evaluation asks for them."""
    del evaluator, temperature
    return discoveries(attempts, world.level_seeds)


def discoveries(attempts: Attempts, graphs: Sequence[int]) -> dict[str, Any]:
    """The metrics of R attempts on each of these graphs, for both ways of counting.

    Entries of each counting are lists, one value per graph; curves have one list per graph, over `ks`:
    `validity` (share), `distinct` and `creative` (numbers among all R answers), `validity_pass_at_k` and
    `creativity_pass_at_k` (chance of one valid, one novel answer in k), `diff_at_k` (distinct triangles in k answers),
    `creative_at_k` (distinct novel ones; divided by k it is the creativity of k answers).
    `ceiling` holds the totals: the `triangles` of each graph, and those `undiscovered` in the pretraining samples.
    """
    each = len(attempts) // len(graphs)
    answers = attempts.actions.astype(np.int64).reshape(len(graphs), each, -1)
    known = [graph_of(number) for number in graphs]
    return {
        "attempts": each,
        "ks": [k for k in KS if k <= each],
        "ceiling": {
            "triangles": [len(graph.triangles) for graph in known],
            "undiscovered": [graph.num_undiscovered for graph in known],
        },
        **{counting: count_answers(graphs, answers, counting) for counting in COUNTINGS},
    }


def count_answers(graphs: Sequence[int], answers: NDArray[np.int64], counting: Counting = "strict") -> dict[str, Any]:
    """The metrics of answers [graphs, R, L] by one way of counting; see `discoveries`."""
    named = [
        read_answers(graph_of(number), of_graph, counting) for number, of_graph in zip(graphs, answers, strict=True)
    ]
    each = answers.shape[1]
    ks = [k for k in KS if k <= each]
    valid, novel = np.stack([names.valid for names in named]), np.stack([names.novel for names in named])
    numbers = np.stack([names.numbers for names in named])
    curves = {
        "validity_pass_at_k": pass_at_k(each, valid.sum(axis=1), ks),
        "creativity_pass_at_k": pass_at_k(each, novel.sum(axis=1), ks),
        "diff_at_k": distinct_at_k(numbers, valid, ks),
        "creative_at_k": distinct_at_k(numbers, novel, ks),
    }
    return {
        "validity": np.round(valid.mean(axis=1), 6).tolist(),
        "distinct": distinct_at_k(numbers, valid, each).round().astype(int).tolist(),
        "creative": distinct_at_k(numbers, novel, each).round().astype(int).tolist(),
        **{name: np.round(curve, 6).tolist() for name, curve in curves.items()},
    }


def at_k(metrics: Mapping[str, Any], curve: str, k: int, counting: Counting = "strict") -> float:
    """The mean over graphs of a curve at k answers."""
    return float(np.mean([row[metrics["ks"].index(k)] for row in metrics[counting][curve]]))


def in_words(metrics: Mapping[str, Any]) -> str:
    """The main metrics in one line."""
    parts = [f"validity {np.mean(metrics['strict']['validity']):.3f}"]
    for k in (100, 1000):
        if k in metrics["ks"]:
            distinct, creative = at_k(metrics, "diff_at_k", k), at_k(metrics, "creative_at_k", k)
            parts.append(f"of {k:,} answers {distinct:.1f} distinct and {creative:.2f} creative triangles")
    left = np.mean(metrics["ceiling"]["undiscovered"])
    return ", ".join(parts) + f" (a graph has {np.mean(metrics['ceiling']['triangles']):.0f}, {left:.0f} to discover)"

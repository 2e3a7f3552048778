"""Triangle discovery in the report: bars of validity, diversity and creativity, curves over attempts, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from polychromic.errors import UserError
from polychromic.files import Count, Float, checked
from polychromic.report.table import Table
from polychromic.tasks.triangle.discoveries import COUNTINGS, CURVES

BAR_ATTEMPTS = 100  # the paper's bars are about 100 attempts a graph


class Counted(TypedDict):
    """The metrics of one way of counting: by graph, and curves over k."""

    validity: list[Float]
    validity_pass_at_k: list[list[Float]]
    creativity_pass_at_k: list[list[Float]]
    diff_at_k: list[list[Float]]
    creative_at_k: list[list[Float]]


class Ceiling(TypedDict):
    """The totals, by graph."""

    triangles: list[Float]
    undiscovered: list[Float]


class Discoveries(TypedDict):
    """The part of an evaluation that `discoveries` makes."""

    ks: list[Count]
    ceiling: Ceiling
    strict: Counted
    original: Counted


class _Part(TypedDict):
    triangle: Discoveries


def check_discoveries(part: Any, num_graphs: int, where: str) -> None:
    """Refuse anything but the output of `discoveries`, in a line that begins with `where`."""
    checked({"triangle": part}, _Part, where)
    ks = part["ks"]
    if ks[:1] != [1] or ks != sorted(set(ks)):
        raise UserError(f"{where}: 'triangle.ks' is {ks!r:.40}; it must be increasing numbers of at least 1")
    for counting in COUNTINGS:
        counted = part[counting]
        rows = [counted["validity"], *(counted[curve] for curve in CURVES)]
        wrong = any(len(row) != num_graphs for row in rows)
        if wrong or any(len(row) != len(ks) for curve in CURVES for row in counted[curve]):
            raise UserError(f"{where}: 'triangle.{counting}' does not have a number for every graph and k")


def pooled_discoveries(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means of several evaluations (`discoveries`) over runs and graphs.

    For each counting `validity`, `diversity` and `creativity` (of 100 answers, or of the most that all have), their
    lowest and highest run as `range`, and the curves over `ks`.
    """
    ks = [k for k in parts[0]["ks"] if all(k in part["ks"] for part in parts)]
    bar = max(k for k in ks if k <= BAR_ATTEMPTS)
    pooled: dict[str, Any] = {"ks": ks, "bar_attempts": bar, "runs": len(parts)}
    for counting in COUNTINGS:
        # [runs, K] of each curve: the mean over graphs.
        curves = {
            name: np.array([[np.mean(_column(part, counting, name, k)) for k in ks] for part in parts])
            for name in CURVES
        }
        at = ks.index(bar)
        bars = {
            "validity": np.array([np.mean(part[counting]["validity"]) for part in parts]),
            "diversity": curves["diff_at_k"][:, at],
            "creativity": curves["creative_at_k"][:, at] / bar,
        }
        pooled[counting] = {
            **{name: float(values.mean()) for name, values in bars.items()},
            "range": {name: [float(values.min()), float(values.max())] for name, values in bars.items()},
            **{name: np.round(values.mean(axis=0), 6).tolist() for name, values in curves.items()},
        }
    pooled["ceiling"] = {name: float(np.mean(values)) for name, values in parts[0]["ceiling"].items()}
    return pooled


def _column(part: Mapping[str, Any], counting: str, curve: str, k: int) -> list[float]:
    return [row[part["ks"].index(k)] for row in part[counting][curve]]


def discovery_table(methods: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Table:
    """A row for each method and counting, from (task, method, pooled values)."""
    rows = [row for _, label, pooled in methods for row in _rows(label, pooled)]
    return Table("Validity, diversity and creativity", NOTE, COLUMNS, tuple(rows))


def _rows(label: str, pooled: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for counting in COUNTINGS:
        counted = pooled[counting]
        last = len(pooled["ks"]) - 1
        rows.append(
            (
                label,
                counting,
                f"{counted['validity']:.3f}",
                f"{counted['diversity']:.1f} of {pooled['bar_attempts']}",
                f"{counted['creativity']:.4f}",
                f"{counted['diff_at_k'][last]:.1f} of {pooled['ks'][last]}",
                # The ceiling counts triangles, not the orders of their nodes.
                f"{counted['creative_at_k'][last]:.1f}"
                + (f" of {pooled['ceiling']['undiscovered']:.0f}" if counting == "strict" else ""),
                str(pooled["runs"]),
            )
        )
    return rows


COLUMNS = (
    "method",
    "counting",
    "validity",
    "distinct triangles",
    "creativity",
    "distinct, most attempts",
    "discovered of what is left",
    "runs",
)
NOTE = (
    "Validity is the share of answers that are triangles of the graph, creativity the share of distinct triangles "
    "in no pretraining sample. Strict counting takes a triangle as its set of nodes and checks all three pairs; the "
    "original counting takes orderings as different and does not check the third pair. Means over graphs and runs."
)

"""Triangle discovery in the report: bars of validity, diversity and creativity, curves over attempts, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from polychromic.errors import UserError
from polychromic.files import Count, Float, checked
from polychromic.tasks.triangle.discoveries import COUNTINGS, CURVES

BAR_ATTEMPTS = 100  # the paper's bars are about 100 attempts a graph


Counted = TypedDict("Counted", {"validity": list[Float], **dict.fromkeys(CURVES, list[list[Float]])})  # type: ignore[misc]


class Ceiling(TypedDict):
    triangles: list[Float]
    undiscovered: list[Float]


Discoveries = TypedDict(  # type: ignore[misc]
    "Discoveries", {"ks": list[Count], "ceiling": Ceiling, **dict.fromkeys(COUNTINGS, Counted)}
)


def check_discoveries(found: Any, num_graphs: int, where: str) -> None:
    """Refuse what is not the part of an evaluation that `discoveries` makes, in a line that begins with `where`."""
    checked({"triangle": found}, TypedDict("Part", {"triangle": Discoveries}), where)
    ks = found["ks"]
    if ks[:1] != [1] or ks != sorted(set(ks)):
        raise UserError(f"{where}: 'triangle.ks' is {ks!r:.40}; it must be growing numbers from 1 on")
    for counting in COUNTINGS:
        own = found[counting]
        rows = [own["validity"], *(own[curve] for curve in CURVES)]
        wrong = any(len(one) != num_graphs for one in rows)
        if wrong or any(len(row) != len(ks) for curve in CURVES for row in own[curve]):
            raise UserError(f"{where}: 'triangle.{counting}' has not a number for every graph and k")


def pooled_discoveries(results: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Mean figures of several evaluations over runs and graphs; None for other tasks.

    For each counting `validity`, `diversity` and `creativity` (of 100 answers, or of the most that all have), their
    lowest and highest run as `range`, and the curves over `ks`.
    """
    found = [result["triangle"] for result in results if "triangle" in result]
    if not found:
        return None
    ks = [k for k in found[0]["ks"] if all(k in one["ks"] for one in found)]
    bar = max(k for k in ks if k <= BAR_ATTEMPTS)
    pooled: dict[str, Any] = {"ks": ks, "bar_attempts": bar, "runs": len(found)}
    for counting in COUNTINGS:
        # [runs, K] of each curve: the mean over graphs.
        curves = {
            name: np.array([[np.mean(_column(one, counting, name, k)) for k in ks] for one in found]) for name in CURVES
        }
        at = ks.index(bar)
        bars = {
            "validity": np.array([np.mean(one[counting]["validity"]) for one in found]),
            "diversity": curves["diff_at_k"][:, at],
            "creativity": curves["creative_at_k"][:, at] / bar,
        }
        pooled[counting] = {
            **{name: float(values.mean()) for name, values in bars.items()},
            "range": {name: [float(values.min()), float(values.max())] for name, values in bars.items()},
            **{name: np.round(values.mean(axis=0), 6).tolist() for name, values in curves.items()},
        }
    pooled["ceiling"] = {name: float(np.mean(values)) for name, values in found[0]["ceiling"].items()}
    return pooled


def _column(one: Mapping[str, Any], counting: str, curve: str, k: int) -> list[float]:
    return [row[one["ks"].index(k)] for row in one[counting][curve]]


def discovery_rows(title: str, label: str, pooled: Mapping[str, Any] | None) -> list[tuple[str, ...]]:
    """Rows of the table of discoveries, one per counting; none for what is not evaluated."""
    if not pooled:
        return []
    rows: list[tuple[str, ...]] = []
    for counting in COUNTINGS:
        own = pooled[counting]
        last = len(pooled["ks"]) - 1
        rows.append(
            (
                title,
                label,
                counting,
                f"{own['validity']:.3f}",
                f"{own['diversity']:.1f} of {pooled['bar_attempts']}",
                f"{own['creativity']:.4f}",
                f"{own['diff_at_k'][last]:.1f} of {pooled['ks'][last]}",
                # The ceiling counts triangles, not the orders of their nodes.
                f"{own['creative_at_k'][last]:.1f}"
                + (f" of {pooled['ceiling']['undiscovered']:.0f}" if counting == "strict" else ""),
                str(pooled["runs"]),
            )
        )
    return rows


COLUMNS = (
    "task",
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

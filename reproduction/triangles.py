"""The table and the figure of triangle discovery: validity against diversity, along temperatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure as Picture

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from reproduction.draw import COLOURS
from reproduction.intervals import over_seeds
from reproduction.lines import Line
from reproduction.words import bare

MATCHED_VALIDITY = 0.85
COLUMNS = (
    "policy",
    "runs",
    "validity",
    "distinct of 100",
    "distinct of 1,000",
    "creative of 100",
    "creative of 1,000",
    f"distinct of 1,000 at validity {MATCHED_VALIDITY}",
)
DIGITS = {"validity": 3, "distinct_of_100": 1, "distinct_of_1000": 0, "creative_of_100": 2, "creative_of_1000": 1}
MOST = {
    "validity": 1,
    "distinct_of_100": 100,
    "distinct_of_1000": 1000,
    "creative_of_100": 100,
    "creative_of_1000": 1000,
}

Points = Sequence[Mapping[str, float]]


def triangle_table(lines: Sequence[Line]) -> str:
    """The table for the documentation: means over runs with their intervals, at temperature 1."""
    rows = []
    for line in lines:
        if not line.records:
            continue
        rows.append(_row(line.label, line.records, 1.0))
        if line.method == PRETRAINED:
            best = max(line.records[0]["points"], key=lambda point: point["distinct_of_1000"])["temperature"]
            label = f"pretrained, at the temperature with the most distinct ones, {best:g}"
            rows.append(_row(label, line.records, best))
    return bare(Table("", "", COLUMNS, tuple(rows)))


def _row(label: str, records: Sequence[Mapping[str, Any]], temperature: float) -> tuple[str, ...]:
    ones = [at_temperature(record["points"], temperature) for record in records]
    shown = [_mean([point[name] for point in ones], name) for name in DIGITS]
    matched = [at_validity(record["points"], MATCHED_VALIDITY, "distinct_of_1000") for record in records]
    reached = [value for value in matched if value is not None]
    last = _mean(reached, "distinct_of_1000") if len(reached) == len(matched) else NOTHING
    return (label, str(len(records)), *shown, last)


def _mean(values: Sequence[float], name: str) -> str:
    """The mean over runs with its 95 % interval, within what the metric can be; without one if there is one run."""
    digits, most = DIGITS[name], MOST[name]
    mean, low, high = over_seeds(np.array(values)[:, None]).single()
    ends = f" [{max(low, 0.0):.{digits}f}, {min(high, most):.{digits}f}]" if len(values) > 1 else ""
    return f"{mean:.{digits}f}{ends}"


def at_temperature(points: Points, temperature: float) -> Mapping[str, float]:
    """The metrics at one temperature."""
    return next(point for point in points if point["temperature"] == temperature)


def at_validity(points: Points, validity: float, name: str) -> float | None:
    """A metric at the temperature with this validity, interpolated between the nearest two points; None outside."""
    ordered = sorted(points, key=lambda point: point["validity"])
    known = [point["validity"] for point in ordered]
    if not known[0] <= validity <= known[-1]:
        return None
    return float(np.interp(validity, known, [point[name] for point in ordered]))


def triangle_figure(lines: Sequence[Line]) -> Picture:
    """Validity against diversity, each method along its temperatures."""
    picture = Picture(figsize=(10, 5))
    FigureCanvasSVG(picture)  # `tight_layout` needs it to measure text
    axes = picture.subplots()
    colours = _colours(lines)
    for line in lines:
        if not line.records:
            continue
        colour = colours[line.label]
        axes.plot(*zip(*mean_curve(line.records), strict=True), "-", color=colour, linewidth=1, alpha=0.6)
        ones = [at_temperature(record["points"], 1.0) for record in line.records]
        axes.plot(
            [point["validity"] for point in ones],
            [point["distinct_of_1000"] for point in ones],
            "s" if line.method == PRETRAINED else "o",
            color=colour,
            label=line.label,
        )
    axes.axvline(MATCHED_VALIDITY, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="validity", ylabel="distinct triangles of 1,000 attempts", xlim=(0, 1.02), ylim=(0, None))
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    axes.set_title("Marks: each run at temperature 1. Lines: other temperatures, mean of the runs.", fontsize=9)
    picture.tight_layout()
    return picture


def _colours(lines: Sequence[Line]) -> Mapping[str, tuple[float, ...]]:
    """Each method in its colour, variants of it paler; those of Poly-PPO from pale to dark."""
    sets = [line.label for line in lines if line.method.startswith("poly-ppo")]
    found = {label: colormaps["Oranges"](0.35 + 0.6 * place / len(sets)) for place, label in enumerate(sets)}
    for line in lines:
        if line.label not in found:
            base = COLOURS[line.method.removesuffix("-ucb")]
            found[line.label] = to_rgba(base, 1.0 if to_rgba(base) not in found.values() else 0.5)
    return found


def mean_curve(records: Sequence[Mapping[str, Any]]) -> list[tuple[float, ...]]:
    """Validity and diversity at the temperatures that all runs share, means over runs, ordered by validity."""
    tried = set.intersection(*({point["temperature"] for point in record["points"]} for record in records))
    return sorted(
        tuple(
            float(np.mean([at_temperature(record["points"], temperature)[axis] for record in records]))
            for axis in ("validity", "distinct_of_1000")
        )
        for temperature in tried
    )

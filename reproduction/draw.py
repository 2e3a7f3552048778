"""The figures of the results page: pass@k, learning curves and what changes the outcome."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox

from polychromic.files import whole_file
from polychromic.sweep.cells import PRETRAINED
from reproduction.changes import STRICT, compared_with, trained_alike
from reproduction.intervals import curve_of, difference, metric_of, over_seeds, pass_curve
from reproduction.lines import Line, line_name, title_of
from reproduction.plans import (
    AS_COMPARED,
    METHOD_NAMES,
    OBSERVATION,
    REFERENCE,
    TASKS,
)
from reproduction.words import enough

# The system may have matplotlib's fonts in another version, whose glyphs have other numbers in the file.
os.environ["MPL_IGNORE_SYSTEM_FONTS"] = "1"
# One colour per method everywhere, as in reports (page.css), readable by colour-blind readers; UCB is dashed.
COLOURS = {"reinforce": "#00856a", "ppo": "#0072b2", "poly-ppo": "#d55e00", PRETRAINED: "#6b7480"}
AGAINST = {"trajectories": "trajectories", "steps": "environment steps"}
SPAN = 0.1  # the smallest range of an axis of shares
SHOWN = {"success": "success", "coverage": "coverage"}


def passk_figure(task: str, lines: Sequence[Line]) -> Picture:
    """pass@k of every method: those without UCB and the pretrained policy on the left, those with it on the right."""
    kinds = ("", "-ucb") if any(line.method.endswith("-ucb") for line in lines) else ("",)
    picture = Picture(figsize=(4.6 * len(kinds), 3.6), layout="constrained")
    panels = picture.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        own = [line for line in lines if line.method in (PRETRAINED, "") or line.method.endswith("-ucb") == bool(kind)]
        _passk(axes, own)
        axes.set_title(f"{title_of(task, TASKS)}{', with UCB' if kind else ''}", fontsize=10)
    panels[-1].set_ylabel("" if len(kinds) > 1 else "pass@k")
    return picture


def _passk(axes: Axes, lines: Sequence[Line]) -> None:
    passk_lines(axes, lines)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def passk_lines(axes: Axes, lines: Sequence[Line]) -> None:
    """pass@k of some lines, without a legend."""
    for line in lines:
        ks, intervals = pass_curve(line.records)
        if not ks:
            continue
        style = _style(line)
        axes.plot(ks, [interval.mean for interval in intervals], label=_legend(line), **style)
        axes.fill_between(
            ks,
            [interval.low for interval in intervals],
            [interval.high for interval in intervals],
            color=style["color"],
            alpha=0.12,
            lw=0,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32, 64, 128])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:g}"))
    plain(axes, "k attempts", "pass@k")
    axes.set_ylim(top=1.01)


def curves_figure(task: str, lines: Sequence[Line], base: Line | None = None) -> Picture:
    """Success and coverage during training against the cost: means over seeds with their intervals.

    base: the pretrained policy, a level line.
    """
    rollouts = lines[0].records[0]["rollouts"]
    picture = Picture(figsize=(9.2, 6.2), layout="constrained")
    panels = picture.subplots(2, 2, sharey="row")
    for row, (name, title) in zip(panels, SHOWN.items(), strict=True):
        for axes, (against, label) in zip(row, AGAINST.items(), strict=True):
            level = metric_of(base.records, "success" if name == "success" else f"pass@{rollouts}") if base else None
            if level is not None:
                axes.axhline(level.mean, color=COLOURS[PRETRAINED], lw=1, label="pretrained")
            _curves(axes, lines, name, against)
            plain(axes, label, f"{title} in {rollouts} attempts" if name == "coverage" else title)
        low, high = row[0].get_ylim()
        if high - low < SPAN:  # all at the same level: do not magnify rounding errors
            row[0].set_ylim((low + high - SPAN) / 2, (low + high + SPAN) / 2)
        row[1].set_ylabel("")
    panels[0, 0].set_title(title_of(task, TASKS), fontsize=10)
    panels[0, 0].legend(frameon=False, fontsize=8)
    return picture


def _curves(axes: Axes, lines: Sequence[Line], name: str, against: str) -> None:
    for line in lines:
        curve = curve_of(line.records, name, against)
        if curve is None:
            continue
        where, values = curve
        style = _style(line)
        shown = over_seeds(values)
        axes.plot(where, shown.mean, label=_legend(line), **style)
        low, high = np.clip(shown.low, 0, 1), np.clip(shown.high, 0, 1)  # all curves are shares
        axes.fill_between(where, low, high, color=style["color"], alpha=0.12, lw=0)
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))


def study_figure(task: str, lines: Sequence[Line]) -> Picture:
    """The effect of every change on success and on pass@128, with intervals."""
    changes = [line for line in lines if line.part not in (REFERENCE, OBSERVATION)]
    alike = trained_alike(lines)
    picture = Picture(figsize=(9.2, 1.2 + 0.28 * len(changes)), layout="constrained")
    panels = picture.subplots(1, 2, sharey=True)
    for axes, name in zip(panels, ("success", "pass@128"), strict=True):
        for number, line in enumerate(changes):
            base = compared_with(line, lines)
            gap = difference(line.records, base.records, name, STRICT, alike) if base else None
            if gap is not None and base is not None:
                colour = COLOURS[line.method]
                axes.plot([100 * gap.low, 100 * gap.high], [number, number], color=colour, lw=1.5)
                filled = colour if enough(line) and enough(base) else "white"  # too few seeds: hollow
                axes.plot(100 * gap.mean, number, "o", color=colour, mfc=filled, ms=4)
        axes.axvline(0, color="black", lw=0.8)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, -2), max(high, 2))  # hundredths of a point must not look like an effect
        plain(axes, f"change in {name}, points", "")
    panels[0].set_yticks(range(len(changes)), [_change_name(line) for line in changes], fontsize=8)
    panels[0].set_ylim(len(changes) - 0.4, -0.6)  # the first change at the top, none on an edge
    panels[0].set_title(f"{title_of(task, TASKS)}: effect of each change (99 % intervals)", fontsize=10)
    return picture


def _change_name(line: Line) -> str:
    against = "" if line.against.endswith(AS_COMPARED) else line.against  # the same method: no need to name it
    return f"{line.part}: {line_name(line)}" + (f" − {against}" if against else "")


def save(picture: Picture, path: Path) -> None:
    """An SVG, the same bytes for the same figure."""
    # The solver of the layout leaves noise in the last digits, from which names in the file are made.
    picture.draw_without_rendering()
    picture.set_layout_engine("none")
    for axes in picture.axes:
        axes.set_position(Bbox(np.round(axes.get_position().get_points(), 4)))
    with rc_context({"svg.hashsalt": "polychromic"}), whole_file(path) as partial:
        picture.savefig(partial, format="svg", metadata={"Date": None})


def _style(line: Line) -> dict[str, Any]:
    method = line.method or PRETRAINED
    style = "--" if method.endswith("-ucb") else ":" if not line.method else "-"
    return {"color": COLOURS[method.removesuffix("-ucb")], "ls": style, "lw": 1.8}


def _legend(line: Line) -> str:
    seeds = len(line.records)
    runs = (
        f" ({seeds} seed{'s' if seeds > 1 else ''})"
        if line.method in METHOD_NAMES and line.method != PRETRAINED
        else ""
    )
    return line_name(line) + runs


def plain(axes: Axes, x: str, y: str) -> None:
    """Labels, and no frame."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)


def _thousands(value: float, _: Any) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{np.round(value):g}"

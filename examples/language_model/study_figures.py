"""The figures of the language study, from its stored cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from examples.language_model.families import FAMILIES, SPLITS
from examples.language_model.study_plan import MAIN_ROWS, TEMPERATURES
from examples.language_model.study_tables import ANNEALED, COOL, NAMES, OTHERS, SETS, STOCK, Cells

matplotlib.use("Agg")
import matplotlib.pyplot as plt

COLOURS = {"pretrained": "#4c78a8", COOL: "#4c78a8", STOCK: "#7f7f7f", SETS: "#d6336c", ANNEALED: "#e8a33d"}
MARKERS = dict(zip(OTHERS, "PXsv^", strict=True))


def pass_figure(cells: Cells, file: Path, splits: Sequence[str] = SPLITS) -> None:
    """pass@k, a column a family and a row a split; a band is the range of the seeds."""
    families = [family for family in FAMILIES if any(key[0] == family for key in cells)]
    figure, axes = plt.subplots(
        len(splits), len(families), figsize=(10, 2.6 * len(splits) + 0.4), squeeze=False, layout="constrained"
    )
    for line, split in zip(axes, splits, strict=True):
        for axis, family in zip(line, families, strict=True):
            for row, colour in COLOURS.items():
                found = cells.get((family, row))
                if not found:
                    continue
                curves = [cell["scores"][split]["pass_at_k"] for cell in found.values()]
                ks = sorted(map(int, curves[0]))
                numbers = 100 * np.array([[curve[str(k)] for k in ks] for curve in curves])
                dashed = {"linestyle": "--"} if row == COOL else {}
                axis.plot(ks, numbers.mean(axis=0), color=colour, label=NAMES[row], marker="o", markersize=3, **dashed)
                axis.fill_between(ks, numbers.min(axis=0), numbers.max(axis=0), color=colour, alpha=0.15, linewidth=0)
            axis.set_xscale("log", base=2)
            axis.set_title(f"{family}, {split} prompts", fontsize=10)
            axis.set_ylim(0, 102)
            axis.set_xticks(ks, [str(k) for k in ks])
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel("% of prompts solved")
    for axis in axes[-1]:
        axis.set_xlabel("attempts")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    note = "Lines are means over seeds, bands their range. Harder prompts have one or two right answers."
    figure.supxlabel(note, fontsize=9, color="#555555")
    _save(figure, file)


def curve_figure(cells: Cells, file: Path) -> None:
    """Success, distinct right answers and entropy over training, on held-out prompts."""
    families = [family for family in FAMILIES if any(key[0] == family for key in cells)]
    panels: tuple[tuple[str, Callable[[dict[str, Any]], list[tuple[float, float]]]], ...] = (
        ("held-out pass@1", lambda c: [(p["step"], p["held-out"]["pass_at_k"]["1"]) for p in c["curve"]]),
        (
            "distinct right answers of 32",
            lambda c: [(p["step"], list(p["held-out"]["distinct_right"].values())[-1]) for p in c["curve"]],
        ),
        ("entropy of a token, nats", lambda c: [(step, entropy) for step, entropy in c["entropy"]]),
    )
    figure, axes = plt.subplots(
        len(families), len(panels), figsize=(10, 2.8 * len(families)), squeeze=False, layout="constrained"
    )
    for line, family in zip(axes, families, strict=True):
        for axis, (title, points) in zip(line, panels, strict=True):
            for row, colour in COLOURS.items():
                curves = [points(cell) for cell in cells.get((family, row), {}).values()]
                if not curves or not curves[0]:
                    continue
                steps = [step for step, _ in curves[0]]
                numbers = np.array([[value for _, value in curve] for curve in curves])
                axis.plot(steps, numbers.T, color=colour, linewidth=0.5, alpha=0.5)
                axis.plot(steps, numbers.mean(axis=0), color=colour, linewidth=2, label=NAMES[row])
            axis.set_title(f"{family}: {title}", fontsize=10)
            axis.set_ylim(bottom=0)
    for axis in axes[-1]:
        axis.set_xlabel("step")
    axes[0, 0].legend(frameon=False, fontsize=8)
    _save(figure, file)


def temperature_figure(cells: Cells, file: Path) -> None:
    """What each model trades by temperature: success in one attempt against harder prompts and distinct answers."""
    families = [family for family in FAMILIES if any(key[0] == family for key in cells)]
    panels = (("harder", "pass_at_k", 32, "harder pass@32"), ("held-out", "distinct_right", 64, "distinct right of 64"))
    figure, axes = plt.subplots(
        len(panels), len(families), figsize=(10, 3 * len(panels)), squeeze=False, layout="constrained"
    )
    for line, (split, metric, k, title) in zip(axes, panels, strict=True):
        for axis, family in zip(line, families, strict=True):
            for row in MAIN_ROWS:
                scans = [
                    scan
                    for cell in cells.get((family, row), {}).values()
                    if len(scan := cell.get("temperatures", {})) == len(TEMPERATURES)
                ]
                if not scans:
                    continue
                points = np.mean([[_traded(scan[str(t)], split, metric, k) for t in TEMPERATURES] for scan in scans], 0)
                axis.plot(*points.T, color=COLOURS[row], marker="o", markersize=3, label=NAMES[row])
                axis.plot(*points[TEMPERATURES.index(1.0)], color=COLOURS[row], marker="*", markersize=12)
            for row, marker in MARKERS.items():
                if found := cells.get((family, row)):
                    point = np.mean([_traded(cell["scores"], split, metric, k) for cell in found.values()], 0)
                    colour = COLOURS[SETS] if row.startswith("polychromic") else "#333333"
                    axis.plot(*point, color=colour, marker=marker, markersize=6, linestyle="none", label=NAMES[row])
            axis.set_title(f"{family}: {title}", fontsize=10)
            axis.set_ylim(bottom=0)
            axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("held-out pass@1")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    lowest, highest = TEMPERATURES[0], TEMPERATURES[-1]
    note = f"A dot a temperature from {lowest} to {highest}; stars and marks are at 1. Up and to the right is better."
    figure.supxlabel(note, fontsize=9, color="#555555")
    _save(figure, file)


def _traded(scores: dict[str, Any], split: str, metric: str, k: int) -> tuple[float, float]:
    others = scores[split][metric]
    return scores["held-out"]["pass_at_k"]["1"], others[str(min(k, max(map(int, others))))]


def _save(figure: Any, file: Path) -> None:
    plt.rcParams["svg.hashsalt"] = "polychromic"  # the same file every time
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)

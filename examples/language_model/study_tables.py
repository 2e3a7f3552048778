"""Tables and figures of the language study, from its stored cells alone.

    python examples/language_model/study_tables.py results/language --figures docs/figures

Means over seeds with 95 % intervals by Student's t, which suit a handful of seeds. Differences from stock GRPO are
taken seed by seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import numpy as np
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FAMILIES = ("countdown", "chains", "programs")
SPLITS = ("train", "held-out", "harder")
NAMES = {
    "pretrained": "pretrained",
    "best-temperature": "pretrained, best temperature",
    "stock": "stock GRPO",
    "stock-entropy": "stock GRPO + entropy bonus",
    "stock-kl": "stock GRPO + KL",
    "best-of-4": "pass@4 training (best-of)",
    "polychromic-4": "polychromic, sets of 4",
    "polychromic-8": "polychromic, sets of 8",
    "polychromic-16": "polychromic, sets of 16",
    "polychromic-4-kl": "polychromic, sets of 4, + KL",
    "polychromic-4-kl-unscaled": "polychromic, sets of 4, + KL, advantages not scaled",
    "polychromic-4-annealed": "polychromic, sets of 4, annealed to GRPO",
}
COLOURS = {"pretrained": "#4c78a8", "stock": "#7f7f7f", "polychromic-4": "#d6336c"}
Cells = dict[tuple[str, str], dict[int, dict[str, Any]]]


def read(folder: Path) -> Cells:
    """The cells by family and row, then by seed."""
    cells: Cells = {}
    for file in sorted(folder.glob("*.json")):
        cell = json.loads(file.read_text())
        if not {"family", "row", "seed", "scores"} <= cell.keys():
            raise SystemExit(f"{file} is not a cell of the language study")
        cells.setdefault((cell["family"], cell["row"]), {})[cell["seed"]] = cell
    if not cells:
        raise SystemExit(f"{folder} has no cells; run examples/language_model/study.py first")
    for family in FAMILIES:
        pretrained = cells.get((family, "pretrained"), {})
        if pretrained:
            cells[family, "best-temperature"] = {seed: _at_best(cell) for seed, cell in pretrained.items()}
    return cells


def _at_best(cell: dict[str, Any]) -> dict[str, Any]:
    """The pretrained model at the temperature that is best on the prompts that are trained on, by pass@8."""
    by_temperature = cell["temperatures"]
    best = max(by_temperature, key=lambda temperature: by_temperature[temperature]["train"]["pass_at_k"]["8"])
    return {**cell, "scores": by_temperature[best], "temperature": float(best), "training_cpu_seconds": 0.0}


def values(cells: dict[int, dict[str, Any]], split: str, metric: str, k: int) -> dict[int, float]:
    """A metric by seed; `k` is taken down to the attempts that were made."""
    found = {}
    for seed, cell in cells.items():
        scores = cell["scores"][split][metric]
        found[seed] = scores[str(min(k, max(map(int, scores))))]
    return found


# The 97.5th percentile of Student's t by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def mean_and_interval(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Mean over seeds and its 95 % interval, which is endless for one seed."""
    mean = float(np.mean(numbers))
    if len(numbers) < 2:
        return mean, float("-inf"), float("inf")
    half = STUDENT.get(len(numbers) - 1, 2.262) * float(np.std(numbers, ddof=1)) / len(numbers) ** 0.5
    return mean, mean - half, mean + half


COLUMNS: tuple[tuple[str, str, str, int], ...] = (
    ("train pass@1", "train", "pass_at_k", 1),
    ("held-out pass@1", "held-out", "pass_at_k", 1),
    ("pass@8", "held-out", "pass_at_k", 8),
    ("pass@32", "held-out", "pass_at_k", 32),
    ("pass@64", "held-out", "pass_at_k", 64),
    ("distinct right of 64", "held-out", "distinct_right", 64),
    ("harder pass@8", "harder", "pass_at_k", 8),
    ("pass@32", "harder", "pass_at_k", 32),
    ("pass@64", "harder", "pass_at_k", 64),
)


def main_table(cells: Cells, family: str) -> str:
    """Means over seeds; the cost is that of training alone."""
    lines = ["| | seeds | " + " | ".join(name for name, *_ in COLUMNS) + " | CPU s |"]
    lines.append("|---" * (len(COLUMNS) + 3) + "|")
    for row, name in NAMES.items():
        found = cells.get((family, row))
        if not found:
            continue
        numbers = []
        for _, split, metric, k in COLUMNS:
            mean = np.mean(list(values(found, split, metric, k).values()))
            numbers.append(f"{mean:.3f}" if metric == "pass_at_k" else f"{mean:.1f}")
        cost = np.mean([cell["training_cpu_seconds"] for cell in found.values()])
        lines.append(f"| {name} | {len(found)} | " + " | ".join(numbers) + f" | {cost:.0f} |")
    return "\n".join(lines)


def difference_table(cells: Cells, family: str, other: str = "stock") -> str:
    """Each row minus stock GRPO on the same seeds, with 95 % intervals."""
    chosen = [COLUMNS[i] for i in (1, 3, 5, 7)]
    lines = ["| minus stock GRPO | seeds | held-out pass@1 | pass@32 | distinct right of 64 | harder pass@32 |"]
    lines.append("|---|---|---|---|---|---|")
    base = cells.get((family, other), {})
    for row, name in NAMES.items():
        seeds = sorted(set(cells.get((family, row), {})) & set(base))
        if row == other or not seeds:
            continue
        parts = []
        for _, split, metric, k in chosen:
            mine, theirs = (values(found, split, metric, k) for found in (cells[family, row], base))
            mean, low, high = mean_and_interval([mine[seed] - theirs[seed] for seed in seeds])
            parts.append(f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]")
        lines.append(f"| {name} | {len(seeds)} | " + " | ".join(parts) + " |")
    return "\n".join(lines)


def equal_success_table(cells: Cells, family: str) -> str:
    """Each row at the first evaluation whose held-out pass@1 has reached what stock GRPO ends with, seed by seed."""
    lines = [
        "| at stock GRPO's last pass@1 | seeds that reach it | step | pass@32 | distinct right of 32 | harder pass@32 |"
    ]
    lines.append("|---|---|---|---|---|---|")
    base = cells.get((family, "stock"), {})
    for row, name in NAMES.items():
        found = cells.get((family, row), {})
        reached = []
        for seed in sorted(set(found) & set(base)):
            goal = base[seed]["curve"][-1]["held-out"]["pass_at_k"]["1"]
            points = [point for point in found[seed]["curve"] if point["held-out"]["pass_at_k"]["1"] >= goal]
            reached += points[:1]
        if not reached:
            continue
        k = max(map(int, reached[0]["held-out"]["pass_at_k"]))
        means = [
            np.mean([point["step"] for point in reached]),
            np.mean([point["held-out"]["pass_at_k"][str(k)] for point in reached]),
            np.mean([point["held-out"]["distinct_right"][str(k)] for point in reached]),
            np.mean([point["harder"]["pass_at_k"][str(k)] for point in reached]),
        ]
        lines.append(
            f"| {name} | {len(reached)} of {len(set(found) & set(base))} | "
            f"{means[0]:.0f} | {means[1]:.3f} | {means[2]:.1f} | {means[3]:.3f} |"
        )
    return "\n".join(lines)


def pass_figure(cells: Cells, file: Path) -> None:
    """pass@k by family and split; a band is the range of the seeds."""
    families = [family for family in FAMILIES if any(key[0] == family for key in cells)]
    figure, axes = plt.subplots(
        len(families), len(SPLITS), figsize=(10, 2.8 * len(families)), squeeze=False, layout="constrained", sharey=True
    )
    for line, family in zip(axes, families, strict=True):
        for axis, split in zip(line, SPLITS, strict=True):
            for row, colour in COLOURS.items():
                found = cells.get((family, row))
                if not found:
                    continue
                curves = [cell["scores"][split]["pass_at_k"] for cell in found.values()]
                ks = sorted(map(int, curves[0]))
                numbers = np.array([[curve[str(k)] for k in ks] for curve in curves])
                axis.plot(ks, numbers.mean(axis=0), color=colour, label=NAMES[row], marker="o", markersize=3)
                axis.fill_between(ks, numbers.min(axis=0), numbers.max(axis=0), color=colour, alpha=0.15, linewidth=0)
            axis.set_xscale("log", base=2)
            axis.set(title=f"{family}, {split} prompts", ylim=(0, 1.02))
            axis.set_xticks(ks, [str(k) for k in ks])
        line[0].set_ylabel("pass@k")
    for axis in axes[-1]:
        axis.set_xlabel("attempts k")
    axes[0, 0].legend(frameon=False, fontsize=8)
    _save(figure, file)


def curve_figure(cells: Cells, file: Path) -> None:
    """Success, distinct right answers and entropy over training, on held-out prompts."""
    families = [family for family in FAMILIES if any(key[0] == family for key in cells)]
    panels: tuple[tuple[str, Callable[[dict[str, Any]], list[tuple[float, float]]]], ...] = (
        ("held-out pass@1", lambda c: [(p["step"], p["held-out"]["pass_at_k"]["1"]) for p in c["curve"]]),
        (
            "distinct right answers",
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


def _save(figure: Any, file: Path) -> None:
    plt.rcParams["svg.hashsalt"] = "polychromic"  # the same file every time
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main(results: Annotated[Path, tyro.conf.Positional], figures: Path | None = None) -> None:
    """Print the tables, and draw the figures if a folder is given for them."""
    cells = read(results)
    for family in FAMILIES:
        if any(key[0] == family for key in cells):
            print(f"## {family}\n")
            print(main_table(cells, family) + "\n")
            print(difference_table(cells, family) + "\n")
            print(equal_success_table(cells, family) + "\n")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        pass_figure(cells, figures / "language-study.svg")
        curve_figure(cells, figures / "language-study-training.svg")


if __name__ == "__main__":
    tyro.cli(main)

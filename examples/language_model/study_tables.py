"""Tables, page and figures of the language study, from its stored cells alone.

    python -m examples.language_model.study_tables results/language --page docs/language-study.md --figures docs/figures

Means over seeds with 95 % intervals by Student's t, which suit a handful of seeds. Differences from stock GRPO are
taken seed by seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import numpy as np
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FAMILIES = ("countdown", "chains", "programs")
STOCK, SETS, ANNEALED = "stock", "polychromic-4", "polychromic-4-annealed"  # what the claim is about
COOL = "best-temperature-1"  # the baseline that needs no training
CLOSE = 0.03  # how far behind stock GRPO's pass@1 the claim allows, a mean over seeds
PLANNED_SEEDS = {"pretrained": 8, STOCK: 8, SETS: 8, ANNEALED: 8}  # 5 of the other rows
SPLITS = ("train", "held-out", "harder")
NAMES = {
    "pretrained": "pretrained",
    "best-temperature": "pretrained, best temperature for 8 attempts",
    "best-temperature-1": "pretrained, best temperature for one attempt",
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
COLOURS = {"pretrained": "#4c78a8", COOL: "#4c78a8", STOCK: "#7f7f7f", SETS: "#d6336c", ANNEALED: "#e8a33d"}
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
            for row, attempts in (("best-temperature", "8"), (COOL, "1")):
                cells[family, row] = {seed: _at_best(cell, attempts) for seed, cell in pretrained.items()}
    return cells


def _at_best(cell: dict[str, Any], attempts: str) -> dict[str, Any]:
    """The pretrained model at the temperature that is best on the prompts that are trained on, by pass@`attempts`."""
    by_temperature = cell["temperatures"]
    best = max(by_temperature, key=lambda temperature: by_temperature[temperature]["train"]["pass_at_k"][attempts])
    return {**cell, "scores": by_temperature[best], "temperature": float(best), "training_cpu_seconds": 0.0}


def values(cells: dict[int, dict[str, Any]], split: str, metric: str, k: int) -> dict[int, float]:
    """A metric by seed; `k` is taken down to the attempts that were made."""
    found = {}
    for seed, cell in cells.items():
        scores = cell["scores"][split][metric]
        found[seed] = scores[str(min(k, max(map(int, scores))))]
    return found


# The 97.5th percentile of Student's t by degrees of freedom. That of 9 stands in for more: intervals are then too wide.
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


def differences(cells: Cells, family: str, row: str, split: str, metric: str, k: int) -> tuple[float, float, float]:
    """A row minus stock GRPO on the seeds that both have: mean and interval."""
    mine, theirs = (values(cells.get((family, name), {}), split, metric, k) for name in (row, STOCK))
    return mean_and_interval([mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())])


def verdict(cells: Cells, family: str, row: str = SETS) -> str:
    """Whether a row is close to stock GRPO in one attempt, and ahead in many and in distinct answers at 95 %."""
    if not cells.get((family, row), {}).keys() & cells.get((family, STOCK), {}).keys():
        return "not run"
    close = differences(cells, family, row, "held-out", "pass_at_k", 1)[0] >= -CLOSE
    gaps = {split: differences(cells, family, row, split, "pass_at_k", 32) for split in SPLITS[1:]}
    many = {
        split: "ahead" if low > 0 else "behind" if high < 0 else "not resolved"
        for split, (_, low, high) in gaps.items()
    }
    distinct = differences(cells, family, row, "held-out", "distinct_right", 64)[1] > 0
    words = (
        ("within {} points of it" if close else "more than {} points behind").format(round(100 * CLOSE))
        + " in one attempt",
        "in 32 attempts " + ", ".join(f"{word} on {split} prompts" for split, word in many.items()),
        f"{'more' if distinct else 'not resolved in'} distinct answers",
    )
    earned = close and "ahead" in many.values() and distinct
    return f"**{'earned' if earned else 'not earned'}**: {', '.join(words)}"


def verdict_table(cells: Cells, rows: Sequence[str] = (SETS, ANNEALED)) -> str:
    """A line a family and row: differences from stock GRPO at equal steps, and the verdict."""
    lines = ["| minus stock GRPO | held-out pass@1 | held-out pass@32 | harder pass@32 | distinct right of 64 | |"]
    lines.append("|---" * 6 + "|")
    for family in FAMILIES:
        for row in rows:
            if cells.get((family, row)):
                parts = [_signed(differences(cells, family, row, *column[1:])) for column in _COMPARED]
                lines.append(f"| {family}: {NAMES[row]} | " + " | ".join(parts) + f" | {verdict(cells, family, row)} |")
    return "\n".join(lines)


_COMPARED = [COLUMNS[index] for index in (1, 3, 7, 5)]


def _signed(difference: tuple[float, float, float]) -> str:
    mean, low, high = difference
    return f"{mean:+.3f}" if np.isinf(low) else f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def difference_table(cells: Cells, family: str) -> str:
    """Each row minus stock GRPO on the same seeds, with 95 % intervals."""
    lines = ["| minus stock GRPO | seeds | held-out pass@1 | pass@32 | harder pass@32 | distinct right of 64 |"]
    lines.append("|---|---|---|---|---|---|")
    base = cells.get((family, STOCK), {})
    for row, name in NAMES.items():
        seeds = cells.get((family, row), {}).keys() & base.keys()
        if row != STOCK and seeds:
            parts = [_signed(differences(cells, family, row, *column[1:])) for column in _COMPARED]
            lines.append(f"| {name} | {len(seeds)} | " + " | ".join(parts) + " |")
    return "\n".join(lines)


def at_success(curve: Sequence[dict[str, Any]], goal: float) -> tuple[float, float, float] | None:
    """Held-out pass@32, harder pass@32 and distinct right answers where held-out pass@1 first reaches a goal.

    Interpolated between the evaluations before and after; None where it is not reached.
    """
    points = [
        (
            point["held-out"]["pass_at_k"]["1"],
            *(list(point[split][metric].values())[-1] for split, metric in _LAST),
        )
        for point in curve
    ]
    for before, after in pairwise(points):
        if before[0] < goal <= after[0]:
            share = (goal - before[0]) / (after[0] - before[0])
            first, second, third = (x + share * (y - x) for x, y in zip(before[1:], after[1:], strict=True))
            return first, second, third
    return None


_LAST = (("held-out", "pass_at_k"), ("harder", "pass_at_k"), ("held-out", "distinct_right"))


def equal_success_table(cells: Cells, family: str) -> str:
    """Each row minus stock GRPO, both where they first have the highest pass@1 that the slower of the two reaches."""
    lines = [
        "| at equal success, minus stock GRPO | seeds | pass@1 | pass@32 | harder pass@32 | distinct right of 32 |"
    ]
    lines.append("|---|---|---|---|---|---|")
    base = cells.get((family, STOCK), {})
    for row, name in NAMES.items():
        found = cells.get((family, row), {})
        gaps, goals = [], []
        for seed in sorted(found.keys() & base.keys()) if row != STOCK else []:
            curves = found[seed]["curve"], base[seed]["curve"]
            if not all(curves):
                continue
            goal = min(max(point["held-out"]["pass_at_k"]["1"] for point in curve) for curve in curves)
            mine, theirs = (at_success(curve, goal) for curve in curves)
            if mine and theirs:
                goals.append(goal)
                gaps.append(np.subtract(mine, theirs))
        if gaps:
            parts = [_signed(mean_and_interval(column)) for column in np.transpose(gaps).tolist()]
            lines.append(f"| {name} | {len(gaps)} | {np.mean(goals):.3f} | " + " | ".join(parts) + " |")
    return "\n".join(lines)


def rates_table(folder: Path, cells: Cells) -> str:
    """The search: pass@1 on validation prompts by learning rate; in bold the rate that the cells have."""
    found: dict[tuple[str, str], dict[float, float]] = {}
    for file in sorted(folder.glob("search/*.json")):
        cell = json.loads(file.read_text())
        score = cell["scores"]["validation"]["pass_at_k"]["1"]
        found.setdefault((cell["family"], cell["row"]), {})[cell["rate"]] = score
    rates = sorted({rate for scores in found.values() for rate in scores})
    lines = ["| validation pass@1 by learning rate | " + " | ".join(f"{rate:g}" for rate in rates) + " |"]
    lines.append("|---" * (len(rates) + 1) + "|")
    for (family, row), scores in found.items():
        chosen = {cell["rate"] for cell in cells.get((family, row), {}).values()}
        shown = [f"**{scores[r]:.3f}**" if r in chosen else f"{scores[r]:.3f}" for r in rates if r in scores]
        lines.append(f"| {family}: {NAMES[row]} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def provenance(folder: Path, cells: Cells) -> str:
    """What was run, at which commits, and what it cost."""
    stored = [json.loads(file.read_text()) for file in sorted(folder.glob("**/*.json"))]
    hours = sum(cell["cpu_seconds"] for cell in stored) / 3600
    commits = ", ".join(sorted({f"`{_short(cell['commit'])}`" for cell in stored}))
    wanted = [(family, row) for family in FAMILIES for row in NAMES if not row.startswith("best-temperature")]
    seeds = ", ".join(str(seed) for seed in sorted({seed for own in cells.values() for seed in own}))
    missing = sum(max(0, PLANNED_SEEDS.get(row, 5) - len(cells.get((family, row), {}))) for family, row in wanted)
    left = f" {missing} cells of the plan have not been run yet." if missing else ""
    return (
        f"`make language-study`, in parts (each cell has its own command), seeds {seeds}, commits {commits}: "
        f"{len(stored)} runs, {hours:.1f} CPU hours besides pretraining.{left}"
    )


def _short(commit: str) -> str:
    return commit[:12] + ("-dirty" if commit.endswith("-dirty") else "")


def blocks(folder: Path, cells: Cells) -> dict[str, str]:
    """The text of every mark of the page."""
    found = {
        "verdict": verdict_table(cells),
        "rates": rates_table(folder, cells),
        "provenance": provenance(folder, cells),
    }
    for family in FAMILIES:
        tables = (main_table(cells, family), difference_table(cells, family), equal_success_table(cells, family))
        found[family] = "\n\n".join(tables)
    return found


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


def _save(figure: Any, file: Path) -> None:
    plt.rcParams["svg.hashsalt"] = "polychromic"  # the same file every time
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def main(results: Annotated[Path, tyro.conf.Positional], page: Path | None = None, figures: Path | None = None) -> None:
    """Print the tables; fill the marks of a page, and draw the figures in a folder, where these are given."""
    cells = read(results)
    texts = blocks(results, cells)
    for name, text in texts.items():
        print(f"## {name}\n\n{text}\n")
    if page is not None:
        from reproduction.page import write_page  # not in the environment of the study itself

        write_page(page, texts)
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        pass_figure(cells, figures / "language-study.svg", SPLITS[:0:-1])
        pass_figure(cells, figures / "language-study-splits.svg")
        curve_figure(cells, figures / "language-study-training.svg")


if __name__ == "__main__":
    tyro.cli(main)

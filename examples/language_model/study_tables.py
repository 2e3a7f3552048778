"""Tables, page and figures of the language study, from its stored cells alone.

    python -m examples.language_model.study_tables results/language --page docs/language-study.md --figures docs/figures

Means over seeds with 95 % intervals by Student's t, which suit a handful of seeds. Differences from stock GRPO are
taken seed by seed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from examples.language_model.families import FAMILIES, SPLITS
from examples.language_model.study_plan import planned_seeds

STOCK, SETS, ANNEALED = "stock", "polychromic-4", "polychromic-4-annealed"  # what the claim is about
COOL = "best-temperature-1"  # the baseline that needs no training
RIVALS = ("stock-kl", "stock-entropy")  # what keeps answers without sets, at little cost in success
OTHERS = (*RIVALS, "best-of-4", "polychromic-8", "polychromic-16")
CLOSE = 0.03  # how far behind stock GRPO's pass@1 the claim allows, a mean over seeds
NAMES = {
    "pretrained": "pretrained",
    "best-temperature": "pretrained, best temperature for 8 attempts",
    "best-temperature-1": "pretrained, best temperature for one attempt",
    "stock": "stock GRPO",
    "stock-entropy": "stock GRPO + entropy bonus, scaled by group",
    "stock-entropy-batch": "GRPO scaled by batch + entropy bonus",
    "stock-kl": "stock GRPO + KL",
    "best-of-4": "pass@4 training (best-of)",
    "polychromic-4": "polychromic, sets of 4",
    "polychromic-8": "polychromic, sets of 8",
    "polychromic-16": "polychromic, sets of 16",
    "polychromic-4-kl": "polychromic, sets of 4, + KL",
    "polychromic-4-kl-unscaled": "polychromic, sets of 4, + KL, advantages not scaled",
    "polychromic-8-kl": "polychromic, sets of 8, + KL",
    "polychromic-16-kl": "polychromic, sets of 16, + KL",
    "polychromic-4-annealed": "polychromic, sets of 4, annealed to GRPO",
}
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
            every = set.intersection(*(set(cell["temperatures"]) for cell in pretrained.values()))
            for row, attempts in (("best-temperature", "8"), (COOL, "1")):
                cells[family, row] = {seed: _at_best(cell, attempts, every) for seed, cell in pretrained.items()}
    return cells


def _at_best(cell: dict[str, Any], attempts: str, temperatures: set[str]) -> dict[str, Any]:
    """The pretrained model at the temperature that is best on the prompts that are trained on, by pass@`attempts`.

    Only temperatures that every seed was asked at are candidates.
    """
    by_temperature = cell["temperatures"]
    best = max(
        sorted(temperatures), key=lambda temperature: by_temperature[temperature]["train"]["pass_at_k"][attempts]
    )
    return {**cell, "scores": by_temperature[best], "temperature": float(best), "training_cpu_seconds": 0.0}


def values(cells: dict[int, dict[str, Any]], split: str, metric: str, k: int) -> dict[int, float]:
    """A metric by seed; `k` is taken down to the attempts that were made."""
    return {seed: _at(cell["scores"][split][metric], k) for seed, cell in cells.items()}


def _at(scores: dict[str, float], k: int) -> float:
    return scores[str(min(k, max(map(int, scores))))]


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


def differences(
    cells: Cells, family: str, row: str, split: str, metric: str, k: int, *, other: str = STOCK
) -> tuple[float, float, float]:
    """A row minus another, stock GRPO if not given, on the seeds that both have: mean and interval."""
    mine, theirs = (values(cells.get((family, name), {}), split, metric, k) for name in (row, other))
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


def rivals_table(cells: Cells) -> str:
    """Annealed sets minus the other cheap ways to keep answers."""
    lines = ["| annealed sets minus | seeds | held-out pass@1 | pass@32 | harder pass@32 | distinct right of 64 |"]
    lines.append("|---|---|---|---|---|---|")
    for family in FAMILIES:
        for rival in RIVALS:
            seeds = cells.get((family, ANNEALED), {}).keys() & cells.get((family, rival), {}).keys()
            if seeds:
                gaps = [differences(cells, family, ANNEALED, *column[1:], other=rival) for column in _COMPARED]
                shown = " | ".join(map(_signed, gaps))
                lines.append(f"| {family}: {NAMES[rival]} | {len(seeds)} | {shown} |")
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


def at_temperature(cell: dict[str, Any], goal: float) -> tuple[float, float, float, float] | None:
    """Temperature, held-out and harder pass@32 and distinct answers where held-out pass@1 equals a goal.

    That is at the highest such temperature, interpolated between its neighbours; None where there is none.
    """
    points = [
        (
            by_split["held-out"]["pass_at_k"]["1"],
            float(temperature),
            *(_at(by_split[split][metric], k) for _, split, metric, k in _COMPARED[1:]),
        )
        for temperature, by_split in sorted(cell.get("temperatures", {}).items(), key=lambda pair: -float(pair[0]))
    ]
    for hotter, cooler in pairwise(points):
        if hotter[0] < goal <= cooler[0]:
            share = (goal - hotter[0]) / (cooler[0] - hotter[0])
            found = [x + share * (y - x) for x, y in zip(hotter[1:], cooler[1:], strict=True)]
            return found[0], found[1], found[2], found[3]
    return None


def at_equal_success(cells: Cells, family: str, row: str, other: str) -> tuple[list[float], list[Any], int]:
    """A row at temperature 1 minus another one at the temperature with the same held-out pass@1.

    Returns:
        By seed that reaches it: that temperature, and the differences in held-out and harder pass@32 and distinct
        answers; then how many seeds the other row was asked at several temperatures.
    """
    temperatures, gaps = [], []
    both = sorted(cells.get((family, row), {}).keys() & cells.get((family, other), {}).keys())
    for seed in both:
        own = cells[family, row][seed]["scores"]
        found = at_temperature(cells[family, other][seed], own["held-out"]["pass_at_k"]["1"])
        if found:
            temperatures.append(found[0])
            gaps.append(np.subtract([_at(own[split][metric], k) for _, split, metric, k in _COMPARED[1:]], found[1:]))
    return temperatures, gaps, sum("temperatures" in cells[family, other][seed] for seed in both)


def temperature_table(
    cells: Cells, rows: Sequence[str] = (SETS, ANNEALED), others: Sequence[str] = (STOCK, "pretrained")
) -> str:
    """Rows at temperature 1 minus other models at the temperature of equal success."""
    lines = [
        "| | minus | seeds | its temperature | pass@32 | harder pass@32 | distinct right of 64 |",
        "|---" * 7 + "|",
    ]
    for family in FAMILIES:
        for row in rows:
            for other in others:
                temperatures, gaps, asked = at_equal_success(cells, family, row, other)
                if asked:
                    parts = [_signed(mean_and_interval(own)) for own in np.transpose(gaps).tolist()]
                    shown = [f"{np.mean(temperatures):.2f}", *parts] if gaps else ["none reaches it", "", "", ""]
                    name = f"{family}: {NAMES[row]} | {NAMES[other]}"
                    lines.append(f"| {name} | {len(gaps)} of {asked} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


COOLER = ("0.8", "0.6", "0.4")


def cooler(cells: Cells, family: str, temperature: str) -> list[list[float]]:
    """Sets of 4 at a temperature minus stock GRPO at 1: by column of the verdict, the differences by seed."""
    stock = cells.get((family, STOCK), {})
    sets = {seed: cell.get("temperatures", {}).get(temperature) for seed, cell in cells.get((family, SETS), {}).items()}
    seeds = [seed for seed, scores in sets.items() if scores and seed in stock]
    return [
        [_at(sets[seed][split][metric], k) - _at(stock[seed]["scores"][split][metric], k) for seed in seeds]
        for _, split, metric, k in _COMPARED
    ]


def cooler_table(cells: Cells) -> str:
    """A line a family and temperature."""
    lines = ["| minus stock GRPO at 1 | seeds | held-out pass@1 | pass@32 | harder pass@32 | distinct right of 64 |"]
    lines.append("|---" * 6 + "|")
    for family in FAMILIES:
        for temperature in COOLER:
            columns = cooler(cells, family, temperature)
            if columns[0]:
                parts = [_signed(mean_and_interval(column)) for column in columns]
                name = f"{family}: {NAMES[SETS]}, at {temperature}"
                lines.append(f"| {name} | {len(columns[0])} | " + " | ".join(parts) + " |")
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
    missing = sum(max(0, planned_seeds(row) - len(cells.get((family, row), {}))) for family, row in wanted)
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
        "others": verdict_table(cells, OTHERS),
        "rivals": rivals_table(cells),
        "rivals-at-equal-success": temperature_table(cells, (*RIVALS, "best-of-4"), (SETS,)),
        "cooler": cooler_table(cells),
        "temperatures": temperature_table(cells),
        "rates": rates_table(folder, cells),
        "provenance": provenance(folder, cells),
    }
    for family in FAMILIES:
        tables = (main_table(cells, family), difference_table(cells, family), equal_success_table(cells, family))
        found[family] = "\n\n".join(tables)
    return found


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
        from examples.language_model import study_figures as draw  # it draws what is read here

        figures.mkdir(parents=True, exist_ok=True)
        draw.pass_figure(cells, figures / "language-study.svg", SPLITS[:0:-1])
        draw.pass_figure(cells, figures / "language-study-splits.svg")
        draw.curve_figure(cells, figures / "language-study-training.svg")
        draw.temperature_figure(cells, figures / "language-study-temperatures.svg")


if __name__ == "__main__":
    tyro.cli(main)

"""The gallery's page: tables and figures between marks, made from results/gallery.json alone; the text around stays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from examples.gallery.run import PRETRAINED, Records, read
from examples.gallery.studies import ALL_SETS, CANDIDATES, ENOUGH, ENTROPY, STUDIES, VINES, Study
from matplotlib import rc_context
from matplotlib.figure import Figure
from reproduction.page import fill

from polychromic.files import whole_file, write_text
from polychromic.report.table import Table, as_markdown

ROWS = (PRETRAINED, *CANDIDATES)
NAMES = {
    PRETRAINED: "pretrained",
    "ppo": "PPO",
    ENTROPY: "PPO, entropy bonus",
    VINES: "Poly-PPO, vines",
    ALL_SETS: "Poly-PPO, all sets",
}
COLOURS = {PRETRAINED: "#6b7480", "ppo": "#0072b2", ENTROPY: "#56b4e9", VINES: "#f5a36b", ALL_SETS: "#d55e00"}
# Student's t of 95 % intervals, by the number of seeds.
QUANTILES = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


class Estimate(NamedTuple):
    """A mean over seeds and half of its 95 % interval; None for a single policy."""

    mean: float
    half: float | None

    def show(self, digits: int, scale: float = 1.0) -> str:
        """As text."""
        error = "" if self.half is None else f" ± {self.half * scale:.{digits}f}"
        return f"{self.mean * scale:.{digits}f}{error}"


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of seeds with its interval by Student's t."""
    count = len(values)
    half = QUANTILES[count] * float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else None
    return Estimate(float(np.mean(values)), half)


def write_gallery(results: Path, docs: Path) -> None:
    """Write the figures and fill the marks of docs/gallery.md."""
    records = read(results)
    page = docs / "gallery.md"
    text = page.read_text(encoding="utf-8")
    for name, content in blocks(records).items():
        text = fill(text, name, content)
    write_text(page, text)
    for study in STUDIES.values():
        if finals(records, study.name, "ppo"):
            draw(records, study, docs / "figures" / f"gallery-{study.name}.svg")


def blocks(records: Records) -> dict[str, str]:
    """The text of every mark of the page."""
    return {study.name: _block(records, study) for study in STUDIES.values() if finals(records, study.name, "ppo")}


def finals(records: Records, study: str, row: str) -> list[dict[str, Any]]:
    """The final runs of a row, one of each seed."""
    found = [one for one in records.values() if (one["study"], one["row"], one["role"]) == (study, row, "final")]
    return sorted(found, key=lambda one: one["seed"])


def early_stopped(record: dict[str, Any]) -> float | None:
    """The most strategies of a run at any evaluation with enough success; None if there is none."""
    return max((strategies for _, success, strategies in record["curve"] if success >= ENOUGH), default=None)


def at_equal_success(runs: Sequence[dict[str, Any]]) -> str:
    """`early_stopped` of the runs that get there, and how many do if not all."""
    reached = [found for one in runs if (found := early_stopped(one)) is not None]
    if not reached:
        return f"none of {len(runs)} gets there"
    return estimate(reached).show(1) + (f" ({len(reached)} of {len(runs)} runs)" if len(reached) < len(runs) else "")


def _block(records: Records, study: Study) -> str:
    rows = []
    for row in ROWS:
        runs = finals(records, study.name, row)
        if not runs:
            continue
        trained = "curve" in runs[0]
        rows.append(
            (
                NAMES[row],
                estimate([one["success"] for one in runs]).show(1, 100),
                estimate([one["strategies"] for one in runs]).show(1),
                at_equal_success(runs) if trained else "–",
                estimate([one["changed"] for one in runs]).show(1, 100),
                estimate([one["changed_pass@8"] for one in runs]).show(1, 100),
                str(len(runs)),
            )
        )
    columns = ("", "success %", study.strategies, "at 95 %", "changed %", "changed, pass@8 %", "seeds")
    table = as_markdown([Table("", "", columns, tuple(rows))])
    table = "\n".join(line for line in table.splitlines() if line.startswith("|"))
    chosen = "; ".join(f"{NAMES[row]}: {_settings(finals(records, study.name, row))}" for row in CANDIDATES)
    return (
        f"![Where the policies go](figures/gallery-{study.name}.svg)\n\n{table}\n\n"
        f"*Success* and *{study.strategies}* (distinct successful ones in 128 attempts, mean over starts) at the end, "
        f"after equally many trajectories. *At 95 %*: the most {study.strategies} (in 64 attempts) at any evaluation "
        "during training with a success of 95 % or more: the methods at equal success. "
        f"*Changed*: {study.change}, without training there. ± are 95 % intervals over seeds (Student's t).\n\n"
        f"Settings chosen: {chosen}."
    )


def _settings(runs: Sequence[dict[str, Any]]) -> str:
    settings = runs[0]["settings"] if runs else {}
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
                     for name, value in settings.items() if name != "method")  # fmt: skip


def draw(records: Records, study: Study, path: Path) -> None:
    """Where each policy goes, and how many strategies it has during training."""
    with rc_context({"svg.hashsalt": "polychromic", "svg.fonttype": "none", "font.size": 9}):
        picture = Figure(figsize=(13.5, 2.7), layout="constrained")
        panels = picture.subplots(1, len(ROWS) + 1, width_ratios=[1] * len(ROWS) + [1.5])
        for axes, row in zip(panels, ROWS, strict=False):
            runs = finals(records, study.name, row)
            axes.set_title(NAMES[row])
            axes.set_xticks([])
            axes.set_yticks([])
            if runs:
                axes.imshow(np.asarray(runs[0]["visits"]), cmap="Blues", vmin=0, vmax=1)
        axes = panels[-1]
        for row in CANDIDATES:
            runs = finals(records, study.name, row)
            if not runs:
                continue
            played = [point[0] for point in runs[0]["curve"]]
            found = [estimate([run["curve"][index][2] for run in runs]) for index in range(len(played))]
            means = np.array([one.mean for one in found])
            halves = np.array([one.half or 0.0 for one in found])
            axes.plot(played, means, color=COLOURS[row], label=NAMES[row])
            axes.fill_between(played, means - halves, means + halves, color=COLOURS[row], alpha=0.15, linewidth=0)
        axes.set_xlabel("trajectories")
        axes.set_title(f"successful {study.strategies} in 64 attempts")
        axes.set_ylim(0)
        axes.legend(fontsize=7)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            picture.savefig(partial, format="svg", metadata={"Date": None})

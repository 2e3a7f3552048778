"""Draw the evaluations that `train.py` has written, and print their last ones as a table.

python examples/language_model/plot.py results.json results.svg
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import matplotlib
import numpy as np
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NAMES = {"grpo": "stock GRPO", "polychromic": "polychromic"}
COLOURS = {"grpo": "#0072b2", "polychromic": "#d55e00"}


def main(results: Annotated[Path, tyro.conf.Positional], out: Annotated[Path, tyro.conf.Positional]) -> None:
    """One row per task: success on the left, distinct right answers on the right; a thin line is a seed."""
    runs = json.loads(results.read_text())["runs"]
    tasks = list(dict.fromkeys(run["task"] for run in runs))
    plt.rcParams["svg.hashsalt"] = "polychromic"  # the same file every time
    figure, axes = plt.subplots(len(tasks), 2, figsize=(8, 2.7 * len(tasks)), squeeze=False, layout="constrained")
    print("| task | | success | distinct right answers |\n|---|---|---|---|")
    for row, task in zip(axes, tasks, strict=True):
        for method, name in NAMES.items():
            curves = [run["curve"] for run in runs if (run["task"], run["method"]) == (task, method)]
            steps = [point["step"] for point in curves[0]]
            last = []
            for axis, figure_name in zip(row, ("success", "distinct_right"), strict=True):
                values = np.array([[point[figure_name] for point in curve] for curve in curves])
                axis.plot(steps, values.T, color=COLOURS[method], linewidth=0.6, alpha=0.5)
                axis.plot(steps, values.mean(axis=0), color=COLOURS[method], linewidth=2, label=name)
                last.append(values[:, -1])
            print(f"| {task} | {name} | {last[0].mean():.3f} | {last[1].mean():.2f} |")
        row[0].set(title=f"{task}: success", xlabel="step", ylim=(0, 1))
        row[1].set(title=f"{task}: distinct right answers of 64", xlabel="step")
        row[1].set_ylim(bottom=0)
    axes[0, 0].legend(frameon=False)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    tyro.cli(main)

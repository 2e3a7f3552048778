"""The paper's literal settings until nothing moves any more: what happens on the way, and whether PPO collapses.

The rule: a run is flat if the least-squares line through its success over the last quarter of training rises or falls
by at most two points. PPO collapses if at the end its success, its pass@128 or its success from perturbed starts is
below the pretrained policy's, resolved at 95 %; it does not if none of the means is below.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from reproduction.intervals import Interval, Records, difference, metric_of, table_of
from reproduction.lines import Line, Stored, line_name, title_of
from reproduction.plans import CONVERGENCE, TABLES, TASKS
from reproduction.words import bare, footer, number, percent, points

LITTLE = 0.02  # the largest rise over the last quarter that counts as flat
WATCHED = ("success", "pass@128", "perturbed")  # metrics that collapse would take below the pretrained policy


def along(records: Records, name: str) -> tuple[list[int], list[Interval]]:
    """A metric of a line along training, with intervals over seeds and configurations."""
    points = [[record["along"][number] for record in records] for number in range(len(records[0].get("along", ())))]
    found = [(own[0]["iteration"], metric_of(own, name)) for own in points]
    known = [(iteration, metric) for iteration, metric in found if metric is not None]
    return [iteration for iteration, _ in known], [metric for _, metric in known]


def rises(records: Records) -> list[float]:
    """By how much the success of every run rises over the last quarter of its training."""
    found = []
    for record in records:
        iterations = np.array([point["iteration"] for point in record["along"]], float)
        tables = [table_of([point], "success") for point in record["along"]]
        success = np.array([table.mean() for table in tables if table is not None])
        late = iterations >= 0.75 * iterations[-1]
        slope = np.polyfit(iterations[late], success[late], 1)[0] if late.sum() > 1 else 0.0
        found.append(float(slope * (iterations[late][-1] - iterations[late][0])))
    return found


def is_flat(records: Records) -> bool:
    """Whether every run of a line is flat over the last quarter."""
    return all(abs(rise) <= LITTLE for rise in rises(records))


def convergence_lines(stored: Stored, task: str) -> tuple[list[Line], Line | None]:
    """The lines with results, and the pretrained policy."""
    lines = [line for line in stored.lines(CONVERGENCE, task) if line.records]
    base = next((line for line in stored.lines(TABLES, task) if line.method == PRETRAINED and line.records), None)
    return lines, base


def collapse(lines: Sequence[Line], base: Line | None) -> str:
    """One sentence: does PPO collapse?"""
    ppo = next((line for line in lines if line.method == "ppo"), None)
    if ppo is None or base is None:
        return "Not run yet: `python -m reproduction convergence`."
    gaps = {name: difference(ppo.records, base.records, name) for name in WATCHED}
    known = {name: gap for name, gap in gaps.items() if gap is not None}
    below = [name for name, gap in known.items() if gap.high < 0]
    told = ", ".join(f"{name} {points(gap)}" for name, gap in known.items())
    if below:
        word = f"**PPO collapses** in {' and '.join(below)}"
    elif all(gap.mean >= 0 for gap in known.values()):
        word = "**PPO does not collapse**"
    else:
        word = "**Whether PPO collapses is not resolved**"
    flat = "is flat" if is_flat(ppo.records) else "still moves"
    last = ppo.records[0]["along"][-1]["iteration"]
    return (
        f"{word}: after {last:,} iterations it differs from the pretrained policy by {told} points. Its success {flat}."
    )


def _flatness(records: Records) -> tuple[str, str]:
    """The rise of every run over the last quarter, and whether all are flat."""
    if "along" not in records[0]:
        return NOTHING, NOTHING
    return ", ".join(f"{100 * rise:+.1f}" for rise in rises(records)), "yes" if is_flat(records) else "no"


def convergence_block(stored: Stored, command: str) -> str:
    """The table of the ends of these runs, task by task."""
    parts = []
    for task in CONVERGENCE.tasks(stored.scale):
        lines, base = convergence_lines(stored, task)
        if not lines:
            return f"Not run yet: `{command}`."
        rows = [
            (
                line_name(line),
                line.seeds,
                percent(line, "success"),
                percent(line, "pass@128"),
                percent(line, "perturbed"),
                number(line, "entropy", 2),
                number(line, "distinct_successful_strategies", 1),
                ", ".join(f"{100 * rise:+.1f}" for rise in rises(line.records))
                if "along" in line.records[0]
                else NOTHING,
                ("yes" if is_flat(line.records) else "no") if "along" in line.records[0] else NOTHING,
            )
            for line in [*([base] if base else []), *lines]
        ]
        columns = ("method", "seeds", "success %", "pass@128 %", "perturbed starts %", "entropy")
        more = ("successful strategies", "rise over the last quarter, points", "flat")
        note = f"The ends of runs with the paper's literal settings on {title_of(task, TASKS)}. {collapse(lines, base)}"
        parts.append(bare(Table("", note, (*columns, *more), tuple(rows))))
        parts.append(footer(stored.lines(CONVERGENCE, task), command))
    return "\n\n".join(parts)

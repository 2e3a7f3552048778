"""Metrics and settings as text for the results page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polychromic.core.intervals import CONFIDENCE
from polychromic.report.table import Table, as_markdown
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from reproduction.intervals import (
    Interval,
    Records,
    commits_of,
    cpu_hours,
    difference,
    metric_of,
    table_of,
)
from reproduction.lines import Line, line_name

SEEDS = 3  # fewer allow no claim about other seeds
WIDTH = 6  # columns that fit the documentation at 1,400 pixels
SMALLEST = 0.0005  # what the tables round to 0.0 points
# Column titles of differences between methods, by metric.
COMPARED = {
    "success": "success",
    "reward_0.5": "reward (0.5)",
    "reward_0.9": "reward (0.9)",
    "pass@32": "pass@32",
    "pass@128": "pass@128",
    "perturbed": "perturbed",
    "greedy": "greedy",
    "greedy perturbed": "greedy, perturbed",
}
BOLD = f"in bold where the interval excludes zero, there are {SEEDS} seeds or more and no run diverged"
ONE_IN_TWENTY = "At 95 % about one in twenty differences is bold by chance"


def percent(line: Line, name: str) -> str:
    """A metric of a line in per cent, with its interval."""
    metric = metric_of(line.records, name) if line.records else None
    return NOTHING if metric is None else _spread(Interval(*(100 * part for part in metric)), 1)


def number(line: Line, name: str, digits: int = 3) -> str:
    """A metric of a line, with its interval."""
    metric = metric_of(line.records, name) if line.records else None
    return NOTHING if metric is None else _spread(metric, digits)


def _spread(metric: Interval, digits: int) -> str:
    return f"{metric.mean:.{digits}f} [{metric.low:.{digits}f}, {metric.high:.{digits}f}]"


def points(difference: Interval) -> str:
    """A difference in points."""
    return in_units(difference, 100.0, 1)


def bold(text: str, resolved: bool) -> str:
    """Text, in bold if what it says is resolved."""
    return f"**{text}**" if resolved else text


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign, with a minus sign that is one."""
    return f"{round(float(value), digits) + 0.0:+.{digits}f}".replace("-", "−")  # + 0.0: no -0.0


def in_units(difference: Interval, scale: float, digits: int) -> str:
    """A difference with its interval, times a scale."""
    mean, low, high = (signed(scale * part, digits) for part in difference)
    return f"{mean} [{low}, {high}]"


def gap(
    ours: Line | None,
    theirs: Line | None,
    name: str,
    confidence: float = CONFIDENCE,
    alike: Sequence[Records] = (),
) -> str:
    """One line minus another, in bold if it is resolved. alike: lines whose seeds vary alike."""
    if ours is None or theirs is None or not ours.records or not theirs.records:
        return NOTHING
    gap = difference(ours.records, theirs.records, name, confidence, alike)
    if gap is None:
        return NOTHING
    return bold(points(gap), resolved_gap(gap, ours, theirs))


def resolved_gap(gap: Interval, ours: Line, theirs: Line) -> bool:
    """Whether a difference of two lines is resolved: no end of its interval rounds to zero, and enough seeds."""
    nearest = min(abs(gap.low), abs(gap.high))
    return gap.clear and nearest >= SMALLEST and enough(ours) and enough(theirs)


def enough(line: Line) -> bool:
    """Whether a line has enough seeds for a claim about other seeds."""
    return line.method in (PRETRAINED, "") or (len(line.records) >= SEEDS and not line.diverged)


def joined(names: Sequence[str]) -> str:
    """Names as a list in words."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else ""


def printed(value: float | None, digits: int = 1) -> str:
    """A number from the paper."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def short_settings(settings: Mapping[str, Any]) -> str:
    """The searched settings among these, in short form."""
    short = {"actor_learning_rate": "lr", "kl_coefficient": "KL", "configurations_per_iteration": "C", "ucb": "λ"}
    return ", ".join(f"{name} {settings[field]:.3g}" for field, name in short.items() if field in settings)


def bare(table: Table) -> str:
    """A table without a heading of its own, after its note; a wide one as several, each with the first column."""
    texts = [as_markdown([part]) for part in _narrow(table)]
    tables = [text[text.index("| ") :].strip() for text in texts]
    return "\n\n".join([*([table.note] if table.note else []), *tables])


def _narrow(table: Table) -> list[Table]:
    """A table in parts that fit a page."""
    columns = list(range(1, len(table.columns)))
    parts = [columns[start : start + WIDTH - 1] for start in range(0, len(columns), WIDTH - 1)]
    rows = (table.columns, *table.rows)
    picked = [[tuple(row[number] for number in (0, *part)) for row in rows] for part in parts]
    return [Table("", "", part[0], tuple(part[1:])) for part in picked]


def folded(title: str, text: str) -> str:
    """A collapsed section of a page."""
    return f"<details markdown>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def footer(lines: Sequence[Line], command: str) -> str:
    """How a table was made, and what it lacks."""
    records = {id(record): record for line in lines for record in line.records}.values()
    missing = [f"{line_name(line)} (seeds {', '.join(map(str, line.missing))})" for line in lines if line.missing]
    single = [line_name(line) for line in lines if len(line.records) == 1 and line.method not in (PRETRAINED, "")]
    gone = [f"{line_name(line)} (seeds {', '.join(map(str, line.diverged))})" for line in lines if line.diverged]
    sentences = [provenance(command, list(records))]
    if single:
        sentences.append(f"One seed so far, so these intervals are over configurations alone: {', '.join(single)}.")
    if gone:
        sentences.append(f"Diverged and excluded from the metrics: {'; '.join(gone)}.")
    sentences.append(f"Not run: {'; '.join(missing)}." if missing else "All planned runs are complete.")
    return "\n\n".join(sentences)


def provenance(command: str, records: Sequence[Mapping[str, Any]]) -> str:
    """The command, the amount of data and the commits behind a table."""
    commits = ", ".join(f"`{commit}`" for commit in commits_of(records)) or "not recorded"
    table = next((table for record in records if (table := table_of([record], "success")) is not None), None)
    over = f", {table.shape[1]} configurations" if table is not None else ""
    return (
        f"`{command}`; {len(records)} results{over}; {cpu_hours(records):.1f} CPU hours; commits {commits}. "
        "All settings and seeds are in the files of `results/`."
    )

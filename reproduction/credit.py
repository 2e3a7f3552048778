"""Set credit that reaches all steps: what the screening saw, and its finalists against PPO, at equal success and at
equal trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from reproduction import screening
from reproduction.equal_success import AtEqualSuccess, at_equal_success
from reproduction.intervals import Interval, difference
from reproduction.lines import Line, Stored, line_name, title_of
from reproduction.plans import CREDIT, SCREENING, TASKS
from reproduction.words import SEEDS, bare, footer, points

MORE = 1.25  # times PPO's distinct successful strategies
EARNED, MISSED, NOT_RESOLVED = "earned", "missed", "not resolved"
TASKS_NEEDED = 2
BAR = (
    f"The bar, set in advance: at equal success at least {100 * (MORE - 1):.0f} % more distinct successful strategies "
    "than PPO (the whole 95 % interval) with pass@8 not below PPO's (its mean), on at least "
    f"{TASKS_NEEDED} tasks, and one such setting within {100 * screening.NEAR:.0f} points of PPO's success at equal "
    "trajectories"
)


class Compared(NamedTuple):
    """A setting against PPO on a task."""

    line: Line
    equal: AtEqualSuccess | None
    success: Interval | None  # difference at the end, at equal trajectories

    @property
    def bar(self) -> str:
        """Whether it earns the bar at equal success on this task."""
        if self.equal is None or len(self.line.records) < SEEDS or self.line.diverged:
            return NOT_RESOLVED
        strategies, passed = self.equal.strategies, self.equal.pass_at_8
        if strategies.low >= MORE and passed.mean >= 0:
            return EARNED
        return MISSED if strategies.high < MORE or passed.high < 0 else NOT_RESOLVED

    @property
    def near(self) -> bool:
        """Whether its success at equal trajectories is close enough to PPO's."""
        return self.success is not None and self.success.mean >= -screening.NEAR


def compared(stored: Stored) -> dict[str, list[Compared]]:
    """Every finalist with results against PPO, by task."""
    found: dict[str, list[Compared]] = {}
    for task in CREDIT.tasks(stored.scale):
        lines = [line for line in stored.lines(CREDIT, task) if line.records]
        ppo = next((line for line in lines if line.label == "ppo"), None)
        if ppo is not None:
            others = [line for line in lines if line.label != "ppo"]
            found[task] = [
                Compared(
                    line,
                    at_equal_success(line.records, ppo.records),
                    difference(line.records, ppo.records, "success"),
                )
                for line in others
            ]
    return {task: own for task, own in found.items() if own}


def verdict(by_task: Mapping[str, Sequence[Compared]]) -> str:
    """One sentence: which settings earn the bar, if any."""
    sets = [one for own in by_task.values() for one in own if one.line.method != "ppo"]
    if not sets:
        return "Not run yet: `python -m reproduction credit`."
    labels = list(dict.fromkeys(one.line.label for one in sets))
    bars = {label: [one.bar for one in sets if one.line.label == label] for label in labels}
    earned = [label for label, own in bars.items() if own.count(EARNED) >= TASKS_NEEDED]
    near = [label for label in earned if all(one.near for one in sets if one.line.label == label and one.bar == EARNED)]
    if near:
        return f"**Earned**: {', '.join(near)}."
    if earned:
        return f"**Earned at equal success alone**: {', '.join(earned)}; success at equal trajectories is too low."
    told = [f"{label} on {own.count(EARNED)} of {len(own)} tasks" for label, own in bars.items()]
    return f"**Not earned**: {'; '.join(told)}."


def credit_block(stored: Stored, command: str) -> str:
    """The tables of the finalists, task by task."""
    by_task = compared(stored)
    parts = [f"{BAR}. {verdict(by_task)}"]
    for task, own in by_task.items():
        parts += [f"### {title_of(task, TASKS)}", bare(_task_table(own))]
        parts.append(footer(stored.lines(CREDIT, task), f"{command} --tasks {task}"))
    return "\n\n".join(parts)


def _task_table(own: Sequence[Compared]) -> Table:
    rows = []
    for one in own:
        span = NOTHING if one.equal is None else f"{100 * one.equal.low:.1f}–{100 * one.equal.high:.1f}"
        rows.append(
            (
                f"{line_name(one.line)} ({one.line.seeds})",
                span,
                NOTHING if one.equal is None else ratio(one.equal.strategies),
                NOTHING if one.equal is None else points(one.equal.pass_at_8),
                NOTHING if one.success is None else points(one.success),
                one.bar,
            )
        )
    columns = ("setting (seeds)", "equal success %", "strategies × PPO's", "pass@8 − PPO's")
    note = "Strategies are distinct successful ones of 32 attempts; 95 % intervals, at equal success over seeds alone."
    return Table("", note, (*columns, "success − PPO's at the end", "bar"), tuple(rows))


def screening_block(stored: Stored, command: str) -> str:
    """Every setting once, and what went on."""
    by_task = {task: stored.lines(SCREENING, task) for task in SCREENING.tasks(stored.scale)}
    known = screening.scores(by_task)
    if len(known) < 2:
        return f"Not run yet: `{command}`."
    chosen = screening.finalists(by_task)
    rows = tuple(
        (
            _named(by_task, one.label),
            f"{one.strategies:.2f}" if one.strategies else NOTHING,
            f"{100 * one.pass_at_8:+.1f}" if one.strategies else NOTHING,
            f"{100 * one.success:+.1f}",
            "yes" if one.label in chosen else "",
        )
        for one in known
    )
    titles = " and ".join(title_of(task, TASKS) for task in by_task)
    note = f"One run a setting on {titles}, against PPO; means over tasks. Rule: {screening.RULE}."
    columns = ("setting", "strategies × PPO's", "pass@8 − PPO's", "success − PPO's at the end", "chosen")
    lines = [line for own in by_task.values() for line in own]
    return "\n\n".join([bare(Table("", note, columns, rows)), footer(lines, command)])


def _named(by_task: screening.ByTask, label: str) -> str:
    return line_name(next(line for line in next(iter(by_task.values())) if line.label == label))


def ratio(interval: Interval) -> str:
    """A ratio with its interval."""
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"

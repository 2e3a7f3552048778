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
from reproduction.words import SEEDS, bare, footer, points, provenance

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
    ppo: Line
    equal: AtEqualSuccess | None
    success: Interval | None  # difference at the end, at equal trajectories

    @property
    def finished(self) -> bool:
        """Whether all planned runs of both sides are there."""
        return not self.line.missing and not self.ppo.missing

    @property
    def bar(self) -> str:
        """Whether it earns the bar at equal success on this task; a run that diverged misses it."""
        if self.line.diverged:
            return MISSED
        if self.equal is None or min(self.equal.seeds) < SEEDS or self.ppo.diverged:
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
    """Every finalist against PPO, by task; tasks without a result of either are left out."""
    found: dict[str, list[Compared]] = {}
    for task in CREDIT.tasks(stored.scale):
        lines = stored.lines(CREDIT, task)
        ppo = next((line for line in lines if line.label == "ppo"), None)
        others = [line for line in lines if line.label != "ppo" and (line.records or line.diverged)]
        if ppo is not None and ppo.records and others:
            found[task] = [
                Compared(
                    line,
                    ppo,
                    at_equal_success(line.records, ppo.records),
                    difference(line.records, ppo.records, "success") if line.records else None,
                )
                for line in others
            ]
    return found


def verdict(by_task: Mapping[str, Sequence[Compared]], tasks: int) -> str:
    """Which settings earn the bar, if any, and whether a setting of PPO does too. tasks: how many there should be."""
    everything = [one for own in by_task.values() for one in own]
    if not everything:
        return "Not run yet: `python -m reproduction credit`."
    labels = dict.fromkeys(one.line.label for one in everything)
    if not all(one.finished for one in everything) or any(
        sum(one.line.label == label for one in everything) < tasks for label in labels
    ):
        return "Not finished: `python -m reproduction credit`."
    settings = {label: [one for one in everything if one.line.label == label] for label in labels}
    sets = {label: own for label, own in settings.items() if own[0].line.method != "ppo"}
    controls = {label: own for label, own in settings.items() if label not in sets}
    earned = [label for label, own in sets.items() if _count(own, EARNED) >= TASKS_NEEDED]
    near = [label for label in earned if all(one.near for one in sets[label] if one.bar == EARNED)]
    told = "; ".join(_told(own) for own in sets.values())
    if near:
        said = f"**Earned** by {_quoted(near, sets)}. By tasks: {told}."
    elif earned:
        said = (
            f"**Earned at equal success alone**, by {_quoted(earned, sets)}; success at equal trajectories is too low. "
            f"By tasks: {told}."
        )
    else:
        said = f"**Not earned.** By tasks: {told}."
    return f"{said} The control, {'; '.join(_told(own) for own in controls.values())}." if controls else said


def _count(own: Sequence[Compared], bar: str) -> int:
    return sum(one.bar == bar for one in own)


def _told(own: Sequence[Compared]) -> str:
    """How a setting did on the tasks, in words."""
    counts = [f"{bar} on {count}" for bar in (EARNED, NOT_RESOLVED, MISSED) if (count := _count(own, bar))]
    return f"*{line_name(own[0].line)}* {', '.join(counts)}"


def _quoted(labels: Sequence[str], settings: Mapping[str, Sequence[Compared]]) -> str:
    return ", ".join(f"*{line_name(settings[label][0].line)}*" for label in labels)


def credit_block(stored: Stored, command: str) -> str:
    """The tables of the finalists, task by task."""
    by_task = compared(stored)
    parts = [f"{BAR}. {verdict(by_task, len(CREDIT.tasks(stored.scale)))}"]
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
                f"{line_name(one.line)} ({_seeds(one)})",
                span,
                NOTHING if one.equal is None else ratio(one.equal.strategies),
                NOTHING if one.equal is None else points(one.equal.pass_at_8),
                NOTHING if one.success is None else points(one.success),
                one.bar,
            )
        )
    columns = ("setting (seeds, PPO's)", "equal success %", "strategies × PPO's", "pass@8 − PPO's")
    note = (
        "Strategies are distinct successful ones of 32 attempts; 95 % intervals, at equal success over seeds alone. "
        "There PPO's seeds are those whose learning curves have these metrics."
    )
    return Table("", note, (*columns, "success − PPO's at the end", "bar"), tuple(rows))


def _seeds(one: Compared) -> str:
    theirs = one.equal.seeds[1] if one.equal else len(one.ppo.records)
    return f"{one.line.seeds}, {theirs}"


def screening_block(stored: Stored, command: str) -> str:
    """Every setting once, and which of them were chosen."""
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
    missing = sum(bool(line.missing) for line in lines)
    gone = [line_name(line) for line in lines if line.diverged]
    state = f"Not run: {missing} of {len(lines)}." if missing else "All planned runs are complete."
    sentences = [provenance(command, [record for line in lines for record in line.records])]
    sentences += [f"Diverged: {'; '.join(gone)}."] if gone else []
    return "\n\n".join([bare(Table("", note, columns, rows)), *sentences, state])


def _named(by_task: screening.ByTask, label: str) -> str:
    return line_name(next(line for line in next(iter(by_task.values())) if line.label == label))


def ratio(interval: Interval) -> str:
    """A ratio with its interval."""
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"

"""Set credit that reaches all steps: what the screening saw, and its finalists against PPO, at equal success and at
equal trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from reproduction import screening
from reproduction.equal_success import STRATEGIES, AtEqualSuccess, at_equal_success, common_range
from reproduction.intervals import Interval, difference, ratio_at_the_end
from reproduction.lines import Line, Stored, line_name, title_of
from reproduction.plans import CREDIT, SCREENING, TASKS
from reproduction.words import SEEDS, bare, footer, joined, points, provenance, short_settings, signed

MORE = 1.25  # times PPO's distinct successful strategies
EARNED, NOT_RESOLVED, MISSED = "earned", "not resolved", "missed"
TASKS_NEEDED = 2
BAR = (
    f"The bar, set in advance: at equal success at least {100 * (MORE - 1):.0f} % more distinct successful strategies "
    f"than PPO (the whole 95 % interval) and pass@8 not below PPO's (its mean), on {TASKS_NEEDED} tasks or more; at "
    f"equal trajectories success within {100 * screening.NEAR:.0f} points of PPO's"
)


class Compared(NamedTuple):
    """A setting against PPO on a task."""

    line: Line
    ppo: Line
    equal: AtEqualSuccess | None
    success: Interval | None  # difference at the end, at equal trajectories
    kept: Interval | None  # distinct successful strategies there, ratio

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
                    ratio_at_the_end(line.records, ppo.records, STRATEGIES) if line.records else None,
                )
                for line in others
            ]
    return found


def verdict(by_task: Mapping[str, Sequence[Compared]], tasks: int) -> str:
    """Which settings of sets earn the bar, if any. tasks: how many there should be."""
    everything = [one for own in by_task.values() for one in own]
    if not everything:
        return "Not run yet: `python -m reproduction credit`."
    labels = dict.fromkeys(one.line.label for one in everything)
    if not all(one.finished for one in everything) or any(
        sum(one.line.label == label for one in everything) < tasks for label in labels
    ):
        return "Not finished: `python -m reproduction credit`."
    settings = {
        label: {task: one for task, ones in by_task.items() for one in ones if one.line.label == label}
        for label in labels
    }
    where = {
        label: {task: one for task, one in own.items() if one.bar == EARNED}
        for label, own in settings.items()
        if _line(own).method != "ppo"
    }
    earned = {label: own for label, own in where.items() if len(own) >= TASKS_NEEDED}
    near = {label: own for label, own in earned.items() if all(one.near for one in own.values())}
    if near:
        far = {label: own for label, own in earned.items() if label not in near}
        more = f" At equal success alone also by {_quoted(far)}, with less success than PPO in the end." if far else ""
        return f"**Earned** by {_quoted(near)}.{more}"
    if earned:
        return f"**Earned at equal success alone**, by {_quoted(earned)}; at equal trajectories success is too low."
    return "**Not earned.**"


def summary_table(by_task: Mapping[str, Sequence[Compared]]) -> str:
    """Every setting on every task, in one small table."""
    labels = dict.fromkeys(one.line.label for own in by_task.values() for one in own)
    rows = tuple(
        (
            f"{title_of(task, TASKS)}, {line_name(one.line)}",
            NOTHING if one.success is None else points(one.success),
            NOTHING if one.kept is None else ratio(one.kept),
            *((ratio(one.equal.strategies), points(one.equal.pass_at_8)) if one.equal else (NOTHING, NOTHING)),
            one.bar,
        )
        for label in labels
        for task, own in by_task.items()
        for one in own
        if one.line.label == label
    )
    note = (
        "Against PPO, with 95 % intervals: finished policies after equally many trajectories, then along training at "
        "equal success. Strategies are ratios of distinct successful ones, success and pass@8 differences in points."
    )
    columns = ("task, setting", "finished: success", "finished: strategies", "equal success: strategies")
    return bare(Table("", note, (*columns, "equal success: pass@8", "bar there"), rows))


def _line(own: Mapping[str, Compared]) -> Line:
    """The line of a setting, by any of its tasks."""
    return next(iter(own.values())).line


def _quoted(settings: Mapping[str, Mapping[str, Compared]]) -> str:
    return ", ".join(
        f"*{line_name(_line(own))}* on {joined([title_of(task, TASKS) for task in own])}" for own in settings.values()
    )


def credit_block(stored: Stored, command: str) -> str:
    """The tables of the finalists, task by task."""
    by_task = compared(stored)
    parts = [f"{BAR}.", verdict(by_task, len(CREDIT.tasks(stored.scale))), *([NOTE] if by_task else [])]
    for task, own in by_task.items():
        parts += [f"#### {title_of(task, TASKS)}", bare(_task_table(own))]
        parts.append(footer(stored.lines(CREDIT, task), f"{command} --tasks {task}"))
    return "\n\n".join(parts)


NOTE = (
    "Strategies are distinct successful ones of 32 attempts. Intervals are 95 %; at equal success they are over seeds "
    "alone, for these 50 configurations. There PPO's seeds are those whose learning curves have these metrics. Each "
    "row is compared with PPO where both have the same success, so rows are at different levels of it; the second "
    "ratio is at the levels that all rows of a task share, and does not enter the bar."
)


def _task_table(own: Sequence[Compared]) -> Table:
    everything = common_range([own[0].ppo.records, *(one.line.records for one in own)])
    rows = [_row(one, everything) for one in own]
    columns = ("setting (seeds, PPO's)", "strategies × PPO's", "pass@8 − PPO's", "success − PPO's at the end", "bar")
    more = ("settings", "at equal success %", "strategies × PPO's at shared levels")
    told = short_settings(own[0].ppo.records[0]["settings"])
    return Table("", f"PPO: {told}.", (*columns, *more), tuple(rows))


def _row(one: Compared, everything: tuple[float, float] | None) -> tuple[str, ...]:
    """A line of the table of a task. everything: the range of success that all of its lines have covered."""
    settings = short_settings(one.line.records[0]["settings"]) if one.line.records else NOTHING
    success = NOTHING if one.success is None else points(one.success)
    strategies = passed = span = among = NOTHING
    if one.equal is not None:
        shared = at_equal_success(one.line.records, one.ppo.records, everything)
        strategies, passed = ratio(one.equal.strategies), points(one.equal.pass_at_8)
        span = f"{100 * one.equal.low:.1f}–{100 * one.equal.high:.1f}"
        among = NOTHING if shared is None else ratio(shared.strategies)
    name = f"{line_name(one.line)} ({_seeds(one)})"
    return name, strategies, passed, success, one.bar, settings, span, among


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
            signed(100 * one.pass_at_8) if one.strategies else NOTHING,
            signed(100 * one.success),
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

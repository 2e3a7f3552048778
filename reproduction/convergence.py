"""The paper's literal settings until nothing moves any more: what happens on the way, and whether PPO collapses.

Metrics are means over the policies that were scored in the last quarter of training.

Flat: least-squares lines go through success over the last quarter of training. A method still moves if the line of any
of its runs rises or falls by more than two points, resolved at 95 %. Otherwise it is flat if the line of the mean over
runs changes by at most two points, and unclear if not.

Collapse: PPO collapses in a metric (pass@128, success from perturbed starts) if it is below the pretrained policy there
by more than 5 points, and the difference is resolved at 95 %. It does not if the interval is above −5 points. Success
from the usual starts is not judged: in the paper too PPO's is above the pretrained policy's. With two seeds a method,
the variance between seeds is pooled over the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from reproduction.equal_success import STRATEGIES
from reproduction.intervals import Interval, Records, curve_of, difference, metric_of, student, table_of
from reproduction.lines import Line, Stored, line_name, title_of
from reproduction.plans import CONVERGENCE, TABLES, TASKS
from reproduction.words import bare, footer, in_units, joined, number, percent, points, signed

LITTLE = 0.02  # the largest rise over the last quarter that counts as flat
MARGIN = 0.05  # a smaller fall is no collapse
FEWEST = 2  # seeds
WATCHED = {  # metrics that collapse would take below the pretrained policy, in words
    "pass@128": "in pass@128",
    "perturbed": "from perturbed starts",
}
COMPARED = (("ppo", PRETRAINED), ("ppo", "reinforce"), ("poly-ppo", "ppo"))
FLAT, MOVING, UNCLEAR = "is flat", "still moves", "may still move"


def along(records: Records, name: str) -> tuple[list[int], list[Interval]]:
    """A metric of a line along training, with intervals over seeds and configurations."""
    points = [[record["along"][number] for record in records] for number in range(len(records[0].get("along", ())))]
    found = [(own[0]["iteration"], metric_of(own, name)) for own in points]
    known = [(iteration, metric) for iteration, metric in found if metric is not None]
    return [iteration for iteration, _ in known], [metric for _, metric in known]


def rise(records: Records) -> Interval:
    """The rise of success, the mean of these runs, over the last quarter of training, with its 95 % interval."""
    from scipy.stats import linregress  # here, because it takes long to import

    curve = curve_of(records, "success", "iteration")
    if curve is None:
        raise ValueError("these runs have no learning curve")
    late = curve[0] >= 0.75 * curve[0][-1]
    where, success = curve[0][late], curve[1][:, late].mean(axis=0)
    if len(where) < 3:  # no scatter around a line
        change = float(success[-1] - success[0])
        return Interval(change, change, change)
    line = linregress((where - where[0]) / (where[-1] - where[0]), success)
    half = student(len(where) - 2) * line.stderr
    return Interval(float(line.slope), float(line.slope - half), float(line.slope + half))


def movement(records: Records) -> str:
    """Whether success is flat over the last quarter, by the rule."""
    runs = [rise([record]) for record in records]
    if any(one.clear and abs(one.mean) > LITTLE for one in runs):
        return MOVING
    return FLAT if abs(rise(records).mean) <= LITTLE else UNCLEAR


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
    if ppo.diverged:
        return f"**PPO diverges**: {len(ppo.diverged)} of {len(ppo.planned_seeds)} runs."
    if len(ppo.records) < FEWEST:
        return "Not finished: `python -m reproduction convergence`."
    alike = [line.records for line in lines]
    found = {where: difference(ppo.records, base.records, name, alike=alike) for name, where in WATCHED.items()}
    gaps = {where: gap for where, gap in found.items() if gap is not None}
    told = joined([f"{points(gap)} {where}" for where, gap in gaps.items()])
    last = ppo.records[0]["iterations"]
    moves = [f"{line_name(line)} {movement(line.records)} ({signed(100 * rise(line.records).mean)})" for line in lines]
    return (
        f"**{_judged(gaps)}** In the last quarter of {last:,} iterations PPO minus the pretrained policy is, in "
        f"points, {told}. Success over that quarter: {', '.join(moves)}."
    )


def _judged(gaps: Mapping[str, Interval]) -> str:
    """The rule, metric by metric."""
    down = [where for where, gap in gaps.items() if gap.high < 0 and gap.mean < -MARGIN]
    kept = [where for where, gap in gaps.items() if gap.low > -MARGIN and where not in down]
    unclear = [where for where in gaps if where not in (*down, *kept)]
    if len(kept) == len(gaps):
        return "PPO does not collapse."
    if len(unclear) == len(gaps):
        return "Whether PPO collapses is not resolved."
    said = [
        f"collapses {joined(down)}" if down else "",
        f"does not collapse {' or '.join(kept)}" if kept else "",
        f"whether it does {' or '.join(unclear)} is not resolved" if unclear else "",
    ]
    return f"PPO {'; '.join(part for part in said if part)}."


def _by_seed(line: Line) -> str:
    """Success of every run, because two seeds say little about their spread."""
    table = table_of(line.records, "success")
    return NOTHING if table is None else ", ".join(f"{100 * value:.1f}" for value in table.mean(axis=1))


def _flatness(line: Line) -> tuple[str, str]:
    """The rise over the last quarter, and what it means."""
    trained = line.method != PRETRAINED and line.records
    return (points(rise(line.records)), movement(line.records)) if trained else (NOTHING, NOTHING)


def _differences(lines: Sequence[Line], base: Line | None) -> Table:
    """Methods against each other, in points; the variance between seeds is that of all of them, as for collapse."""
    known = {line.method: line for line in [*([base] if base else []), *lines]}
    alike = [line.records for line in lines]
    columns = {
        "success": "success",
        "reward_0.9": "reward (0.9), hundredths",
        **{name: where.split(" ", 1)[1] for name, where in WATCHED.items()},
        STRATEGIES: "successful strategies",
    }

    def shown(ours: Line, theirs: Line, name: str) -> str:
        found = difference(ours.records, theirs.records, name, alike=alike)
        return NOTHING if found is None else in_units(found, 1.0, 1) if name == STRATEGIES else points(found)

    rows = tuple(
        (
            f"{line_name(known[ours])} − {line_name(known[theirs])}",
            *(shown(known[ours], known[theirs], name) for name in columns),
        )
        for ours, theirs in COMPARED
        if {ours, theirs} <= known.keys()
    )
    return Table("", "", ("difference", *columns.values()), rows)


def convergence_block(stored: Stored, command: str) -> str:
    """Where these runs end, and how they differ there, task by task."""
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
                _by_seed(line),
                percent(line, "pass@128"),
                percent(line, "perturbed"),
                number(line, "entropy", 2),
                number(line, STRATEGIES, 1),
                *_flatness(line),
            )
            for line in [*([base] if base else []), *lines]
        ]
        columns = ("method", "seeds", "success %", "by seed", "pass@128 %", "perturbed starts %", "entropy")
        more = ("successful strategies", "rise over the last quarter, points", "flat?")
        note = (
            f"The last quarter of runs with the paper's literal settings on {title_of(task, TASKS)}. "
            f"{collapse(lines, base)}"
        )
        parts.append(bare(Table("", note, (*columns, *more), tuple(rows))))
        parts.append(bare(_differences(lines, base)))
        parts.append(footer(stored.lines(CONVERGENCE, task), command))
    return "\n\n".join(parts)

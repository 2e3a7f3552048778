"""The claims of the paper, each with what the stored results say about it: confirmed, contradicted or not resolved.

A claim is a difference with a sign. It is measured on every task that has results, and as their mean, each with a 95 %
interval. Tasks on which both sides solve everything cannot show it and are left out of the mean, and so are those where
a run diverged; both are named, and where a run diverged nothing is confirmed or contradicted. With two seeds a method
the variance between seeds is pooled over the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from polychromic.core.intervals import CONFIDENCE
from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from polychromic.tasks.grids import paper_results
from reproduction.claims import CLAIMS, SLIGHT, TRIANGLE_CLAIMS, Claim, TriangleClaim
from reproduction.intervals import (
    Interval,
    Records,
    at_equal_steps,
    between_seeds,
    difference,
    mean_at_equal_steps,
    mean_difference,
    table_of,
)
from reproduction.lines import Line, Stored, title_of
from reproduction.plans import (
    METHOD_NAMES,
    TABLES,
    TASKS,
    TRIANGLE,
    TRIANGLE_SETS,
    TRIANGLE_VINES,
)
from reproduction.triangles import at_temperature
from reproduction.words import SEEDS, SMALLEST, bare, in_units, joined, points, signed

CONFIRMED, CONTRADICTED, NOT_RESOLVED, NOT_RUN = "confirmed", "contradicted", "not resolved", "not run yet"
DIRECTION, MIXED = "direction confirmed", "mixed"
RULE = (
    "*Confirmed*: the interval is on the paper's side of zero, no task is on the other side, and the paper's number, "
    "if there is one, is in the interval; *direction confirmed*: it is not. *Contradicted*: the interval is on the "
    "other side, and no task is on the paper's; or a difference that the paper calls slight is larger than "
    f"{100 * SLIGHT:.0f} points. *Mixed*: tasks are on both sides. *Not resolved*: everything else.\n\nRows and tasks "
    "have a level of 95 % each. That UCB helps on some tasks is confirmed if one comparison is above zero, and "
    "contradicted if all are below, with a Bonferroni correction. A verdict needs "
    f"{SEEDS} seeds per method ({{fewest}} where the row says so). [What a correction of every row would change]"
    "(results-method.md#verdicts)."
)
TRIANGLE_ROWS = (
    "Triangle rows are per 100 attempts, with the paper's vines, whose runs have barely trained within the budget; the "
    "last column has sets of 64 without vines, which the paper does not have."
)


class Verdict(NamedTuple):
    """What came of a claim."""

    claim: str
    paper: str
    here: str
    verdict: str
    sentence: str


class _Pair(NamedTuple):
    """Two lines that a claim compares on a task."""

    name: str
    task: str
    ours: Line
    theirs: Line


class _Found(NamedTuple):
    """What a task has for a claim."""

    pairs: tuple[_Pair, ...]
    alike: tuple[Line, ...]  # the trained lines of this part of the plan
    diverged: bool
    waiting: bool  # for more runs


def verdicts(stored: Stored, *, corrected: bool = False) -> list[Verdict]:
    """Every claim, with or without results. corrected: judge the tasks of every row together (Bonferroni)."""
    return [
        *(_of_grids(claim, stored, corrected=corrected) for claim in CLAIMS),
        *(_of_triangles(claim, stored) for claim in TRIANGLE_CLAIMS),
    ]


def verdict_table(stored: Stored) -> str:
    """The table that the results page begins with, and its rule."""
    found = verdicts(stored)
    rows = tuple(tuple(one) for one in found)
    table = Table("", "", ("the paper's claim", "paper", "here [95 %]", "verdict", "task by task"), rows)
    rule = RULE.format(fewest=min(claim.seeds for claim in CLAIMS))
    return "\n\n".join([_counted([one.verdict for one in found]), bare(table), _tasks(stored), rule])


def corrected_table(stored: Stored) -> str:
    """The rows whose verdict is another one if their tasks are judged together."""
    found = verdicts(stored)
    if all(one.verdict == NOT_RUN for one in found):
        return "Not run yet: `python -m reproduction tables`."
    both = zip(found, verdicts(stored, corrected=True), strict=True)
    rows = tuple((one.claim, one.verdict, other.verdict) for one, other in both if one.verdict != other.verdict)
    return bare(Table("", "", ("the paper's claim", "verdict", "judged together"), rows)) if rows else "None."


def _counted(found: Sequence[str]) -> str:
    """How many claims have which verdict."""
    kinds = [kind for kind in (CONFIRMED, DIRECTION, MIXED, CONTRADICTED, NOT_RESOLVED, NOT_RUN) if kind in found]
    return f"**Of {len(found)} rows: {', '.join(f'{found.count(kind)} {kind}' for kind in kinds)}.**"


def _tasks(stored: Stored) -> str:
    """The units of the table, and the tasks that are not finished."""
    tables = [claim for claim in CLAIMS if claim.plan is TABLES]
    found = {task: [_found(claim, task, stored) for claim in tables] for task in TABLES.tasks(stored.scale)}
    missing = [title_of(task, TASKS) for task, own in found.items() if any(one.waiting for one in own)]
    told = f"Grid rows are in points, averaged over the tasks in the last column. {TRIANGLE_ROWS}"
    return f"{told} Not finished: {joined(missing)}." if missing else told


def _of_grids(claim: Claim, stored: Stored, *, corrected: bool) -> Verdict:
    found = {task: _found(claim, task, stored) for task in claim.plan.tasks(stored.scale)}
    pairs = [pair for one in found.values() for pair in one.pairs]
    diverged = [title_of(task, TASKS) for task, one in found.items() if one.diverged]
    measured = [pair for pair in pairs if not _at_ceiling(pair, claim.metric)]
    printed = _of_paper(claim, measured or pairs)
    paper = claim.paper or _paper_text(printed, claim)
    # Pooled only where there are few seeds, which is on one task.
    alike = [line.records for one in found.values() for line in one.alike] if claim.seeds < SEEDS else []
    gap = _mean(claim, measured, alike)
    left = [_ceiling([pair.name for pair in pairs if pair not in measured]), _gone(diverged)]
    if gap is None:
        return Verdict(claim.text, paper, NOTHING, NOT_RESOLVED if pairs or diverged else NOT_RUN, _sentence(left))
    strict = claim.somewhere or corrected  # one of several comparisons can confirm it
    confidence = 1 - (1 - CONFIDENCE) / len(measured) if strict else CONFIDENCE
    sides = {pair.name: side_of(_gap(claim, pair, alike, confidence)) for pair in measured}
    known = list(sides.values())
    if claim.somewhere:
        here, verdict = f"{points(gap)}; {_counted_sides(known)}", judge_somewhere(known, claim.sign)
    else:
        number = float(np.mean(printed)) / 100 if printed else None
        here, verdict = points(gap), judge(gap, known, claim.sign, paper=number, margin=claim.margin)
        if verdict in (NOT_RESOLVED, MIXED) and number is not None and not gap.low <= number <= gap.high:
            left.append("the paper's size is excluded")
    if diverged:
        verdict = NOT_RESOLVED
    said = _by_side(sides, several=len(claim.pairs) > 1)
    return Verdict(claim.text, paper, here, verdict, _sentence([said, *left]))


def _gap(claim: Claim, pair: _Pair, alike: Sequence[Records], confidence: float) -> Interval | None:
    """The difference of two lines that a claim is about."""
    both = pair.ours.records, pair.theirs.records
    if claim.equal_steps:
        found = at_equal_steps(*both, claim.metric, confidence)
        return None if found is None else found[1]
    return difference(*both, claim.metric, confidence, alike)


def _mean(claim: Claim, measured: Sequence[_Pair], alike: Sequence[Records]) -> Interval | None:
    """The mean of these differences."""
    by_task: dict[str, list[tuple[Records, Records]]] = {}
    for pair in measured:
        by_task.setdefault(pair.task, []).append((pair.ours.records, pair.theirs.records))
    if claim.equal_steps:
        return mean_at_equal_steps([pair for own in by_task.values() for pair in own], claim.metric)
    return mean_difference(list(by_task.values()), claim.metric, alike)


def side_of(gap: Interval | None, smallest: float = SMALLEST) -> int:
    """1 or −1 if an interval is on that side of zero, by more than is shown as zero; else 0."""
    return 0 if gap is None else 1 if gap.low >= smallest else -1 if gap.high <= -smallest else 0


def judge(
    gap: Interval,
    sides: Sequence[int],
    sign: int,
    smallest: float = SMALLEST,
    paper: float | None = None,
    margin: float = 0.0,
) -> str:
    """The rule.

    sides: of every task, 1 or −1 where it is resolved, else 0. smallest: what is not shown as zero. paper: its number.
    margin: how much less counts as much, for a claim of as much or more.
    """
    side = side_of(gap, smallest)
    if margin and gap.low > -margin:
        side = sign
    if {1, -1} <= set(sides):
        return MIXED
    if not side or -side in sides:
        return NOT_RESOLVED
    if side != sign:
        return CONTRADICTED
    return CONFIRMED if paper is None or gap.low <= paper <= gap.high else DIRECTION


def judge_somewhere(sides: Sequence[int], sign: int) -> str:
    """The rule for a claim about some tasks. sides: of every comparison, with a confidence for their number."""
    if sign in sides:
        return CONFIRMED
    return CONTRADICTED if all(side == -sign for side in sides) else NOT_RESOLVED


def _found(claim: Claim, task: str, stored: Stored) -> _Found:
    """The pairs of lines with enough results on a task: all of them, or none."""
    named = task in claim.tasks or not claim.tasks
    rows = [line for line in stored.lines(claim.plan, task) if named and line.part == claim.part]
    lines = {line.method: line for line in rows if line.method}
    compared = {method for pair in claim.pairs for method in pair}
    wanted = [lines[method] for method in compared if method in lines]
    if not wanted:
        return _Found((), (), diverged=False, waiting=False)
    diverged = any(line.diverged for line in wanted)
    if diverged or sum(_enough(line, claim.seeds) for line in wanted) < len(compared):
        return _Found((), (), diverged=diverged, waiting=not diverged)
    several = len(claim.pairs) > 1
    pairs = tuple(
        _Pair(
            f"{title_of(task, TASKS)}{f' with {METHOD_NAMES[theirs]}' if several else ''}",
            task,
            lines[ours],
            lines[theirs],
        )
        for ours, theirs in claim.pairs
    )
    alike = tuple(line for line in lines.values() if line.method != PRETRAINED and line.records)
    return _Found(pairs, alike, diverged=False, waiting=False)


def _enough(line: Line, seeds: int) -> bool:
    return bool(line.records) and (line.method == PRETRAINED or len(line.records) >= seeds)


def _at_ceiling(pair: _Pair, metric: str) -> bool:
    tables = [table_of(line.records, metric) for line in (pair.ours, pair.theirs)]
    return all(table is not None and table.mean() >= 1 - SMALLEST for table in tables)


def _of_paper(claim: Claim, pairs: Sequence[_Pair]) -> list[float]:
    """The paper's differences in points, of what was compared here; empty where it prints none."""
    column = {"success": "reward_and_success_percent", "perturbed": "perturbed_start_success_percent"}.get(claim.metric)
    if column is None:
        return []
    paper, gaps = paper_results(), []
    for pair in pairs:
        known = dict(zip(paper["methods"], paper[column][pair.task], strict=True))
        ours, theirs = (known[line.method] for line in (pair.ours, pair.theirs))
        gaps.append(ours[1] - theirs[1] if isinstance(ours, list) else ours - theirs)
    return gaps


def _paper_text(gaps: Sequence[float], claim: Claim) -> str:
    if not gaps:
        return NOTHING
    if claim.somewhere:
        return _counted_sides([int(np.sign(gap)) for gap in gaps])
    return signed(float(np.mean(gaps)))


def _counted_sides(sides: Sequence[int]) -> str:
    return f"higher in {sides.count(1)}, lower in {sides.count(-1)} of {len(sides)}"


def _by_side(sides: Mapping[str, int], *, several: bool) -> str:
    words = {1: "higher on", -1: "lower on", 0: "no clear difference on"}
    lists = {side: [name for name, own in sides.items() if own == side] for side in words}
    said = {side: f"{words[side]} {joined(names)}" for side, names in lists.items() if names}
    if several and lists[0]:
        said[0] = f"no clear difference in {len(lists[0])} of {len(sides)} comparisons"
    return "; ".join(said.values())


def _ceiling(names: Sequence[str]) -> str:
    return f"{joined(names)} cannot show it: both solve everything" if names else ""


def _gone(tasks: Sequence[str]) -> str:
    return f"without {joined(tasks)}, where runs diverged" if tasks else ""


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}." if text else NOTHING


# ---------------------------------------------------------------- triangles


def _of_triangles(claim: TriangleClaim, stored: Stored) -> Verdict:
    lines = {line.label: line for line in stored.lines(TRIANGLE, "triangle") if line.records}
    if not {TRIANGLE_VINES, claim.against} <= lines.keys():
        return Verdict(claim.text, claim.paper, NOTHING, NOT_RUN, NOTHING)
    values = {label: _at_one(line, claim.metric) for label, line in lines.items()}
    theirs = values[claim.against]

    def shown(label: str) -> str:
        return in_units(between_seeds(values[label], theirs), claim.scale, claim.digits)

    trained = [label for label in (TRIANGLE_VINES, claim.against) if label != PRETRAINED]
    few = any(len(values[label]) < SEEDS for label in trained)
    gap, smallest = between_seeds(values[TRIANGLE_VINES], theirs), 0.5 * 10**-claim.digits / claim.scale
    verdict = NOT_RESOLVED if few else judge(gap, [], claim.sign, smallest)
    if verdict == CONFIRMED and claim.slight and min(abs(gap.low), abs(gap.high)) > SLIGHT:
        verdict = CONTRADICTED
    parts = [f"with sets of 64 {shown(TRIANGLE_SETS)}" if TRIANGLE_SETS in values else ""]
    if claim.against == PRETRAINED:
        best = max(lines[PRETRAINED].records[0]["points"], key=lambda point: point[claim.metric])
        more = signed(claim.scale * (best[claim.metric] - float(theirs.mean())), claim.digits)
        parts.append(f"the pretrained policy at temperature {best['temperature']:g} {more}")
    return Verdict(claim.text, claim.paper, shown(TRIANGLE_VINES), verdict, _sentence(parts))


def _at_one(line: Line, metric: str) -> np.ndarray:
    return np.array([at_temperature(record["points"], 1.0)[metric] for record in line.records])

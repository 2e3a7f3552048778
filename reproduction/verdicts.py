"""The claims of the paper, each with what the stored results say about it: confirmed, contradicted or not resolved.

A claim is a difference with a sign. It is measured on every task that has results, and as their mean with a 95 %
interval. Tasks on which both sides solve everything cannot show it and are left out of the mean, and so are those where
a run diverged; both are named. With two seeds a method the variance between seeds is pooled over the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from polychromic.core.intervals import CONFIDENCE
from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from polychromic.tasks.grids import paper_results
from reproduction.intervals import Interval, between_seeds, difference, mean_difference, table_of
from reproduction.lines import Line, Stored, title_of
from reproduction.plan import Plan
from reproduction.plans import (
    CHOSEN,
    CONVERGENCE,
    METHOD_NAMES,
    PAPER,
    PLAIN,
    TABLES,
    TASKS,
    TRIANGLE,
    TRIANGLE_SETS,
    TRIANGLE_VINES,
)
from reproduction.triangles import at_temperature
from reproduction.words import SEEDS, SMALLEST, bare, in_units, points

CONFIRMED, CONTRADICTED, NOT_RESOLVED, NOT_RUN = "confirmed", "contradicted", "not resolved", "not run yet"
DIRECTION = "direction confirmed"
RULE = (
    "*Confirmed*: the 95 % interval is on the paper's side of zero, and no task is resolved on the other side. "
    "*Direction confirmed*: the same, where the paper gives a size in words alone, which is not judged. "
    "*Contradicted*: as confirmed, the other way round. *Not resolved*: everything else, which does not mean that "
    "there is no difference.\n\nThat UCB helps on some tasks is confirmed by one comparison above zero (at a level for "
    "as many as there are), and contradicted if all are below. A verdict needs "
    f"{SEEDS} seeds per method ({{fewest}} where the row says so)."
)
TRIANGLE_ROWS = (
    "Triangle rows: per 100 attempts, with sets of 64 in place of the paper's vines, whose runs have barely trained; "
    "they were made the main rows after the results were seen."
)
MANY = "pass@128"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper about the grid tasks: the first of two methods is above (sign 1) or below (−1) the other."""

    text: str
    metric: str
    pairs: tuple[tuple[str, str], ...]
    sign: Literal[1, -1] = 1
    plan: Plan = TABLES
    part: str = CHOSEN
    paper: str = ""  # what the paper says, where it prints no numbers
    seeds: int = SEEDS
    somewhere: bool = False  # the claim is that it holds on some tasks, not on their mean


@dataclass(frozen=True)
class TriangleClaim:
    """A claim about triangle discovery: Poly-PPO with sets of 64 against PPO at temperature 1, over seeds."""

    text: str
    metric: str
    paper: str
    sign: Literal[1, -1] = 1
    scale: float = 1.0
    digits: int = 1
    sized: bool = False  # whether the paper says how large the difference is, in words


CLAIMS = (
    Claim("Poly-PPO succeeds more often than PPO", "success", (("poly-ppo", "ppo"),)),
    Claim("… with the paper's literal hyperparameters", "success", (("poly-ppo", "ppo"),), part=PAPER),
    Claim("Poly-PPO succeeds more often than REINFORCE", "success", (("poly-ppo", "reinforce"),)),
    Claim("At 128 attempts Poly-PPO solves more than PPO", MANY, (("poly-ppo", "ppo"),), paper="more (curves)"),
    Claim(
        "At 128 attempts PPO solves less than the pretrained policy",
        MANY,
        (("ppo", PRETRAINED),),
        sign=-1,
        paper="less (curves)",
    ),
    Claim("From perturbed starts Poly-PPO succeeds more often than PPO", "perturbed", (("poly-ppo", "ppo"),)),
    Claim(
        "From perturbed starts PPO succeeds less often than the pretrained policy",
        "perturbed",
        (("ppo", PRETRAINED),),
        sign=-1,
    ),
    Claim(
        "UCB helps on some tasks (REINFORCE, PPO, Poly-PPO)",
        "success",
        tuple((f"{method}-ucb", method) for method in PLAIN),
        somewhere=True,
    ),
    Claim(
        "PPO succeeds less often than REINFORCE (literal, 4,000 iterations, two seeds)",
        "success",
        (("ppo", "reinforce"),),
        sign=-1,
        plan=CONVERGENCE,
        part=PAPER,
        seeds=2,
    ),
)
TRIANGLE_CLAIMS = (
    TriangleClaim("Triangles: Poly-PPO is less valid than PPO", "validity", "slightly less", -1, 100, sized=True),
    TriangleClaim("Triangles: Poly-PPO is more diverse than PPO", "distinct_of_100", "more"),
    TriangleClaim("Triangles: Poly-PPO is more creative than PPO", "creative_of_100", "more", digits=2),
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


def verdicts(stored: Stored) -> list[Verdict]:
    """Every claim, with or without results."""
    return [
        *(_of_grids(claim, stored) for claim in CLAIMS),
        *(_of_triangles(claim, stored) for claim in TRIANGLE_CLAIMS),
    ]


def verdict_table(stored: Stored) -> str:
    """The table that the results page begins with, and its rule."""
    found = verdicts(stored)
    rows = tuple(tuple(one) for one in found)
    table = Table("", "", ("the paper's claim", "paper", "here [95 %]", "verdict", "task by task"), rows)
    few = min(claim.seeds for claim in CLAIMS)
    return "\n\n".join([_counted([one.verdict for one in found]), bare(table), _tasks(stored), RULE.format(fewest=few)])


def _counted(found: Sequence[str]) -> str:
    """How many claims have which verdict."""
    kinds = [kind for kind in (CONFIRMED, DIRECTION, CONTRADICTED, NOT_RESOLVED, NOT_RUN) if kind in found]
    return f"**Of {len(found)} claims: {', '.join(f'{found.count(kind)} {kind}' for kind in kinds)}.**"


def _tasks(stored: Stored) -> str:
    """The units of the table, and the tasks that are not finished."""
    tables = [claim for claim in CLAIMS if claim.plan is TABLES]
    found = {task: [_found(claim, task, stored) for claim in tables] for task in TABLES.tasks(stored.scale)}
    missing = [title_of(task, TASKS) for task, own in found.items() if any(one.waiting for one in own)]
    told = f"Grid rows: points, mean of the tasks that the row names. {TRIANGLE_ROWS}"
    return f"{told} Not finished: {joined(missing)}." if missing else told


def _of_grids(claim: Claim, stored: Stored) -> Verdict:
    tasks = claim.plan.tasks(stored.scale)
    found = {task: _found(claim, task, stored) for task in tasks}
    pairs = [pair for one in found.values() for pair in one.pairs]
    diverged = [title_of(task, TASKS) for task, one in found.items() if one.diverged]
    measured = [pair for pair in pairs if not _at_ceiling(pair, claim.metric)]
    paper = _of_paper(claim, measured or pairs)
    by_task = [[(pair.ours.records, pair.theirs.records) for pair in measured if pair.task == task] for task in tasks]
    # Pooled only where there are few seeds, which is on one task.
    alike = [line.records for one in found.values() for line in one.alike] if claim.seeds < SEEDS else []
    gap = mean_difference([own for own in by_task if own], claim.metric, alike)
    left = [_ceiling([pair.name for pair in pairs if pair not in measured]), _gone(diverged)]
    if gap is None:
        return Verdict(claim.text, paper, NOTHING, NOT_RESOLVED if pairs or diverged else NOT_RUN, _sentence(left))

    def gaps(confidence: float = CONFIDENCE) -> dict[str, Interval | None]:
        return {
            pair.name: difference(pair.ours.records, pair.theirs.records, claim.metric, confidence, alike)
            for pair in measured
        }

    sides = {name: side_of(one) for name, one in gaps().items()}
    if claim.somewhere:
        strict = gaps(1 - (1 - CONFIDENCE) / len(measured))
        verdict = judge_somewhere([side_of(one) for one in strict.values()], claim.sign)
    else:
        verdict = judge(gap, list(sides.values()), claim.sign)
    said = _by_side(sides, several=len(claim.pairs) > 1)
    return Verdict(claim.text, paper, points(gap), verdict, _sentence([said, *left]))


def side_of(gap: Interval | None, smallest: float = SMALLEST) -> int:
    """1 or −1 if an interval is on that side of zero, by more than is shown as zero; else 0."""
    return 0 if gap is None else 1 if gap.low >= smallest else -1 if gap.high <= -smallest else 0


def judge(gap: Interval, sides: Sequence[int], sign: int, smallest: float = SMALLEST) -> str:
    """The rule. sides: of every task, 1 or −1 where it is resolved, else 0. smallest: what is not shown as zero."""
    side = side_of(gap, smallest)
    if not side or -side in sides:
        return NOT_RESOLVED
    return CONFIRMED if side == sign else CONTRADICTED


def judge_somewhere(sides: Sequence[int], sign: int) -> str:
    """The rule for a claim about some tasks. sides: of every comparison, with a confidence for their number."""
    if sign in sides:
        return CONFIRMED
    return CONTRADICTED if all(side == -sign for side in sides) else NOT_RESOLVED


def _found(claim: Claim, task: str, stored: Stored) -> _Found:
    """The pairs of lines with enough results on a task: all of them, or none."""
    rows = [line for line in stored.lines(claim.plan, task) if line.part == claim.part]
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


def _of_paper(claim: Claim, pairs: Sequence[_Pair]) -> str:
    """The paper's difference in points, on the tasks and methods that were compared here."""
    paper = paper_results()
    column = {"success": "reward_and_success_percent", "perturbed": "perturbed_start_success_percent"}.get(claim.metric)
    if column is None or not pairs:
        return claim.paper or NOTHING
    gaps = []
    for pair in pairs:
        known = dict(zip(paper["methods"], paper[column][pair.task], strict=True))
        ours, theirs = (known[line.method] for line in (pair.ours, pair.theirs))
        gaps.append(ours[1] - theirs[1] if isinstance(ours, list) else ours - theirs)
    return f"{np.mean(gaps):+.1f}".replace("-", "−")


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


def joined(names: Sequence[str]) -> str:
    """Names as a list in words."""
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else ""


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}." if text else NOTHING


# ---------------------------------------------------------------- triangles


def _of_triangles(claim: TriangleClaim, stored: Stored) -> Verdict:
    lines = {line.label: line for line in stored.lines(TRIANGLE, "triangle") if line.records}
    if not {TRIANGLE_SETS, "PPO"} <= lines.keys():
        return Verdict(claim.text, claim.paper, NOTHING, NOT_RUN, NOTHING)
    values = {label: _at_one(line, claim.metric) for label, line in lines.items()}
    gap = between_seeds(values[TRIANGLE_SETS], values["PPO"])
    few = any(len(values[label]) < SEEDS for label in (TRIANGLE_SETS, "PPO"))
    verdict = NOT_RESOLVED if few else judge(gap, [], claim.sign, 0.5 * 10**-claim.digits / claim.scale)
    if verdict == CONFIRMED and claim.sized:
        verdict = DIRECTION

    def shown(gap: Interval) -> str:
        return in_units(gap, claim.scale, claim.digits)

    more = []
    if TRIANGLE_VINES in values:
        more.append(f"with vines {shown(between_seeds(values[TRIANGLE_VINES], values['PPO']))}")
    if PRETRAINED in values:
        names = {TRIANGLE_SETS: "sets of 64", TRIANGLE_VINES: "vines"}
        against = [
            f"{name} {shown(between_seeds(values[label], values[PRETRAINED]))}"
            for label, name in names.items()
            if label in values
        ]
        more.append(f"compared with the pretrained policy: {', '.join(against)}")
    return Verdict(claim.text, claim.paper, shown(gap), verdict, _sentence(more))


def _at_one(line: Line, metric: str) -> np.ndarray:
    return np.array([at_temperature(record["points"], 1.0)[metric] for record in line.records])

"""The results page: a few generated sentences a question, each beside its figure. Numbers come from results alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from polychromic.tasks.grids import paper_results
from reproduction import credit, screening
from reproduction.changes import Effect, effects
from reproduction.claims import MANY
from reproduction.convergence import collapse, convergence_lines
from reproduction.costs_used import EARLIER, REPLACED, SEARCHING, costs_used
from reproduction.equal_success import STRATEGIES, at_equal_success
from reproduction.intervals import at_equal_steps, difference, metric_of
from reproduction.lines import Line, Stored, line_name, title_of
from reproduction.plans import (
    CHOSEN,
    CONVERGENCE,
    CREDIT,
    SCREENING,
    STUDY,
    TABLES,
    TASKS,
    TRIANGLE,
    TRIANGLE_SETS,
    TRIANGLE_VINES,
)
from reproduction.triangles import at_temperature
from reproduction.verdicts import side_of, verdict_table
from reproduction.words import bare, bold, enough, gap, in_units, joined, number, percent, points, resolved_gap

HOURS = 20  # the bound on the tables, set credit, convergence and triangles


def overview_blocks(stored: Stored, figures: Mapping[str, str]) -> dict[str, str]:
    """The text of every mark of the results page. figures: their paths by name, relative to the page."""
    tables = {task: _lines(stored, task) for task in TABLES.tasks(stored.scale)}
    ready = {task: lines for task, lines in tables.items() if {"ppo", "poly-ppo", PRETRAINED} <= lines.keys()}
    missing = {title_of(task, TASKS): _has_diverged(stored, task) for task in tables if task not in ready}
    texts = {
        "best": [_per_task(ready, BEST, _best), _waiting(missing)],
        "attempts": [_per_task(ready, ATTEMPTS, _attempts)],
        "perturbed": [_per_task(ready, STARTS, _perturbed)],
        "convergence": [_convergence(stored)],
        "strategies": [_per_task(ready, KEPT, _strategies)],
        "decides": [_decides(stored)],
        "triangles": [_triangles(stored)],
        "credit": [_credit(stored)],
        "cost": [_cost(stored)],
    }
    blocks = {"verdict": verdict_table(stored)}
    for name, parts in texts.items():
        picture = f"![{ALT[name]}]({figures[name]})" if name in figures else ""
        blocks[name] = "\n\n".join(part for part in (picture, *parts) if part)
    return blocks


BEST = ("task", "highest mean", "success %", "clearly ahead of", "not clearly ahead of", "Poly-PPO − PPO, equal steps")
ATTEMPTS = ("task: pass@128 %", "pretrained", "PPO", "Poly-PPO", "clear differences")
STARTS = (
    "task: perturbed starts %",
    "pretrained",
    "PPO",
    "Poly-PPO",
    "Poly-PPO − PPO",
    "the paper's pretrained, PPO, Poly-PPO",
)
KEPT = ("task", "pretrained", "PPO", "Poly-PPO", "Poly-PPO − PPO", "Poly-PPO × PPO's at equal success")
ALT = {
    "best": "Success of every method without UCB on every task, with 95 % intervals, beside the paper's numbers",
    "attempts": "Share of configurations solved within k attempts",
    "perturbed": "Success from perturbed starts, beside the paper's numbers",
    "convergence": "Success, pass@128, perturbed starts and entropy along training with the paper's literal settings: "
    "means, pale every run, dashed the pretrained policy",
    "strategies": "Distinct successful strategies of every method without UCB on every task",
    "decides": "The effect of every change of the study on success",
    "triangles": "Validity against distinct triangles, for every run and along temperatures",
    "credit": "Success against distinct successful strategies and against pass@8, along training",
    "cost": "CPU hours by plan",
}


def _lines(stored: Stored, task: str) -> dict[str, Line]:
    """The lines of the comparison with enough seeds, by method."""
    rows = [line for line in stored.lines(TABLES, task) if line.part == CHOSEN and line.records and line.method]
    return {line.method: line for line in rows if enough(line)}


def _per_task(
    ready: Mapping[str, Mapping[str, Line]],
    columns: tuple[str, ...],
    row: Callable[[Mapping[str, Line]], Sequence[str]],
) -> str:
    if not ready:
        return "Not run yet: `python -m reproduction tables`."
    return bare(Table("", "", columns, tuple((title_of(task, TASKS), *row(lines)) for task, lines in ready.items())))


def _has_diverged(stored: Stored, task: str) -> bool:
    return any(line.diverged for line in stored.lines(TABLES, task) if line.part == CHOSEN)


def _waiting(titles: Mapping[str, bool]) -> str:
    """Tasks that have no row, and why. titles: by title, whether a run has diverged."""
    gone, late = ([title for title, diverged in titles.items() if diverged is which] for which in (True, False))
    told = [f"Not finished: {joined(late)} (`python -m reproduction tables`)."] if late else []
    told += [f"Without {joined(gone)}, where runs diverged."] if gone else []
    return " ".join(told)


def _best(lines: Mapping[str, Line]) -> Sequence[str]:
    """Who has the highest mean, and whom it is clearly ahead of."""
    means = {method: metric.mean for method, line in lines.items() if (metric := metric_of(line.records, "success"))}
    first = lines[max(means, key=lambda method: means[method])]
    others = [line for line in lines.values() if line is not first]
    behind = [line_name(line) for line in others if _clear(first, line, "success") > 0]
    level = [line_name(line) for line in others if line_name(line) not in behind]
    told = [line_name(first), percent(first, "success"), ", ".join(behind) or NOTHING, ", ".join(level) or NOTHING]
    return *told, _equal_steps(lines)


def _equal_steps(lines: Mapping[str, Line]) -> str:
    """Poly-PPO minus PPO after equally many environment steps: with equally many trajectories Poly-PPO makes fewer."""
    found = at_equal_steps(lines["poly-ppo"].records, lines["ppo"].records, "success")
    if found is None:
        return NOTHING
    return bold(points(found[1]), bool(side_of(found[1])))


def _attempts(lines: Mapping[str, Line]) -> Sequence[str]:
    pairs = [("ppo", PRETRAINED), ("poly-ppo", PRETRAINED), ("poly-ppo", "ppo")]
    clear = [
        f"{line_name(lines[ours])} {'above' if side > 0 else 'below'} {line_name(lines[theirs])}"
        for ours, theirs in pairs
        if (side := _clear(lines[ours], lines[theirs], MANY))
    ]
    return *(percent(lines[method], MANY) for method in (PRETRAINED, "ppo", "poly-ppo")), ", ".join(clear) or "none"


def _perturbed(lines: Mapping[str, Line]) -> Sequence[str]:
    paper = paper_results()
    task = lines["ppo"].records[0]["task"]
    theirs = dict(zip(paper["methods"], paper["perturbed_start_success_percent"][task], strict=True))
    methods = (PRETRAINED, "ppo", "poly-ppo")
    ours = [percent(lines[method], "perturbed") for method in methods]
    printed = ", ".join(f"{theirs[method]:.1f}" for method in methods)
    return *ours, gap(lines["poly-ppo"], lines["ppo"], "perturbed"), printed


def _strategies(lines: Mapping[str, Line]) -> Sequence[str]:
    found = difference(lines["poly-ppo"].records, lines["ppo"].records, STRATEGIES)
    shown = NOTHING if found is None else in_units(found, 1.0, 2)
    clear = _clear(lines["poly-ppo"], lines["ppo"], STRATEGIES)
    values = [number(lines[method], STRATEGIES, 2) for method in (PRETRAINED, "ppo", "poly-ppo")]
    equal = at_equal_success(lines["poly-ppo"].records, lines["ppo"].records)
    return *values, bold(shown, bool(clear)), NOTHING if equal is None else credit.ratio(equal.strategies)


def _clear(ours: Line, theirs: Line, name: str) -> int:
    """1 or −1 if the difference of two lines is resolved, else 0."""
    found = difference(ours.records, theirs.records, name)
    if found is None or not resolved_gap(found, ours, theirs):
        return 0
    return 1 if found.mean > 0 else -1


def _convergence(stored: Stored) -> str:
    for task in CONVERGENCE.tasks(stored.scale):
        lines, base = convergence_lines(stored, task)
        if lines:
            return f"{title_of(task, TASKS)}, the paper's literal settings. {collapse(lines, base)}"
    return "To convergence with the paper's literal settings: not run yet (`python -m reproduction convergence`)."


def _decides(stored: Stored) -> str:
    """The changes that are resolved on some task, and what they add on each."""
    tasks = STUDY.tasks(stored.scale)
    found: dict[str, dict[str, Effect]] = {}
    for task in tasks:
        for one in effects(stored.lines(STUDY, task)):
            found.setdefault(f"{one.line.part}: {line_name(one.line)}", {})[task] = one
    clear = {name: own for name, own in found.items() if any(one.resolved for one in own.values())}
    if not clear:
        return "Not run yet: `python -m reproduction study`."

    def largest(name: str) -> float:
        return max(abs(float(one.change.mean)) for one in clear[name].values() if one.resolved)

    def shown(one: Effect | None) -> str:
        return NOTHING if one is None else bold(points(one.change), one.resolved)

    names = sorted(clear, key=largest, reverse=True)
    rows = tuple((name, *(shown(clear[name].get(task)) for task in tasks)) for name in names)
    return bare(Table("", "", ("change", *(title_of(task, TASKS) for task in tasks)), rows))


def _triangles(stored: Stored) -> str:
    lines = {line.label: line for line in stored.lines(TRIANGLE, "triangle") if line.records}
    names = {
        PRETRAINED: "pretrained",
        "PPO": "PPO",
        TRIANGLE_VINES: "Poly-PPO with vines",
        TRIANGLE_SETS: "with sets of 64",
    }
    if not names.keys() <= lines.keys():
        return "Not run yet: `python -m reproduction triangle`."
    shown = []
    for label, name in names.items():
        ones = [at_temperature(record["points"], 1.0) for record in lines[label].records]
        distinct, validity = (fmean(one[metric] for one in ones) for metric in ("distinct_of_1000", "validity"))
        shown.append(f"{name} {distinct:.0f} ({validity:.2f})")
    return f"Distinct triangles of 1,000 (and validity): {', '.join(shown)}."


def _credit(stored: Stored) -> str:
    by_task = {task: stored.lines(SCREENING, task) for task in SCREENING.tasks(stored.scale)}
    if not screening.is_finished(by_task):
        runs = [line for lines in by_task.values() for line in lines]
        done = sum(bool(line.records) for line in runs)
        return f"{done} of {len(runs)} runs of the screening are done." if done else "Not run yet."
    against_ppo = credit.compared(stored)
    verdict = credit.verdict(against_ppo, len(CREDIT.tasks(stored.scale)))
    parts = [f"{credit.BAR}.", verdict]
    return "\n\n".join([*parts, *([credit.summary_table(against_ppo)] if against_ppo else [])])


def _cost(stored: Stored) -> str:
    used = costs_used(stored)
    if not any(one.results for one in used.values()):
        return "Nothing was run yet."
    hours = {name: one.hours for name, one in used.items()}
    bounded = [name for name in used if name not in (*SEARCHING, EARLIER)]
    bound = sum(hours[name] for name in bounded)
    counted = ["tables, their checks", "set credit", "convergence", "triangles"]
    counted += ["replaced runs"] if REPLACED in used else []
    estimated = bound + sum(used[name].estimated for name in bounded)
    planned = f"at most {HOURS} were planned" if estimated <= HOURS else f"more than the {HOURS} that were planned"
    unknown = [f"{name} {one.without_cost} of {one.results}" for name, one in used.items() if one.without_cost]
    more = f"{estimated:.1f} with an estimate for results without a record; " if unknown else ""
    told = (
        f"{sum(hours.values()):.1f} CPU hours: {bound:.1f} for {joined(counted)} "
        f"({more}{planned}), {hours[EARLIER]:.1f} for the study of what decides the outcome, "
        f"{sum(hours[name] for name in SEARCHING):.1f} for searches ({hours[SCREENING.name]:.1f} of it the "
        "screening of set credit)."
    )
    idle = [name for name, one in used.items() if not one.results]
    told += f" Not run yet: {joined(idle)}." if idle else ""
    return told + (f" Without a record: {', '.join(unknown)}." if unknown else "")

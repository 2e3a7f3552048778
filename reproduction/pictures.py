"""The figures of the results page, one a question: narrow, so that they can be read on a phone too."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Picture
from matplotlib.lines import Line2D

from polychromic.sweep.cells import PRETRAINED
from polychromic.tasks.grids import paper_results
from reproduction.changes import effects
from reproduction.convergence import along, convergence_lines
from reproduction.costs_used import costs_used
from reproduction.draw import COLOURS, passk_lines, plain
from reproduction.equal_success import PASS_AT_8, STRATEGIES, common_range, curves_with, read_off
from reproduction.intervals import Interval, metric_of, over_seeds
from reproduction.lines import Line, Stored, line_name, title_of
from reproduction.plans import (
    CHOSEN,
    CONVERGENCE,
    CREDIT,
    METHOD_NAMES,
    STUDY,
    TABLES,
    TASKS,
    TRIANGLE,
    TRIANGLE_SETS,
    TRIANGLE_VINES,
)
from reproduction.triangles import at_temperature, mean_curve
from reproduction.words import enough

WIDE = 5.4  # inches: at its own size on a desktop, and readable at the width of a phone
SHOWN = (PRETRAINED, "reinforce", "ppo", "poly-ppo")
TASK_COLOURS = ("#5b3fa8", "#a87900", "#0b6f7a", "#a4508b", "#6b7480")
SETS = ("#7a3500", "#f5a36b", "#a4508b", "#a87900")  # other forms of Poly-PPO


def pictures(stored: Stored) -> dict[str, Picture]:
    """The figures that have results, by name."""
    tables = {task: _chosen(stored, task) for task in TABLES.tasks(stored.scale)}
    ready = {task: own for task, own in tables.items() if {"ppo", "poly-ppo"} <= {line.method for line in own}}
    attempts = stored.scale.attempts
    makers: dict[str, Callable[[], Picture | None]] = {
        "best": lambda: dots_figure(ready, "success", "success, %", 100),
        "attempts": lambda: attempts_figure(ready),
        "perturbed": lambda: dots_figure(ready, "perturbed", "success from perturbed starts, %", 100),
        "strategies": lambda: dots_figure(ready, STRATEGIES, f"successful strategies of {attempts} attempts", 1),
        "decides": lambda: decides_figure(stored),
        "convergence": lambda: convergence_figure(stored),
        "triangles": lambda: triangles_figure(stored.lines(TRIANGLE, "triangle")),
        "credit": lambda: credit_figure(stored),
        "cost": lambda: cost_figure(stored),
    }
    made = {name: make() for name, make in makers.items()}
    return {name: picture for name, picture in made.items() if picture is not None}


def _chosen(stored: Stored, task: str) -> list[Line]:
    """The lines of the comparison with enough seeds, in the order of the paper's tables, without UCB."""
    rows = [line for line in stored.lines(TABLES, task) if line.part == CHOSEN and line.records]
    lines = {line.method: line for line in rows if enough(line)}
    return [lines[method] for method in SHOWN if method in lines]


def dots_figure(by_task: Mapping[str, Sequence[Line]], name: str, label: str, scale: float) -> Picture | None:
    """A metric of every method on every task, with its interval, and the paper's number as a diamond."""
    if not by_task:
        return None
    picture = Picture(figsize=(WIDE, 0.9 + 0.95 * len(by_task)), layout="constrained")
    axes = picture.subplots()
    for number, (task, lines) in enumerate(by_task.items()):
        for line in lines:
            metric = metric_of(line.records, name)
            if metric is None:
                continue
            row = number + (SHOWN.index(line.method) - 1.5) * 0.19
            colour = COLOURS[line.method]
            axes.plot([scale * metric.low, scale * metric.high], [row, row], color=colour, lw=2)
            axes.plot(scale * metric.mean, row, "o", color=colour, ms=5)
            printed = _of_paper(task, line.method, name)
            if printed is not None:
                axes.plot(printed, row, "D", color=colour, mfc="white", ms=5)
    axes.set_yticks(range(len(by_task)), [title_of(task, TASKS) for task in by_task])
    axes.set_ylim(len(by_task) - 0.5, -0.5)
    for edge in range(1, len(by_task)):
        axes.axhline(edge - 0.5, color="#d1d5db", lw=0.8)
    plain(axes, label, "")
    marks = [Line2D([], [], color=COLOURS[method], marker="o", lw=2, label=METHOD_NAMES[method]) for method in SHOWN]
    if _of_paper(next(iter(by_task)), "ppo", name) is not None:
        marks.append(Line2D([], [], color="#374151", marker="D", mfc="white", lw=0, label="the paper"))
    picture.legend(handles=marks, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return picture


def _of_paper(task: str, method: str, name: str) -> float | None:
    columns = {"success": "reward_and_success_percent", "perturbed": "perturbed_start_success_percent"}
    values = paper_results().get(columns.get(name, ""), {}).get(task)
    if values is None:
        return None
    value = dict(zip(paper_results()["methods"], values, strict=True))[method]
    return float(value[1] if isinstance(value, list) else value)


def attempts_figure(by_task: Mapping[str, Sequence[Line]]) -> Picture | None:
    """pass@k of every method, a panel a task."""
    if not by_task:
        return None
    rows = (len(by_task) + 1) // 2
    picture = Picture(figsize=(WIDE, 0.5 + 2.3 * rows), layout="constrained")
    panels = picture.subplots(rows, 2, squeeze=False).ravel()
    for axes, (task, lines) in zip(panels, by_task.items(), strict=False):
        passk_lines(axes, lines)
        axes.set_title(title_of(task, TASKS), fontsize=10)
        axes.set_ylabel("solved")
    for axes in panels[len(by_task) :]:
        axes.set_visible(False)
    _method_legend(picture)
    return picture


def _method_legend(picture: Picture, methods: Sequence[str] = SHOWN) -> None:
    marks = [Line2D([], [], color=COLOURS[method], lw=2, label=METHOD_NAMES[method]) for method in methods]
    picture.legend(handles=marks, loc="outside upper center", ncols=4, frameon=False, fontsize=9)


def decides_figure(stored: Stored) -> Picture | None:
    """The effect of every change of the study on success, one colour a task."""
    found: dict[str, dict[str, Interval]] = {}
    for task in STUDY.tasks(stored.scale):
        for one in effects(stored.lines(STUDY, task)):
            found.setdefault(f"{one.line.part}: {line_name(one.line)}", {})[task] = one.change
    if not found:
        return None
    picture = Picture(figsize=(WIDE, 0.9 + 0.34 * len(found)), layout="constrained")
    axes = picture.subplots()
    tasks = list(STUDY.tasks(stored.scale))
    for row, gaps in enumerate(found.values()):
        for task, gap in gaps.items():
            place = row + (tasks.index(task) - (len(tasks) - 1) / 2) * 0.3
            colour = TASK_COLOURS[tasks.index(task)]
            axes.plot([100 * gap.low, 100 * gap.high], [place, place], color=colour, lw=1.8)
            axes.plot(100 * gap.mean, place, "o", color=colour, ms=4, mfc=colour if gap.clear else "white")
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(found)), [textwrap.fill(name, 26) for name in found], fontsize=8)
    axes.set_ylim(len(found) - 0.5, -0.5)
    plain(axes, "change in success, points (99 % intervals)", "")
    marks = [
        Line2D([], [], color=colour, marker="o", lw=2, label=title_of(task, TASKS))
        for task, colour in zip(tasks, TASK_COLOURS, strict=False)
    ]
    picture.legend(handles=marks, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return picture


def convergence_figure(stored: Stored) -> Picture | None:
    """Success, pass@128, perturbed starts and entropy along training with the paper's literal settings: means, and pale
    every run."""
    task = next((task for task in CONVERGENCE.tasks(stored.scale) if convergence_lines(stored, task)[0]), None)
    if task is None:
        return None
    lines, base = convergence_lines(stored, task)
    picture = Picture(figsize=(WIDE, 5.0), layout="constrained")
    panels = picture.subplots(2, 2).ravel()
    names = {
        "success": "success, %",
        "pass@128": "solved in 128 attempts, %",
        "perturbed": "success, perturbed starts, %",
        "entropy": "entropy",
    }
    for axes, (name, label) in zip(panels, names.items(), strict=True):
        scale = 1 if name == "entropy" else 100
        level = metric_of(base.records, name) if base else None
        if level is not None:
            axes.axhline(scale * level.mean, color=COLOURS[PRETRAINED], lw=1.4, ls="--")
        for line in lines:
            for records, style in [
                (line.records, {"lw": 1.8}),
                *(([one], {"lw": 0.8, "alpha": 0.3}) for one in line.records),
            ]:
                iterations, metrics = along(records, name)
                axes.plot(iterations, [scale * metric.mean for metric in metrics], color=COLOURS[line.method], **style)
        if name == "pass@128":
            axes.set_ylim(75, 101)
        plain(axes, "iterations", label)
    _method_legend(picture)
    return picture


def triangles_figure(lines: Sequence[Line]) -> Picture | None:
    """Validity against diversity: every run at temperature 1, and the way of each method along temperatures."""
    wanted = {
        PRETRAINED: ("pretrained", COLOURS[PRETRAINED]),
        "PPO": ("PPO", COLOURS["ppo"]),
        "REINFORCE": ("REINFORCE", COLOURS["reinforce"]),
        TRIANGLE_VINES: ("Poly-PPO, vines", SETS[1]),
        TRIANGLE_SETS: ("Poly-PPO, sets of 64", COLOURS["poly-ppo"]),
    }
    own = {line.label: line for line in lines if line.label in wanted and line.records}
    if not own:
        return None
    picture = Picture(figsize=(WIDE, 3.9), layout="constrained")
    axes = picture.subplots()
    for label, line in own.items():
        name, colour = wanted[label]
        axes.plot(*zip(*mean_curve(line.records), strict=True), "-", color=colour, lw=1.2, alpha=0.6)
        ones = [at_temperature(record["points"], 1.0) for record in line.records]
        validity, distinct = ([point[axis] for point in ones] for axis in ("validity", "distinct_of_1000"))
        axes.plot(validity, distinct, "o", color=colour, ms=6, label=name)
    plain(axes, "validity (lines: other temperatures)", "distinct triangles of 1,000")
    axes.set(xlim=(-0.02, 1.03), ylim=(-5, None))
    picture.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return picture


def credit_figure(stored: Stored) -> Picture | None:
    """Success against distinct successful strategies and against pass@8, along training: the trade-off."""
    found = {}
    for task in CREDIT.tasks(stored.scale):
        lines = [line for line in stored.lines(CREDIT, task) if curves_with(line.records, (STRATEGIES, PASS_AT_8))]
        if any(line.method != "ppo" for line in lines):
            found[task] = lines
    if not found:
        return None
    picture = Picture(figsize=(WIDE, 0.8 + 2.3 * len(found)), layout="constrained")
    panels = picture.subplots(len(found), 2, squeeze=False)
    styles: dict[str, dict[str, Any]] = {}
    for row, (task, lines) in zip(panels, found.items(), strict=True):
        for line in lines:
            style = styles.setdefault(line.label, _credit_style(line, styles))
            curves = curves_with(line.records, (STRATEGIES, PASS_AT_8))
            span = common_range([line.records])
            if span is None:
                continue
            levels = np.linspace(*span, 40)
            for axes, name in zip(row, (STRATEGIES, PASS_AT_8), strict=True):
                shown = over_seeds(np.array([read_off(curve, name, levels) for curve in curves]))
                axes.plot(100 * levels, shown.mean, **style)
                if len(curves) > 1:
                    axes.fill_between(100 * levels, shown.low, shown.high, color=style["color"], alpha=0.1, lw=0)
        for axes, label in zip(row, ("successful strategies", "pass@8"), strict=True):
            plain(axes, "success, %", label)
            axes.set_title(title_of(task, TASKS), fontsize=10)
    marks = [
        Line2D([], [], label=METHOD_NAMES.get(label, label).replace("ppo,", "PPO,"), **own)
        for label, own in styles.items()
    ]
    picture.legend(handles=marks, loc="outside upper center", ncols=1, frameon=False, fontsize=9)
    return picture


def _credit_style(line: Line, known: Mapping[str, Any]) -> dict[str, Any]:
    if line.method == "ppo":
        return {"color": COLOURS["ppo"], "ls": "-" if line.label == "ppo" else "--", "lw": 1.8}
    sets = sum(style["color"] != COLOURS["ppo"] for style in known.values())
    return {"color": SETS[sets % len(SETS)], "ls": "-", "lw": 1.8}


def cost_figure(stored: Stored) -> Picture | None:
    """CPU hours really used, by plan."""
    used = {name: one.hours for name, one in costs_used(stored).items() if one.hours > 0}
    if not used:
        return None
    picture = Picture(figsize=(WIDE, 0.7 + 0.36 * len(used)), layout="constrained")
    axes = picture.subplots()
    axes.barh(list(used), list(used.values()), color=COLOURS[PRETRAINED], height=0.6)
    for row, hours in enumerate(used.values()):
        axes.text(hours, row, f" {hours:.1f}", va="center", fontsize=9)
    axes.set_xlim(0, 1.15 * max(used.values()))
    axes.invert_yaxis()
    plain(axes, "CPU hours", "")
    return picture

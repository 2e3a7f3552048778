"""The paper's two tables, with ours beside them; the page and the Markdown show the same ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from polychromic.report.compare import Comparison, Method, pooled
from polychromic.tasks.triangle.report import COLUMNS, NOTE, discovery_rows, pooled_discoveries

NOTHING = "–"
PRETRAINED = "pretrained"


@dataclass(frozen=True)
class Table:
    """A title, what it is, column heads and rows of text."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def paper_results() -> dict[str, Any]:
    """The figures of the paper's Tables 1 and 2."""
    text = (resources.files("polychromic.tasks.grids") / "paper_results.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def tables(comparisons: Sequence[Comparison]) -> list[Table]:
    """Reward and success; perturbed starts, where they were evaluated."""
    grids = [one for one in comparisons if one.task != "triangle"]
    made = [_main_table(grids)] if grids else []
    discovered = [
        row
        for one in comparisons
        for method in one.methods
        for row in discovery_rows(one.title, method.label, pooled_discoveries(method.results))
    ]
    if discovered:
        made.append(Table("Triangle discovery", NOTE, COLUMNS, tuple(discovered)))
    if any("perturbed" in (pooled(method) or {}) for one in comparisons for method in one.methods):
        made.append(_perturbed_table(grids))
    return made


def _main_table(comparisons: Sequence[Comparison]) -> Table:
    paper = paper_results()
    rows = []
    for comparison in comparisons:
        theirs = dict(zip(paper["methods"], paper["reward_and_success_percent"].get(comparison.task, []), strict=False))
        for method in _with_missing(comparison, list(theirs)):
            ours = pooled(method)
            reward, success = theirs.get(method.key, (None, None))
            rows.append(
                (
                    comparison.title,
                    method.label,
                    _percent(ours, "success"),
                    NOTHING if success is None else f"{success:.1f}",
                    _mean(ours, "reward_0.5"),
                    _mean(ours, "reward_0.9"),
                    NOTHING if reward is None else f"{reward:.3f}",
                    _mean(ours, "coverage", 2),
                    _mean(ours, "distinct_strategies", 1),
                    _mean(ours, "distinct_successful_strategies", 1),
                    _mean(ours, "entropy", 2),
                    _last_pass(ours),
                    str(len(method.results)) if ours else NOTHING,
                )
            )
    return Table(
        "Reward and success",
        "Ours with 95 % intervals over configurations, beside the paper's Table 1. Rewards on two scales: a success "
        "after t of H steps pays 1 − 0.5·t/H (the paper's text) or 1 − 0.9·t/H (minigrid's). Coverage: "
        "configurations solved at least once. Strategies: distinct ones per configuration (sets of rooms visited, in a "
        "grid), and how many of them succeed at least once.",
        (
            "task",
            "method",
            "success %",
            "paper %",
            "reward (0.5)",
            "reward (0.9)",
            "paper reward",
            "coverage",
            "strategies",
            "that succeed",
            "entropy",
            "pass@k, largest k",
            "runs",
        ),
        tuple(rows),
    )


def _perturbed_table(comparisons: Sequence[Comparison]) -> Table:
    paper = paper_results()
    rows = []
    for comparison in comparisons:
        figures = paper["perturbed_start_success_percent"].get(comparison.task, [])
        theirs = dict(zip(paper["methods"], figures, strict=False))
        for method in _with_missing(comparison, list(theirs)):
            their = theirs.get(method.key)
            ours = _percent(pooled(method), "perturbed")
            rows.append((comparison.title, method.label, ours, NOTHING if their is None else f"{their:.1f}"))
    return Table(
        "Success from perturbed starts",
        "pass@1 with the agent put elsewhere, in rooms that the pretrained policy visits, beside the paper's Table 2.",
        ("task", "method", "success %", "paper %"),
        tuple(rows),
    )


def _with_missing(comparison: Comparison, names: Sequence[str]) -> list[Method]:
    """Our methods, and those of the paper that were not run here."""
    present = {method.key for method in comparison.methods}
    return [*comparison.methods, *(Method(name, name, (), ()) for name in names if name not in present)]


def _percent(ours: dict[str, Any] | None, name: str) -> str:
    if not ours or name not in ours:
        return NOTHING
    found = ours[name]
    return f"{100 * found['mean']:.1f} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def _mean(ours: dict[str, Any] | None, name: str, digits: int = 3) -> str:
    return f"{ours[name]['mean']:.{digits}f}" if ours else NOTHING


def _last_pass(ours: dict[str, Any] | None) -> str:
    if not ours:
        return NOTHING
    curve = ours["pass_at_k"]["mean"]
    return f"{curve[-1]:.3f} (k = {len(curve)})"


def as_markdown(made: Sequence[Table], problems: Sequence[str] = ()) -> str:
    """The tables for a paper or a README."""
    parts = []
    for table in made:
        lines = [f"## {table.title}", "", table.note, ""]
        lines += [_line(table.columns), _line(["---"] * len(table.columns)), *map(_line, table.rows)]
        parts.append("\n".join(lines) + "\n")
    if problems:
        parts.append("\n".join(f"- {_plain(problem)}" for problem in problems) + "\n")
    return "\n".join(parts)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

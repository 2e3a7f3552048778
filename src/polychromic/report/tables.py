"""The paper's two tables with our results beside them, for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polychromic.envs.registry import Section, find_spec
from polychromic.report.compare import Comparison, Method, pooled
from polychromic.report.table import Table

NOTHING = "–"
PAPER = ("paper %", "paper reward")
OF_SUCCESS = ("success %", "coverage", "that succeed", "pass@k, largest k")
PRETRAINED = "pretrained"


def tables(comparisons: Sequence[Comparison]) -> list[Table]:
    """Reward and success, or the table of a task's own section; perturbed starts, if they were evaluated."""
    plain = [comparison for comparison in comparisons if section_of(comparison) is None]
    shown = [_main_table(plain)] if plain else []
    sections = dict.fromkeys(section for comparison in comparisons if (section := section_of(comparison)) is not None)
    for section in sections:
        rows = [
            (comparison.title, method.label, values)
            for comparison in comparisons
            if section_of(comparison) == section
            for method in comparison.methods
            if (values := section_values(section, method)) is not None
        ]
        shown += [section.table(rows)] if rows else []
    if any("perturbed" in (pooled(method) or {}) for comparison in comparisons for method in comparison.methods):
        shown.append(_perturbed_table(plain))
    return shown


def section_of(comparison: Comparison) -> Section | None:
    """The section that a task adds to reports."""
    spec = find_spec(comparison.task)
    return spec.section if spec else None


def section_values(section: Section, method: Method) -> dict[str, Any] | None:
    """The values of a method in a section; None if it was not evaluated."""
    values = [result[section.metric] for result in method.results if section.metric in result]
    return section.pool(values) if values else None


def _paper(comparison: Comparison, name: str) -> Mapping[str, Any]:
    """The paper's numbers for a task, by method; empty for tasks that are not in the paper."""
    spec = find_spec(comparison.task)
    return spec.paper.get(name, {}) if spec else {}


def _main_table(comparisons: Sequence[Comparison]) -> Table:
    scales = sorted({name for one in comparisons for method in one.methods for name in _scales(pooled(method))})
    in_paper = any(_paper(one, "reward_success") for one in comparisons)
    known = any(success_known(one) for one in comparisons)
    returns = any(not _scales(ours) for one in comparisons for method in one.methods if (ours := pooled(method)))
    rows = []
    for comparison in comparisons:
        theirs = _paper(comparison, "reward_success")
        for method in _with_missing(comparison, list(theirs)):
            ours = pooled(method)
            reward, success = theirs.get(method.key, (None, None))
            row = {
                "task": comparison.title,
                "method": method.label,
                "return": _with_interval(ours, "return"),
                "success %": _percent(ours, "success"),
                "paper %": NOTHING if success is None else f"{success:.1f}",
                **{f"reward ({scale.removeprefix('reward_')})": _mean(ours, scale) for scale in scales},
                "paper reward": NOTHING if reward is None else f"{reward:.3f}",
                "coverage": _mean(ours, "coverage", 2),
                "strategies": _mean(ours, "distinct_strategies", 1),
                "that succeed": _mean(ours, "distinct_successful_strategies", 1),
                "entropy": _mean(ours, "entropy", 2),
                "pass@k, largest k": _last_pass(ours),
                "runs": str(len(method.results)) if ours else NOTHING,
            }
            hidden = (() if in_paper else PAPER) + (() if known else OF_SUCCESS) + (() if returns else ("return",))
            rows.append({name: cell for name, cell in row.items() if name not in hidden})
    beside = ", beside the paper's Table 1" if in_paper else ""
    note = [f"Ours with 95 % intervals over configurations{beside}."]
    if scales:
        note.append(
            "Rewards on two scales: a success after t of H steps pays 1 − 0.5·t/H (the paper's text) or 1 − 0.9·t/H "
            "(minigrid's)."
        )
    note.append("Return: what the environment paid, all rewards of an episode together." if returns else "")
    kinds = "Strategies: distinct ones per configuration (sets of rooms visited, in a grid)"
    if known:
        note.append("Coverage: configurations solved at least once.")
        note.append(f"{kinds}, and how many of them succeed at least once.")
    else:
        note.append(f"{kinds}. The environment does not say which episodes succeed, so no success rate is claimed.")
    note = [part for part in note if part]
    columns = tuple(rows[0]) if rows else ("task", "method")
    return Table(
        "Reward and success" if known else "Return", " ".join(note), columns, tuple(tuple(row.values()) for row in rows)
    )


def success_known(comparison: Comparison) -> bool:
    """Whether any evaluation, or any run that is not evaluated yet, has a success rate."""
    evaluated = [ours for method in comparison.methods if (ours := pooled(method))]
    lines = [line for method in comparison.methods for entry in method.entries for line in entry.evaluations]
    return any("success" in one for one in (*evaluated, *lines)) or not (evaluated or lines)


def _scales(ours: Mapping[str, Any] | None) -> list[str]:
    return [name for name in ours or {} if name.startswith("reward_")]


def _perturbed_table(comparisons: Sequence[Comparison]) -> Table:
    rows = []
    for comparison in comparisons:
        theirs = _paper(comparison, "perturbed")
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
    metric = ours[name]
    return f"{100 * metric['mean']:.1f} [{100 * metric['low']:.1f}, {100 * metric['high']:.1f}]"


def _with_interval(ours: dict[str, Any] | None, name: str) -> str:
    if not ours or name not in ours:
        return NOTHING
    return "{mean:.4g} [{low:.4g}, {high:.4g}]".format(**ours[name])


def _mean(ours: dict[str, Any] | None, name: str, digits: int = 3) -> str:
    return f"{ours[name]['mean']:.{digits}f}" if ours and name in ours else NOTHING


def _last_pass(ours: dict[str, Any] | None) -> str:
    if not ours or "pass_at_k" not in ours:
        return NOTHING
    curve = ours["pass_at_k"]["mean"]
    return f"{curve[-1]:.3f} (k = {len(curve)})"

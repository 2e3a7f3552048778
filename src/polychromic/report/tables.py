"""The tables of a comparison: how good, how diverse, and beside the paper where it has numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from polychromic.envs.registry import Section, find_spec
from polychromic.report.compare import Comparison, Method, pooled
from polychromic.report.table import Table

NOTHING = "–"


def tables(comparisons: Sequence[Comparison]) -> list[Table]:
    """All tables of several comparisons, each titled with its task."""
    return [
        replace(table, title=f"{comparison.title}: {table.title}")
        for comparison in comparisons
        for part in tables_of(comparison).values()
        for table in part
    ]


def tables_of(comparison: Comparison) -> dict[str, list[Table]]:
    """The tables of the sections `good` and `diverse` of a page; a table without rows is left out."""
    section = section_of(comparison)
    own = _section_table(comparison, section) if section else None
    found = {
        "good": [_how_good(comparison), _beside_paper(comparison), _perturbed(comparison)],
        "diverse": [own or _how_diverse(comparison)],
    }
    return {name: [table for table in part if table is not None and table.rows] for name, part in found.items()}


def section_of(comparison: Comparison) -> Section | None:
    """The section that a task adds to reports."""
    spec = find_spec(comparison.task)
    return spec.section if spec else None


def section_values(section: Section, method: Method) -> dict[str, Any] | None:
    """The values of a method in a section; None if it was not evaluated."""
    values = [result[section.metric] for result in method.results if section.metric in result]
    return section.pool(values) if values else None


def success_known(comparison: Comparison) -> bool:
    """Whether any evaluation, or any run that is not evaluated yet, has a success rate."""
    evaluated = [ours for _, ours in _evaluated(comparison)]
    lines = [line for method in comparison.methods for entry in method.entries for line in entry.evaluations]
    return any("success" in one for one in (*evaluated, *lines)) or not (evaluated or lines)


def _section_table(comparison: Comparison, section: Section) -> Table | None:
    rows = [
        (comparison.title, method.label, values)
        for method in comparison.methods
        if (values := section_values(section, method)) is not None
    ]
    return section.table(rows) if rows else None


def _evaluated(comparison: Comparison) -> list[tuple[Method, dict[str, Any]]]:
    return [(method, ours) for method in comparison.methods if (ours := pooled(method))]


def _how_good(comparison: Comparison) -> Table:
    rows = []
    scales: dict[str, None] = {}
    known = success_known(comparison)
    for method, ours in _evaluated(comparison):
        rewards = {name.removeprefix("reward_"): name for name in ours if name.startswith("reward_")}
        scales |= dict.fromkeys(rewards)
        row = {"method": method.label}
        if known:
            row |= {
                "success %": _percent(ours, "success"),
                "coverage": _mean(ours, "coverage", 2),
                f"pass@{_most(ours)}": _last_pass(ours),
            }
        if rewards:
            row |= {f"reward ({scale})": _mean(ours, name) for scale, name in rewards.items()}
        else:
            row["return"] = _with_interval(ours, "return")
        rows.append({**row, "runs": str(len(method.results))})
    note = ["Means with 95 % intervals over configurations."]
    if known:
        note.append("Coverage: the share of configurations solved at least once. pass@k: solved within k attempts.")
    else:
        note.append("The environment does not say which episodes succeed, so no success rate is claimed.")
    if scales:
        paid = " or ".join(f"1 − {scale}·t/H" for scale in scales)
        note.append(f"Reward: a success after t of H steps pays {paid}.")
    else:
        note.append("Return: all rewards of an episode together.")
    return _table("Success and reward" if known else "Return", " ".join(note), rows)


def _how_diverse(comparison: Comparison) -> Table:
    rows = []
    known = success_known(comparison)
    for method, ours in _evaluated(comparison):
        row = {"method": method.label, f"distinct {comparison.strategies}": _with_interval(ours, "distinct_strategies")}
        if known:
            row["of them succeed"] = _with_interval(ours, "distinct_successful_strategies")
        rows.append({**row, "entropy": _mean(ours, "entropy", 2), "attempts": _attempts(ours)})
    note = "Means over configurations, with 95 % intervals."
    note += " A strategy succeeds if one of its attempts does." if known else ""
    return _table("Diversity", f"{note} Entropy: of the policy's choices, in nats a step.", rows)


def _beside_paper(comparison: Comparison) -> Table:
    """Success and reward of the methods that the paper has numbers for."""
    spec = find_spec(comparison.task)
    theirs: Mapping[str, Any] = spec.paper.get("reward_success", {}) if spec else {}
    rows = []
    for method, ours in _evaluated(comparison):
        if method.key in theirs:
            reward, success = theirs[method.key]
            rows.append(
                {
                    "method": method.label,
                    "success %": _percent(ours, "success"),
                    "paper: success %": NOTHING if success is None else f"{success:.1f}",
                    "reward (0.5)": _mean(ours, "reward_0.5"),
                    "paper: reward": NOTHING if reward is None else f"{reward:.3f}",
                }
            )
    return _table("Beside the paper", "The paper's Table 1; its policies and configurations are not published.", rows)


def _perturbed(comparison: Comparison) -> Table:
    spec = find_spec(comparison.task)
    theirs: Mapping[str, Any] = spec.paper.get("perturbed", {}) if spec else {}
    rows = []
    for method, ours in _evaluated(comparison):
        if "perturbed" in ours:
            row = {"method": method.label, "success %": _percent(ours, "perturbed")}
            if theirs:
                their = theirs.get(method.key)
                row["paper: success %"] = NOTHING if their is None else f"{their:.1f}"
            rows.append(row)
    beside = ", beside the paper's Table 2" if theirs else ""
    note = f"pass@1 with the agent put elsewhere, in places that the pretrained policy visits{beside}."
    return _table("Success from perturbed starts", note, rows)


def _table(title: str, note: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """A table whose columns are all that occur in its rows; a column without a value is left out."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = tuple(name for name in names if any(row.get(name, NOTHING) != NOTHING for row in rows))
    return Table(title, note, columns, tuple(tuple(row.get(name, NOTHING) for name in columns) for row in rows))


def _percent(ours: Mapping[str, Any], name: str) -> str:
    if name not in ours:
        return NOTHING
    metric = ours[name]
    return f"{100 * metric['mean']:.1f} [{100 * metric['low']:.1f}, {100 * metric['high']:.1f}]"


def _with_interval(ours: Mapping[str, Any], name: str) -> str:
    return "{mean:.4g} [{low:.4g}, {high:.4g}]".format(**ours[name]) if name in ours else NOTHING


def _mean(ours: Mapping[str, Any], name: str, digits: int = 3) -> str:
    return f"{ours[name]['mean']:.{digits}f}" if name in ours else NOTHING


def _most(ours: Mapping[str, Any]) -> int:
    return len(ours["pass_at_k"]["mean"]) if "pass_at_k" in ours else 0


def _last_pass(ours: Mapping[str, Any]) -> str:
    return f"{ours['pass_at_k']['mean'][-1]:.3f}" if "pass_at_k" in ours else NOTHING


def _attempts(ours: Mapping[str, Any]) -> str:
    return ", ".join(map(str, sorted(set(ours["attempts"]))))

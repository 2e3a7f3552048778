"""The tables of the study: the effect of one change at a time, and where the paper's pattern shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from reproduction.intervals import Interval, Records, difference, seed_spread, table_of
from reproduction.lines import Line, line_name, title_of
from reproduction.plans import (
    CHOSEN,
    CONFIGURATIONS,
    LENGTH,
    METHOD_NAMES,
    OBSERVATION,
    PAPER,
    RATE,
    REFERENCE,
    SET_ADVANTAGES,
    TASKS,
    WITHOUT_VINES,
)
from reproduction.words import (
    BOLD,
    COMPARED,
    SMALLEST,
    bare,
    folded,
    footer,
    gap,
    number,
    percent,
    resolved_gap,
    short_settings,
)

STRICT = 0.99  # confidence of changes: there are about 150, and at 0.95 one in twenty would be wrong
CHANGED = ("success", "pass@32", "pass@128", "perturbed", "greedy", "greedy perturbed")
ABSOLUTE = ("success", "pass@8", "pass@32", "pass@128", "perturbed", "greedy", "greedy perturbed")
PATTERN = ("success", "reward_0.5", "reward_0.9", "pass@128", "perturbed", "greedy", "greedy perturbed")


def study_block(task: str, lines: Sequence[Line], first: Sequence[Line], command: str, figure: str | None) -> str:
    """All tables of the study of a task. `first`: the lines of the comparison, for the paper's settings."""
    pattern = _pattern_table(lines, first)
    if not any(line.records for line in lines if line.part != REFERENCE):
        parts = [f"Not run yet: `{command}`."] + ([bare(pattern)] if pattern.rows else [])
        return "\n\n".join(parts)
    references = [line for line in lines if line.part == REFERENCE and line.label in ("poly-ppo", "ppo")]
    described = [
        f"{METHOD_NAMES[line.method]} with {short_settings(record['settings'])}, {record['iterations']} iterations"
        for line in references
        for record in line.records[:1]
    ]
    parts = [f"The reference: {'; '.join(described)}."] if described else []
    parts.append(bare(_changes_table(lines)))
    parts += [f"![What decides the outcome on {title_of(task, TASKS)}]({figure})"] if figure else []
    parts.append(folded("All metrics of these runs", bare(_absolute_table(lines))))
    parts += [bare(pattern)] if pattern.rows else []
    usual = [line for line in lines if line.part != OBSERVATION]
    other = [line for line in lines if line.part == OBSERVATION]
    parts.append(footer(usual, command))
    if other:
        parts.append(footer(other, f"{command} --only observation"))
    return "\n\n".join(parts)


def compared_with(line: Line, lines: Sequence[Line]) -> Line | None:
    """The line that a line of the study is compared with; None for references and for other base policies."""
    if line.part in (REFERENCE, OBSERVATION):
        return None
    wanted = line.against or ("ppo" if line.method == "ppo" else "poly-ppo")
    return next((other for other in lines if other.label == wanted and (line.against or other.part == REFERENCE)), None)


def trained_alike(lines: Sequence[Line]) -> list[Records]:
    """Results of the lines of a study whose seeds are assumed to vary alike, each once: all from one base policy."""
    trained = [
        line for line in lines if line.method in ("poly-ppo", "ppo") and line.part != OBSERVATION and line.records
    ]
    return list({id(line.records): line.records for line in trained}.values())


class Effect(NamedTuple):
    """What a change adds to success."""

    line: Line
    change: Interval
    resolved: bool


def effects(lines: Sequence[Line]) -> list[Effect]:
    """The changes of a study with results, each with what it adds to success."""
    known = [line for line in lines if line.records]
    alike, found = trained_alike(known), []
    for line in known:
        base = compared_with(line, known)
        change = difference(line.records, base.records, "success", STRICT, alike) if base else None
        if base is not None and change is not None:
            found.append(Effect(line, change, resolved_gap(change, line, base)))
    return found


def _changes_table(lines: Sequence[Line]) -> Table:
    rows = []
    alike = trained_alike(lines)
    for line in lines:
        base = compared_with(line, lines)
        if base is not None and line.records:  # missing lines are named below
            gaps = [gap(line, base, name, STRICT, alike) for name in CHANGED]
            rows.append((f"{line.part}: {line_name(line)}", line_name(base), *gaps[:3], line.seeds, *gaps[3:]))
    spreads = [(name, *seed_spread(alike, name)) for name in ("success", "perturbed")]
    deviations = [f"{100 * spread:.1f} points of {name} (p = {p:.2f})" for name, spread, _, p in spreads]
    note = (
        f"What a change adds, in points, with 99 % intervals, because there are many of them; {BOLD}. An interval that "
        "contains zero does not mean that there is no effect, only that one beyond its ends is unlikely.\n\n"
        f"The variance between seeds is pooled over all these lines, {spreads[0][2]} degrees of freedom: a standard "
        f"deviation of {' and '.join(deviations)}; a small p of Bartlett's test would mean that lines differ in it."
    )
    deltas = [f"Δ {COMPARED[name]}" for name in CHANGED]
    return Table("", note, ("change", "minus", *deltas[:3], "seeds", *deltas[3:]), tuple(rows))


def _absolute_table(lines: Sequence[Line]) -> Table:
    rows = [
        (
            f"{line.part}: {line_name(line)}",
            *(percent(line, name) for name in ABSOLUTE),
            number(line, "entropy", 2),
            line.seeds,
        )
        for line in lines
        if line.records
    ]
    return Table(
        "",
        "",
        ("line", *(f"{COMPARED.get(name, name)} %" for name in ABSOLUTE), "entropy", "seeds"),
        tuple(rows),
    )


def _pattern_table(lines: Sequence[Line], first: Sequence[Line]) -> Table:
    """Where Poly-PPO and PPO were run under the same conditions: does the paper's pattern show there?"""
    together: dict[str, dict[str, Line]] = {}
    names = {CHOSEN: "the settings of the search", PAPER: "the paper's literal settings"}
    for line in first:
        together.setdefault(names[line.part], {}).setdefault(line.method, line)
    compared = [line.records for line in first if line.records]
    for line in lines:
        if line.records in compared:
            continue  # if the comparison is as long as the longer runs, its row already exists
        if line.part == REFERENCE and line.label in ("poly-ppo", "ppo"):
            together.setdefault(f"{names[CHOSEN]}, half-way", {}).setdefault(line.method, line)
        elif line.part in (CONFIGURATIONS, LENGTH, RATE):
            name = f"{line.part}: {line.label.split(', ')[-1]}"
            together.setdefault(name, {}).setdefault(line.method, line)
        elif line.label in WITHOUT_VINES or line.part == SET_ADVANTAGES:  # with only one of its two parts
            ppo = {line.method: line for line in lines if line.part == REFERENCE and line.label == "ppo"}
            together[f"{names[CHOSEN]}, half-way; {line.part}: {line.label}"] = {**ppo, line.method: line}
        elif line.part == OBSERVATION:
            together.setdefault(line.label.split(", ")[0], {}).setdefault(line.method, line)
    shipped = next((line for line in first if line.method == PRETRAINED), None)
    rows = [_pattern_row(name, by, by.get(PRETRAINED) or shipped) for name, by in together.items()]
    columns = (
        "under",
        "trajectories",
        *(f"Poly-PPO − PPO, {COMPARED[name]}" for name in PATTERN),
        "PPO − pretrained, pass@128",
        "seen",
    )
    note = (
        "The paper's pattern has three parts: (a) Poly-PPO is ahead of PPO in success and (b) far ahead at many "
        f"attempts, and (c) PPO is below the pretrained policy there. Differences in points, those of rewards in "
        f"hundredths, 95 % intervals; {BOLD}."
    )
    return Table("", note, columns, tuple(row for row in rows if row))


def _pattern_row(name: str, by: Mapping[str, Line], base: Line | None) -> tuple[str, ...]:
    poly, ppo = by.get("poly-ppo"), by.get("ppo")
    if poly is None or ppo is None or not poly.records or not ppo.records:
        return ()
    gaps = [gap(poly, ppo, what) for what in PATTERN]
    seen = [
        f"({letter}) {_seen(*pair, what, sign)}"
        for letter, pair, what, sign in (
            ("a", (poly, ppo), "success", 1),
            ("b", (poly, ppo), "pass@128", 1),
            ("c", (ppo, base), "pass@128", -1),
        )
    ]
    trajectories = f"{ppo.records[0]['trajectories']:,}"
    return (name, trajectories, *gaps, gap(ppo, base, "pass@128"), ", ".join(seen))


def _seen(ours: Line, theirs: Line | None, name: str, sign: int) -> str:
    gap = difference(ours.records, theirs.records, name) if theirs is not None and theirs.records else None
    if theirs is None or gap is None:
        return NOTHING
    if not resolved_gap(gap, ours, theirs):
        tables = [table_of(line.records, name) for line in (ours, theirs)]
        full = all(table is not None and table.mean() >= 1 - SMALLEST for table in tables)
        return "cannot show, both at 100 %" if full else "not resolved"
    return "yes" if sign * gap.mean > 0 else "the opposite"

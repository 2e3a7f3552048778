"""The page of results: tables and figures between marks, made anew from the files; the words around them stay.

What stands between `<!-- NAME -->` and `<!-- end -->` is replaced. A table says how it was made and what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polychromic.policies.tensors import whole_file
from polychromic.report.tables import NOTHING, Table, as_markdown, paper_results
from polychromic.results import search
from polychromic.results.lines import METHOD_NAMES, NAMES, Found, Line, line_name
from polychromic.results.plan import CHOSEN, CONFIGURATIONS, LENGTH, OBSERVATION, PAPER, POLY, REFERENCE, TASKS, key_of
from polychromic.results.pool import Figure, commits_of, cpu_hours, difference, figure_of, still_moving, table_of
from polychromic.sweep.cells import PRETRAINED

SEEDS = 3  # fewer say nothing about other seeds
BOLD = f"in bold where the interval leaves out zero and there are {SEEDS} seeds or more"


def command_of(item: str, *, quick: bool = False) -> str:
    """What makes an item's results, wherever they are put."""
    return f"polychromic reproduce {item}{' --quick' if quick else ''}"


def write_page(path: Path, found: Found, figures: Mapping[str, str], *, quick: bool = False) -> None:
    """Fill the marks of a page, or make one that has all marks.

    figures: where figures are, by name, as the page refers to them.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else skeleton(found.tasks)
    again = {name: command_of(name, quick=quick) for name in ("search", "first", "study")}
    for name, content in blocks(found, figures, again).items():
        text = fill(text, name, content)
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between a mark and the next end; a page without the mark stays as it is."""
    return re.sub(
        rf"(<!-- {re.escape(name)} -->).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n\n{content.strip()}\n\n{match[2]}",
        text,
        count=1,
        flags=re.DOTALL,
    )


def skeleton(tasks: Sequence[str] = TASKS) -> str:
    """A page with nothing but headings and marks."""
    parts = ["# Results", "## Settings", *_mark("search")]
    for task in tasks:
        parts += [f"## {NAMES.get(task, task)}", *_mark(f"first-{task}")]
        parts += [f"### The paper's literal hyperparameters on {NAMES.get(task, task)}", *_mark(f"paper-{task}")]
        parts += [f"### What decides the outcome on {NAMES.get(task, task)}", *_mark(f"study-{task}")]
    return "\n\n".join(parts) + "\n"


def _mark(name: str) -> list[str]:
    return [f"<!-- {name} -->", "<!-- end -->"]


def blocks(found: Found, figures: Mapping[str, str], again: Mapping[str, str]) -> dict[str, str]:
    """The text of every mark."""
    made = {"search": _search_block(found, again["search"])}
    for task in found.tasks:
        first = found.lines("first", task)
        for name, part in (("first", CHOSEN), ("paper", PAPER)):
            own = [line for line in first if line.part == part]
            shown = [f"{kind}-{task}" for kind in (("passk", "curves") if part == CHOSEN else ())]
            made[f"{name}-{task}"] = _comparison_block(task, own, again["first"], [figures.get(one) for one in shown])
        made[f"study-{task}"] = _study_block(
            task, found.lines("study", task), again["study"], figures.get(f"study-{task}")
        )
    return made


# ---- tables


def _search_block(found: Found, command: str) -> str:
    chains = search.search_chains(found.search.cells, found.size, found.tasks)
    trials = [(chain, trial) for chain in chains for trial in chain.trials]
    if not any(trial.score is not None for _, trial in trials):
        return f"Not run yet: `{command}`."
    rows = []
    for chain, trial in trials:
        record = found.search.cells.get(key_of(trial.planned.cell), {})
        late = {name: record.get("curve", {}).get(name, [])[-search.LAST :] for name in ("success", "coverage")}
        figures = [f"{sum(values) / len(values):.3f}" if values else NOTHING for values in late.values()]
        score = NOTHING if trial.score is None else "broke down" if trial.score < 0 else f"{trial.score:.3f}"
        rows.append(
            (
                NAMES.get(chain.task, chain.task),
                METHOD_NAMES[chain.method],
                trial.stage,
                _told(trial.settings),
                *figures,
                f"**{score}**" if trial.wins else score,
            )
        )
    waiting = sum(trial.score is None for _, trial in trials)
    through = sum(chain.chosen is not None for chain in chains)
    columns = ("task", "method", "stage", "settings", "success", "coverage", "sum")
    state = f"{through} of {len(chains)} searches are through"
    state += f"; {waiting} runs of the stages they are at are missing." if waiting else "."
    every = _bare(Table("", "In bold what each stage chose.", columns, tuple(rows)))
    chosen = _bare(Table("", f"Rule: {search.RULE}.", ("method", *_titles(found.tasks)), _chosen_rows(chains)))
    return "\n\n".join(
        [
            chosen,
            state,
            _made(command, list(found.search.cells.values())),
            f"<details markdown>\n<summary>All runs of the search</summary>\n\n{every}\n\n</details>",
        ]
    )


def _titles(tasks: Sequence[str]) -> list[str]:
    return [NAMES.get(task, task) for task in tasks]


def _chosen_rows(chains: Sequence[search.Chain]) -> tuple[tuple[str, ...], ...]:
    """What was chosen for every method, task by task."""
    found: dict[str, list[str]] = {}
    for chain in chains:
        found.setdefault(chain.method, []).append(NOTHING if chain.chosen is None else _told(chain.chosen))
    return tuple((METHOD_NAMES[method], *told) for method, told in found.items())


def _told(settings: Mapping[str, Any]) -> str:
    short = {"actor_learning_rate": "lr", "kl_coefficient": "KL", "configurations_per_iteration": "C", "ucb": "λ"}
    return ", ".join(f"{name} {settings[field]:g}" for field, name in short.items() if field in settings)


def _comparison_block(task: str, lines: Sequence[Line], command: str, figures: Sequence[str | None]) -> str:
    if not any(line.records for line in lines):
        return f"Not run yet: `{command}`."
    paper = paper_results()
    rewards = dict(zip(paper["methods"], paper["reward_and_success_percent"].get(task, []), strict=False))
    starts = dict(zip(paper["methods"], paper["perturbed_start_success_percent"].get(task, []), strict=False))
    main, coverage, runs_made = [], [], []
    for line in sorted(lines, key=_place):
        their_reward, their_success = rewards.get(line.method, (None, None))
        name, runs = line_name(line), str(len(line.records))
        main.append(
            (
                name,
                _percent(line, "success"),
                _paper(their_success),
                _number(line, "reward_0.5"),
                _number(line, "reward_0.9"),
                _paper(their_reward, 3),
                _percent(line, "perturbed"),
                _paper(starts.get(line.method)),
                runs,
            )
        )
        coverage.append(
            (
                name,
                *(_percent(line, f"pass@{k}") for k in (1, 8, 32, 128)),
                _percent(line, "coverage"),
                _number(line, "entropy", 2),
                _number(line, "distinct_strategies", 1),
            )
        )
        if any("iterations" in one for one in line.records):
            runs_made.append((name, *_run_of(line)))
    tables = [
        Table(
            "",
            "",
            ("method", "success %", "paper", "reward (0.5)", "reward (0.9)", "paper", "perturbed %", "paper", "seeds"),
            tuple(main),
        ),
        Table(
            "",
            "",
            ("method", *(f"pass@{k} %" for k in (1, 8, 32, 128)), "coverage %", "entropy", "room sets"),
            tuple(coverage),
        ),
        _differences_table(lines),
    ]
    if runs_made:
        note = (
            "What was run (means over seeds). Rise: success in the last fifth of training minus that in the fifth "
            "before it, in points, with the lowest and highest seed; a curve that has flattened has none."
        )
        columns = ("method", "settings", "iterations", "trajectories", "steps", "averaged after", "rise", "CPU minutes")
        tables.append(Table("", note, columns, tuple(runs_made)))
    images = [f"![{_described(one, task)}]({one})" for one in figures if one]
    return "\n\n".join([*map(_bare, tables), *images, _footer(lines, command)])


def _place(line: Line) -> int:
    """As in the paper's tables; what has no name there belongs to the line before it, the pretrained policy."""
    order = list(METHOD_NAMES)
    return order.index(line.method) if line.method in order else 0


def _run_of(line: Line) -> tuple[str, ...]:
    """What the runs of a line were and took."""
    first, moved = line.records[0], still_moving(line.records)
    spent = {name: sum(one[name] for one in line.records) / len(line.records) for name in ("trajectories", "steps")}
    rise = f"{100 * moved.mean:+.1f} ({100 * moved.low:+.1f} … {100 * moved.high:+.1f})" if moved else NOTHING
    return (
        _told(first["settings"]),
        str(first["iterations"]),
        *(f"{value:,.0f}" for value in spent.values()),
        ", ".join(map(str, first.get("averaged_after", []))),
        rise,
        f"{60 * cpu_hours(line.records) / len(line.records):.1f}",
    )


def _described(figure: str, task: str) -> str:
    what = "pass@k" if "passk" in figure else "What decides the outcome" if "study" in figure else "Learning curves"
    return f"{what} on {NAMES.get(task, task)}"


COMPARED = ("success", "pass@32", "pass@128", "perturbed")


def _differences_table(lines: Sequence[Line]) -> Table:
    """The pattern that the paper reports, as differences with their intervals."""
    by = {line.label: line.records for line in lines}
    pairs = [("poly-ppo", "ppo"), ("poly-ppo", "reinforce"), ("poly-ppo-ucb", "ppo-ucb"), ("ppo", PRETRAINED)]
    pairs += [("poly-ppo", PRETRAINED), ("reinforce", PRETRAINED)]
    rows = []
    for ours, theirs in pairs:
        if by.get(ours) and by.get(theirs):
            gaps = [_gap(by[ours], by[theirs], name) for name in COMPARED]
            rows.append((f"{METHOD_NAMES[ours]} − {METHOD_NAMES[theirs]}", *gaps))
    note = f"Differences in points; {BOLD}."
    return Table("", note, ("difference", *COMPARED), tuple(rows))


def _study_block(task: str, lines: Sequence[Line], command: str, figure: str | None) -> str:
    if not any(line.records for line in lines):
        return f"Not run yet: `{command}`."
    reference = {line.label: line.records for line in lines if line.part == REFERENCE}
    rows = []
    for line in lines:
        compared = reference.get(_compared_with(line), []) if line.part not in (REFERENCE, OBSERVATION) else []
        gaps = [
            _gap(line.records, compared, name) if line.records and compared else NOTHING
            for name in ("success", "pass@128")
        ]
        rows.append(
            (
                line.part,
                line_name(line),
                *(_percent(line, name) for name in ("success", "pass@8", "pass@32", "pass@128", "perturbed")),
                _number(line, "entropy", 2),
                *gaps,
                str(len(line.records)),
            )
        )
    shares = ("success %", "pass@8 %", "pass@32 %", "pass@128 %", "perturbed %")
    columns = ("factor", "change", *shares, "entropy", "Δ success", "Δ pass@128", "seeds")
    note = f"Δ: minus the reference of the same method, in points; {BOLD}."
    tables = [Table("", note, columns, tuple(rows)), *_pattern_tables(lines)]
    made = [
        f"{METHOD_NAMES[method]} with {_told(records[0]['settings'])}, {records[0]['iterations']} iterations"
        for method in (POLY, "ppo")
        if (records := reference.get(method))
    ]
    told = [f"The reference: {'; '.join(made)}."] if made else []
    images = [f"![{_described(figure, task)}]({figure})"] if figure else []
    return "\n\n".join([*told, *map(_bare, tables), *images, _footer(lines, command)])


def _pattern_tables(lines: Sequence[Line]) -> list[Table]:
    """Where Poly-PPO and PPO were run under the same change: does the paper's pattern show there?"""
    together: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in lines:
        if line.part in (REFERENCE, CONFIGURATIONS, LENGTH, OBSERVATION) and line.method:
            own = line.label.split(", ")[0] if line.part == OBSERVATION else line.part
            together.setdefault(own, {}).setdefault(line.method, line.records)
    shipped = together.get(REFERENCE, {}).get(PRETRAINED, [])
    rows = []
    for own, by in together.items():
        poly, ppo, base = by.get(POLY), by.get("ppo"), by.get(PRETRAINED) or shipped
        if poly and ppo:
            gaps = [_gap(poly, ppo, name) for name in COMPARED]
            rows.append((own, *gaps, _gap(ppo, base, "pass@128") if base else NOTHING))
    columns = ("under", *(f"Poly-PPO − PPO, {name}" for name in COMPARED), "PPO − pretrained, pass@128")
    note = (
        "The paper's pattern: Poly-PPO ahead in success and far ahead in coverage, PPO below the pretrained policy at "
        "large k."
    )
    return [Table("", note, columns, tuple(rows))] if rows else []


def _compared_with(line: Line) -> str:
    """The reference that a line is a change of."""
    return "ppo" if line.method == "ppo" else POLY


# ---- words and numbers


def _percent(line: Line, name: str) -> str:
    found = figure_of(line.records, name) if line.records else None
    return NOTHING if found is None else _spread(Figure(*(100 * part for part in found)), 1)


def _number(line: Line, name: str, digits: int = 3) -> str:
    found = figure_of(line.records, name) if line.records else None
    return NOTHING if found is None else _spread(found, digits)


def _spread(found: Figure, digits: int) -> str:
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def _gap(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], name: str) -> str:
    found = difference(ours, theirs, name)
    if found is None:
        return NOTHING
    text = f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    enough = all(len(records) >= SEEDS or records[0]["method"] == PRETRAINED for records in (ours, theirs))
    return f"**{text}**" if found.clear and enough else text


def _paper(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def _bare(table: Table) -> str:
    """A table without a heading of its own, after its note."""
    text = as_markdown([table])
    return (f"{table.note}\n\n" if table.note else "") + text[text.index("| ") :].strip()


def _footer(lines: Sequence[Line], command: str) -> str:
    """How a table was made, and what is not in it."""
    records = [one for line in lines for one in line.records]
    missing = [f"{line_name(line)} (seeds {', '.join(map(str, line.missing))})" for line in lines if line.missing]
    single = [line_name(line) for line in lines if len(line.records) == 1 and line.method not in (PRETRAINED, "")]
    told = [_made(command, records)]
    if single:
        told.append(f"One seed so far, so these intervals are over configurations alone: {', '.join(single)}.")
    told.append(f"Missing: {'; '.join(missing)}." if missing else "Nothing that is planned is missing.")
    return "\n\n".join(told)


def _made(command: str, records: Sequence[Mapping[str, Any]]) -> str:
    commits = ", ".join(f"`{commit}`" for commit in commits_of(records)) or "not recorded"
    table = next((table for one in records if (table := table_of([one], "success")) is not None), None)
    over = f", {table.shape[1]} configurations" if table is not None else ""
    return (
        f"`{command}`; {len(records)} results{over}; {cpu_hours(records):.1f} CPU hours; commits {commits}. "
        "Every setting and seed is in the files of `results/`."
    )

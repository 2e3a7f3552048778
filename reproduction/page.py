"""The page of results: tables and figures between marks, made anew from the files; the words around them stay.

What stands between `<!-- NAME -->` and `<!-- end -->` is replaced. A table says how it was made and what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from polychromic.files import whole_file
from polychromic.report.tables import NOTHING, Table
from reproduction import search
from reproduction.changes import study_block
from reproduction.comparison import comparison_block
from reproduction.lines import METHOD_NAMES, NAMES, Found, figure_name
from reproduction.plan import CHOSEN, PAPER, TASKS, key_of
from reproduction.words import bare, folded, made, told


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
    texts = {"search": _search_block(found, again["search"])}
    for task in found.tasks:
        first = found.lines("first", task)
        for name, part in (("first", CHOSEN), ("paper", PAPER)):
            command = again["first"] + (f" --only {part}" if part == PAPER else "")
            own = [line for line in first if line.part == part]
            shown = [figures.get(figure_name(kind, part, task)) for kind in ("passk", "curves")]
            texts[f"{name}-{task}"] = comparison_block(task, own, command, shown)
        texts[f"study-{task}"] = study_block(
            task, found.lines("study", task), first, again["study"], figures.get(f"study-{task}")
        )
    return texts


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
                told(trial.settings),
                *figures,
                f"**{score}**" if trial.wins else score,
            )
        )
    waiting = sum(trial.score is None for _, trial in trials)
    through = sum(chain.chosen is not None for chain in chains)
    columns = ("task", "method", "stage", "settings", "success", "coverage", "sum")
    state = f"{through} of {len(chains)} searches are through"
    state += f"; {waiting} runs of the stages they are at are missing." if waiting else "."
    every = bare(Table("", "In bold what each stage chose.", columns, tuple(rows)))
    chosen = bare(Table("", f"Rule: {search.RULE}.", ("method", *_titles(found.tasks)), _chosen_rows(chains)))
    return "\n\n".join(
        [
            chosen,
            state,
            made(command, list(found.search.cells.values())),
            folded("All runs of the search", every),
        ]
    )


def _titles(tasks: Sequence[str]) -> list[str]:
    return [NAMES.get(task, task) for task in tasks]


def _chosen_rows(chains: Sequence[search.Chain]) -> tuple[tuple[str, ...], ...]:
    """What was chosen for every method, task by task."""
    found: dict[str, list[str]] = {}
    for chain in chains:
        found.setdefault(chain.method, []).append(NOTHING if chain.chosen is None else told(chain.chosen))
    return tuple((METHOD_NAMES[method], *told) for method, told in found.items())

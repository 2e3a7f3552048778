"""The pages: tables and figures between marks, written from the results files; the text around them stays.

What is between `<!-- NAME -->` and `<!-- end -->` is replaced. A table says how it was made and what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polychromic.files import write_text
from polychromic.report.table import Table, as_markdown
from polychromic.report.tables import NOTHING
from reproduction import search
from reproduction.changes import study_block
from reproduction.comparison import comparison_block
from reproduction.convergence import convergence_block
from reproduction.credit import compared, credit_block, screening_block, summary_table
from reproduction.estimates import needs_table
from reproduction.lines import Stored, figure_name, title_of
from reproduction.overview import ALT, overview_blocks
from reproduction.plan import Chosen, Plan, Planned, Scale, expand, key_of
from reproduction.plans import (
    BONUSES,
    CHOSEN,
    FULL,
    METHOD_NAMES,
    PAPER,
    PLANS,
    QUICK,
    RATES,
    SEARCH,
    STUDY,
    TABLES,
    TASKS,
    TRIANGLE,
)
from reproduction.suited import Tried, tried_table
from reproduction.triangles import triangle_table
from reproduction.words import bare, folded, provenance, short_settings

MARKS = {CHOSEN: "first", PAPER: "paper"}  # marks of the parts of the comparison
SCALES = {  # of docs/scale.md, by mark
    "seeds-3": replace(FULL, seeds=3, pair_seeds=3),
    "seeds-20": replace(FULL, seeds=20, pair_seeds=20),
    "quick": QUICK,
}


def command_of(plan: str, *, quick: bool = False) -> str:
    """The command that makes the results of a plan."""
    return f"python -m reproduction {plan}{' --quick' if quick else ''}"


def write_page(path: Path, texts: Mapping[str, str], otherwise: str = "") -> None:
    """Fill the marks of a page; a missing page starts as `otherwise`, and without that it is not written."""
    if not path.exists() and not otherwise:
        return
    text = path.read_text(encoding="utf-8") if path.exists() else otherwise
    for name, content in texts.items():
        text = fill(text, name, content)
    write_text(path, text)


def fill(text: str, name: str, content: str) -> str:
    """Replace the text between a mark and the next end; a page without the mark does not change."""
    return re.sub(
        rf"(<!-- {re.escape(name)} -->).*?(<!-- end -->)",
        lambda match: f"{match[1]}\n\n{content.strip()}\n\n{match[2]}",
        text,
        count=1,
        flags=re.DOTALL,
    )


def skeletons(stored: Stored) -> dict[str, str]:
    """Pages with only headings and marks, by what follows the name of the results page: for tasks with results."""
    scale = stored.scale
    tasks = TABLES.tasks(scale)
    begun = [task for task in tasks if stored.has_results(TABLES, task) or stored.has_results(STUDY, task)] or tasks
    tables, study = ["# The paper's tables"], ["# What decides the outcome"]
    for task in begun:
        title = scale.tasks[task].title
        tables += [f"## {title}", *_mark(f"first-{task}")]
        if PAPER in TABLES.parts_on(scale.tasks[task]):
            tables += [f"### The paper's literal hyperparameters on {title}", *_mark(f"paper-{task}")]
        if task in STUDY.tasks(scale):
            study += [f"## {title}", *_mark(f"study-{task}")]
    pages = {
        "": ["# Results", *_mark("verdict"), *(part for name in ALT for part in (f"## {name}", *_mark(name)))],
        "-tables": [*tables, "## To convergence", *_mark("convergence-table")],
        "-study": [*study, "## Screening", *_mark("screening-table"), "## Set credit", *_mark("credit-table")],
        "-method": ["# How it is measured", "## Settings", *_mark("search"), *_mark("rates"), *_mark("bonuses")],
    }
    return {suffix: "\n\n".join(parts) + "\n" for suffix, parts in pages.items()}


def _mark(name: str) -> list[str]:
    return [f"<!-- {name} -->", "<!-- end -->"]


def results_blocks(stored: Stored, figures: Mapping[str, str], *, quick: bool = False) -> dict[str, str]:
    """The text of every mark of the results pages. figures: their paths by name, relative to the page."""
    again = {name: command_of(name, quick=quick) for name in ("search", *PLANS)}
    texts = {
        **overview_blocks(stored, figures),
        "search": _search_block(stored, again["search"]),
        "rates": _tried_block(stored, RATES, stored.rates, "rate", again["rates"]),
        "bonuses": _tried_block(stored, BONUSES, stored.bonuses, "λ", again["bonuses"]),
    }
    for task in TABLES.tasks(stored.scale):
        compared = stored.lines(TABLES, task)
        for part in TABLES.parts_on(stored.scale.tasks[task]):
            command = again["tables"] + (f" --only {part}" if part == PAPER else "")
            own = [line for line in compared if line.part == part]
            shown = [figures.get(figure_name(kind, part, task)) for kind in ("passk", "curves")]
            texts[f"{MARKS[part]}-{task}"] = comparison_block(task, own, command, shown)
        if task in STUDY.tasks(stored.scale):
            texts[f"study-{task}"] = study_block(
                task, stored.lines(STUDY, task), compared, again["study"], figures.get(f"study-{task}")
            )
    texts["convergence-table"] = convergence_block(stored, again["convergence"])
    texts["screening-table"] = screening_block(stored, again["screening"])
    texts["credit-table"] = credit_block(stored, again["credit"])
    return texts


def triangle_blocks(stored: Stored) -> dict[str, str]:
    """The text of the mark on the page of triangle discovery."""
    return {"triangle": triangle_table(stored.lines(TRIANGLE, "triangle"))}


def set_credit_blocks(stored: Stored) -> dict[str, str]:
    """The text of the mark on the page of set credit."""
    return {"credit-summary": summary_table(compared(stored))}


def scale_blocks(chosen: Chosen) -> dict[str, str]:
    """What the paper's tables and triangle discovery need, from measured costs: the marks of docs/scale.md."""
    return {name: needs_text(everything(scale, chosen)) for name, scale in SCALES.items()}


def everything(scale: Scale, chosen: Chosen) -> list[Planned]:
    """The cells behind the paper's tables and triangle discovery, as if nothing had been run."""
    return [*expand(TABLES, scale, chosen, only=(CHOSEN,)), *expand(TRIANGLE, scale, chosen)]


def needs_text(plan: Sequence[Planned]) -> str:
    """The table of what cells need, without its heading."""
    text = as_markdown([needs_table(plan)])
    return text[text.index("| task") :].strip()


def _search_block(stored: Stored, command: str) -> str:
    records = stored.search.cells
    chains = search.search_chains(records, SEARCH, stored.scale)
    trials = [(chain, trial) for chain in chains for trial in chain.trials]
    if not any(trial.score is not None for _, trial in trials):
        return f"Not run yet: `{command}`."
    rows = []
    for chain, trial in trials:
        record = records.get(key_of(trial.planned.cell), {})
        late = {name: record.get("curve", {}).get(name, [])[-search.LAST :] for name in ("success", "coverage")}
        metrics = [f"{sum(values) / len(values):.3f}" if values else NOTHING for values in late.values()]
        score = NOTHING if trial.score is None else "diverged" if trial.score < 0 else f"{trial.score:.3f}"
        rows.append(
            (
                f"{title_of(chain.task, TASKS)}, {METHOD_NAMES[chain.method]}",
                trial.stage,
                short_settings(trial.settings),
                *metrics,
                f"**{score}**" if trial.wins else score,
            )
        )
    waiting = sum(trial.score is None for _, trial in trials)
    finished = sum(chain.chosen is not None for chain in chains)
    columns = ("task, method", "stage", "settings", "success", "coverage", "sum")
    state = f"{finished} of {len(chains)} searches are finished"
    state += f"; {waiting} runs of their current stages are missing." if waiting else "."
    titles = [title_of(task, TASKS) for task in SEARCH.tasks(stored.scale)]
    every = bare(Table("", "In bold what each stage chose.", columns, tuple(rows)))
    chosen = bare(Table("", f"Rule: {search.RULE}.", ("method", *titles), _chosen_rows(chains)))
    return "\n\n".join(
        [
            chosen,
            state,
            provenance(command, list(records.values())),
            folded("All runs of the search", every),
        ]
    )


def _tried_block(stored: Stored, plan: Plan, tried: Callable[[str], Sequence[Tried]], what: str, command: str) -> str:
    """Whether a setting of the search suits the tasks that it did not have."""
    tasks = plan.tasks(stored.scale)
    by_task = {title_of(task, TASKS): own for task in tasks if (own := tried(task))}
    lines = [line for task in tasks for line in stored.lines(plan, task)]
    records = [record for line in lines for record in line.records]
    if not records:
        return f"Not run yet: `{command}`."
    return "\n\n".join([bare(tried_table(by_task, METHOD_NAMES, what)), provenance(command, records)])


def _chosen_rows(chains: Sequence[search.Chain]) -> tuple[tuple[str, ...], ...]:
    """What was chosen for every method, task by task."""
    rows: dict[str, list[str]] = {}
    for chain in chains:
        rows.setdefault(chain.method, []).append(NOTHING if chain.chosen is None else short_settings(chain.chosen))
    return tuple((METHOD_NAMES[method], *settings) for method, settings in rows.items())

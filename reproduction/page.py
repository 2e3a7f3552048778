"""The pages: tables and figures between marks, written from the results files; the text around them stays.

What is between `<!-- NAME -->` and `<!-- end -->` is replaced. A table says how it was made and what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polychromic.files import write_text
from polychromic.report.table import as_markdown
from reproduction.changes import study_block
from reproduction.comparison import comparison_block
from reproduction.convergence import convergence_block
from reproduction.credit import compared, credit_block, screening_block, summary_table
from reproduction.estimates import needs_table
from reproduction.lines import Stored, figure_name
from reproduction.overview import ALT, overview_blocks
from reproduction.plan import Chosen, Planned, Scale, expand
from reproduction.plans import (
    CHOSEN,
    FULL,
    PAPER,
    PLANS,
    QUICK,
    STUDY,
    TABLES,
    TRIANGLE,
)
from reproduction.settings_page import settings_blocks
from reproduction.triangles import triangle_table
from reproduction.verdicts import corrected_table

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


SETTLED = ("search", "rates", "checks", "bonuses", "nearby")  # marks of the settings and how they were found


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
    settled = [part for name in SETTLED for part in _mark(name)]
    pages = {
        "": ["# Results", *_mark("verdict"), *(part for name in ALT for part in (f"## {name}", *_mark(name)))],
        "-tables": [*tables, "## To convergence", *_mark("convergence-table")],
        "-study": [*study, "## Screening", *_mark("screening-table"), "## Set credit", *_mark("credit-table")],
        "-method": ["# How it is measured", "## Verdicts", *_mark("corrected"), "## Settings", *settled],
    }
    return {suffix: "\n\n".join(parts) + "\n" for suffix, parts in pages.items()}


def _mark(name: str) -> list[str]:
    return [f"<!-- {name} -->", "<!-- end -->"]


def results_blocks(stored: Stored, figures: Mapping[str, str], *, quick: bool = False) -> dict[str, str]:
    """The text of every mark of the results pages. figures: their paths by name, relative to the page."""
    again = {name: command_of(name, quick=quick) for name in ("search", *PLANS)}
    texts = {
        **overview_blocks(stored, figures),
        **settings_blocks(stored, again),
        "corrected": corrected_table(stored),
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

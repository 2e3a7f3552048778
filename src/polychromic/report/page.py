"""One HTML file with everything in it: styles, scripts, data. It loads nothing from a server."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from polychromic import __version__
from polychromic.envs.registry import Section
from polychromic.errors import UserError
from polychromic.files import write_text
from polychromic.report.compare import (
    Comparison,
    Method,
    compare,
    pooled,
    training_curves,
    unequal_attempts,
    without_control,
)
from polychromic.report.gather import Entry, gather
from polychromic.report.table import Table, as_markdown
from polychromic.report.tables import section_of, section_values, success_known, tables

STYLES = ("page.css", "viewer.css")
SCRIPTS = ("dom.js", "chart.js", "figures.js", "heatmap.js", "grid.js", "viewer.js")
LAST_SCRIPT = "main.js"


def write_report(
    runs: Iterable[str | Path],
    out: str | Path,
    *,
    markdown: str | Path | None = None,
    title: str = "polychromic report",
    summary: Sequence[str] = (),
) -> list[str]:
    """Compare runs and evaluations on one page that opens offline.

    Args:
        runs: run directories and evaluation files (`polychromic evaluate`).
        out: the HTML file.
        markdown: a file for the tables alone.
        title: of the page.
        summary: paragraphs to open with.

    Returns:
        A line for each file that could not be read or is incomplete; the rest is reported.
    """
    entries, problems = gather(runs)
    try:
        texts = _render(entries, problems, title, summary)
    except Exception:  # one bad file must not stop the report, even if its reader missed the fault
        entries, left_out = _renderable(entries)
        texts = _render(entries, problems := [*problems, *left_out], title, summary)
    html_text, markdown_text, remarks = texts
    write_text(out, html_text)
    if markdown is not None:
        write_text(markdown, markdown_text)
    return [*problems, *remarks]


def _render(
    entries: Sequence[Entry], problems: Sequence[str], title: str, summary: Sequence[str] = ()
) -> tuple[str, str, list[str]]:
    """The page, the tables as Markdown, and remarks about the comparison."""
    comparisons = compare(entries)
    remarks = [
        remark for comparison in comparisons for remark in (*without_control(comparison), *unequal_attempts(comparison))
    ]
    shown, notes = tables(comparisons), [*problems, *remarks]
    data = page_data(comparisons, shown, notes, title=title, summary=summary)
    return page(data, section_scripts(comparisons)), as_markdown(shown, notes), remarks


def _renderable(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """The entries that can be rendered on their own, and a line about each of the others."""
    shown, left_out = [], []
    for entry in entries:
        try:
            _render([entry], (), "")
            shown.append(entry)
        except Exception as error:  # as above
            left_out.append(f"left out: {entry.name}: {type(error).__name__}: {' '.join(str(error).split())}")
    if not shown:
        raise UserError("; ".join(left_out))
    return shown, left_out


def page_data(
    comparisons: Sequence[Comparison],
    shown: Sequence[Table],
    problems: Sequence[str],
    *,
    title: str,
    summary: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that the page shows, in JSON types."""
    return {
        "title": title,
        "summary": list(summary),
        "version": __version__,
        "problems": list(problems),
        "tables": [asdict(table) for table in shown],
        "comparisons": [_comparison(comparison) for comparison in comparisons],
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    evaluations = [entry.evaluation for method in comparison.methods for entry in method.entries if entry.evaluation]
    drawn: Mapping[str, Any] = next(
        (evaluation for evaluation in evaluations if "recordings" in evaluation["result"]), {}
    )
    first = comparison.methods[0].entries[0]
    section = section_of(comparison)
    seeds = first.level_seeds or [None] * first.num_configurations  # only grid worlds have level seeds
    missions = next((evaluation["missions"] for evaluation in evaluations), [""] * first.num_configurations)
    return {
        "title": comparison.title,
        "task": comparison.task,
        "horizon": comparison.horizon,
        "configurations": [{"seed": seed, "mission": mission} for seed, mission in zip(seeds, missions, strict=True)],
        "strategies": comparison.strategies,
        "gridShape": drawn.get("grid_shape", []),
        "legend": drawn.get("legend", {}),
        "section": section.metric if section else None,
        "successKnown": success_known(comparison),
        "methods": [_method(method, section) for method in comparison.methods],
    }


def _method(method: Method, section: Section | None) -> dict[str, Any]:
    shown = next((result["recordings"] for result in method.results if "recordings" in result), None)
    return {
        "label": method.label,
        "runs": [
            {
                "name": entry.name,
                "seed": entry.seed,
                "attempts": entry.settings.get("evaluation_rollouts"),
                **training_curves(entry),
            }
            for entry in method.entries
            if entry.metrics
        ],
        "figures": pooled(method),
        "sweep": _temperature_scan(method),
        "section": section_values(section, method) if section else None,
        "recordings": shown,
        "hashes": sorted({entry.evaluation["policy"]["hash"] for entry in method.entries if entry.evaluation}),
    }


def _temperature_scan(method: Method) -> list[list[float]]:
    """Temperature, success (or return), low, high, in order; of the first policy that was scanned, once."""
    # The key of a scan of temperatures in evaluation files is "sweep", from when it was called that.
    evaluations = [entry.evaluation for entry in method.entries if entry.evaluation]
    tried: list[dict[str, Any]] = next((one["sweep"] for one in evaluations if "sweep" in one), [])
    measure = "success" if all("success" in one for one in tried) else "return"
    found = [(one["temperature"], *(one[measure][name] for name in ("mean", "low", "high"))) for one in tried]
    return [list(point) for point in sorted(found)] if method.key else []


def section_scripts(comparisons: Sequence[Comparison]) -> list[str]:
    """The JavaScript of the sections that tasks add."""
    named = dict.fromkeys(
        section.script for comparison in comparisons if (section := section_of(comparison)) is not None
    )
    return [(resources.files(package) / name).read_text(encoding="utf-8") for package, name in named]


def page(data: Mapping[str, Any], scripts: Sequence[str] = ()) -> str:
    """The HTML of a report; scripts: of the sections that tasks add."""
    folder = resources.files("polychromic.report") / "template"

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    # Inside a script element "<" could end it; in JSON it can always be written as an escape.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(str(data["title"])),
        "STYLE": "\n".join(map(read, STYLES)),
        "SCRIPT": "\n".join([*map(read, SCRIPTS), *scripts, read(LAST_SCRIPT)]),
        "DATA": text,
    }
    # In one pass, so that a mark inside the inserted text is left alone.
    return re.sub("@(TITLE|STYLE|SCRIPT|DATA)@", lambda mark: parts[mark[1]], read("page.html"))

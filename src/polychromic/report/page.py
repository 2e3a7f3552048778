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
from polychromic.envs.registry import Section, TaskSpec, find_spec
from polychromic.errors import UserError
from polychromic.evaluate.file import viewer_in
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
from polychromic.report.gather import METHOD_NAMES, Entry, gather
from polychromic.report.headline import Headline, in_order
from polychromic.report.table import as_markdown
from polychromic.report.tables import section_of, section_values, success_known, tables, tables_of

STYLES = ("page.css", "hero.css", "viewer.css")
SCRIPTS = (
    "dom.js",
    "chart.js",
    "bars.js",
    "hero.js",
    "tables.js",
    "curves.js",
    "heatmap.js",
    "viewer.js",
    "grid.js",
    "text.js",
)
LAST_SCRIPT = "main.js"
CONTROL = "best temperature"
COLOURS = (
    ("pretrained", ""),
    ("pretrained", CONTROL),
    ("ppo", ""),
    ("poly-ppo", ""),
    ("reinforce", ""),
    ("poly-ppo-ucb", ""),
    ("ppo-ucb", ""),
    ("reinforce-ucb", ""),
)  # in the order of the colours in page.css


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
    told, notes = in_order(comparisons), [*problems, *remarks]
    data = page_data(told, notes, title=title, summary=summary)
    markdown = as_markdown(tables([comparison for comparison, _ in told]), notes)
    return page(data, task_scripts(comparisons)), markdown, remarks


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
    told: Sequence[tuple[Comparison, Headline]],
    problems: Sequence[str],
    *,
    title: str,
    summary: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that the page shows, in JSON types."""
    colours = _colours([comparison for comparison, _ in told])
    return {
        "title": title,
        "summary": list(summary),
        "version": __version__,
        "problems": list(problems),
        "comparisons": [_comparison(comparison, headline, colours) for comparison, headline in told],
    }


def _colours(comparisons: Sequence[Comparison]) -> dict[Any, int]:
    """A number for each method: it has the same colour in all comparisons, and the usual ones in all pages."""
    found = sorted({_line(method) for comparison in comparisons for method in comparison.methods})
    kept = {line: COLOURS.index(line[1:]) for line in found if line[1:] in COLOURS}
    free = [number for number in range(len(COLOURS)) if number not in kept.values()] or list(range(len(COLOURS)))
    others = [line for line in found if line not in kept]
    return kept | {line: free[number % len(free)] for number, line in enumerate(others)}


def _line(method: Method) -> tuple[int, str, str]:
    """What has one colour: its place, its method, what it is called beyond that."""
    key = method.entries[0].method
    place = list(METHOD_NAMES).index(key) if key in METHOD_NAMES else len(METHOD_NAMES)
    # The best temperature differs between tasks, the control is the same line in all of them.
    own = method.label.removeprefix(METHOD_NAMES.get(key, key)) if method.key else CONTROL
    return place, key, own


def _comparison(comparison: Comparison, headline: Headline, colours: Mapping[Any, int]) -> dict[str, Any]:
    evaluations = [entry.evaluation for method in comparison.methods for entry in method.entries if entry.evaluation]
    drawn: Mapping[str, Any] = next(
        (evaluation for evaluation in evaluations if "recordings" in evaluation["result"]), {}
    )
    first = comparison.methods[0].entries[0]
    spec = find_spec(comparison.task)
    section = section_of(comparison)
    seeds = first.level_seeds or [None] * first.num_configurations  # only grid worlds have level seeds
    missions = next((evaluation["missions"] for evaluation in evaluations), [""] * first.num_configurations)
    return {
        "title": comparison.title,
        "headline": asdict(headline),
        "task": comparison.task,
        "horizon": comparison.horizon,
        "configurations": [{"seed": seed, "mission": mission} for seed, mission in zip(seeds, missions, strict=True)],
        "strategies": comparison.strategies,
        "words": dict(section.words) if section else {},
        "tables": {name: [asdict(table) for table in part] for name, part in tables_of(comparison).items()},
        "viewer": viewer_in(drawn) if drawn else None,
        "backdrops": _backdrops(drawn, spec, first),
        "gridShape": drawn.get("grid_shape", []),
        "legend": drawn.get("legend", {}),
        "section": section.metric if section else None,
        "successKnown": success_known(comparison),
        "methods": [_method(method, section, colours[_line(method)]) for method in comparison.methods],
    }


def _backdrops(drawn: Mapping[str, Any], spec: TaskSpec | None, entry: Entry) -> list[dict[str, Any]]:
    """What is drawn behind the episodes of each configuration."""
    if spec and spec.viewer and drawn and viewer_in(drawn) == spec.viewer.name:
        return [spec.viewer.backdrop(seed) for seed in entry.level_seeds]
    recordings = drawn["result"]["recordings"] if drawn else []
    return [{name: part for name, part in one.items() if name != "strategies"} for one in recordings]


def _method(method: Method, section: Section | None, colour: int) -> dict[str, Any]:
    shown = next((result["recordings"] for result in method.results if "recordings" in result), None)
    return {
        "label": method.label,
        "colour": colour,
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
        "recordings": [{name: one[name] for name in ("distinct", "strategies")} for one in shown] if shown else None,
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


def task_scripts(comparisons: Sequence[Comparison]) -> list[str]:
    """The JavaScript of the sections and viewers that tasks add."""
    specs = [spec for comparison in comparisons if (spec := find_spec(comparison.task)) is not None]
    named = dict.fromkeys(
        part.script for spec in specs for part in (spec.viewer, spec.section) if part is not None and part.script
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

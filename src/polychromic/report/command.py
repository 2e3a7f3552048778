"""`polychromic report`: many runs, one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from polychromic.errors import UserError
from polychromic.report.page import write_report


def report(
    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUNS…")],
    /,
    *,
    out: Path = Path("report.html"),
    markdown: Path | None = None,
    title: str = "polychromic report",
) -> int:
    """Compare runs and evaluated policies on one page that opens offline.

    Args:
        runs: run directories, files that `polychromic evaluate` wrote (for base policies), and folders of sweeps.
        out: the HTML file.
        markdown: also write the tables as Markdown to this file.
        title: of the page.
    """
    try:
        problems = write_report(runs, out, markdown=markdown, title=title)
    except OSError as error:
        raise UserError(f"out: cannot write {error.filename or out} ({error.strerror})") from error
    for problem in problems:
        print(f"polychromic report: {problem}", file=sys.stderr)
    print(f"report: {out}")
    return 0

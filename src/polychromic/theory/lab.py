"""`polychromic theory`: check the paper's claims by exact enumeration and draw what they mean."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from polychromic.errors import UserError
from polychromic.theory.claims import Claim, all_claims


def theory(*, out: Path = Path("theory"), figures: bool = True) -> int:
    """Check the paper's claims by exact enumeration and draw what they mean.

    Prints a table (claim, as printed, exact value, holds or not) and writes it as claims.json, with the figures
    scaffold.png and bandit.png (and .svg), into a folder. Takes a few seconds.

    Args:
        out: the folder to write to.
        figures: draw the figures too.
    """
    _make_folder(out)
    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("enumerating", total=None)
        claims = []
        for claim in all_claims():
            claims.append(claim)
            progress.update(task, description=f"checked {claim.where}", advance=1)
        written = [out / "claims.json"]
        rows = [asdict(claim) for claim in claims]
        written[0].write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if figures:
            # matplotlib takes most of a second to import, and a table does not need it.
            from polychromic.theory import figures as draw

            progress.update(task, description="drawing scaffold values")
            written += draw.save(draw.scaffold_figure(), out / "scaffold")
            progress.update(task, description="training bandits with exact gradients")
            curves = draw.bandit_curves()
            written += draw.save(draw.bandit_figure(curves), out / "bandit")
    console.print(_table(claims))
    failed = sum(not claim.holds for claim in claims)
    console.print(
        f"{len(claims) - failed} of {len(claims)} statements hold; the {failed} that do not are slips in the paper, "
        "each with its correction in the row after it or in docs/errata.md."
    )
    if figures:
        console.print("\nA bandit with 5 right arms of 10, trained with exact gradients:")
        for curve in curves:
            console.print(
                f"  {curve.name:<20} success {curve.success[-1]:.3f}, "
                f"distinct right arms in 16 draws {curve.distinct_right[0]:.1f} → {curve.distinct_right[-1]:.1f}"
            )
    console.print("\nwritten: " + ", ".join(str(path) for path in written), soft_wrap=True)
    return 0


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"out: cannot write to {out} ({error.strerror}); give a folder that can be written") from error


def _table(claims: list[Claim]) -> Table:
    table = Table(title="The paper's claims, checked by enumeration", title_justify="left")
    # The verdict comes first, and every cell folds, so that a narrow terminal or a log file cuts nothing off.
    for name, width in (("holds", 5), ("where", 13), ("claim", None), ("as printed", 14), ("exact", 16)):
        table.add_column(name, max_width=width, overflow="fold")
    for claim in claims:
        verdict = "[green]yes[/]" if claim.holds else "[red]no[/]"
        # Square brackets in a formula are not markup.
        cells = map(escape, (claim.where, claim.claim, claim.as_printed, claim.exact))
        table.add_row(verdict, *cells)
    return table

"""`polychromic theory`: why policies collapse, and the paper's claims checked by exact enumeration."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from polychromic.errors import UserError
from polychromic.theory import dynamics
from polychromic.theory.claims import Claim, all_claims
from polychromic.theory.collapse import Bandit, picture, summary


def theory(
    *,
    out: Path = Path("theory"),
    figures: bool = True,
    arms: int = 10,
    right: int = 5,
    set_size: int = 4,
    unevenness: float = 1.0,
    steps: int = 2000,
    step_size: float = 0.2,
) -> int:
    """Why policies collapse, and the paper's claims checked by exact enumeration.

    First a bandit, trained by exact gradients, with the policy each method ends with and what became of its right arms;
    `polychromic bandit` has a page to play with. Then a table of the paper's claims (as printed, exact value, holds or
    not), which is written as claims.json, and the figures scaffold.png and bandit.png (and .svg). Takes a few seconds.

    Args:
        out: the folder to write to.
        figures: draw the figures too.
        arms: number of arms of the bandit.
        right: how many of them pay 1; the others pay 0.
        set_size: n of the polychromic objective; the figure has half and twice as much too.
        unevenness: logits of the right arms start between this and minus this; 0 is a tie.
        steps: gradient steps.
        step_size: of a gradient step.
    """
    bandit = Bandit(arms, right, set_size, unevenness, steps, step_size)
    _make_folder(out)
    console = Console()
    curves = [bandit.train(method) for method in dynamics.METHODS]
    console.print(f"Why policies collapse: {arms} arms, {right} of them right (●), {steps:,} exact gradient steps\n")
    for line in (*picture(bandit, curves), "", *summary(bandit, curves), ""):
        console.print(line, soft_wrap=True, highlight=False)
    claims, written = _check_claims(console, out)
    if figures:
        # matplotlib takes most of a second to import, and a table does not need it.
        from polychromic.theory import figures as draw

        written += draw.save(draw.scaffold_figure(), out / "scaffold")
        written += draw.save(draw.bandit_figure(bandit, draw.bandit_curves(bandit)), out / "bandit")
    console.print(_table(claims))
    failed = sum(not claim.holds for claim in claims)
    console.print(
        f"{len(claims) - failed} of {len(claims)} statements hold. The {failed} that do not are slips in the paper, "
        "each corrected in the row after it or in docs/errata.md."
    )
    console.print("\nwritten: " + ", ".join(str(path) for path in written), soft_wrap=True)
    return 0


def _check_claims(console: Console, out: Path) -> tuple[list[Claim], list[Path]]:
    """All claims, and the file that has them."""
    claims = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("enumerating", total=None)
        for claim in all_claims():
            claims.append(claim)
            progress.update(task, description=f"checked {claim.where}", advance=1)
    path = out / "claims.json"
    rows = [asdict(claim) for claim in claims]
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return claims, [path]


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

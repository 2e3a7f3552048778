"""The command `polychromic check-env ID`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from polychromic.envs.forkcheck.check import PROOF_STEPS, check_fork
from polychromic.envs.forkcheck.report import ForkReport
from polychromic.envs.gymnasium.episodes import describe
from polychromic.envs.gymnasium.probe import TEXT_LENGTH, maker_of
from polychromic.envs.protocol import World
from polychromic.errors import UserError


def check_env(
    id: Annotated[str, tyro.conf.Positional],
    /,
    seeds: tuple[int, ...] | None = None,
    steps: int = PROOF_STEPS,
    fork: Literal["auto", "copy", "replay"] = "auto",
    text_length: int = TEXT_LENGTH,
) -> int:
    """Prove that an environment can be forked faithfully, or say what fails and what to do.

    Exit code 0 if a faithful way of forking was found, 1 if not.

    Args:
        id: A registered Gymnasium id, or package.module:function for a function that makes the environment.
        seeds: Reset seeds of the episodes that are forked; 0, 1 and 2 if none is given.
        steps: Random steps of each episode.
        fork: The way of forking to prove; auto tries copying first, then replaying.
        text_length: The maximum length of a text observation, in characters.
    """
    source = maker_of(id)
    report = check_fork(_world_or_maker(source, id), seeds=seeds, steps=steps, fork=fork, text_length=text_length)
    console = Console()
    for tried in (*report.rejected, report):
        console.print(_table(tried))
    console.print(_verdict(report))
    return 0 if report.ok else 1


def _world_or_maker(source: Callable[[], Any], id: str) -> Any:
    """A user's function may make an environment or a whole world; only calling it shows which."""
    if ":" not in id:
        return source
    try:
        result = source()
    except Exception as error:
        raise UserError(f"{id}() raised {describe(error)}") from error
    return result if isinstance(result, World) else source


def _table(report: ForkReport) -> Table:
    table = Table(
        title=Text(f"{report.subject}, forked by {report.method}"),  # no markup: a method may be "state[rows]"
        title_justify="left",
        box=box.SIMPLE,
        show_lines=True,
    )
    table.add_column("what must hold", ratio=2)
    table.add_column("", width=6)
    table.add_column("what was found, what to do", ratio=5)
    for check in report.checks:
        text = Text(check.found)
        if check.remedy:
            text.append(f"\nWhat to do: {check.remedy}", style="bold")
        table.add_row(check.name, Text("ok", style="green") if check.ok else Text("FAILED", style="bold red"), text)
    return table


def _verdict(report: ForkReport) -> Text:
    if report.ok and report.method in ("copy", "replay"):
        how = "copying the object" if report.method == "copy" else "replaying its actions from the seed"
        return Text(f"{report.subject} can be forked by {how}; from_gymnasium does so by itself.")
    if report.ok:
        return Text(f"{report.subject} forks faithfully.")
    return Text(f"{report.subject} cannot be forked faithfully yet; the lines above say what to do.")

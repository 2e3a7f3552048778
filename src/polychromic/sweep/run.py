"""A sweep from its first cell to its last: the engine, the live table, and the summary at the end."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypedDict

from rich.console import Console
from rich.live import Live

from polychromic.errors import UserError
from polychromic.files import parse_values, read_json
from polychromic.sweep.cells import is_done
from polychromic.sweep.drive import Engine, Summary, drive
from polychromic.sweep.progress import Status, read_status, show, totals

DRAWING_SHARE = 20  # the table is redrawn after this many times the time that drawing it took

EngineName = Literal["local", "ray", "slurm"]


class _Versions(TypedDict):
    versions: dict[str, str]


def check_retries(retries: int) -> None:
    """Refuse a negative number of retries."""
    if retries < 0:
        raise UserError(f"retries is {retries}; it must be at least 0")


def choose_engine(name: EngineName, workers: int, ray_address: str, slurm: Sequence[str]) -> Callable[[Path], Engine]:
    """A function that makes the engine of a sweep in a folder; nothing is loaded or started before."""
    if workers < 0:
        raise UserError(f"workers is {workers}; it must be at least 0")
    if name == "ray":
        _check_installed("ray", "ray")
        from polychromic.sweep.ray_engine import RayEngine

        return lambda _: RayEngine(workers, ray_address)
    if name == "slurm":
        _check_installed("slurm", "submitit")
        from polychromic.sweep.slurm_engine import SlurmEngine

        options = parse_values("slurm", slurm)
        return lambda folder: SlurmEngine(folder, workers, options)
    from polychromic.sweep.local import LocalEngine

    return lambda _: LocalEngine(workers)


def _check_installed(engine: str, library: str) -> None:
    """Check before anything is written. Ray must not be imported yet, as it reads its environment on import."""
    if importlib.util.find_spec(library) is None:
        raise UserError(f"engine is {engine}, but {library} is not installed: pip install 'polychromic[{engine}]'")


def run_sweep(
    out: Path,
    folders: Sequence[Path],
    *,
    again: str,
    engine: Callable[[Path], Engine],
    retries: int,
    also: Callable[[Summary], None] = lambda _: None,
) -> int:
    """Run the cells in `folders` with a live table. Returns the exit code: 0 all done, 1 some failed, 130 stopped.

    also: called about twice a second with the state of the sweep.
    """
    console = Console(stderr=True)
    _tell_other_versions(folders)
    started = engine(out.resolve())
    try:
        with _stopping_on_sigterm(), _table(console, folders, started) as watch:

            def look(now: Summary) -> None:
                watch(now)
                also(now)

            summary = drive(started, folders, retries=retries, watch=look)
    except KeyboardInterrupt:
        print(f"stopped: {_counts(folders)}", file=sys.stderr)
        print(f"nothing is lost; to resume: {again}", file=sys.stderr)
        return 130
    for folder, message in summary.failed.items():
        print(f"\n{folder.name} failed:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in message.splitlines()), file=sys.stderr)
    retried = f", {summary.retried} retries" if summary.retried else ""
    print(f"sweep: {out} ({len(summary.done)} of {len(folders)} cells done{retried})")
    if summary.failed:
        print(f"{len(summary.failed)} cells failed; to try them again: {again}", file=sys.stderr)
    return 1 if summary.failed else 0


def _tell_other_versions(folders: Sequence[Path]) -> None:
    """Report done cells that were made with other versions; they are kept."""
    counts: Counter[str] = Counter()
    for folder in folders:
        with suppress(UserError, importlib.metadata.PackageNotFoundError):
            if is_done(folder) and (folder / "config.json").exists():
                versions = read_json(folder / "config.json", _Versions)["versions"]
                other = [f"{name} {version}" for name, version in versions.items() if version != _version(name)]
                counts.update([", ".join(other)] if other else [])
    if counts:
        kinds = "; ".join(f"{count} with {versions}" for versions, count in counts.items())
        print(f"done cells that were made with other versions are kept: {kinds}", file=sys.stderr)


@functools.cache
def _version(name: str) -> str:
    return importlib.metadata.version(name)


@contextmanager
def _stopping_on_sigterm() -> Iterator[None]:
    """SIGTERM stops a sweep like Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _table(console: Console, folders: Sequence[Path], engine: Engine) -> Iterator[Callable[[Summary], None]]:
    """A function for `drive` to call: redraws the live table, or without a terminal prints a line per finished cell."""
    known: dict[Path, Status] = {}

    def statuses() -> list[Status]:
        for folder in folders:
            if folder not in known or known[folder].state != "done":
                known[folder] = read_status(folder)
        return [known[folder] for folder in folders]

    if not console.is_terminal:
        printed: set[Any] = set()

        def say(summary: Summary) -> None:
            for folder in [*summary.done, *summary.failed]:
                if folder not in printed:
                    printed.add(folder)
                    how = "failed" if folder in summary.failed else "done"
                    console.print(
                        f"{how}: {folder.name} ({len(printed)} of {len(folders)})", highlight=False, markup=False
                    )

        yield say
        return
    due = 0.0
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def draw(_: Summary) -> None:
            nonlocal due
            began = time.monotonic()
            if began >= due:
                rows = max(3, console.size.height - 4)
                live.update(show(statuses(), slots=engine.slots, rows=rows), refresh=True)
                # Reading the files of many cells takes time; leave almost all of it to the workers.
                ended = time.monotonic()
                due = ended + max(1.0, DRAWING_SHARE * (ended - began))

        yield draw
        due = 0.0
        draw(Summary())


def _counts(folders: Sequence[Path]) -> str:
    return totals([read_status(folder) for folder in folders], 1).split(", about")[0]

"""`polychromic sweep`: tasks × methods × seeds, and `polychromic sweep status DIR`."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import shlex
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.live import Live

from polychromic.errors import UserError
from polychromic.files import read_json
from polychromic.policies.files import available_policies, policy_path
from polychromic.sweep.cells import Cell, Evaluation, find_cells, is_done, make_cells, write_cells
from polychromic.sweep.drive import Engine, Summary, drive
from polychromic.sweep.plan import SCORING, parse_seeds, parse_settings, parse_value, read_plan
from polychromic.sweep.progress import Status, read_status, show, totals

DRAWING_SHARE = 20  # the table is drawn again after so many times as long as drawing it took

EngineName = Literal["local", "ray", "slurm"]


@dataclass(frozen=True)
class Arguments:
    """Run tasks × methods × seeds. The same command goes on after any interruption; done cells are skipped.

    Every cell is a run directory of `polychromic finetune`, evaluated at its end. `polychromic sweep status OUT` shows
    from any terminal how far it is; `polychromic sweep --out OUT` alone goes on with all cells in a folder.
    """

    tasks: tuple[str, ...] = ()
    """Tasks, as `polychromic finetune` takes them."""
    methods: tuple[str, ...] = ()
    """Methods of fine-tuning; `pretrained` only evaluates the base policy, with a sweep of temperatures."""
    seeds: tuple[str, ...] = ()
    """Seeds, as numbers or ranges: 0 1 2, or 0-19."""
    file: Path | None = None
    """A TOML or JSON file with tasks, methods, seeds, settings, vary, evaluation; options on the command line win."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE for any setting of `polychromic finetune`, for all cells; may be repeated."""
    vary: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE,VALUE,… for a setting of which every value is run; may be repeated."""
    policy: str = ""
    """A policy to start from, a file or a shipped one by name. Not given: the shipped policy of each task."""
    horizon: int = 0
    """H: most steps of an episode. 0: what the task has by itself."""
    time_penalty: float = 0.5
    """A success after t steps pays 1 − time_penalty · t/H (grid levels only)."""
    attempts: int = 160
    """Attempts at each configuration in the evaluation of a cell; 0: no evaluation."""
    perturbed: bool = False
    """Also evaluate from perturbed starts."""
    recordings: bool = True
    """Keep episodes for the report's viewer."""
    greedy: bool = False
    """Also evaluate with the most likely action at every step, into greedy.json of a cell."""
    out: Path = Path("sweep")
    """The folder of the sweep."""
    engine: EngineName = "local"
    """local: processes on this machine; ray: tasks on a Ray cluster; slurm: jobs through submitit."""
    workers: int = 0
    """Cells at the same time. 0: one a core (local), as many as the cluster takes (ray, slurm)."""
    retries: int = 3
    """How often a cell that fails or is killed is tried again."""
    ray_address: str = ""
    """The Ray cluster to use. Not given: the one of RAY_ADDRESS, or a new one on this machine."""
    slurm: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE for submitit's executor (slurm_partition=…, timeout_min=…, cluster=debug); may be repeated."""


def sweep_command(args: Sequence[str]) -> int:
    """Parse the arguments of `polychromic sweep` and run it."""
    if args[:1] == ["status"]:
        return tyro.cli(status, args=list(args[1:]), prog="polychromic sweep status")
    given = tyro.cli(Arguments, args=list(args), prog="polychromic sweep")
    engine = choose_engine(given.engine, given.workers, given.ray_address, given.slurm)
    check_retries(given.retries)
    asked = _cells(given, args)
    folders = write_cells(given.out, asked) if asked else find_cells(given.out)
    again = "polychromic sweep " + shlex.join(args)
    return run_sweep(given.out, folders, again=again, engine=engine, retries=given.retries)


def check_retries(retries: int) -> None:
    """Refuse what cannot be counted to."""
    if retries < 0:
        raise UserError(f"retries is {retries}; it must be at least 0")


def status(
    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")], /, *, watch: bool = False
) -> int:
    """How far a sweep is, read from its files: from another terminal or another machine.

    Args:
        folder: of the sweep.
        watch: keep showing it until all cells have ended.
    """
    folders = find_cells(folder)
    console = Console()
    while True:
        statuses = [read_status(path) for path in folders]
        running = sum(one.state == "running" for one in statuses)
        console.print(show(statuses, slots=running))
        for one in statuses:
            if one.state == "failed":
                console.print(f"\n{one.name} failed:\n{one.message}", markup=False)
        if not watch or all(one.state in ("done", "failed") for one in statuses):
            return 0
        time.sleep(2)
        console.print()


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

    also: called about twice a second with how the sweep stands.
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
        print(f"nothing is lost; to go on: {again}", file=sys.stderr)
        return 130
    for folder, message in summary.failed.items():
        print(f"\n{folder.name} failed:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in message.splitlines()), file=sys.stderr)
    retried = f", {summary.retried} attempts repeated" if summary.retried else ""
    print(f"sweep: {out} ({len(summary.done)} of {len(folders)} cells done{retried})")
    if summary.failed:
        print(f"{len(summary.failed)} cells failed; to try them again: {again}", file=sys.stderr)
    return 1 if summary.failed else 0


def _tell_other_versions(folders: Sequence[Path]) -> None:
    """Done cells stay as they are; what they were made with may matter to who compares them."""
    found: Counter[str] = Counter()
    for folder in folders:
        with suppress(UserError, AttributeError, importlib.metadata.PackageNotFoundError):
            if is_done(folder) and (folder / "config.json").exists():
                made = read_json(folder / "config.json").get("versions", {})
                other = [f"{name} {version}" for name, version in made.items() if version != _version(name)]
                found.update([", ".join(other)] if other else [])
    if found:
        told = "; ".join(f"{count} with {versions}" for versions, count in found.items())
        print(f"done cells that were made with other versions are kept: {told}", file=sys.stderr)


@functools.cache
def _version(name: str) -> str:
    return importlib.metadata.version(name)


def _cells(given: Arguments, args: Sequence[str]) -> list[Cell]:
    """The cells that are asked for; none at all if only a folder is given, to go on with what is there."""
    plan = read_plan(given.file) if given.file else {}
    tasks, methods = given.tasks or plan.get("tasks", ()), given.methods or plan.get("methods", ())
    seeds = given.seeds or plan.get("seeds", ())
    names = [arg.split("=", 1)[0].replace("--no-", "--").replace("_", "-") for arg in args]
    if not (tasks or methods or seeds):
        if given.file is None and given.out.is_dir():
            for name in ("set", "vary", "policy", "horizon", "time-penalty", *SCORING):
                if f"--{name}" in names:
                    raise UserError(
                        f"--{name} is given without tasks; the cells in {given.out} go on as they are: leave it out, "
                        "or give tasks, methods and seeds"
                    )
            return []
        raise UserError(
            "tasks is missing; for example: polychromic sweep --tasks goto --methods ppo poly-ppo --seeds 0 1"
        )
    settings = {name: parse_value(text) for name, text in parse_settings("set", given.set).items()}
    vary = {
        name: [parse_value(value) for value in text.split(",")]
        for name, text in parse_settings("vary", given.vary).items()
    }
    evaluation = dict(plan.get("evaluation", {}))
    for name in SCORING:
        if f"--{name}" in names or name not in evaluation:
            evaluation[name] = getattr(given, name)
    world = {
        name: getattr(given, name) if f"--{name.replace('_', '-')}" in names else plan.get(name, getattr(given, name))
        for name in ("horizon", "time_penalty")
    }
    if world["horizon"] < 0 or not 0 <= world["time_penalty"] <= 1:
        raise UserError(
            f"horizon is {world['horizon']} and time_penalty {world['time_penalty']}; at least 0, and between 0 and 1"
        )
    policy = given.policy or plan.get("policy", "")
    if policy and policy not in available_policies():
        policy = str(policy_path(policy).resolve())
    return make_cells(
        tasks,
        methods,
        parse_seeds(seeds),
        settings={**plan.get("settings", {}), **settings},
        vary={**plan.get("vary", {}), **vary},
        policy=policy,
        evaluation=Evaluation(**evaluation),
        **world,
    )


def choose_engine(name: EngineName, workers: int, ray_address: str, slurm: Sequence[str]) -> Callable[[Path], Engine]:
    """What makes the engine of a sweep in a folder; nothing is loaded or started before."""
    if workers < 0:
        raise UserError(f"workers is {workers}; it must be at least 0")
    if name == "ray":
        _check_installed("ray", "ray")
        from polychromic.sweep.ray_engine import RayEngine

        return lambda folder: RayEngine(folder, workers, ray_address)
    if name == "slurm":
        _check_installed("slurm", "submitit")
        from polychromic.sweep.slurm_engine import SlurmEngine

        options = {name: parse_value(text) for name, text in parse_settings("slurm", slurm).items()}
        return lambda folder: SlurmEngine(folder, workers, options)
    from polychromic.sweep.local import LocalEngine

    return lambda folder: LocalEngine(folder, workers)


def _check_installed(engine: str, library: str) -> None:
    """Before anything is written; Ray must not be loaded yet, as it reads its environment while it is."""
    if importlib.util.find_spec(library) is None:
        raise UserError(f"engine is {engine}, but {library} is not installed: pip install 'polychromic[{engine}]'")


@contextmanager
def _stopping_on_sigterm() -> Iterator[None]:
    """A polite end of the process stops a sweep as Ctrl-C does."""
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
    """What `drive` calls: redraws the live table, or without a terminal prints a line for every cell that ends."""
    known: dict[Path, Status] = {}

    def statuses() -> list[Status]:
        for folder in folders:
            if folder not in known or known[folder].state != "done":
                known[folder] = read_status(folder)
        return [known[folder] for folder in folders]

    if not console.is_terminal:
        told: set[Any] = set()

        def say(summary: Summary) -> None:
            for folder in [*summary.done, *summary.failed]:
                if folder not in told:
                    told.add(folder)
                    how = "failed" if folder in summary.failed else "done"
                    console.print(
                        f"{how}: {folder.name} ({len(told)} of {len(folders)})", highlight=False, markup=False
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
                # Reading the files of many cells takes its time; workers are to have all but a little of it.
                ended = time.monotonic()
                due = ended + max(1.0, DRAWING_SHARE * (ended - began))

        yield draw
        due = 0.0
        draw(Summary())


def _counts(folders: Sequence[Path]) -> str:
    return totals([read_status(folder) for folder in folders], 1).split(", about")[0]

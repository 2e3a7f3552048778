"""SIGKILL at any moment: every command must resume to the same bytes and leave no stray file behind."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from torture.commands import (
    DEMOS,
    FINETUNE,
    SWEEP,
    environment,
    polychromic,
    prepare_demonstrations,
    pretrain_arguments,
    results,
)

ROUND = 5  # kills before a round may finish
OUT = "out"  # relative to a folder of its own: files may hold the command that made them
# Imported once by the process from which the others are forked.
IMPORTED = ("polychromic.cli", "polychromic.finetuning.command", "polychromic.tasks.grids.pretrain", "tensorboardX")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir", "os.chmod")


class Story(NamedTuple):
    """A command that is killed."""

    name: str
    arguments: list[str]
    share: int  # of the kills
    workers: bool = False  # it runs in processes of its own, each in its own session


def stories(scratch: Path) -> list[Story]:
    """Runs, pretraining, sweeps and recordings."""
    return [
        Story("finetune", ["finetune", *FINETUNE, "--out", OUT], 9),
        Story("sweep", ["sweep", *SWEEP, "--out", OUT, "--workers", "2"], 4, workers=True),
        Story("pretrain", ["pretrain", *pretrain_arguments(scratch), "--out", OUT], 4),
        Story("demos", ["demos", *DEMOS, "--out", f"{OUT}/demos.npz"], 3),
    ]


def attack(count: int, jobs: int = 1, only: str = "") -> dict[str, Any]:
    """`count` kills over all stories, of which `jobs` are told at the same time."""
    report: dict[str, Any] = {"part": "kills", "attacks": 0, "by story": {}, "bad": [], "failures": 0}
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        scratch = Path(place)
        prepare_demonstrations(scratch)
        chosen = [story for story in stories(scratch) if only in story.name]
        total = sum(story.share for story in chosen)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            told = {story.name: pool.submit(tell, scratch, story, -(-count * story.share // total)) for story in chosen}
        for name, outcome in ((name, future.result()) for name, future in told.items()):
            report["attacks"] += outcome["kills"]
            report["by story"][name] = {key: value for key, value in outcome.items() if key != "bad"}
            report["bad"] += outcome["bad"]
    report["failures"] = len(report["bad"])
    return report


def tell(scratch: Path, story: Story, count: int) -> dict[str, Any]:
    """Kill one command `count` times, in rounds that end in a comparison with an undisturbed run."""
    rng = random.Random(story.name)
    calm = scratch / f"calm {story.name}"
    calm.mkdir()
    _finish(story, calm)  # compiles
    shutil.rmtree(calm)
    calm.mkdir()
    began = time.monotonic()
    failed, operations = _finish(story, calm)
    if failed:
        raise RuntimeError(f"{story.name}: {failed}")
    duration = time.monotonic() - began
    expected, names = results(calm), names_in(calm)
    rounds = 0
    kills: Counter[str] = Counter()
    bad: list[dict[str, str]] = []
    while kills.total() < count:
        rounds += 1
        folder = scratch / f"{story.name} {rounds}"
        folder.mkdir()
        code = -signal.SIGKILL
        for _ in range(min(ROUND, count - kills.total())):
            hits, code = _killed(story, folder, rng, duration, operations)
            kills.update(hits)
            if code != -signal.SIGKILL:
                break  # it ended first
        failed = _finish(story, folder)[0] if code == -signal.SIGKILL else _said(folder, code)
        wrong = [failed] if failed else []
        if not failed:
            found = results(folder)
            wrong += [f"different: {name}" for name in {**expected, **found} if found.get(name) != expected.get(name)]
            wrong += [f"stray: {name}" for name in sorted(names_in(folder) - names)]
        bad += [{"story": story.name, "round": str(rounds), "what": what} for what in wrong]
        print(f"  {story.name}: {kills.total()} of {count} kills, {len(bad)} bad", file=sys.stderr, flush=True)
        shutil.rmtree(folder)
    return {"kills": kills.total(), "moments": dict(kills), "rounds compared": rounds, "bad": bad}


def names_in(folder: Path) -> set[str]:
    """All files, including hidden ones; TensorBoard's have a different name for every start."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "tensorboard")
    return {str(path.relative_to(folder)) for path in files}


# ------------------------------------------------------------------ processes


def _killed(
    story: Story, folder: Path, rng: random.Random, duration: float, operations: int
) -> tuple[list[str], int | None]:
    """Start the command and kill it: the moments at which that was done, none if it ended before; its exit code."""
    if not story.workers and rng.random() < 0.5:
        process = _fork(story, folder, rng.randint(1, max(1, operations)))
        process.join()
        killed = process.exitcode == -signal.SIGKILL
        return ["at an operation on a file"] if killed else [], process.exitcode
    moment = rng.choice(("at any time", "as a file changed"))
    hits = []
    running: Any = _start(story, folder) if story.workers else _fork(story, folder)
    if story.workers and rng.random() < 0.5:
        # A worker first; the sweep must notice it and start another one.
        _wait(running, folder, rng.uniform(0, duration), moment)
        victims = _children(running.pid)
        if victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
                hits.append(f"a worker, {moment}")
    _wait(running, folder, rng.uniform(0, duration), moment)
    alone = rng.random() < 0.5  # its processes are left to themselves
    with contextlib.suppress(ProcessLookupError):
        (os.kill if alone else os.killpg)(running.pid, signal.SIGKILL)
    code = running.wait() if story.workers else (running.join(), running.exitcode)[1]
    return [*hits, moment] if code == -signal.SIGKILL else hits, code


def _wait(process: Any, folder: Path, seconds: float, moment: str) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and _alive(process):
        time.sleep(0.002)
    stood = _state(folder)
    while moment == "as a file changed" and _alive(process) and _state(folder) == stood:
        time.sleep(0.0005)


def _alive(process: Any) -> bool:
    return bool(process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive())


def _start(story: Story, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        polychromic(*story.arguments),
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=_words(folder).open("wb"),
        start_new_session=True,
    )


def _fork(story: Story, folder: Path, die_at: int = 0, counted: Any = None) -> Any:
    """The command in a process that is forked from one in which everything is imported already."""
    os.environ.update(environment())
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    process = context.Process(target=_command, args=(story.arguments, str(folder), die_at, counted))
    process.start()
    return process


def _command(arguments: list[str], folder: str, die_at: int, counted: Any) -> None:
    """In the forked process; `die_at`: the change of a file in the folder at which it kills itself."""
    os.setsid()
    with _words(Path(folder)).open("wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    os.chdir(folder)
    sys.argv = ["polychromic", *arguments]
    from polychromic.cli import main

    operations = 0

    def watch(event: str, given: tuple[Any, ...]) -> None:
        nonlocal operations
        changes = event in CHANGES or (event == "open" and isinstance(given[2], int) and given[2] & WRITING)
        if changes and not isinstance(given[0], int) and Path(os.fsdecode(given[0])).absolute().is_relative_to(folder):
            operations += 1
            if operations == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    code = main(arguments)
    if counted is not None:
        counted.value = operations
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def complete(story: Story, folder: Path) -> tuple[int | None, str, int]:
    """Run the command to its end: its exit code, what it said, and how many changes of files there were."""
    operations = 0
    if story.workers:
        code: int | None = _start(story, folder).wait()
    else:
        counted = multiprocessing.get_context("forkserver").Value("l", 0)
        process = _fork(story, folder, counted=counted)
        process.join()
        code, operations = process.exitcode, counted.value
    return code, _words(folder).read_text(errors="replace"), operations


def _finish(story: Story, folder: Path) -> tuple[str, int]:
    """The same: what went wrong, and the changes."""
    code, _, operations = complete(story, folder)
    return _said(folder, code), operations


def _words(folder: Path) -> Path:
    """What the last command in a folder has printed."""
    return folder.with_name(f"{folder.name}.txt")


def _said(folder: Path, code: int | None) -> str:
    """What went wrong in a command that has ended."""
    said = _words(folder).read_text(errors="replace")
    return f"ended with {code}: {said[-500:]}" if code or "Traceback" in said else ""


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _state(folder: Path) -> list[tuple[str, int, int]]:
    states = []
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.stat(os.path.join(parent, name))  # noqa: PTH118, PTH116
            except FileNotFoundError:
                continue
            states.append((name, stat.st_size, stat.st_mtime_ns))
    return sorted(states)

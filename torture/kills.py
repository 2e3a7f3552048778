"""SIGKILL at random moments: every command must resume to the same bytes and leave no stray file behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from torture.commands import (
    DEMOS,
    FINETUNE,
    SWEEP,
    environment,
    must,
    polychromic,
    prepare_demonstrations,
    pretrain_arguments,
    results,
)

ROUND = 5  # kills before a round may finish


class Story(NamedTuple):
    """A command that is killed."""

    name: str
    arguments: list[str]  # OUT stands for the folder or file
    out: str
    share: int  # of the kills


def stories(scratch: Path) -> list[Story]:
    """Runs, pretraining, sweeps and recordings."""
    return [
        Story("finetune", ["finetune", *FINETUNE, "--out", "OUT"], "run", 8),
        Story("sweep", ["sweep", *SWEEP, "--out", "OUT", "--workers", "2"], "sweep", 6),
        Story("pretrain", ["pretrain", *pretrain_arguments(scratch), "--out", "OUT"], "pretrained", 4),
        Story("demos", ["demos", *DEMOS, "--out", "OUT"], "demos.npz", 2),
    ]


def attack(count: int, only: str = "") -> dict[str, Any]:
    """`count` kills over all stories."""
    report: dict[str, Any] = {"part": "kills", "attacks": 0, "by story": {}, "bad": [], "failures": 0}
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        scratch = Path(place)
        prepare_demonstrations(scratch)
        chosen = [story for story in stories(scratch) if only in story.name]
        total = sum(story.share for story in chosen)
        for story in chosen:
            outcome = tell(scratch, story, -(-count * story.share // total))
            report["attacks"] += outcome["kills"]
            report["by story"][story.name] = {key: value for key, value in outcome.items() if key != "bad"}
            report["bad"] += outcome["bad"]
    report["failures"] = len(report["bad"])
    return report


def tell(scratch: Path, story: Story, count: int) -> dict[str, Any]:
    """Kill one command `count` times, in rounds that end in a comparison."""
    rng = random.Random(story.name)
    calm = scratch / f"calm {story.name}"
    calm.mkdir()
    began = time.monotonic()
    must(_arguments(story, calm), scratch)
    duration = time.monotonic() - began
    expected, names = results(calm), _names(calm)
    kills = amid_writes = rounds = 0
    bad: list[dict[str, str]] = []
    while kills < count:
        rounds += 1
        folder = scratch / f"{story.name} {rounds}"
        folder.mkdir()
        for _ in range(min(ROUND, count - kills)):
            amid_write = rng.random() < 0.5
            hit = _kill(_arguments(story, folder), scratch, folder, rng, duration, amid_write)
            if not hit:
                break  # it finished first
            kills += 1
            amid_writes += hit == "write"
        done = subprocess.run(
            polychromic(*_arguments(story, folder)),
            env=environment(scratch),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or "Traceback" in done.stderr:
            bad.append(
                {
                    "story": story.name,
                    "round": str(rounds),
                    "what": f"ended with {done.returncode}: {done.stderr[-500:]}",
                }
            )
        else:
            different = [
                name for name in {**expected, **results(folder)} if results(folder).get(name) != expected.get(name)
            ]
            strays = sorted(_names(folder) - names)
            bad += [{"story": story.name, "round": str(rounds), "what": f"different: {name}"} for name in different]
            bad += [{"story": story.name, "round": str(rounds), "what": f"stray: {name}"} for name in strays]
        shutil.rmtree(folder)
    return {"kills": kills, "as a file was written": amid_writes, "rounds compared": rounds, "bad": bad}


def _arguments(story: Story, folder: Path) -> list[str]:
    return [str(folder / story.out) if word == "OUT" else word for word in story.arguments]


def _names(folder: Path) -> set[str]:
    """All files, including hidden ones; TensorBoard's have a different name for every start."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "tensorboard")
    return {str(path.relative_to(folder)) for path in files}


def _kill(
    arguments: list[str], scratch: Path, folder: Path, rng: random.Random, duration: float, amid_write: bool
) -> str:
    """Start the command in its own session and kill all of it: 'write', 'work', or '' if it had ended."""
    process = subprocess.Popen(
        polychromic(*arguments),
        env=environment(scratch),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + rng.uniform(0, 1.1 * duration)
    while time.monotonic() < until and process.poll() is None:
        time.sleep(0.002)
    hit = "work"
    if amid_write:
        stood = _state(folder)
        while process.poll() is None:
            now = _state(folder)
            if now != stood:
                hit = "write"
                break
            time.sleep(0.0005)
    ended = process.poll() is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        ended = True
    process.wait()
    return "" if ended else hit


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

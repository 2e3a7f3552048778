"""Full disks: a command says so in one line, loses nothing, and resumes to the same bytes when there is space again.

On a file system in memory of a few kilobytes, which needs the right to mount; without it, files may not grow
beyond a size instead (RLIMIT_FSIZE).
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torture.commands import (
    FINETUNE,
    SWEEP,
    environment,
    must,
    polychromic,
    prepare_demonstrations,
    pretrain_arguments,
    results,
)
from torture.kills import Story, complete, names_in

SHARES = (0.02, 0.4, 0.7, 0.9, 0.97)  # of the space that the command needs
PAGE = 4096
ENOUGH = "256m"
TOLD = ("No space left on device", "File too large")


def stories(scratch: Path) -> list[Story]:
    """Every command that writes."""
    run = str(scratch / "run")
    return [
        Story("demos", ["demos", "fourrooms", "--episodes", "60", "--workers", "1", "--out", "out/demos.npz"], 1),
        Story("pretrain", ["pretrain", *pretrain_arguments(scratch), "--out", "out"], 1),
        Story("finetune", ["finetune", *FINETUNE, "--out", "out"], 1),
        Story("evaluate", ["evaluate", run, "--attempts", "2", "--out", "out/evaluation.json"], 1),
        Story("report", ["report", run, "--out", "out/report.html", "--markdown", "out/report.md"], 1),
        Story("watch", ["watch", run, "--gif", "out/episode.gif"], 1),
        Story("sweep", ["sweep", *SWEEP, "--out", "out", "--workers", "1"], 1, workers=True),
    ]


def attack(small: bool = False) -> dict[str, Any]:
    """Every command on disks of several sizes."""
    bad: list[dict[str, str]] = []
    outcomes: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        scratch = Path(place)
        prepare_demonstrations(scratch)
        must(["finetune", *FINETUNE, "--out", str(scratch / "run")])
        way = "a file system in memory" if _can_mount(scratch) else "a limit on the size of files"
        for story in stories(scratch)[: 3 if small else None]:
            calm = scratch / f"calm {story.name}"
            calm.mkdir()
            code, said = _run(story, calm, 0)
            if code:
                raise RuntimeError(f"{story.name}: {said}")
            expected, names = results(calm), names_in(calm)
            needed = sum(-(-path.stat().st_size // PAGE) * PAGE for path in calm.rglob("*") if path.is_file())
            largest = max(path.stat().st_size for path in calm.rglob("*") if path.is_file())
            counts = outcomes[story.name] = {"refused": 0, "enough": 0}
            for share in SHARES[::3] if small else SHARES:
                size = max(PAGE, int(share * (needed if way.startswith("a file") else largest)) // PAGE * PAGE)
                wrong, refused = _fill(story, scratch / "disk", size, way, expected, names)
                counts["refused" if refused else "enough"] += 1
                bad += [{"story": f"{story.name}, {size} bytes", "what": what} for what in wrong]
            print(f"  {story.name}: {counts}", file=sys.stderr, flush=True)
    return {
        "part": "disks",
        "attacks": sum(sum(counts.values()) for counts in outcomes.values()),
        "way": way,
        "by story": outcomes,
        "bad": bad,
        "failures": len(bad),
    }


def _fill(
    story: Story, disk: Path, size: int, way: str, expected: dict[str, Any], names: set[str]
) -> tuple[list[str], bool]:
    """Run on a disk that is too small, then on the same disk with space: what is wrong, and whether it was full."""
    wrong = []
    with _disk(disk, size, way) as grow:
        code, said = _run(story, disk, size if way.startswith("a limit") else 0)
        if code and not any(word in said for word in TOLD):
            wrong.append(f"ended with {code} and does not say why: {said[-300:]}")
        if code == 0 and results(disk) != expected:
            wrong.append("ended with 0 and other results")
        if "Traceback" in said or "Exception ignored" in said:
            wrong.append(f"a traceback: {said[-300:]}")
        grow()
        again, said = _run(story, disk, 0)
        if again:
            wrong.append(f"with space it ended with {again}: {said[-300:]}")
        else:
            found = results(disk)
            wrong += [f"different: {name}" for name in {**expected, **found} if found.get(name) != expected.get(name)]
            wrong += [f"stray: {name}" for name in sorted(names_in(disk) - names)]
    return wrong, code != 0


@contextlib.contextmanager
def _disk(place: Path, size: int, way: str) -> Iterator[Any]:
    place.mkdir()
    if not way.startswith("a file"):
        try:
            yield lambda: None
        finally:
            shutil.rmtree(place)
        return
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield lambda: _mount("-o", f"remount,size={ENOUGH}", str(place))
    finally:
        subprocess.run(["umount", str(place)], check=True)
        place.rmdir()


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _can_mount(scratch: Path) -> bool:
    try:
        with _disk(scratch / "disk", PAGE, "a file system"):
            return True
    except (OSError, subprocess.CalledProcessError):
        with contextlib.suppress(OSError):
            (scratch / "disk").rmdir()
        return False


def _run(story: Story, folder: Path, limit: int) -> tuple[int | None, str]:
    if not limit:
        code, said, _ = complete(story, folder)
        return code, said

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        polychromic(*story.arguments),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=restrict,
    )
    return done.returncode, done.stderr

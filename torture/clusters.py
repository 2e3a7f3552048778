"""SIGKILL in sweeps on Ray: the workers, the raylet, the server of the cluster's state and the driver.

Runs in the environment of `make test-ray`, if there is one. A sweep that loses a worker continues; one that loses the
cluster or its own process says so or ends, never hangs, and the same command resumes it to the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torture.commands import SWEEP, environment, results
from torture.kills import names_in

PYTHON = Path(__file__).parents[1] / ".venv-ray" / "bin" / "python"
VICTIMS = ("a worker", "the raylet", "the driver", "the state server")
COMMAND = ["-P", "-m", "polychromic.cli", "sweep", *SWEEP, "--seeds", "0", "1", "--retries", "20", "--out", "out"]
ON_RAY = ["--engine", "ray", "--workers", "2"]
SECONDS = 600  # after which a sweep counts as hanging


def attack(small: bool = False) -> dict[str, Any]:
    """Kills of every kind of process."""
    report: dict[str, Any] = {"part": "ray", "attacks": 0, "bad": [], "failures": 0}
    if not PYTHON.exists():
        return report | {"not run": "there is no environment with Ray: make test-ray sets it up"}
    told = disturb(PYTHON, rounds=1 if small else 3, victims=VICTIMS)
    return report | told | {"failures": len(told["bad"])}


def disturb(python: Path, *, rounds: int, victims: tuple[str, ...]) -> dict[str, Any]:
    """Sweeps on Ray that lose each of the victims, compared with a local one that loses nothing."""
    # A folder of its own with a short name: the path of Ray's sockets may not exceed 107 bytes.
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        return _disturb(Path(place), python, rounds, victims)


def _disturb(scratch: Path, python: Path, rounds: int, victims: tuple[str, ...]) -> dict[str, Any]:
    rng = random.Random(0)
    calm = scratch / "calm"
    calm.mkdir()
    code, said = _wait(_start(python, calm, local=True))
    if code:
        raise RuntimeError(f"a calm sweep ended with {code}: {said}")
    expected, names = results(calm / "out"), names_in(calm)
    kills: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    bad: list[dict[str, str]] = []
    for number in range(rounds):
        for victim in victims:
            folder = scratch / f"{victim} {number}"
            folder.mkdir()
            process = _start(python, folder)
            if _kill(process, folder, victim, rng):
                kills[victim] += 1
            code, said = _wait(process)
            ends[_how(code)] += 1
            wrong = [f"it hangs: {said[-300:]}"] if code is None else []
            if "Traceback" in said:
                wrong.append(f"a traceback: {said[-600:]}")
            how = _how(code)
            if code != 0:
                code, said = _wait(_start(python, folder))
                if code != 0:
                    wrong.append(f"the same command ended with {code}: {said[-300:]}")
            found = results(folder / "out")
            wrong += [f"different: {name}" for name in {**expected, **found} if found.get(name) != expected.get(name)]
            wrong += [f"stray: {name}" for name in sorted(names_in(folder) - names)]
            bad += [{"victim": victim, "round": str(number), "what": what} for what in wrong]
            print(f"  {victim} {number}: {how} {wrong}", file=sys.stderr, flush=True)
            shutil.rmtree(folder)
    return {"attacks": kills.total(), "kills": dict(kills), "ends": dict(ends), "bad": bad}


def _how(code: int | None) -> str:
    if code is None:
        return "hung"
    return "completed" if code == 0 else "killed" if code == -signal.SIGKILL else f"ended with {code}"


def _start(python: Path, folder: Path, *, local: bool = False) -> subprocess.Popen[str]:
    variables = {name: value for name, value in environment().items() if not name.startswith("RAY_")}
    # Ray's processes must end soon after what they belong to is gone.
    variables |= {"RAY_TMPDIR": str(folder.parent / "ray"), "RAY_gcs_rpc_server_reconnect_timeout_s": "10"}
    with (folder.parent / "said").open("w") as said:
        return subprocess.Popen(
            [str(python), *COMMAND, *(["--workers", "2"] if local else ON_RAY)],
            cwd=folder,
            env=variables,
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=True,
            start_new_session=True,
        )


def _wait(process: subprocess.Popen[str]) -> tuple[int | None, str]:
    """The exit code, None if it hangs, and what it said; every process that it started is gone afterwards."""
    said = Path(f"/proc/{process.pid}/fd/2").resolve()
    family = set(_descendants(process.pid))
    until = time.monotonic() + SECONDS
    code = None
    while code is None and time.monotonic() < until:
        family |= set(_descendants(process.pid))
        code = process.poll()
        time.sleep(0.1)
    for pid in [process.pid, *family]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return code, said.read_text(errors="replace") if said.is_file() else ""


def _kill(process: subprocess.Popen[str], folder: Path, victim: str, rng: random.Random) -> bool:
    """Kill one of its processes while cells are running; False if it ended before."""
    while process.poll() is None and not list(folder.glob("out/*/metrics.jsonl")):
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 1.0))
    names = {"a worker": "ray::", "the raylet": "raylet/raylet", "the state server": "gcs/gcs_server"}
    found = [process.pid] if victim == "the driver" else list(_named(process.pid, names[victim]))
    if process.poll() is not None or not found:
        return False
    os.kill(rng.choice(found), signal.SIGKILL)
    return True


def _named(pid: int, name: str) -> Iterator[int]:
    for child in _descendants(pid):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace")
            if name in words.split("\0")[0] and (name != "ray::" or "ray_cell" in words or "-" in words):
                yield child


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = path.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found

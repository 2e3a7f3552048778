"""What tests of sweeps share."""

import json
import os
import random
import signal
import threading
import time
from pathlib import Path

from polychromic.sweep.lock import holder

SETTINGS = {
    "iterations": 4, "budget": 20, "rollouts_per_state": 4, "forks_per_rollout": 1, "set_size": 2,
    "evaluation_rollouts": 4, "evaluate_every": 50, "checkpoint_every": 2, "configurations_per_iteration": 1,
}  # fmt: skip
SET = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
CHOICES = ["--tasks", "fourrooms", "--methods", "ppo", "poly-ppo", *SET, "--attempts", "8"]
TINY = [*CHOICES, "--seeds", "0-2"]
# What a cell ends in; the rest are times, locks and logs.
COMPARED = (
    "cell.json",
    "config.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "policy.safetensors",
    "checkpoint.safetensors",
    "done.json",
    "figures.json",
)


def results(folder):
    """Bytes of every result of every cell, by name; evaluations without their seconds, command and checksum."""
    found = {}
    for cell in sorted(Path(folder).glob("*/cell.json")):
        for name in COMPARED:
            found[f"{cell.parent.name}/{name}"] = (cell.parent / name).read_bytes()
        evaluation = json.loads((cell.parent / "evaluation.json").read_text())
        found[f"{cell.parent.name}/evaluation"] = {
            name: value for name, value in evaluation.items() if name not in ("seconds", "command", "checksum")
        }
    return found


def without_checksum(text):
    """What a file with a checksum holds, for tests that change it."""
    return {name: value for name, value in json.loads(text).items() if name != "checksum"}


def attempts(folder):
    """The lines of a cell's history."""
    return [json.loads(line) for line in (Path(folder) / "attempts.jsonl").read_text().splitlines()]


def holders(folder):
    """The processes that hold cells of a sweep now."""
    return [found["pid"] for cell in Path(folder).glob("*/cell.json") if (found := holder(cell.parent))]


class Killer(threading.Thread):
    """Kills processes amid their runs, just as one has written down an iteration, until it has done so often enough."""

    def __init__(self, folder, kills, pause):
        super().__init__(daemon=True)
        self.folder, self.left, self.pause = Path(folder), kills, pause
        self.rng = random.Random(0)
        self.killed = []
        self.lines = []  # iterations that were written down at each kill
        self.over = threading.Event()

    def run(self):
        while self.left and not self.over.wait(self.rng.uniform(0, self.pause)):
            sizes = self._sizes()
            while not self.over.wait(0.01):
                before, sizes = sizes, self._sizes()
                grown = [cell for cell, size in sizes.items() if size > before.get(cell, 0)]
                if any(self._kill(cell) for cell in grown[:1]):
                    self.left -= 1
                    break

    def _sizes(self):
        """Of the metrics of all cells."""
        return {path.parent: path.stat().st_size for path in self.folder.glob("*/metrics.jsonl")}

    def _kill(self, cell):
        """Kill who runs a cell, if it is still at its iterations when nothing can change any more."""
        found = holder(cell)
        if found is None:
            return False
        os.kill(found["pid"], signal.SIGSTOP)
        if holder(cell) != found or (cell / "done.json").exists():
            os.kill(found["pid"], signal.SIGCONT)
            return False
        self.lines.append((cell / "metrics.jsonl").read_bytes().count(b"\n"))
        os.kill(found["pid"], signal.SIGKILL)
        self.killed.append(found["pid"])
        while holder(cell) == found:
            time.sleep(0.01)
        return True

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def __enter__(self):
        self.start()
        return self

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
    "evaluation_rollouts": 4, "checkpoint_every": 2,
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
    """Bytes of every result of every cell, by name; evaluations without their seconds and command."""
    found = {}
    for cell in sorted(Path(folder).glob("*/cell.json")):
        for name in COMPARED:
            found[f"{cell.parent.name}/{name}"] = (cell.parent / name).read_bytes()
        evaluation = json.loads((cell.parent / "evaluation.json").read_text())
        found[f"{cell.parent.name}/evaluation"] = {
            name: value for name, value in evaluation.items() if name not in ("seconds", "command")
        }
    return found


def attempts(folder):
    """The lines of a cell's history."""
    return [json.loads(line) for line in (Path(folder) / "attempts.jsonl").read_text().splitlines()]


def holders(folder):
    """The processes that hold cells of a sweep now."""
    return [found["pid"] for cell in Path(folder).glob("*/cell.json") if (found := holder(cell.parent))]


class Killer(threading.Thread):
    """Kills a process that holds a cell at random moments, until it has done so often enough."""

    def __init__(self, folder, kills, pause):
        super().__init__(daemon=True)
        self.folder, self.left, self.pause = folder, kills, pause
        self.rng = random.Random(0)
        self.killed = []
        self.over = threading.Event()

    def run(self):
        while self.left and not self.over.is_set():
            time.sleep(self.rng.uniform(0, self.pause))
            running = holders(self.folder)
            if running:
                pid = self.rng.choice(running)
                os.kill(pid, signal.SIGKILL)
                self.killed.append(pid)
                self.left -= 1
                while pid in holders(self.folder):  # not the same one twice
                    time.sleep(0.01)

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def __enter__(self):
        self.start()
        return self

"""What a sweep costs on top of its runs, and what a second worker gains.

    python -m benchmarks.sweeps [--iterations 400] [--out FILE]        (about ten minutes on two quiet cores)

Four equal cells of about a minute on FourRooms, three ways, all in one run: two of them by themselves with
`polychromic finetune` and `polychromic evaluate`, one after another; all as a sweep with one worker; all as a sweep
with two. Wall-clock time; needs two idle cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from polychromic.sweep.run_cell import one_thread

CELLS, ALONE = 4, 2
ATTEMPTS = "32"


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--task", default="fourrooms")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/sweeps.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = measure(Path(scratch), options.task, options.iterations)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0


def sweep_arguments(task: str, iterations: int, out: Path, workers: int) -> list[str]:
    """Of `polychromic sweep`, for all cells."""
    arguments = ["--tasks", task, "--methods", "poly-ppo", "--seeds", f"0-{CELLS - 1}"]
    arguments += ["--set", f"iterations={iterations}", "--set", "configurations_per_iteration=1"]
    arguments += ["--set", "evaluate_every=50", "--attempts", ATTEMPTS]
    return [*arguments, "--out", str(out), "--workers", str(workers)]


def run_arguments(task: str, iterations: int, out: Path, seed: int) -> list[str]:
    """Of `polychromic finetune`, for one cell."""
    arguments = [task, "--method", "poly-ppo", "--seed", str(seed), "--iterations", str(iterations)]
    return [*arguments, "--configurations-per-iteration", "1", "--evaluate-every", "50", "--out", str(out)]


def measure(scratch: Path, task: str, iterations: int) -> dict[str, object]:
    """Seconds of the three ways."""
    # The runs by themselves get what a sweep gives its workers: one thread, and code that is already compiled.
    cached = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(scratch / "compiled")}
    environment = {**cached, **one_thread(cached)}

    def polychromic(*arguments: str) -> None:
        command = ["taskset", "-c", "0", sys.executable, "-m", "polychromic.cli", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True)

    def sweep(name: str, workers: int) -> float:
        began = time.perf_counter()
        arguments = sweep_arguments(task, iterations, scratch / name, workers)
        command = [sys.executable, "-m", "polychromic.cli", "sweep", *arguments]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        return time.perf_counter() - began

    def run(name: str, seed: int, count: int = iterations) -> float:
        began = time.perf_counter()
        folder = scratch / name
        polychromic("finetune", *run_arguments(task, count, folder, seed))
        polychromic("evaluate", str(folder), "--attempts", ATTEMPTS)
        return time.perf_counter() - began

    run("warm-up", 0, 3)
    alone = [run(f"run-{seed}", seed) for seed in range(ALONE)]
    with_one, with_two = sweep("one", 1), sweep("two", 2)
    return {
        "command": "python -m benchmarks.sweeps",
        "task": task,
        "cells": CELLS,
        "iterations": iterations,
        "seconds_alone": [round(seconds, 2) for seconds in alone],
        "seconds_one_worker": round(with_one, 2),
        "seconds_two_workers": round(with_two, 2),
        "overhead": round(with_one / (sum(alone) / ALONE * CELLS) - 1, 4),
        "speedup_of_two_workers": round(with_one / with_two, 3),
    }


if __name__ == "__main__":
    sys.exit(main())

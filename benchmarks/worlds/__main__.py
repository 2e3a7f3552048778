"""`make bench-worlds`: every contender in a process of its own, all on one core, round after round in one run.

The best repetition of each counts, so that other work on the machine does not. Writes benchmarks/results/worlds.json,
docs/figures/worlds.svg and prints the table of docs/worlds.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from benchmarks.worlds.contenders import CONTENDERS, TASKS, first_call
from benchmarks.worlds.report import plot, table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/worlds.json"
FIGURE = ROOT / "docs/figures/worlds.svg"
Case = tuple[str, str, int]  # contender, task, number of worlds
PEERS = ("minigrid", "envpool", "navix", "xminigrid", "jax", "numba", "numpy")

# contender, tasks, numbers of worlds
PLAN = [
    ("polychromic", list(TASKS), [136, 1024]),
    ("polychromic, codes", list(TASKS), [136, 1024]),
    ("minigrid", list(TASKS), [1]),
    ("EnvPool", list(TASKS), [136, 1024]),
    ("NAVIX", ["fourrooms"], [136]),
    ("XLand-MiniGrid", ["fourrooms"], [136]),
    ("polychromic, fork", list(TASKS), [136, 1024]),
    ("minigrid, fork", list(TASKS), [1]),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often every contender is measured")
    parser.add_argument("--seconds", type=float, default=2.0, help="processor seconds of one measurement")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to run on")
    parser.add_argument("--measure", nargs=3, metavar=("CONTENDER", "TASK", "WORLDS"), help=argparse.SUPPRESS)
    parser.add_argument("--first-call", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    if options.first_call:
        print(first_call())
    elif options.measure:
        contender, task, worlds = options.measure
        print(json.dumps(measure(contender, task, int(worlds), options.seconds)))
    else:
        run(options)


def measure(contender: str, task: str, worlds: int, seconds: float) -> list[float]:
    """Counts per second of each repetition; the first one, which compiles and warms up, is skipped."""
    rates: list[float] = []
    spent = 0.0
    for repetition, (count, took) in enumerate(CONTENDERS[contender](task, worlds)):
        if repetition:
            rates.append(count / took)
            spent += took
        if spent > seconds and len(rates) >= 5:
            return rates
    return rates


def run(options: argparse.Namespace) -> None:
    """Measure everything, round after round; the results so far are written after each."""
    first: dict[str, list[float]] = {"cold": [], "cached": []}
    cases = [(name, task, worlds) for name, tasks, sizes in PLAN for task, worlds in itertools.product(tasks, sizes)]
    rates: dict[Case, list[float]] = {case: [] for case in cases}
    for done in range(options.rounds):
        for name, seconds in first_calls(options).items():
            first[name] += seconds
        for case in cases:
            rates[case] += json.loads(_child(options, "--measure", *map(str, case)))
            print(f"{case[0]:20} {case[1]:10} {case[2]:5d} {max(rates[case]):14,.0f} a second", flush=True)
        write(rates, done + 1, {name: min(seconds) for name, seconds in first.items()})


def first_calls(options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of the first step and observation of a process, with numba's cache empty and with it filled."""
    cold, cached = [], []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(float(_child(options, "--first-call", NUMBA_CACHE_DIR=cache)))
            cached.append(float(_child(options, "--first-call", NUMBA_CACHE_DIR=cache)))
    return {"cold": cold, "cached": cached}


def write(rates: dict[Case, list[float]], rounds: int, first_call_seconds: dict[str, float]) -> None:
    """Keep the results as JSON and as a figure, and print the table."""
    results = {
        "command": "make bench-worlds",
        "rounds": rounds,
        "machine": {"processor": _processor(), "cores used": 1, "python": platform.python_version()},
        "versions": {name: version(name) for name in PEERS},
        "rates": [
            {
                "contender": name,
                "task": task,
                "worlds": worlds,
                "per_second": round(max(measured)),
                "median_per_second": round(statistics.median(measured)),
            }
            for (name, task, worlds), measured in rates.items()
        ],
        "first_call_seconds": first_call_seconds,
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    plot(results, FIGURE)
    print(table(results), flush=True)


def _child(options: argparse.Namespace, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "benchmarks.worlds", "--core", str(options.core)]
    command += ["--seconds", str(options.seconds), *arguments]
    shown = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, cwd=ROOT
    )
    if shown.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{shown.stderr}")
    return shown.stdout.strip().splitlines()[-1]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()

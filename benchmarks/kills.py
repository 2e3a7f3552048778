"""A run that is killed again and again must end in the same bytes as one that never was.

    python -m benchmarks.kills [--kills 20] [--iterations 60] [--out FILE]

Starts `polychromic finetune fourrooms`, sends SIGKILL at random moments (as it starts, compiles, collects, updates or
writes), checks after every kill that the folder can still be read, lets the last start finish, and compares every file
with those of an undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from polychromic.runs import read_json, read_lines

COMPARED = (
    "config.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "policy.safetensors",
    "checkpoint.safetensors",
    "done.json",
)


def main() -> int:
    """Kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--method", default="poly-ppo-ucb")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/kills.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = soak(Path(scratch), options.kills, options.iterations, options.method)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if result["same_bytes"] else 1


def soak(scratch: Path, kills: int, iterations: int, method: str) -> dict[str, object]:
    """The whole story, in a folder of its own."""
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(scratch / "cache")}

    def command(out: Path) -> list[str]:
        settings = [
            "--iterations",
            str(iterations),
            "--checkpoint-every",
            "5",
            "--evaluate-every",
            "20",
            "--method",
            method,
        ]
        return [sys.executable, "-m", "polychromic.cli", "finetune", "fourrooms", *settings, "--out", str(out)]

    whole, disturbed = scratch / "whole", scratch / "disturbed"
    began = time.perf_counter()
    subprocess.run(command(whole), env=environment, check=True, capture_output=True)
    took = time.perf_counter() - began
    rng = np.random.default_rng(0)
    reached = []
    for _ in range(kills):
        with subprocess.Popen(
            command(disturbed), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                process.wait(timeout=float(rng.uniform(0.0, 0.9 * took)))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        if (disturbed / "config.json").exists():
            read_json(disturbed / "config.json")
        reached.append(len(read_lines(disturbed / "metrics.jsonl")))
    subprocess.run(command(disturbed), env=environment, check=True, capture_output=True)
    same = {name: (whole / name).read_bytes() == (disturbed / name).read_bytes() for name in COMPARED}
    return {
        "command": "python -m benchmarks.kills",
        "kills": kills,
        "iterations": iterations,
        "method": method,
        "iterations_logged_at_each_kill": reached,
        "same_bytes_by_file": same,
        "same_bytes": all(same.values()),
    }


if __name__ == "__main__":
    sys.exit(main())

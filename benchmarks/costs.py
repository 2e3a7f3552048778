"""What a run costs: core seconds and bytes on disk, for every task with a base policy and every method.

    python -m benchmarks.costs [--out FILE] [--tasks goto …]

Iterations are played with the base policy, whose episodes are about the longest of a run. Processor time of one core
is counted, so a busy machine changes little. `python -m reproduction` and docs/scale.md estimate from this file.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from reproduction.costs import COSTS

from polychromic.evaluate.command import evaluate_and_write
from polychromic.evaluate.policy import SWEEP, Choices, evaluate_policy
from polychromic.evaluate.targets import EVALUATION, find_target, world_of
from polychromic.finetuning.advantages import VisitCounts
from polychromic.finetuning.config import make_config
from polychromic.finetuning.loop import evaluate_briefly, finetune, iterate
from polychromic.finetuning.run import LOGS
from polychromic.finetuning.update import init_learner
from polychromic.policies.files import available_policies

METHODS = ("reinforce", "reinforce-ucb", "ppo", "ppo-ucb", "poly-ppo", "poly-ppo-ucb")
TIMED = 3
ATTEMPTS = 160
BYTES_OF_A_VISIT = 16


def timed(call: Callable[[], Any]) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    call()
    return time.process_time() - began


def measure_task(task: str) -> dict[str, Any]:
    """The costs of one task."""
    target = find_target(task)
    world, saved = world_of(target), target.saved
    costs: dict[str, Any] = {"iteration_seconds": {}, "compiling_seconds": {}, "bytes_per_iteration": {}}
    for method in METHODS:
        config = make_config(method, task, iterations=10**6, evaluate_every=0, configurations_per_iteration=1)
        visits = VisitCounts()
        turn = functools.partial(iterate, world, saved, init_learner(saved.params, config), config, visits=visits)
        # The same iterations twice: the first time everything they need is compiled.
        first = [timed(functools.partial(turn, number)) for number in range(TIMED)]
        seen = len(visits.counts) / TIMED
        seconds = [timed(functools.partial(turn, number)) for number in range(TIMED)]
        costs["iteration_seconds"][method] = round(float(np.mean(seconds)), 4)
        costs["compiling_seconds"][method] = round(sum(first) - sum(seconds), 2)  # methods share compiled code
        costs["bytes_per_iteration"][method] = round(seen * BYTES_OF_A_VISIT)
    learner = init_learner(saved.params, make_config("ppo", task))
    brief = make_config("ppo", task)
    costs["brief_evaluation_seconds"] = round(timed(lambda: evaluate_briefly(world, saved, learner, brief, 0)), 3)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        finetune(world, saved, method="ppo", iterations=4, evaluate_every=0, evaluation_rollouts=1, out=folder)
        run = find_target(str(folder))
        path = folder / EVALUATION
        plain = timed(lambda: evaluate_and_write(run, world, path, attempts=ATTEMPTS))
        few = timed(lambda: evaluate_policy(world, saved, attempts=Choices.sweep_attempts, record=False))
        costs["evaluation_seconds"] = round(plain, 2)
        costs["sweep_seconds"] = round(few * len(SWEEP), 2)
        costs["perturbed_seconds"] = 0.0
        if hasattr(world, "free_cells"):
            both = timed(lambda: evaluate_policy(world, saved, attempts=1, record=False, pretrained=saved))
            costs["perturbed_seconds"] = round(both, 2)
        logs = sum((folder / name).stat().st_size for name in LOGS)
        logs += sum(file.stat().st_size for file in (folder / "tensorboard").iterdir())
        costs["log_bytes_per_iteration"] = round(logs / 4)
        files = [file for file in folder.rglob("*") if file.is_file()]
        costs["fixed_bytes"] = sum(file.stat().st_size for file in files) - logs
    return costs


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=COSTS)
    parser.add_argument("--tasks", nargs="*", default=available_policies())
    options = parser.parse_args()
    known = json.loads(options.out.read_text())["tasks"] if options.out.exists() else {}
    for task in options.tasks:
        known[task] = measure_task(task)
        print(task, json.dumps(known[task]), flush=True)
        described = {
            "command": "python -m benchmarks.costs",
            "attempts": ATTEMPTS,
            "versions": {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__},
            "cores": os.cpu_count(),
            "tasks": dict(sorted(known.items())),
        }
        options.out.write_text(json.dumps(described, indent=1) + "\n")


if __name__ == "__main__":
    main()

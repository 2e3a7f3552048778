"""What a run costs: seconds of one core and bytes on disk, for every task with a base policy and every method.

    python -m benchmarks.costs [--out FILE] [--tasks goto …]

Iterations are played with the base policy, whose episodes are about the longest of a run. Processor time of one core
is what is counted, so a busy machine changes little. `python -m reproduction` and docs/scale.md estimate from this
file.
"""

from __future__ import annotations

import argparse
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

from polychromic.envs.protocol import World
from polychromic.evaluate.file import evaluate_to_file
from polychromic.evaluate.policy import TEMPERATURES, Choices, evaluate_policy
from polychromic.evaluate.targets import EVALUATION, find_target, world_of
from polychromic.finetuning.config import Config, make_config
from polychromic.finetuning.loop import ActiveRun, evaluate_briefly, finetune, iterate, update_one_by_one
from polychromic.finetuning.run import LOGS, Checkpoint, Unsaved
from polychromic.finetuning.update import init_learner
from polychromic.policies.files import SavedPolicy, available_policies

METHODS = ("reinforce", "reinforce-ucb", "ppo", "ppo-ucb", "poly-ppo", "poly-ppo-ucb")
TIMED = 3
ATTEMPTS = 160
BYTES_OF_A_VISIT = 16


def timed(call: Callable[[], Any]) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    call()
    return time.process_time() - began


def begun(saved: SavedPolicy, config: Config) -> ActiveRun:
    """A run before its first iteration, kept in memory."""
    return ActiveRun(config, Unsaved(), Checkpoint(0, init_learner(saved.params, config), {}))


def iterations(world: World, saved: SavedPolicy, config: Config, count: int = TIMED) -> dict[str, float]:
    """Seconds of an iteration, seconds of compiling, and bytes that an iteration adds to a checkpoint."""
    active = begun(saved, config)
    learner = active.learner

    def turn(number: int) -> float:
        active.learner, active.iteration = learner, number
        return timed(lambda: iterate(world, saved, [active], update_one_by_one, None))

    # The same iterations twice: the first time everything they need is compiled.
    first = [turn(number) for number in range(count)]
    seen = len(active.visits.counts) / count
    seconds = [turn(number) for number in range(count)]
    return {
        "iteration_seconds": round(float(np.mean(seconds)), 4),
        "compiling_seconds": round(sum(first) - sum(seconds), 2),  # what one method needs serves others
        "bytes_per_iteration": round(seen * BYTES_OF_A_VISIT),
    }


def measure_task(task: str) -> dict[str, Any]:
    """All about one task."""
    target = find_target(task)
    world, saved = world_of(target), target.saved
    found: dict[str, Any] = {"iteration_seconds": {}, "compiling_seconds": {}, "bytes_per_iteration": {}}
    for method in METHODS:
        config = make_config(
            method, task, preset="vines", iterations=10**6, evaluate_every=0, configurations_per_iteration=1
        )
        for name, value in iterations(world, saved, config).items():
            found[name][method] = value
    brief = begun(saved, make_config("ppo", task))
    found["brief_evaluation_seconds"] = round(timed(lambda: evaluate_briefly(world, saved, brief)), 3)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        finetune(world, saved, method="ppo", iterations=4, evaluate_every=0, evaluation_rollouts=1, out=folder)
        run = find_target(str(folder))
        path = folder / EVALUATION
        plain = timed(lambda: evaluate_to_file(run, world, path, command="", attempts=ATTEMPTS))
        few = timed(lambda: evaluate_policy(world, saved, attempts=Choices.scan_attempts, record=False))
        found["evaluation_seconds"] = round(plain, 2)
        found["sweep_seconds"] = round(few * len(TEMPERATURES), 2)
        found["perturbed_seconds"] = 0.0
        if world.can_start_elsewhere:
            both = timed(lambda: evaluate_policy(world, saved, attempts=1, record=False, pretrained=saved))
            found["perturbed_seconds"] = round(both, 2)
        logs = sum((folder / name).stat().st_size for name in LOGS)
        logs += sum(file.stat().st_size for file in (folder / "tensorboard").iterdir())
        found["log_bytes_per_iteration"] = round(logs / 4)
        files = [file for file in folder.rglob("*") if file.is_file()]
        found["fixed_bytes"] = sum(file.stat().st_size for file in files) - logs
    return found


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

"""The estimated cost of cells, from measured costs of iterations, evaluations and files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polychromic.sweep.cells import PRETRAINED, Cell
from polychromic.sweep.progress import Status

COSTS = Path(__file__).with_name("costs.json")


@dataclass(frozen=True)
class Estimate:
    """Core seconds, bytes on disk, and the tasks that were not measured and count as the most expensive one."""

    core_seconds: float
    bytes: int
    unknown: tuple[str, ...] = ()


def measured() -> dict[str, Any]:
    """The measured costs (`python -m benchmarks.costs` measures them)."""
    return dict(json.loads(COSTS.read_text(encoding="utf-8")))


def estimate(cells: Iterable[Cell], costs: Mapping[str, Any]) -> Estimate:
    """The sum over cells."""
    counted = list(cells)
    seconds = sum(cell_seconds(cell, costs) for cell in counted)
    unknown = {cell.task for cell in counted} - costs["tasks"].keys()
    return Estimate(float(seconds), sum(cell_bytes(cell, costs) for cell in counted), tuple(sorted(unknown)))


def cell_seconds(cell: Cell, costs: Mapping[str, Any]) -> float:
    """One cell: its iterations, the brief evaluations among them, and the evaluation at its end."""
    task = _of_task(cell.task, costs)
    scale = cell.evaluation.attempts / costs["attempts"]
    seconds = task["evaluation_seconds"] * scale
    if cell.evaluation.perturbed:
        seconds += task["perturbed_seconds"] * (1 + cell.evaluation.greedy)
    if cell.method == PRETRAINED:
        # The scan of temperatures, and a full evaluation at the best one.
        return float(seconds + task["sweep_seconds"] + task["evaluation_seconds"] * scale)
    config = cell.config()
    seconds += config.kept_policies * task["evaluation_seconds"] * scale
    if cell.evaluation.along_the_way and cell.evaluation.perturbed:
        seconds += config.kept_policies * task["perturbed_seconds"]
    brief = 1 + (config.iterations - 1) // config.evaluate_every if config.evaluate_every else 1
    seconds += brief * task["brief_evaluation_seconds"] * config.evaluation_rollouts / 32
    # Without vines all trajectories are whole, and cost what those of PPO do.
    like = cell.method if config.forks_per_rollout else cell.method.replace("poly-ppo", "ppo")
    pace = _of_method(task["iteration_seconds"], like) * config.configurations_per_iteration
    return float(seconds + config.iterations * pace * config.budget / 136)


def scan_seconds(cell: Cell, temperatures: int, attempts: int, costs: Mapping[str, Any]) -> float:
    """Seconds of scoring at this many temperatures."""
    return float(_of_task(cell.task, costs)["evaluation_seconds"] * temperatures * attempts / costs["attempts"])


def cell_bytes(cell: Cell, costs: Mapping[str, Any]) -> int:
    """Bytes of one cell; UCB's counts as if every iteration saw as many new states as the first ones."""
    task = _of_task(cell.task, costs)
    if cell.method == PRETRAINED:
        return int(task["fixed_bytes"])
    config = cell.config()
    grows = task["log_bytes_per_iteration"]
    if cell.method.endswith("-ucb"):
        grows += _of_method(task["bytes_per_iteration"], cell.method) * config.configurations_per_iteration
    # A kept policy takes about a quarter of what a run stores anyway: its policy, its checkpoint, an evaluation.
    kept = task["fixed_bytes"] * config.kept_policies // 4
    return int(task["fixed_bytes"] + kept + grows * cell.iterations)


def pace_here(cells: Sequence[Cell], statuses: Sequence[Status], costs: Mapping[str, Any]) -> float:
    """How much longer iterations take here than where costs were measured, from cells that have run; 1 if none has."""
    expected = actual = 0.0
    for cell, status in zip(cells, statuses, strict=True):
        if status.iteration_seconds and cell.task in costs["tasks"] and cell.method != PRETRAINED:
            config = cell.config()
            share = config.configurations_per_iteration * config.budget / 136
            expected += _of_method(costs["tasks"][cell.task]["iteration_seconds"], cell.method) * share
            actual += status.iteration_seconds
    return actual / expected if expected else 1.0


def _of_task(name: str, costs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The costs of a task, or of the one with the most expensive iterations if it was not measured."""
    known: Mapping[str, Mapping[str, Any]] = costs["tasks"]
    return known.get(name) or max(known.values(), key=lambda task: max(task["iteration_seconds"].values()))


def _of_method(values: Mapping[str, float], method: str) -> float:
    """The value of a method, or the largest if it was not measured."""
    return float(values.get(method, max(values.values())))

"""Triangle discovery by temperature: the metrics of a policy's answers, from sharp to flat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polychromic.files import read_json, write_json

POINTS = "temperatures.json"
ATTEMPTS = 1000  # at each graph and temperature


def score_cell(folder: Path, task: str, policy: str, temperatures: Sequence[float], seed: int) -> None:
    """Score the policy of a finished cell, one temperature at a time; existing scores are kept."""
    import polychromic as poly

    path = folder / POINTS
    points = read_json(path)["points"] if path.exists() else []
    finished = folder / "policy.safetensors"
    saved = poly.load_policy(finished if finished.exists() else policy or task)
    world = poly.make(task, seeds=saved.info.configurations)
    for number in range(len(points), len(temperatures)):
        rng = np.random.default_rng([seed, 5, number])
        points = [*points, _point(world, saved, temperatures[number], rng)]
        write_json(path, {"attempts": ATTEMPTS, "points": points})


def _point(world: Any, saved: Any, temperature: float, rng: np.random.Generator) -> dict[str, float]:
    """Strict metrics of a policy at a temperature: means over graphs."""
    from polychromic.finetuning.attempts import attempt_all
    from polychromic.policies.inference import Evaluator
    from polychromic.tasks.triangle.discoveries import at_k, discoveries

    evaluator = Evaluator(saved.policy, saved.params)
    attempts = attempt_all(evaluator, world, rng, attempts=ATTEMPTS, temperature=temperature)
    counts = discoveries(attempts, saved.info.configurations)
    return {
        "temperature": temperature,
        "validity": float(np.mean(counts["strict"]["validity"])),
        "distinct_of_100": round(at_k(counts, "diff_at_k", 100), 2),
        "distinct_of_1000": round(at_k(counts, "diff_at_k", ATTEMPTS), 2),
        "creative_of_100": round(at_k(counts, "creative_at_k", 100), 3),
        "creative_of_1000": round(at_k(counts, "creative_at_k", ATTEMPTS), 2),
        "creativity_pass_at_100": round(at_k(counts, "creativity_pass_at_k", 100), 4),
    }

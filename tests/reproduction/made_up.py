"""Results that nobody measured, for tests of what is made of results."""

import numpy as np
from reproduction.plan import identity
from reproduction.records import resolved

from polychromic.sweep.cells import PRETRAINED


def made_up(cell, chance=0.5, *, configurations=6, attempts=160, policies=5, best=False, strategies=5.0):
    """A result of a cell whose configurations are solved with about this chance."""
    rng = np.random.default_rng([cell.seed, round(1000 * chance)])
    chances = np.clip(chance + 0.05 * rng.normal() + np.linspace(-0.2, 0.2, configurations), 0.01, 0.99)
    base = cell.method == PRETRAINED
    successes = rng.binomial(attempts, chances, (1 if base else policies, configurations))
    mean = successes.mean(axis=0) / attempts
    record = {
        **identity(cell),
        **resolved(cell),
        **({"best": True, "temperature": 0.2} if best else {}),
        "commits": ["0123abcd"],
        "cpu_seconds": {"training": 60.0, "evaluation": 30.0},
        "attempts": attempts,
        "successes": successes.tolist(),
        "reward_0.5": (0.8 * mean).tolist(),
        "reward_0.9": (0.6 * mean).tolist(),
        "entropy": [0.3] * configurations,
        "distinct_strategies": [3.0] * configurations,
        "distinct_successful_strategies": [2.0] * configurations,
        "perturbed": {"starts": list(range(1, configurations + 1)), "success": mean.tolist()},
        "greedy": (mean > 0.5).astype(float).tolist(),
        "greedy perturbed": {"starts": list(range(1, configurations + 1)), "success": (0.9 * mean).tolist()},
    }
    if not base:
        rising = np.linspace(0.3, chance, 20)
        record |= {
            "iterations": cell.iterations,
            "trajectories": 1000,
            "steps": 50_000,
            "rollouts": 32,
            "averaged_after": [1, 2, 3, 4, 5],
            "curve": {
                "iteration": list(range(1, 21)),
                "trajectories": list(range(50, 1050, 50)),
                "steps": list(range(2500, 52_500, 2500)),
                "success": rising.tolist(),
                "coverage": rising.tolist(),
                "pass@8": (0.5 + rising / 2).tolist(),
                "distinct_successful_strategies": np.linspace(9, strategies, 20).tolist(),
            },
        }
    if cell.evaluation.along_the_way:
        points = cell.config().kept_policies + 1
        record["along"] = [
            {
                "iteration": cell.iterations * (number + 1) // points,
                **{name: record[name] for name in ("attempts", "perturbed", "entropy")},
                "successes": [(successes[-1] * min(1.0, (number + 2) / points)).astype(int).tolist()],
            }
            for number in range(points)
        ]
    return record


def searched(cell, score):
    """A result of a run of the search that ends with this success and nothing else."""
    curve = {"iteration": [1, 2, 3, 4], "success": [0.9, score, score, score], "coverage": [0.0] * 4}
    return {**identity(cell), **resolved(cell), "commits": [], "cpu_seconds": {"training": 1.0}, "curve": curve}

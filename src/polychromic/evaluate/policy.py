"""One policy, evaluated: everything that a comparison needs to know about it, in JSON's types."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.errors import UserError
from polychromic.finetuning.attempts import attempt_all
from polychromic.evaluate.perturbed import perturbed_starts, score_starts
from polychromic.evaluate.recordings import legend, record
from polychromic.evaluate.scores import PENALTIES, ROOM_SETS, rounded, summarise
from polychromic.policies.files import SavedPolicy
from polychromic.policies.inference import Evaluator
from polychromic.policies.tensors import parameters_hash
from polychromic.tasks.grids.exact import FOUR_ROOMS, exact_scores
from polychromic.tasks.triangle.discoveries import discoveries

FORMAT = "polychromic-evaluation-1"
SWEEP = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)
MOST_ATTEMPTS = 100_000  # at each configuration, all of which are in memory at once


@dataclass(frozen=True)
class Choices:
    """How a policy is evaluated."""

    attempts: int = 160
    """Attempts at each configuration; pass@k is estimated for k = 1 up to this."""
    temperature: float = 1.0
    """Sampling temperature."""
    sweep: tuple[float, ...] = ()
    """Temperatures to try with fewer attempts; the best by success is then evaluated in full with fresh attempts."""
    sweep_attempts: int = 32
    """Attempts at each configuration and temperature of the sweep."""
    seed: int = 0
    """Seed of everything random."""
    record: bool = True
    """Whether to keep an episode of every distinct strategy for the report's viewer (grid worlds only)."""

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise UserError(f"attempts is {self.attempts}; it must be between 1 and {MOST_ATTEMPTS}")
        if self.sweep_attempts < 1:
            raise UserError(f"sweep_attempts is {self.sweep_attempts}; it must be at least 1")
        if self.seed < 0:
            raise UserError(f"seed is {self.seed}; it must be 0 or more")
        for temperature in (self.temperature, *self.sweep):
            if not 0 <= temperature < float("inf"):
                raise UserError(f"temperature is {temperature}; it must be a number from 0 on")


def evaluate_policy(
    world: Any,
    saved: SavedPolicy,
    *,
    pretrained: SavedPolicy | None = None,
    watch: Callable[[str], None] | None = None,
    **choices: Any,
) -> dict[str, Any]:
    """Success, reward, pass@k, coverage, entropy and strategies of a policy on every configuration of a world.

    Args:
        world: any forkable world; a reward above 0 counts as success.
        saved: the policy (`polychromic.load_policy`, or the `policy` of a result of `polychromic.finetune`).
        pretrained: if given, the policy is also scored from perturbed starts in the rooms that this one visits.
        watch: called with a line before each part.
        choices: fields of `polychromic.evaluate.policy.Choices`: attempts, temperature, sweep, sweep_attempts,
            seed, record.

    Returns:
        What `polychromic evaluate` writes; docs/evaluation.md explains every entry.
    """
    chosen = Choices(**choices)
    say = watch or (lambda _: None)
    evaluator = Evaluator(saved.policy, saved.params, getattr(world, "mission_tokens", None))
    found: dict[str, Any] = {
        **_description(world, saved, chosen),
        "result": _at(world, evaluator, chosen, chosen.temperature, (0,), say),
    }
    if chosen.sweep:
        found |= _best_temperature(world, evaluator, chosen, say)
    if pretrained is not None:
        say("perturbed starts")
        base = Evaluator(pretrained.policy, pretrained.params, getattr(world, "mission_tokens", None))
        starts = perturbed_starts(world, base, seed=chosen.seed)
        for name in [name for name in ("result", "best") if name in found]:
            found[name]["perturbed"] = {
                **score_starts(
                    evaluator,
                    world,
                    starts,
                    np.random.default_rng([chosen.seed, 4]),
                    temperature=found[name]["temperature"],
                    seed=chosen.seed,
                ),
                "pretrained": parameters_hash(pretrained.params),
            }
    return found


def _at(
    world: Any, evaluator: Evaluator, chosen: Choices, temperature: float, stream: tuple[int, ...], say: Any
) -> dict[str, Any]:
    """Everything at one temperature."""
    say(f"{world.num_configurations} × {chosen.attempts} attempts at temperature {temperature:g}")
    rng = np.random.default_rng([chosen.seed, *stream])
    attempts = attempt_all(evaluator, world, rng, attempts=chosen.attempts, temperature=temperature)
    found = summarise(attempts, horizons_of(world), temperature=temperature, seed=chosen.seed)
    if temperature > 0 and _exactly_solvable(world, evaluator):
        say("exact values by dynamic programming")
        found["exact"] = exact_figures(world, evaluator, temperature, chosen.attempts)
    if getattr(world, "task", "") == "triangle":
        found["triangle"] = discoveries(attempts, world.seeds)
    if chosen.record and hasattr(world, "grids"):
        found["recordings"] = record(world, attempts)
    return found


def _best_temperature(world: Any, evaluator: Evaluator, chosen: Choices, say: Any) -> dict[str, Any]:
    """Choose on some attempts, evaluate on others: the best of several noisy figures would flatter itself."""
    tried = []
    for number, temperature in enumerate(chosen.sweep):
        say(f"sweep: temperature {temperature:g}")
        rng = np.random.default_rng([chosen.seed, 1, number])
        few = min(chosen.sweep_attempts, chosen.attempts)
        attempts = attempt_all(evaluator, world, rng, attempts=few, temperature=temperature)
        figures = summarise(attempts, horizons_of(world), temperature=temperature, seed=chosen.seed)
        tried.append({name: value for name, value in figures.items() if name != "configurations"})
    best = max(tried, key=lambda figures: figures["success"]["mean"])["temperature"]
    return {"sweep": tried, "best": _at(world, evaluator, chosen, best, (2,), say)}


def exact_figures(world: Any, evaluator: Evaluator, temperature: float, most: int) -> dict[str, Any]:
    """Exact success, rewards and pass@1 … pass@most of a memoryless policy on FourRooms, no sampling."""
    exact = exact_scores(world, evaluator, temperature=temperature)
    # Rewards are linear in the penalty: reward = success − penalty · E[t / H, success].
    time = (exact.success - exact.reward) / world.penalty
    curve = 1.0 - (1.0 - exact.success[:, None]) ** np.arange(1, most + 1)
    return {
        "success": rounded(exact.success.mean()),
        **{f"reward_{penalty}": rounded((exact.success - penalty * time).mean()) for penalty in PENALTIES},
        "success_from_anywhere": rounded(exact.success_from_anywhere.mean()),
        "pass_at_k": np.round(curve.mean(axis=0), 6).tolist(),
        "configurations": np.round(exact.success, 6).tolist(),
    }


def _exactly_solvable(world: Any, evaluator: Evaluator) -> bool:
    plain = getattr(world, "task", "") == FOUR_ROOMS and world.penalty > 0
    return plain and not evaluator.policy.memory_size


def horizons_of(world: Any) -> NDArray[np.int64]:
    """H of each configuration, [tasks]."""
    return np.asarray(getattr(world, "horizons", np.full(world.num_configurations, world.horizon)))


def _description(world: Any, saved: SavedPolicy, chosen: Choices) -> dict[str, Any]:
    made = dict(saved.info.made)
    return {
        "format": FORMAT,
        "task": getattr(world, "task", type(world).__name__),
        "observation": getattr(world, "observation", ""),
        "horizon": int(world.horizon),
        "level_seeds": list(getattr(world, "seeds", ())),
        "missions": list(world.missions),
        "strategies": ROOM_SETS if hasattr(world, "grids") else "strategies",
        "grid_shape": list(getattr(world, "grid_shape", ())),
        "legend": legend() if hasattr(world, "grids") else {},
        "policy": {
            "hash": parameters_hash(saved.params),
            "network": saved.policy.name,
            "method": made.get("config", {}).get("method", "pretrained"),
        },
        "seed": chosen.seed,
        "versions": {
            **{name: importlib.metadata.version(name) for name in ("polychromic", "jax", "numpy", "minigrid")},
            "python": platform.python_version(),
        },
    }

"""One policy, evaluated: everything that a comparison needs to know about it, in JSON's types."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polychromic.envs.protocol import World, check_is_world, task_name
from polychromic.errors import UserError
from polychromic.evaluate.perturbed import perturbed_starts, score_starts
from polychromic.evaluate.recordings import record, viewer_of
from polychromic.evaluate.scores import summarise
from polychromic.files import write_json
from polychromic.finetuning.attempts import Attempts, attempt_all
from polychromic.finetuning.loop import as_saved
from polychromic.policies.files import SavedPolicy
from polychromic.policies.fit import check_fits
from polychromic.policies.inference import Evaluator
from polychromic.policies.protocol import Params, Policy
from polychromic.policies.tensors import parameters_hash

FORMAT = "polychromic-evaluation-1"
TEMPERATURES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)
MOST_ATTEMPTS = 100_000  # at each configuration, all of which are in memory at once


@dataclass(frozen=True)
class Choices:
    """How a policy is evaluated."""

    attempts: int = 160
    """Attempts at each configuration; pass@k is estimated for k = 1 up to this."""
    temperature: float = 1.0
    """Sampling temperature."""
    temperatures: tuple[float, ...] = ()
    """Temperatures to try with fewer attempts; the best by success, or by return where success is not known, is then
    evaluated in full with fresh attempts."""
    scan_attempts: int = 32
    """Attempts at each configuration and temperature of the scan."""
    seed: int = 0
    """Seed of everything random."""
    record: bool = True
    """Whether to keep an episode of every distinct strategy for the report's viewer."""

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MOST_ATTEMPTS:
            raise UserError(f"attempts is {self.attempts}; it must be between 1 and {MOST_ATTEMPTS}")
        if self.scan_attempts < 1:
            raise UserError(f"scan_attempts is {self.scan_attempts}; it must be at least 1")
        if self.seed < 0:
            raise UserError(f"seed is {self.seed}; it must be 0 or more")
        for temperature in (self.temperature, *self.temperatures):
            if not 0 <= temperature < float("inf"):
                raise UserError(f"temperature is {temperature}; it must be at least 0")


def evaluate_policy(
    world: World,
    policy: SavedPolicy | tuple[Policy, Params],
    *,
    pretrained: SavedPolicy | None = None,
    watch: Callable[[str], None] | None = None,
    out: Path | str | None = None,
    **choices: Any,
) -> dict[str, Any]:
    """Success, return, pass@k, coverage, entropy and strategies of a policy on every configuration of a world.

    Where the world does not say which episodes succeed, success, pass@k and coverage are absent and the return leads.

    Args:
        world: any world.
        policy: `polychromic.load_policy`, the `policy` of a result of `polychromic.finetune`, or your own network as
            (`Policy`, parameters).
        pretrained: if given, the policy is also scored from perturbed starts in the places that this one visits.
        watch: called with a line before each part.
        out: a file for the evaluation; evaluation.json in the folder of a run is where reports look for it.
        choices: fields of `polychromic.evaluate.policy.Choices`: attempts, temperature, temperatures, scan_attempts,
            seed, record.

    Returns:
        What `polychromic evaluate` writes; docs/evaluation.md explains every entry.
    """
    attempts = world.spec.attempts if world.spec else Choices.attempts
    chosen = Choices(**{"attempts": attempts, **choices})
    say = watch or (lambda _: None)
    saved = as_saved(policy)
    check_is_world(world)
    check_fits(saved, world, other_task=True)
    evaluator = Evaluator(saved.policy, saved.params, world.tables())
    result, played = _at(world, evaluator, chosen, chosen.temperature, (0,), say)
    evaluation: dict[str, Any] = {**_description(world, saved, chosen), "result": result}
    to_record = [(result, played)]
    if chosen.temperatures:
        tried, best, played = _best_temperature(world, evaluator, chosen, say)
        evaluation |= {"sweep": tried, "best": best}
        to_record.append((best, played))
    if pretrained is not None:
        say("perturbed starts")
        base = Evaluator(pretrained.policy, pretrained.params, world.tables())
        starts = perturbed_starts(world, base, seed=chosen.seed)
        for part in [evaluation[name] for name in ("result", "best") if name in evaluation]:
            rng = np.random.default_rng([chosen.seed, 4])
            scored = score_starts(evaluator, world, starts, rng, temperature=part["temperature"], seed=chosen.seed)
            part["perturbed"] = {**scored, "pretrained": parameters_hash(pretrained.params)}
    if chosen.record:
        say("episodes to look at")
        for part, attempts_made in to_record:  # last of all, as a replay draws from the noise of a world
            part["recordings"] = record(world, attempts_made)
    if out is not None:
        write_json(Path(out), evaluation, indent=None)
    return evaluation


def _at(
    world: World, evaluator: Evaluator, chosen: Choices, temperature: float, stream: tuple[int, ...], say: Any
) -> tuple[dict[str, Any], Attempts]:
    """Everything at one temperature, and the attempts behind it."""
    say(f"{world.num_configurations} × {chosen.attempts} attempts at temperature {temperature:g}")
    rng = np.random.default_rng([chosen.seed, *stream])
    attempts = attempt_all(evaluator, world, rng, attempts=chosen.attempts, temperature=temperature)
    measured = summarise(attempts, world, temperature=temperature, seed=chosen.seed)
    for metric in world.spec.metrics if world.spec else ():
        say(metric.name)
        value = metric.measure(world, evaluator, attempts, temperature)
        if value is not None:
            measured[metric.name] = _checked_metric(metric.name, value, measured)
    return measured, attempts


def _checked_metric(name: str, value: Any, measured: Mapping[str, Any]) -> Any:
    """A metric of a task, refused before hours of evaluation are lost if it cannot be written."""
    if name in measured:
        raise UserError(f"metric is {name!r}, which every evaluation has already; give it another name")
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UserError(f"metric {name!r} is not JSON ({error}); return plain numbers, lists and dicts") from error


def _best_temperature(
    world: World, evaluator: Evaluator, chosen: Choices, say: Any
) -> tuple[list[dict[str, Any]], dict[str, Any], Attempts]:
    """Choose on some attempts, evaluate on others: the best of several noisy numbers would flatter itself."""
    tried = []
    for number, temperature in enumerate(chosen.temperatures):
        say(f"scan: temperature {temperature:g}")
        rng = np.random.default_rng([chosen.seed, 1, number])
        few = min(chosen.scan_attempts, chosen.attempts)
        attempts = attempt_all(evaluator, world, rng, attempts=few, temperature=temperature)
        measured = summarise(attempts, world, temperature=temperature, seed=chosen.seed)
        tried.append({name: value for name, value in measured.items() if name != "configurations"})
    measure = "success" if all("success" in measured for measured in tried) else "return"
    best = max(tried, key=lambda measured: measured[measure]["mean"])["temperature"]
    return tried, *_at(world, evaluator, chosen, best, (2,), say)


def _description(world: World, saved: SavedPolicy, chosen: Choices) -> dict[str, Any]:
    made = dict(saved.info.made)
    return {
        "format": FORMAT,
        "task": task_name(world),
        "observation": world.describe().get("observation", ""),
        "horizon": int(world.horizon),
        "level_seeds": [int(seed) for seed in world.level_seeds],
        "missions": list(world.missions),
        "strategies": world.strategies,
        "viewer": viewer_of(world),
        "grid_shape": [],
        "legend": {},
        **world.scenery(),
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

"""Runs of the gallery: what is missing is run, a stopped run resumes; results/gallery.json keeps what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from examples.gallery.studies import ATTEMPTS, CANDIDATES, COMMON, ENOUGH, SEARCH_SEED, SEEDS, Study, counted

import polychromic as poly
from polychromic.files import lock_file, read_json, write_text
from polychromic.finetuning.attempts import attempt_all

PRETRAINED = "pretrained"
Records = dict[str, dict[str, Any]]


def run_study(study: Study, runs: Path, results: Path) -> None:
    """Search and final runs of a study; each is stored as soon as it is done."""
    world = study.world()
    folder = runs / study.name
    base = _base(study, world, folder / "base.safetensors")
    _store(results, study, PRETRAINED, {}, 0, "final", lambda: _measured(study, world, base))
    for row, candidates in CANDIDATES.items():
        for settings in candidates:
            _run(study, world, base, row, settings, SEARCH_SEED, "search", folder, results)
        chosen = best_settings(read(results), study.name, row)
        for seed in SEEDS:
            _run(study, world, base, row, chosen, seed, "final", folder, results)


def best_settings(records: Records, study: str, row: str) -> dict[str, Any]:
    """Of the settings that succeed often enough, those with the most strategies; if none does, the most successful."""
    searched = [one for one in records.values() if (one["study"], one["row"], one["role"]) == (study, row, "search")]
    good = [one for one in searched if one["success"] >= ENOUGH]
    best = max(good, key=lambda one: one["strategies"]) if good else max(searched, key=lambda one: one["success"])
    return dict(best["settings"])


def read(results: Path) -> Records:
    """All that is stored."""
    return read_json(results, dict[str, dict[str, Any]]) if results.exists() else {}  # type: ignore[no-any-return]


def _run(
    study: Study,
    world: poly.World,
    base: Any,
    row: str,
    settings: Mapping[str, Any],
    seed: int,
    role: str,
    folder: Path,
    results: Path,
) -> None:
    def train() -> dict[str, Any]:
        out = folder / key_of(study, row, settings, seed)
        result = poly.finetune(
            world, base, preset="vines", **{**COMMON, **study.settings, **settings}, seed=seed, out=out
        )
        played = np.cumsum([line["trajectories"] for line in result.metrics])
        curve = [
            [int(played[line["iteration"] - 1]), line["success"], line["distinct_successful_strategies"]]
            for line in result.evaluations
        ]
        return {**_measured(study, world, result.policy), "curve": curve, "steps": int(_steps(result.metrics))}

    _store(results, study, row, settings, seed, role, train)


def _steps(metrics: Sequence[Mapping[str, Any]]) -> int:
    return sum(line["steps"] for line in metrics)


def key_of(study: Study, row: str, settings: Mapping[str, Any], seed: int) -> str:
    """A name of a run, for folders and results."""
    text = json.dumps([{**COMMON, **study.settings, **settings}, row], sort_keys=True)
    return f"{study.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}-{seed}"


def _store(
    results: Path, study: Study, row: str, settings: Mapping[str, Any], seed: int, role: str, measure: Any
) -> None:
    key = key_of(study, row, settings, seed)
    if key in read(results):
        return
    found = measure()
    print(
        f"{study.name}, {row}, {settings}, seed {seed}: {found['success']:.3f}, {found['strategies']:.1f}", flush=True
    )
    record = {"study": study.name, "row": row, "settings": dict(settings), "seed": seed, "role": role, **found}
    with lock_file(results.with_name(f".{results.name}.lock"), wait=True):  # other studies may be running
        records = sorted({**read(results), key: record}.items())
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in records)
        write_text(results, f"{{\n{lines}\n}}\n")


def _base(study: Study, world: poly.World, path: Path) -> Any:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        poly.save_policy(path, study.base(world))
    return poly.load_policy(path)


def _measured(study: Study, world: poly.World, policy: Any) -> dict[str, Any]:
    """Success and strategies where it was trained, and success where something has changed."""
    result = poly.evaluate_policy(world, policy, attempts=ATTEMPTS)["result"]
    changed = [poly.evaluate_policy(one, policy, attempts=64)["result"] for one in study.changed().values()]
    return {
        "success": result["success"]["mean"],
        "strategies": result["distinct_successful_strategies"]["mean"],
        "changed": float(np.mean([one["success"]["mean"] for one in changed])),
        "changed_pass@8": float(np.mean([_pass_at(one, 8) for one in changed])),
        "visits": _visits(study, policy),
    }


def _pass_at(result: Mapping[str, Any], k: int) -> float:
    return float(result["pass_at_k"]["mean"][k - 1])


def _visits(study: Study, policy: Any) -> list[list[float]]:
    """How often each cell of the picture is visited."""
    world = study.seen_from()
    attempts = attempt_all(poly.Evaluator(policy.policy, policy.params), world, np.random.default_rng(0), attempts=64)
    visits = np.zeros((len(attempts), study.shape[0] * study.shape[1]), bool)
    for attempt in range(len(attempts)):
        visits[attempt, attempts.visited(attempt)] = True
    return counted(visits, study.shape)

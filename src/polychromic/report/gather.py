"""Runs and evaluations on disk -> what a report compares. One that cannot be read costs a line, not the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.evaluate.policy import FORMAT
from polychromic.evaluate.targets import EVALUATION, described_run
from polychromic.runs import read_json, read_lines

FIGURES = ("success", "reward_0.5", "reward_0.9", "coverage", "entropy", "distinct_strategies")
METHOD_ORDER = ("pretrained", "reinforce", "reinforce-ucb", "ppo", "ppo-ucb", "poly-ppo", "poly-ppo-ucb")


@dataclass(frozen=True)
class Entry:
    """One run or one evaluated policy."""

    name: str
    task: str  # the Gymnasium id
    horizon: int
    level_seeds: tuple[int, ...]
    method: str
    settings: dict[str, Any] = field(default_factory=dict)  # of a run, without its seed
    seed: int | None = None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    evaluation: dict[str, Any] | None = None

    @property
    def comparison(self) -> tuple[Any, ...]:
        """Only what was done on the same configurations and horizon can be compared."""
        return self.task, self.horizon, self.level_seeds


def gather(paths: Iterable[str | Path]) -> tuple[list[Entry], list[str]]:
    """The entries of all run directories and evaluation files, and a line about everything that is amiss."""
    entries, problems = [], []
    for path in map(Path, paths):
        try:
            entry, remarks = _run(path) if path.is_dir() else (_evaluation_file(path), [])
        except UserError as error:
            problems.append(f"left out: {error}")
            continue
        entries.append(entry)
        problems += remarks
    if not entries:
        raise UserError("; ".join(problems) or "RUNS is empty; give run directories and evaluation files")
    return entries, problems


def _run(folder: Path) -> tuple[Entry, list[str]]:
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is not a run directory: it has no config.json")
    described = described_run(folder)
    remarks = []
    try:
        metrics, evaluations = read_lines(folder / "metrics.jsonl"), read_lines(folder / "evaluations.jsonl")
        config = dict(described["config"])
        method = str(config["method"])
        [(line["steps"], line["trajectories"], line["iteration"]) for line in metrics]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UserError(f"{folder} cannot be read: its logs are damaged ({error!r})") from error
    evaluation = None
    if (folder / EVALUATION).is_file():
        evaluation = _read_evaluation(folder / EVALUATION)
        if evaluation["level_seeds"] != described["level_seeds"] or evaluation["horizon"] != described["horizon"]:
            remarks.append(f"{folder}: {EVALUATION} is of other configurations than the run and is left out")
            evaluation = None
    else:
        remarks.append(f"{folder} is not evaluated yet: polychromic evaluate {folder}")
    if not metrics and evaluation is None:
        raise UserError(f"{folder} has nothing to show yet: no iteration is complete")
    if not (folder / "done.json").is_file():
        remarks.append(f"{folder} is not complete: {len(metrics)} of {config.get('iterations', '?')} iterations")
    settings = {name: value for name, value in config.items() if name not in ("seed", "method")}
    seeds = tuple(described["level_seeds"])
    entry = Entry(
        name=folder.resolve().name,
        task=described["task"],
        horizon=described["horizon"],
        level_seeds=seeds,
        method=method,
        settings=settings,
        seed=config.get("seed"),
        metrics=metrics,
        evaluations=evaluations,
        evaluation=evaluation,
    )
    return entry, remarks


def _evaluation_file(path: Path) -> Entry:
    if not path.exists():
        raise UserError(f"{path} does not exist")
    found = _read_evaluation(path)
    return Entry(
        name=found["policy"].get("name", path.stem),
        task=found["task"],
        horizon=found["horizon"],
        level_seeds=tuple(found["level_seeds"]),
        method=found["policy"]["method"],
        seed=found["policy"].get("run_seed"),
        evaluation=found,
    )


def _read_evaluation(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f"{path} is not an evaluation (format '{FORMAT}'); polychromic evaluate writes them")
    for name, kind in {"task": str, "level_seeds": list, "horizon": int, "policy": dict, "result": dict}.items():
        if not isinstance(found.get(name), kind):
            raise UserError(f"{path} is damaged: it has no '{name}'")
    for part in ("result", "best"):
        if part in found:
            _check_result(path, part, found[part], len(found["level_seeds"]))
    return found


def _check_result(path: Path, part: str, result: Any, num_tasks: int) -> None:
    """Whether everything that a comparison reads is there, for every configuration."""
    try:
        figures = result["configurations"]
        lengths = {name: len(figures[name]) for name in ("successes", *FIGURES)}
        [result[name] for name in ("attempts", "temperature")]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: '{part}' has no {error}") from error
    wrong = [name for name, length in lengths.items() if length != num_tasks]
    if wrong:
        raise UserError(f"{path} is damaged: '{wrong[0]}' of '{part}' is not about {num_tasks} configurations")

"""Runs and evaluations on disk -> what a report compares. One that cannot be read costs a line, not the report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.evaluate.policy import FORMAT
from polychromic.evaluate.targets import EVALUATION, described_run
from polychromic.files import read_json, read_lines
from polychromic.report.shape import check_shape

FIGURES = (
    "success",
    "reward_0.5",
    "reward_0.9",
    "coverage",
    "entropy",
    "distinct_strategies",
    "distinct_successful_strategies",
)
CURVES = ("success", "coverage", "entropy", "distinct_strategies")  # of evaluations during training
METHOD_ORDER = ("pretrained", "reinforce", "reinforce-ucb", "ppo", "ppo-ucb", "poly-ppo", "poly-ppo-ucb")


# Shapes of what is read (see shape.py). What a page draws without looking is checked to the last number.
_METRICS = {"iteration": int, "steps": int, "trajectories": int}
_EVALUATIONS = {"iteration": int, **{f"{name}?": float for name in CURVES}}
_INTERVAL = {"mean": float, "low": float, "high": float}
_SWEEP = {"temperature": float, "success": _INTERVAL}
_STRATEGY = {
    "rooms": [int],
    "count": int,
    "successes": int,
    "solved": bool,
    "steps": int,
    "path": [int],
    "changes": [int],
}
_EVALUATION = {
    "task": str,
    "horizon": int,
    "level_seeds": [int],
    "missions": [str],
    "strategies?": str,
    "policy": {"hash": str, "method": str, "name?": str},
    "result": {},
}


def _result_shape(num_configurations: int) -> dict[str, Any]:
    return {
        "attempts": int,
        "temperature": float,
        "configurations": dict.fromkeys(("successes", *FIGURES), (float, num_configurations)),
        "exact?": {"success": float, "pass_at_k": [float]},
        "perturbed?": {"configurations": {"success": (float, num_configurations), "starts": (int, num_configurations)}},
        "recordings?": ({"distinct": int, "grid": [int], "strategies": [_STRATEGY]}, num_configurations),
    }


@dataclass(frozen=True)
class Entry:
    """One run or one evaluated policy."""

    name: str
    task: str  # the Gymnasium id
    horizon: int
    level_seeds: tuple[int, ...]  # empty for worlds whose configurations have none
    num_configurations: int
    method: str
    settings: dict[str, Any] = field(default_factory=dict)  # of a run, without its seed
    seed: int | None = None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    evaluation: dict[str, Any] | None = None

    @property
    def comparison(self) -> tuple[Any, ...]:
        """Only what was done on the same configurations and horizon can be compared."""
        return self.task, self.horizon, self.level_seeds, self.num_configurations


def gather(paths: Iterable[str | Path]) -> tuple[list[Entry], list[str]]:
    """The entries of all run directories and evaluation files, and a line about everything that is amiss."""
    entries, problems = [], []
    seen = set()
    for path in map(Path, paths):
        if path.resolve() in seen:
            problems.append(f"{path} is given twice and counted once")
            continue
        seen.add(path.resolve())
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
    damaged = f"{folder / 'config.json'} is damaged"
    shape = {"config": {"method": str, "seed?": int}, "horizon": int, "level_seeds": [int], "num_configurations?": int}
    check_shape(described, shape, damaged)
    seeds = tuple(described["level_seeds"])
    num_configurations = described.get("num_configurations", len(seeds))
    if num_configurations < 1 or len(seeds) not in (0, num_configurations):
        raise UserError(f"{damaged}: it has {num_configurations} configurations and {len(seeds)} level seeds")
    config = dict(described["config"])
    metrics = _log(folder / "metrics.jsonl", _METRICS)
    evaluations = _log(folder / "evaluations.jsonl", _EVALUATIONS)
    remarks = []
    evaluation = None
    if (folder / EVALUATION).is_file():
        try:
            evaluation = _read_evaluation(folder / EVALUATION)
            same = all(evaluation[name] == described[name] for name in ("level_seeds", "horizon", "task"))
            if not same or len(evaluation["missions"]) != num_configurations:
                raise UserError(f"{folder / EVALUATION} is of other configurations than the run")
        except UserError as error:
            remarks.append(f"without its evaluation: {error}")
            evaluation = None
    else:
        remarks.append(f"{folder} is not evaluated yet: polychromic evaluate {folder}")
    if not metrics and evaluation is None:
        raise UserError(f"{folder} has nothing to show yet: no iteration is complete")
    if not (folder / "done.json").is_file():
        remarks.append(f"{folder} is not complete: {len(metrics)} of {config.get('iterations', '?')} iterations")
    entry = Entry(
        name=folder.resolve().name,
        task=described["task"],
        horizon=described["horizon"],
        level_seeds=seeds,
        num_configurations=num_configurations,
        method=config["method"],
        settings={name: value for name, value in config.items() if name not in ("seed", "method")},
        seed=config.get("seed"),
        metrics=metrics,
        evaluations=evaluations,
        evaluation=evaluation,
    )
    return entry, remarks


def _log(path: Path, shape: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        lines = read_lines(path)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
    for line in lines:
        check_shape(line, shape, f"{path} is damaged")
    return lines


def _evaluation_file(path: Path) -> Entry:
    if not path.exists():
        raise UserError(f"{path} does not exist")
    found = _read_evaluation(path)
    return Entry(
        name=found["policy"].get("name", path.stem),
        task=found["task"],
        horizon=found["horizon"],
        level_seeds=tuple(found["level_seeds"]),
        num_configurations=len(found["missions"]),
        method=found["policy"]["method"],
        seed=found["policy"].get("run_seed"),
        evaluation=found,
    )


def _read_evaluation(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f"{path} is not an evaluation (format '{FORMAT}'); polychromic evaluate writes them")
    damaged = f"{path} is damaged"
    check_shape(found, _EVALUATION, damaged)
    num_configurations = len(found["missions"])
    if not num_configurations or len(found["level_seeds"]) not in (0, num_configurations):
        raise UserError(f"{damaged}: it has {num_configurations} missions and {len(found['level_seeds'])} level seeds")
    parts = _result_shape(num_configurations)
    check_shape(found, {"result": parts, "best?": parts, "sweep?": [_SWEEP]}, damaged)
    for part in (found["result"], *([found["best"]] if "best" in found else [])):
        successes, attempts = part["configurations"]["successes"], part["attempts"]
        if attempts < 1 or not all(0 <= count <= attempts and count == int(count) for count in successes):
            raise UserError(f"{damaged}: it counts successes that {attempts} attempts cannot have")
        if not part["temperature"] >= 0:
            raise UserError(f"{damaged}: its temperature is {part['temperature']}")
        _check_recordings(part, found, damaged)
    return found


def _check_recordings(part: dict[str, Any], found: dict[str, Any], damaged: str) -> None:
    """Whether every level has its cells and every path its moments."""
    if "recordings" not in part:
        return
    check_shape(found, {"grid_shape": (int, 2), "legend": {}}, damaged)
    check_shape(list(found["legend"].values()), [(str, 2)], f"{damaged}: its legend")
    width, height = found["grid_shape"]
    for recording in part["recordings"]:
        lengths = [(len(recording["grid"]), width * height)]
        lengths += [(len(one["path"]), 3 * (one["steps"] + 1)) for one in recording["strategies"]]
        if any(length != wanted for length, wanted in lengths):
            raise UserError(f"{damaged}: a recorded episode does not fit its grid or its steps")

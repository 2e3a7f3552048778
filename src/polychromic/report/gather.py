"""Runs and evaluations on disk -> entries of a report. One that cannot be read gives a line, not an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from polychromic.envs.registry import find_spec
from polychromic.errors import UserError
from polychromic.evaluate.file import METRICS, REWARDS, read_evaluation
from polychromic.evaluate.targets import EVALUATION, described_run
from polychromic.files import Float, Int, read_lines
from polychromic.finetuning.run import check_logs, is_done

FIGURES = (*METRICS, *REWARDS)
CURVES = ("return", "success", "coverage", "entropy", "distinct_strategies")  # of evaluations during training
# In the paper's order; a report calls them what the paper does.
METHOD_NAMES = {
    "pretrained": "pretrained",
    "reinforce": "REINFORCE",
    "reinforce-ucb": "REINFORCE with UCB",
    "ppo": "PPO",
    "ppo-ucb": "PPO with UCB",
    "poly-ppo": "Poly-PPO",
    "poly-ppo-ucb": "Poly-PPO with UCB",
}


class _Metrics(TypedDict):
    iteration: Int
    steps: Int
    trajectories: Int


_Evaluated = TypedDict("_Evaluated", {"iteration": Int, **dict.fromkeys(CURVES, NotRequired[Float])})  # type: ignore[misc]


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
        """Entries are compared only on the same configurations and horizon."""
        return self.task, self.horizon, self.level_seeds, self.num_configurations


def gather(paths: Iterable[str | Path]) -> tuple[list[Entry], list[str]]:
    """The entries of all run directories and evaluation files, and a line for each problem."""
    entries, problems = [], []
    seen = set()
    for path in (one for given in paths for one in _parts(Path(given))):
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


def _parts(path: Path) -> list[Path]:
    """The runs and evaluated base policies in a folder of a sweep; anything else as it is."""
    if not path.is_dir() or (path / "config.json").exists():
        return [path]
    if (path / EVALUATION).exists():  # a cell of a sweep that evaluates the base policy
        return [path / EVALUATION]
    inside = sorted(one for one in path.iterdir() if any((one / name).exists() for name in ("config.json", EVALUATION)))
    return [part for one in inside for part in _parts(one)] or [path]


def _run(folder: Path) -> tuple[Entry, list[str]]:
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is not a run directory: it has no config.json, and no runs are in it")
    described = described_run(folder)
    check_logs(folder)
    seeds = tuple(described["level_seeds"])
    num_configurations = described.get("num_configurations", len(seeds))
    if num_configurations < 1 or len(seeds) not in (0, num_configurations):
        counts = f"it has {num_configurations} configurations and {len(seeds)} level seeds"
        raise UserError(f"{folder / 'config.json'} is damaged: {counts}")
    config = dict(described["config"])
    metrics = read_lines(folder / "metrics.jsonl", _Metrics)
    evaluations = read_lines(folder / "evaluations.jsonl", _Evaluated)
    remarks = []
    evaluation = None
    if (folder / EVALUATION).is_file():
        try:
            evaluation = _read_evaluation(folder / EVALUATION)
            same = all(evaluation[name] == described[name] for name in ("level_seeds", "horizon", "task"))
            if not same or len(evaluation["missions"]) != num_configurations:
                raise UserError(f"{folder / EVALUATION} has other configurations than the run")
        except UserError as error:
            remarks.append(f"without its evaluation: {error}")
            evaluation = None
    else:
        remarks.append(f"{folder} is not evaluated yet: polychromic evaluate {folder}")
    if not metrics and evaluation is None:
        raise UserError(f"{folder} has nothing to show yet: no iteration is complete")
    if not is_done(folder) and (folder / "done.json").is_file():
        remarks.append(
            f"{folder}/done.json is damaged, so its logs cannot be checked; polychromic finetune makes it again"
        )
    elif not is_done(folder):
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


def _evaluation_file(path: Path) -> Entry:
    if not path.exists():
        raise UserError(f"{path} does not exist")
    evaluation = _read_evaluation(path)
    return Entry(
        name=evaluation["policy"].get("name", path.stem),
        task=evaluation["task"],
        horizon=evaluation["horizon"],
        level_seeds=tuple(evaluation["level_seeds"]),
        num_configurations=len(evaluation["missions"]),
        method=evaluation["policy"]["method"],
        seed=evaluation["policy"].get("run_seed"),
        evaluation=evaluation,
    )


def _read_evaluation(path: Path) -> dict[str, Any]:
    evaluation = read_evaluation(path)
    for part in [evaluation[name] for name in ("result", "best") if name in evaluation]:
        section = spec.section if (spec := find_spec(evaluation["task"])) else None
        if section and section.metric in part:
            section.check(part[section.metric], len(evaluation["missions"]), f"{path} is damaged")
    return evaluation

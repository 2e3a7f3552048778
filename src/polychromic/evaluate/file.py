"""Evaluations on disk: what is in a file, how it is written and how it is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from polychromic.envs.protocol import World
from polychromic.errors import UserError
from polychromic.evaluate.policy import FORMAT, evaluate_policy
from polychromic.evaluate.recordings import GRID
from polychromic.evaluate.targets import Target
from polychromic.files import Float, Int, checked, read_json, write_json

# The metrics of every configuration, beside the count of its successes.
METRICS = (
    "return",
    "success",
    "coverage",
    "entropy",
    "distinct_strategies",
    "distinct_successful_strategies",
)
OF_SUCCESS = ("successes", "success", "coverage", "distinct_successful_strategies")  # all of them or none
REWARDS = ("reward_0.5", "reward_0.9")  # of worlds with these scales


class Interval(TypedDict):
    """A mean with its 95 % interval."""

    mean: Float
    low: Float
    high: Float


class Scanned(TypedDict):
    """Success at one of the temperatures that were tried."""

    temperature: Float
    success: NotRequired[Interval]


class Strategy(TypedDict):
    """A recorded episode."""

    rooms: list[Int]
    count: Int
    successes: Int
    steps: Int
    solved: NotRequired[bool]
    actions: NotRequired[list[Any]]
    at: NotRequired[list[Int]]
    texts: NotRequired[list[str]]
    pictures: NotRequired[list[str]]


class Recording(TypedDict):
    """The episodes of a configuration that are kept for people to look at."""

    distinct: Int
    strategies: list[Strategy]


class GridStrategy(TypedDict):
    """What the viewer of grids needs of an episode."""

    solved: bool
    path: list[Int]
    changes: list[Int]


class GridRecording(TypedDict):
    """What it needs of a configuration."""

    grid: list[Int]
    rooms: NotRequired[list[Int]]
    strategies: list[GridStrategy]


class Exact(TypedDict):
    """What is known without sampling."""

    success: Float
    pass_at_k: list[Float]


class PerturbedConfigurations(TypedDict):
    """From other starts, by configuration."""

    success: list[Float]
    starts: list[Int]


class Perturbed(TypedDict):
    """From other starts."""

    configurations: PerturbedConfigurations


class PerConfiguration(TypedDict):
    """A number for each configuration; those of success only where it is known."""

    entropy: list[Float]
    distinct_strategies: list[Float]
    successes: NotRequired[list[Float]]
    success: NotRequired[list[Float]]
    coverage: NotRequired[list[Float]]
    distinct_successful_strategies: NotRequired[list[Float]]


class Result(TypedDict):
    """A policy at one temperature."""

    attempts: Int
    temperature: Float
    configurations: PerConfiguration
    exact: NotRequired[Exact]
    perturbed: NotRequired[Perturbed]
    recordings: NotRequired[list[Recording]]


class EvaluatedPolicy(TypedDict):
    """Which policy it is."""

    hash: str
    method: str
    name: NotRequired[str]
    run_seed: NotRequired[Int | None]


class Evaluation(TypedDict):
    """A whole file; what nobody reads from it is not named here."""

    format: str
    task: str
    horizon: Int
    level_seeds: list[Int]
    missions: list[str]
    policy: EvaluatedPolicy
    result: Result
    strategies: NotRequired[str]
    viewer: NotRequired[str]
    best: NotRequired[Result]
    sweep: NotRequired[list[Scanned]]


class Drawn(TypedDict):
    """What recordings of grids need beside themselves."""

    grid_shape: tuple[Int, Int]
    legend: dict[str, tuple[str, str]]
    recordings: list[GridRecording]


def evaluate_to_file(target: Target, world: World, path: Path, *, command: str, **choices: Any) -> dict[str, Any]:
    """Evaluate a target and write the file, whole or not at all.

    command: what repeats it, for the file to say. choices: arguments of `evaluate_policy`.
    """
    started = time.perf_counter()
    evaluation = evaluate_policy(world, target.saved, watch=_say, **choices)
    evaluation["policy"] |= {"name": target.name, "run_seed": target.described.get("config", {}).get("seed")}
    evaluation["command"] = command
    evaluation["seconds"] = round(time.perf_counter() - started, 2)
    try:
        write_json(path, evaluation, indent=None)
    except OSError as error:
        raise UserError(f"out: cannot write {path} ({error.strerror}); give a file that can be written") from error
    return evaluation


def read_evaluation(path: Path) -> dict[str, Any]:
    """An evaluation from its file; anything else is refused in a line that names the first wrong entry."""
    found = read_json(path)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f"{path} is not an evaluation (format '{FORMAT}'); polychromic evaluate writes them")
    damaged = f"{path} is damaged"
    checked(found, Evaluation, damaged)
    count = len(found["missions"])
    if not count or len(found["level_seeds"]) not in (0, count):
        raise UserError(f"{damaged}: it has {count} missions and {len(found['level_seeds'])} level seeds")
    for name in [name for name in ("result", "best") if name in found]:
        _check_result(name, found[name], found, count, damaged)
    return found


def _check_result(name: str, part: dict[str, Any], found: dict[str, Any], count: int, damaged: str) -> None:
    """Whether every list has an entry for each configuration, and numbers are possible ones."""
    known = [metric for metric in ("successes", *METRICS, *REWARDS) if metric in part["configurations"]]
    lists = {f"{name}.configurations.{metric}": part["configurations"][metric] for metric in known}
    checked(lists, dict[str, list[Float]], damaged)  # the type above cannot name those with a dot
    if "perturbed" in part:
        starts = part["perturbed"]["configurations"]
        lists |= {f"{name}.perturbed.configurations.{key}": starts[key] for key in ("success", "starts")}
    if "recordings" in part:
        lists[f"{name}.recordings"] = part["recordings"]
    for entry, values in lists.items():
        if len(values) != count:
            raise UserError(f"{damaged}: '{entry}' has {len(values)} entries instead of {count}")
    own = part["configurations"]
    missing = [metric for metric in OF_SUCCESS if metric not in own]
    if missing and (len(missing) < len(OF_SUCCESS) or "return" not in own):
        raise UserError(f"{damaged}: it has no '{name}.configurations.{missing[0]}'")
    attempts, successes = part["attempts"], own.get("successes", [])
    if attempts < 1 or not all(0 <= won <= attempts and won == int(won) for won in successes):
        raise UserError(f"{damaged}: it counts successes that {attempts} attempts cannot have")
    if not part["temperature"] >= 0:
        raise UserError(f"{damaged}: its temperature is {part['temperature']}")
    if "recordings" in part:
        _check_recordings(part["recordings"], found, damaged)


def _check_recordings(recordings: list[dict[str, Any]], found: dict[str, Any], damaged: str) -> None:
    """Whether every level has its cells and every path its moments, where episodes are of grids."""
    for one in (one for recording in recordings for one in recording["strategies"]):
        counts = {len(one.get(name, ())) for name in ("at", "texts", *(["pictures"] if "pictures" in one else []))}
        if len(counts) > 1:
            raise UserError(f"{damaged}: a recorded episode does not have a text for each of its moments")
    if viewer_in(found) != GRID:
        return
    checked({**found, "recordings": recordings}, Drawn, damaged)
    width, height = found["grid_shape"]
    for recording in recordings:
        lengths = [(len(recording["grid"]), width * height)]
        lengths += [(len(one["path"]), 3 * (one["steps"] + 1)) for one in recording["strategies"]]
        if any(length != wanted for length, wanted in lengths):
            raise UserError(f"{damaged}: a recorded episode does not fit its grid or its steps")


def viewer_in(found: Mapping[str, Any]) -> str:
    """The viewer of an evaluation; those of before there were several have grids."""
    return str(found.get("viewer", GRID))


def _say(line: str) -> None:
    if sys.stderr.isatty():
        print(f"  {line} …", file=sys.stderr)

"""Results as small files: one line of JSON a cell, with what tables and curves need of it and nothing of the machine.

A file is made from the folders of cells and added to, so that runs on several days and machines come together in it. A
cell that is in a file need not be run again, and its folder may be gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from polychromic.errors import UserError
from polychromic.evaluate.targets import EVALUATION
from polychromic.files import lock_file, read_json, read_lines, write_text
from polychromic.sweep.cells import PRETRAINED, Cell, is_done, read_cell
from polychromic.sweep.progress import read_status
from polychromic.sweep.run_cell import ATTEMPTS, EVALUATION_CPU, GREEDY, late_evaluation_name
from reproduction.plan import WATCHING, Planned, identity, key_of
from reproduction.stored_settings import complete, current_words
from reproduction.temperatures import POINTS

FORMAT = "polychromic-results-1"
BEST_MARK = "-best"  # at the end of the key of the pretrained policy at its best temperature
DIVERGED = "diverged"  # the kind of an error that is a result, not a mishap
OLD_DIVERGED = "no longer finite"  # what the message said of it in folders from before errors had kinds
PER_CONFIGURATION = ("reward_0.5", "reward_0.9", "entropy", "distinct_strategies", "distinct_successful_strategies")
CURVE = ("success", "coverage", "entropy", "distinct_strategies", "distinct_successful_strategies", "pass@8", "pass@32")
SIGNALS = (
    "advantage_std",
    "polychromic_std",
    "set_credit_std",
    "control_variate_slope",
    "all_zero_groups",
    "distinct_per_group",
    "kl",
    "clip_fraction",
    "explained_variance",
)
DIGITS = 5
IDENTITY = {"task", "method", "base", "settings", "seed"}  # what every result says it is about
NOTES_BY_TASK = ("chosen", "best_by_configurations")


class Results:
    """The results in one file by key, and what else it says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, Any] = {}
        self._added: set[str] = set()  # what is ours; the rest others may have changed meanwhile
        if path.exists():
            found = read_json(path)
            if not _is_results(found):
                raise UserError(f"{path} is not a results file (format {FORMAT}); give another folder with --results")
            self.cells = {key_of(one) + _best_mark(one): one for one in map(_current, found.pop("cells"))}
            self.notes = {name: value for name, value in found.items() if name != "format"}

    def add(self, records: Iterable[dict[str, Any]]) -> bool:
        """Take these in, in place of what was there of the same cells; whether anything is new."""
        new = {key_of(one) + _best_mark(one): one for one in records}
        changed = {key for key, one in new.items() if self.cells.get(key) != one}
        self.cells |= new
        self._added |= changed
        return bool(changed)

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """Results that differ in their seed alone together, those of runs that diverged left out."""
        found: dict[str, list[dict[str, Any]]] = {}
        for one in sorted(self.cells.values(), key=lambda one: one["seed"]):
            if "failed" not in one:
                found.setdefault(key_of(one, seed=False) + _best_mark(one), []).append(one)
        return found

    def diverged(self) -> dict[str, list[int]]:
        """Seeds of the runs that diverged, by line."""
        found: dict[str, list[int]] = {}
        for one in self.cells.values():
            if "failed" in one:
                found.setdefault(key_of(one, seed=False), []).append(one["seed"])
        return {key: sorted(seeds) for key, seeds in found.items()}

    def write(self) -> None:
        """The file, whole or not at all, in an order of its own; with what others have added to it meanwhile."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with lock_file(self.path.with_name(f".{self.path.name}.lock"), wait=True):  # while others wait
                if self.path.exists():
                    there = Results(self.path)
                    self.cells = {**there.cells, **{key: self.cells[key] for key in self._added}}
                    self.notes = {
                        **there.notes,
                        **{name: _joined(there, name, own) for name, own in self.notes.items()},
                    }
                write_text(self.path, self._text())
        except OSError as error:
            raise UserError(f"results: cannot write {error.filename or self.path} ({error.strerror})") from error

    def _text(self) -> str:
        cells = sorted(self.cells.values(), key=lambda one: (one["task"], one["method"], key_of(one), _best_mark(one)))
        head = json.dumps({"format": FORMAT, **self.notes}, indent=1, ensure_ascii=False)[:-2]
        rows = ",\n".join("  " + json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in cells)
        return f'{head},\n "cells": [\n{rows}\n ]\n}}\n'


def _is_results(found: Any) -> bool:
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("cells"), list):
        return False
    named = all(isinstance(one, dict) and one.keys() >= IDENTITY for one in found["cells"])
    return named and all(isinstance(found.get(name, {}), dict) for name in NOTES_BY_TASK)


def _current(record: dict[str, Any]) -> dict[str, Any]:
    """A stored result with its settings in today's words."""
    now = {**record, "settings": current_words(record["settings"])}
    if "config" in record:
        unseen = (*WATCHING, "seed")
        now["config"] = {name: value for name, value in complete(record["config"]).items() if name not in unseen}
    return now


def _joined(there: Results, name: str, own: Any) -> Any:
    """A note of ours; of those that have a part for every task, with the parts of other tasks that are in the file."""
    return {**there.notes.get(name, {}), **own} if name in NOTES_BY_TASK else own


def _best_mark(record: Mapping[str, Any]) -> str:
    return BEST_MARK if record.get("best") else ""


def records_of(folder: Path, planned: Planned | None = None) -> list[dict[str, Any]]:
    """What came of a cell: nothing while it is not done, two results for the pretrained policy, else one.

    planned: what it is run for; a cell that is scored at temperatures has a result once all of them are there.
    """
    if not folder.is_dir():
        return []
    if not is_done(folder):
        message = _divergence(folder)
        return [{**_about(folder, read_cell(folder)), "failed": message}] if message else []
    cell = read_cell(folder)
    about = _about(folder, cell)
    if planned is not None and planned.temperatures:
        points = read_json(folder / POINTS) if (folder / POINTS).exists() else {}
        whole = len(points.get("points", ())) == len(planned.temperatures)
        return [{**about, **points}] if whole else []
    if cell.method == PRETRAINED:
        evaluation = read_json(folder / EVALUATION)
        found = [{**about, **_figures([evaluation["result"]])}]
        found[0] |= _greedy(folder)
        if "best" in evaluation:
            best = {"best": True, "temperature": evaluation["best"]["temperature"]}
            found.append({**about, **best, **_figures([evaluation["best"]]), "cpu_seconds": {}})
        return found
    record = {**about, **_training(folder)}
    if cell.evaluation.attempts:
        last = cell.iterations
        late = {int(path.stem.removeprefix("evaluation-")): path for path in folder.glob(late_evaluation_name("*"))}
        results = [read_json(late[number])["result"] for number in sorted(late)]
        end = read_json(folder / EVALUATION)["result"]
        if cell.evaluation.along_the_way:
            points = dict(zip([*sorted(late), last], [*results, end], strict=True))
            record["along"] = [{"iteration": number, **_figures([one])} for number, one in points.items()]
            results, late = [], {}
        record["averaged_after"] = [*sorted(late), last]
        record |= _figures([*results, end])
        record |= _greedy(folder)
    return [record]


def _divergence(folder: Path) -> str:
    """What was said of a run that diverged; nothing of one that failed otherwise, or that is not over."""
    status = read_status(folder)
    if status.state != "failed":
        return ""
    diverged = status.failure == DIVERGED if status.failure else OLD_DIVERGED in status.message
    return status.message.split("; the last good checkpoint")[0] if diverged else ""


def resolved(cell: Cell) -> dict[str, Any]:
    """All settings of a run, those too that it leaves at their defaults, and the parameters that it begins with."""
    if cell.method == PRETRAINED:
        return {"parameters": cell.base_parameters}
    config = json.loads(json.dumps(asdict(cell.config())))
    return {
        "parameters": cell.base_parameters,
        "config": {name: value for name, value in config.items() if name not in (*WATCHING, "seed")},
    }


def check_same(record: Mapping[str, Any], cell: Cell, attempts: int = 0) -> None:
    """Refuse a result of settings that this version would run otherwise, as its defaults have changed since."""
    now = resolved(cell)
    before, after = (_all_settings(one) for one in (record, now))
    if not cell.base_parameters:  # a base policy that is not made yet
        before["base policy"] = after["base policy"]
    if "failed" not in record:  # a quick look is no result of the long way
        before["attempts"], after["attempts"] = record.get("attempts", 0), attempts or cell.evaluation.attempts
    name = _difference(before, after)
    if name is not None:
        raise UserError(
            f"results: {cell.task}, {cell.method}, seed {cell.seed} was run with {name} {before.get(name)!r}; "
            f"this version would run it with {after.get(name)!r}; give another folder with --results"
        )


def check_alike(records: Sequence[Mapping[str, Any]]) -> None:
    """Refuse results of one line that differ in more than their seed, as defaults changed between them."""
    for one in records[1:]:
        before, after = _all_settings(records[0]), _all_settings(one)
        name = _difference(before, after)
        if name is not None:
            raise UserError(
                f"results: {one['task']}, {one['method']} has {name} {before.get(name)!r} with seed "
                f"{records[0]['seed']} and {after.get(name)!r} with seed {one['seed']}; "
                "remove one of them from the results file, or give another folder with --results"
            )


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The first setting, by name, in which two runs differ."""
    names = sorted(before.keys() | after.keys())
    return next((name for name in names if before.get(name) != after.get(name)), None)


def _all_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record.get("config", {}), "base policy": record.get("parameters")}


def _about(folder: Path, cell: Cell) -> dict[str, Any]:
    history = read_lines(folder / ATTEMPTS)
    commits = list(dict.fromkeys(line["commit"] for line in history if line.get("commit")))
    trained = sum(line.get("cpu_seconds", 0.0) for line in read_lines(folder / "timing.jsonl"))
    scored = sum(read_json(folder / EVALUATION_CPU).values()) if (folder / EVALUATION_CPU).exists() else 0.0
    return {
        **identity(cell),
        **resolved(cell),
        "commits": commits,
        "cpu_seconds": {"training": round(trained, 1), "evaluation": round(scored, 1)},
    }


def _training(folder: Path) -> dict[str, Any]:
    """What training spent, its learning curve, and how large its signals were on the average."""
    metrics, evaluations = read_lines(folder / "metrics.jsonl"), read_lines(folder / "evaluations.jsonl")
    steps = list(accumulate(line["steps"] for line in metrics))
    trajectories = list(accumulate(line["trajectories"] for line in metrics))
    at = [line["iteration"] for line in evaluations]
    curve: dict[str, list[Any]] = {
        "iteration": at,
        "trajectories": [trajectories[number - 1] for number in at],
        "steps": [steps[number - 1] for number in at],
        **{name: [_short(line[name]) for line in evaluations] for name in CURVE if name in evaluations[0]},
    }
    means = {name: [line[name] for line in metrics if name in line] for name in SIGNALS}
    return {
        "iterations": len(metrics),
        "trajectories": trajectories[-1],
        "steps": steps[-1],
        "rollouts": read_json(folder / "config.json")["config"]["evaluation_rollouts"],
        "signals": {name: _short(fmean(values)) for name, values in means.items() if values},
        "curve": curve,
    }


def _figures(results: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Of one evaluation or of several late ones: successes of each, means over them of the rest, by configuration."""
    found: dict[str, Any] = {
        "attempts": results[-1]["attempts"],
        "successes": [one["configurations"]["successes"] for one in results],
    }
    for name in PER_CONFIGURATION:
        columns = zip(*(one["configurations"][name] for one in results), strict=True)
        found[name] = [_short(fmean(column)) for column in columns]
    if "perturbed" in results[-1]:
        found["perturbed"] = _from_perturbed(results[-1])
    if all("exact" in one for one in results):
        names = ("success", "success_from_anywhere")
        found["exact"] = {name: _short(fmean(one["exact"][name] for one in results)) for name in names}
    return found


def _from_perturbed(result: Mapping[str, Any]) -> dict[str, Any]:
    own = result["perturbed"]["configurations"]
    return {"starts": own["starts"], "success": [_short(one) for one in own["success"]]}


def _greedy(folder: Path) -> dict[str, Any]:
    """What the last policy does with the most likely action at every step."""
    if not (folder / GREEDY).exists():
        return {}
    result = read_json(folder / GREEDY)["result"]
    perturbed = {"greedy perturbed": _from_perturbed(result)} if "perturbed" in result else {}
    return {"greedy": [float(one) for one in result["configurations"]["successes"]], **perturbed}


def _short(value: float) -> float:
    return round(float(value), DIGITS)

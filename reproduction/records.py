"""Results as small files: one line of JSON per cell, with what tables and curves need, nothing about the machine.

Results are added from the folders of cells, so that runs from several days and machines end up in one file. A cell
in a file need not run again, and its folder may be deleted.
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
from polychromic.sweep.run_cell import EVALUATION_CPU, GREEDY, TRIES, late_evaluation_name
from reproduction.intervals import REWARD
from reproduction.plan import WATCHING, Planned, identity, key_of
from reproduction.stored_settings import complete, current_settings
from reproduction.temperatures import POINTS

FORMAT = "polychromic-results-1"
BEST_MARK = "-best"  # at the end of the key of the pretrained policy at its best temperature
DIVERGED = "diverged"  # the kind of an error that is a result
OLD_DIVERGED = "no longer finite"  # the message in folders from before errors had kinds
OF_STRATEGIES = ("entropy", "distinct_strategies", "distinct_successful_strategies")
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
LATE = 0.25  # of training: its policies are averaged where some were scored along the way
DIGITS = 5
IDENTITY = {"task", "method", "base", "settings", "seed"}  # entries that identify a result
NOTES_BY_TASK = ("chosen", "best_by_configurations")


class Results:
    """The results in one file by key, and its notes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, Any] = {}
        self._added: set[str] = set()  # keys added here; other processes may change the rest
        if path.exists():
            stored = read_json(path)
            if not _is_results(stored):
                raise UserError(f"{path} is not a results file (format {FORMAT}); give another folder with --results")
            self.cells = {key_of(record) + _best_mark(record): record for record in map(_current, stored.pop("cells"))}
            self.notes = {name: value for name, value in stored.items() if name != "format"}

    def add(self, records: Iterable[dict[str, Any]]) -> bool:
        """Add results, replacing those of the same cells; returns whether anything is new."""
        new = {key_of(record) + _best_mark(record): record for record in records}
        changed = {key for key, record in new.items() if self.cells.get(key) != record}
        self.cells |= new
        self._added |= changed
        return bool(changed)

    def lines(self) -> dict[str, list[dict[str, Any]]]:
        """Results grouped over seeds, without runs that diverged."""
        lines: dict[str, list[dict[str, Any]]] = {}
        for record in sorted(self.cells.values(), key=lambda record: record["seed"]):
            if "failed" not in record:
                lines.setdefault(key_of(record, seed=False) + _best_mark(record), []).append(record)
        return lines

    def diverged(self) -> dict[str, list[int]]:
        """Seeds of the runs that diverged, by line."""
        seeds_of: dict[str, list[int]] = {}
        for record in self.cells.values():
            if "failed" in record:
                seeds_of.setdefault(key_of(record, seed=False), []).append(record["seed"])
        return {key: sorted(seeds) for key, seeds in seeds_of.items()}

    def write(self) -> None:
        """Write the file, whole or not at all, in a fixed order, merged with what other processes have added."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with lock_file(self.path.with_name(f".{self.path.name}.lock"), wait=True):  # one writer at a time
                if self.path.exists():
                    there = Results(self.path)
                    self.cells = {**there.cells, **{key: self.cells[key] for key in self._added}}
                    self.notes = {
                        **there.notes,
                        **{name: _joined(there, name, note) for name, note in self.notes.items()},
                    }
                write_text(self.path, self._text())
        except OSError as error:
            raise UserError(f"results: cannot write {error.filename or self.path} ({error.strerror})") from error

    def _text(self) -> str:
        cells = sorted(
            self.cells.values(),
            key=lambda record: (record["task"], record["method"], key_of(record), _best_mark(record)),
        )
        head = json.dumps({"format": FORMAT, **self.notes}, indent=1, ensure_ascii=False)[:-2]
        rows = ",\n".join("  " + json.dumps(record, ensure_ascii=False, separators=(",", ":")) for record in cells)
        return f'{head},\n "cells": [\n{rows}\n ]\n}}\n'


def _is_results(stored: Any) -> bool:
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or not isinstance(stored.get("cells"), list):
        return False
    named = all(isinstance(record, dict) and record.keys() >= IDENTITY for record in stored["cells"])
    return named and all(isinstance(stored.get(name, {}), dict) for name in NOTES_BY_TASK)


def _current(record: dict[str, Any]) -> dict[str, Any]:
    """A stored result with its settings in current terms."""
    now = {**record, "settings": current_settings(record["settings"])}
    if "config" in record:
        unseen = (*WATCHING, "seed")
        now["config"] = {name: value for name, value in complete(record["config"]).items() if name not in unseen}
    return now


def _joined(there: Results, name: str, note: Any) -> Any:
    """Our note; if notes of this name have a part per task, merged with the other tasks' parts in the file."""
    return {**there.notes.get(name, {}), **note} if name in NOTES_BY_TASK else note


def _best_mark(record: Mapping[str, Any]) -> str:
    return BEST_MARK if record.get("best") else ""


def records_of(folder: Path, planned: Planned | None = None) -> list[dict[str, Any]]:
    """The results of a cell: none until it is done, two for the pretrained policy, otherwise one.

    planned: its row; a cell that is scored at temperatures has a result once all of them are done.
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
        records = [{**about, **_metrics([evaluation["result"]])}]
        records[0] |= _greedy(folder)
        if "best" in evaluation:
            best = {"best": True, "temperature": evaluation["best"]["temperature"]}
            records.append({**about, **best, **_metrics([evaluation["best"]]), "cpu_seconds": {}})
        return records
    record = {**about, **_training(folder)}
    if cell.evaluation.attempts:
        last = cell.iterations
        late = {int(path.stem.removeprefix("evaluation-")): path for path in folder.glob(late_evaluation_name("*"))}
        results = [read_json(late[number])["result"] for number in sorted(late)]
        end = read_json(folder / EVALUATION)["result"]
        if cell.evaluation.along_the_way:
            points = dict(zip([*sorted(late), last], [*results, end], strict=True))
            record["along"] = [{"iteration": number, **_metrics([result])} for number, result in points.items()]
            late = {number: path for number, path in late.items() if number >= (1 - LATE) * last}
            results = [points[number] for number in sorted(late)]
        record["averaged_after"] = [*sorted(late), last]
        record |= _metrics([*results, end])
        record |= _greedy(folder)
    return [record]


def _divergence(folder: Path) -> str:
    """The message of a run that diverged; empty if it failed otherwise or has not ended."""
    status = read_status(folder)
    if status.state != "failed":
        return ""
    diverged = status.failure == DIVERGED if status.failure else OLD_DIVERGED in status.message
    return status.message.split("; the last good checkpoint")[0] if diverged else ""


def resolved(cell: Cell) -> dict[str, Any]:
    """All settings of a run, including defaults, and the hash of the parameters that it starts from."""
    if cell.method == PRETRAINED:
        return {"parameters": cell.base_parameters}
    config = json.loads(json.dumps(asdict(cell.config())))
    return {
        "parameters": cell.base_parameters,
        "config": {name: value for name, value in config.items() if name not in (*WATCHING, "seed")},
    }


def check_same(record: Mapping[str, Any], cell: Cell, attempts: int = 0) -> None:
    """Refuse a result whose settings this version would resolve differently because defaults have changed."""
    now = resolved(cell)
    before, after = (_all_settings(run) for run in (record, now))
    if not cell.base_parameters:  # a base policy that does not exist yet
        before["base policy"] = after["base policy"]
    if "failed" not in record:  # a quick run does not count as a full one
        before["attempts"], after["attempts"] = record.get("attempts", 0), attempts or cell.evaluation.attempts
    name = _difference(before, after)
    if name is not None:
        raise UserError(
            f"results: {cell.task}, {cell.method}, seed {cell.seed} was run with {name} {before.get(name)!r}; "
            f"this version would run it with {after.get(name)!r}; give another folder with --results"
        )


def check_alike(records: Sequence[Mapping[str, Any]]) -> None:
    """Refuse results of one line that differ in more than their seed because defaults changed between them."""
    for record in records[1:]:
        before, after = _all_settings(records[0]), _all_settings(record)
        name = _difference(before, after)
        if name is not None:
            raise UserError(
                f"results: {record['task']}, {record['method']} has {name} {before.get(name)!r} with seed "
                f"{records[0]['seed']} and {after.get(name)!r} with seed {record['seed']}; "
                "remove one of them from the results file, or give another folder with --results"
            )


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The first setting, by name, in which two runs differ."""
    names = sorted(before.keys() | after.keys())
    return next((name for name in names if before.get(name) != after.get(name)), None)


def _all_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    return {**record.get("config", {}), "base policy": record.get("parameters")}


def _about(folder: Path, cell: Cell) -> dict[str, Any]:
    history = read_lines(folder / TRIES)
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
    """The cost of training, its learning curve, and the mean size of its signals."""
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


def _metrics(results: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Metrics of one evaluation or several late ones, by configuration: successes of each, means of the rest."""
    known = results[-1]["configurations"]
    metrics: dict[str, Any] = {"attempts": results[-1]["attempts"]}
    if "successes" in known:
        metrics["successes"] = [result["configurations"]["successes"] for result in results]
    # The task says which rewards there are; one without scales has returns.
    rewards = [name for name in known if name.startswith(REWARD)] or ["return"]
    for name in [name for name in (*rewards, *OF_STRATEGIES) if name in known]:
        columns = zip(*(result["configurations"][name] for result in results), strict=True)
        metrics[name] = [_short(fmean(column)) for column in columns]
    perturbed = [_from_perturbed(result) for result in results if "perturbed" in result]  # from the same starts
    if perturbed:
        means = [_short(fmean(column)) for column in zip(*(one["success"] for one in perturbed), strict=True)]
        metrics["perturbed"] = {"starts": perturbed[0]["starts"], "success": means}
    if all("exact" in result for result in results):
        names = ("success", "success_from_anywhere")
        metrics["exact"] = {name: _short(fmean(result["exact"][name] for result in results)) for name in names}
    return metrics


def _from_perturbed(result: Mapping[str, Any]) -> dict[str, Any]:
    perturbed = result["perturbed"]["configurations"]
    return {"starts": perturbed["starts"], "success": [_short(value) for value in perturbed["success"]]}


def _greedy(folder: Path) -> dict[str, Any]:
    """The results of the last policy with the most likely action at every step."""
    if not (folder / GREEDY).exists():
        return {}
    result = read_json(folder / GREEDY)["result"]
    perturbed = {"greedy perturbed": _from_perturbed(result)} if "perturbed" in result else {}
    return {"greedy": [float(count) for count in result["configurations"]["successes"]], **perturbed}


def _short(value: float) -> float:
    return round(float(value), DIGITS)

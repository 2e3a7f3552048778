"""Entries -> methods side by side: runs that differ only in their seed are one method."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from polychromic.core.metrics import pass_at_k
from polychromic.envs.registry import find_spec, short_name
from polychromic.evaluate.scores import mean_of, pass_curve
from polychromic.report.gather import CURVES, FIGURES, METHOD_NAMES, Entry

STRATEGIES = "strategies"  # their name if no evaluation gives another


@dataclass(frozen=True)
class Method:
    """One line of a comparison."""

    key: str  # the method's name in the paper's table
    label: str
    entries: tuple[Entry, ...]
    results: tuple[Mapping[str, Any], ...]  # of the evaluated entries

    @functools.cached_property
    def metrics(self) -> dict[str, Any] | None:
        """`pooled`, once."""
        return _pooled(self.results)


@dataclass(frozen=True)
class Comparison:
    """Methods on the same configurations."""

    task: str  # its short name
    title: str
    horizon: int
    methods: tuple[Method, ...]
    strategies: str  # the name of its distinct strategies


def compare(entries: Sequence[Entry]) -> list[Comparison]:
    """Group entries by task and configurations, then by method and settings."""
    together: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        together.setdefault(entry.comparison, []).append(entry)
    names = [short_name(task) for task, *_ in together]
    comparisons = []
    for (task, horizon, _, num_configurations), members in together.items():
        name = short_name(task)
        title = name if names.count(name) == 1 else f"{name} ({num_configurations} configurations, H = {horizon})"
        called = next((entry.evaluation.get("strategies") for entry in members if entry.evaluation), None)
        comparisons.append(Comparison(name, title, horizon, tuple(_methods(members)), called or STRATEGIES))
    return comparisons


def _methods(entries: Sequence[Entry]) -> list[Method]:
    lines: dict[str, tuple[str, list[Entry]]] = {}
    for entry in entries:
        alike = [other for other in entries if other.method == entry.method]
        lines.setdefault(_label(entry, alike), (entry.method, []))[1].append(entry)
    methods = []
    for label, (key, members) in lines.items():
        evaluated = [entry.evaluation for entry in members if entry.evaluation]
        methods.append(Method(key, label, tuple(members), tuple(evaluation["result"] for evaluation in evaluated)))
        best = [evaluation["best"] for evaluation in evaluated if "best" in evaluation]
        if best:
            at = ", ".join(sorted({f"{result['temperature']:g}" for result in best}))
            kept = tuple(entry for entry in members if entry.evaluation and "best" in entry.evaluation)
            bare = tuple(_without_training(entry) for entry in kept)
            methods.append(Method("", f"{label}, best temperature ({at})", bare, tuple(best)))
    order = {name: number for number, name in enumerate(METHOD_NAMES)}

    def place(method: Method) -> tuple[int, str]:
        return order.get(method.entries[0].method, len(order)), method.label

    return sorted(methods, key=place)


def _label(entry: Entry, alike: Sequence[Entry]) -> str:
    """The name of a line: the method, and what distinguishes it from others of the same method."""
    name = METHOD_NAMES.get(entry.method, entry.method)
    parts = [name]
    if entry.settings:
        differing = sorted({name for other in alike for name in _differences(entry.settings, other.settings)})
        parts += [f"{name} {entry.settings.get(name)}" for name in differing]
    elif len({_hash(other) for other in alike}) > 1:
        # If there are several policies without a run, each goes by its name, with its hash if that is not unique.
        named_so = {_hash(other) for other in alike if other.name == entry.name}
        own = entry.name if len(named_so) == 1 else f"{entry.name}, {_hash(entry)[:8]}"
        parts = [f"{name} ({own})"]
    temperature = entry.evaluation["result"]["temperature"] if entry.evaluation else 1
    if temperature != 1:
        parts.append(f"temperature {temperature:g}")
    return ", ".join(parts)


def _hash(entry: Entry) -> str:
    return str(entry.evaluation["policy"]["hash"]) if entry.evaluation else entry.name


def unequal_attempts(comparison: Comparison) -> list[str]:
    """A remark if some policies had more attempts than others: coverage and distinct strategies depend on it."""
    attempts = sorted({result["attempts"] for method in comparison.methods for result in method.results})
    if len(attempts) < 2:
        return []
    return [
        f"{comparison.title}: evaluated with {', '.join(map(str, attempts))} attempts; coverage and distinct "
        "strategies grow with them, so compare pass@k instead, or evaluate again with the same --attempts"
    ]


def without_control(comparison: Comparison) -> list[str]:
    """A remark if runs are compared without the pretrained policy at its best temperature."""
    runs = any(entry.metrics for method in comparison.methods for entry in method.entries)
    control = any(not method.key and method.label.startswith("pretrained") for method in comparison.methods)
    if not runs or control:
        return []
    spec = find_spec(comparison.task)
    policy = (spec.base_policy if spec else "") or "POLICY"
    return [
        f"{comparison.title}: the control is missing, the pretrained policy at its best temperature; "
        f"polychromic evaluate {policy} writes an evaluation of it; give that file too"
    ]


def _without_training(entry: Entry) -> Entry:
    return replace(entry, settings={}, metrics=[], evaluations=[])


def _differences(settings: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    if not settings or not others:
        return []
    return [name for name in {**settings, **others} if settings.get(name) != others.get(name)]


def pooled(method: Method) -> dict[str, Any] | None:
    """The metrics of a method over its runs: each configuration's mean over the runs, intervals over configurations."""
    return method.metrics


def _pooled(results: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not results:
        return None
    most = min(result["attempts"] for result in results)
    metrics: dict[str, Any] = {}
    if all("successes" in result["configurations"] for result in results):
        curves = [
            pass_at_k(result["attempts"], result["configurations"]["successes"], np.arange(1, most + 1))
            for result in results
        ]
        metrics["pass_at_k"] = pass_curve(np.mean(curves, axis=0))
        shares = np.mean([result["configurations"]["success"] for result in results], axis=0)
        metrics["solved"] = np.round(shares, 4).tolist()
    for name in FIGURES:
        if any(name not in result["configurations"] for result in results):
            continue  # a scale of rewards that these worlds do not have, or success that is not known
        metrics[name] = mean_of(np.mean([result["configurations"][name] for result in results], axis=0))
    metrics["attempts"] = [result["attempts"] for result in results]
    metrics["temperature"] = results[0]["temperature"]
    if len(results) == 1 and "exact" in results[0]:
        metrics["exact"] = {name: results[0]["exact"][name] for name in ("success", "pass_at_k")}
    perturbed = [result["perturbed"]["configurations"] for result in results if "perturbed" in result]
    if perturbed:
        # Runs from one pretrained policy and seed share their starts, so the weights are those of any of them.
        means = np.mean([part["success"] for part in perturbed], axis=0)
        metrics["perturbed"] = mean_of(means, weights=perturbed[0]["starts"])
    return metrics


def training_curves(entry: Entry) -> dict[str, list[Any]]:
    """Evaluations during training against the cost so far; empty lists for a policy without a run."""
    steps = list(accumulate(line["steps"] for line in entry.metrics))
    trajectories = list(accumulate(line["trajectories"] for line in entry.metrics))
    points = [line for line in entry.evaluations if 1 <= line["iteration"] <= len(steps)]
    curves: dict[str, list[Any]] = {name: [line.get(name) for line in points] for name in CURVES}
    curves["steps"] = [steps[line["iteration"] - 1] for line in points]
    curves["trajectories"] = [trajectories[line["iteration"] - 1] for line in points]
    curves["iteration"] = [line["iteration"] for line in points]
    return curves

"""What a comparison shows, in one sentence with its numbers, and what it does not show, in one line.

Two methods are compared, paired by configuration. A difference is called one only if its 95 % interval excludes zero.
Comparisons are put in the order of their largest clear difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.intervals import mean_interval
from polychromic.core.metrics import pass_at_k
from polychromic.envs.registry import find_spec
from polychromic.report.compare import Comparison, Method, pooled

REFERENCES = ("ppo", "reinforce")  # what a method is compared with, if it is there
BASE = "pretrained"


@dataclass(frozen=True)
class Quantity:
    """Something that two methods can differ in."""

    metric: str  # its name in the metrics of a method
    values: Callable[[Method], NDArray[np.float64]]  # one for each configuration, mean over runs
    unit: str = ""  # of differences: "points" of a hundred, or none


@dataclass(frozen=True)
class Effect:
    """How two methods differ in a quantity: `second` minus `first`, with its interval."""

    quantity: Quantity
    first: float
    second: float
    gap: tuple[float, float, float]  # mean, low, high

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        _, low, high = self.gap
        return low > 0 or high < 0

    @property
    def size(self) -> float:
        """How many times larger one is than the other, as a logarithm."""
        small, large = sorted((abs(self.first), abs(self.second)))
        return math.log(max(large, 1e-3) / max(small, 1e-3))


@dataclass(frozen=True)
class Headline:
    """What stands on top of a comparison."""

    title: str  # of the task
    sentence: str
    lines: tuple[str, ...]  # the interval, other differences, what is not clear, where the methods began
    metric: str  # what the sentence is about; empty if there is nothing to compare
    methods: tuple[str, ...]  # labels of those in the sentence
    order: tuple[bool, float]  # whether anything is clear, and how large it is


def headline(comparison: Comparison) -> Headline:
    """The headline of a comparison, from its data alone."""
    words = _Words(comparison)
    found = _pair(comparison)
    if found is None:
        return Headline(words.title, words.alone(), (), "", (), (False, 0.0))
    first, second, effects = found
    clear = sorted((effect for effect in effects if effect.clear), key=lambda effect: -effect.size)
    labels = (first.label, second.label)
    if not clear:
        sentence = f"{words.title}: no clear difference between {first.label} and {second.label}{words.both(effects)}."
        lines = [words.unclear(effects), words.began(), words.basis((first, second))]
        metric, order = (effects[0].quantity.metric if effects else ""), (False, 0.0)
    else:
        lead, *others = clear
        sentence = f"{words.title}: {words.sentence(lead, *labels)}"
        lines = [words.also(effect, *labels) for effect in others]
        lines.append(words.unclear([effect for effect in effects if not effect.clear]))
        lines += [words.began(), f"{words.gap(lead, labels)} {words.basis((first, second))}"]
        metric, order = lead.quantity.metric, (True, lead.size)
    return Headline(words.title, sentence, tuple(line for line in lines if line), metric, labels, order)


def in_order(comparisons: Sequence[Comparison]) -> list[tuple[Comparison, Headline]]:
    """Comparisons with their headlines, the one with the largest clear difference first."""
    told = [(comparison, headline(comparison)) for comparison in comparisons]
    return sorted(told, key=lambda pair: pair[1].order, reverse=True)


def _pair(comparison: Comparison) -> tuple[Method, Method, list[Effect]] | None:
    """The method to compare with, the one that differs most from it, and how."""
    evaluated = [method for method in comparison.methods if method.results]
    trained = [method for method in evaluated if method.key and method.key != BASE]
    base = [method for method in evaluated if method.key == BASE]
    if len(trained) > 1:
        by_key = {method.key: method for method in reversed(trained)}
        reference = next((by_key[key] for key in REFERENCES if key in by_key), trained[0])
    elif trained and base:
        reference = base[0]
    else:
        return None
    others = [(method, _effects(reference, method)) for method in trained if method is not reference]

    def largest(pair: tuple[Method, list[Effect]]) -> tuple[bool, float]:
        clear = [effect.size for effect in pair[1] if effect.clear]
        return bool(clear), max(clear, default=0.0)

    second, effects = max(others, key=largest)
    return reference, second, effects


def _effects(first: Method, second: Method) -> list[Effect]:
    attempts = {result["attempts"] for method in (first, second) for result in method.results}
    known = all("successes" in result["configurations"] for method in (first, second) for result in method.results)
    equal = len(attempts) == 1  # distinct strategies grow with attempts
    most = min(attempts)
    quantities = []
    if known:
        quantities += [_mean("distinct_successful_strategies")] if equal else []
        quantities.append(_mean("success", "points"))
        quantities += [Quantity("pass_at_k", lambda method: _passes(method, most), "points")] if most > 1 else []
    else:
        quantities.append(_mean("return"))
        quantities += [_mean("distinct_strategies")] if equal else []
    effects = []
    for quantity in quantities:
        before, after = quantity.values(first), quantity.values(second)
        if quantity.metric == "pass_at_k" and np.allclose(before, after, atol=1e-4):
            continue  # all is solved, or nothing is
        mean, low, high = (float(part) for part in mean_interval(after - before))
        effects.append(Effect(quantity, float(before.mean()), float(after.mean()), (mean, low, high)))
    return effects


def _mean(metric: str, unit: str = "") -> Quantity:
    def values(method: Method) -> NDArray[np.float64]:
        return np.asarray(np.mean([result["configurations"][metric] for result in method.results], axis=0))

    return Quantity(metric, values, unit)


def _passes(method: Method, most: int) -> NDArray[np.float64]:
    curves = [pass_at_k(result["attempts"], result["configurations"]["successes"], most) for result in method.results]
    return np.asarray(np.mean(curves, axis=0))


class _Words:
    """How things are called in a comparison."""

    def __init__(self, comparison: Comparison) -> None:
        spec = find_spec(comparison.task)
        own: Mapping[str, str] = spec.section.words if spec and spec.section else {}
        name = spec.title if spec and spec.title else comparison.task
        self.title = name if comparison.title == comparison.task else comparison.title.replace(comparison.task, name, 1)
        self.attempts = own.get("attempts", "attempts")
        self.where = "" if own else " at a configuration"
        self.finds = own.get("finds", "finds")
        self.successes = own.get("successes", f"{comparison.strategies} that succeed")
        self.success = own.get("success", "solved")
        self.solves = own.get("solves", "solves")
        self.strategies = comparison.strategies
        self.comparison = comparison
        results = [result for method in comparison.methods for result in method.results]
        self.most = min((result["attempts"] for result in results), default=0)

    def sentence(self, effect: Effect, first: str, second: str) -> str:
        one, two = self._value(effect.quantity, effect.first), self._value(effect.quantity, effect.second)
        match effect.quantity.metric:
            case "distinct_successful_strategies":
                made = f"in {self.most:,} {self.attempts}{self.where}"
                return f"{made} {first} {self.finds} {one} distinct {self.successes}, {second} {two}."
            case "success":
                return f"{first} {self.solves} {one} of its {self.attempts}, {second} {two}."
            case "pass_at_k":
                return (
                    f"within {self.most:,} {self.attempts} {first} solves {one} of the configurations, {second} {two}."
                )
            case "return":
                return f"{first} earns {one} an episode, {second} {two}."
            case _:
                return f"in {self.most:,} attempts {first} shows {one} distinct {self.strategies}, {second} {two}."

    def also(self, effect: Effect, first: str, second: str) -> str:
        one, two = self._value(effect.quantity, effect.first), self._value(effect.quantity, effect.second)
        return f"{self._name(effect.quantity).capitalize()}: {first} {one}, {second} {two} ({self._interval(effect)})."

    def unclear(self, effects: Sequence[Effect]) -> str:
        if not effects:
            return ""
        parts = [f"{self._name(effect.quantity)} ({self._interval(effect)})" for effect in effects]
        listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"
        return f"No clear difference in {listed}."

    def both(self, effects: Sequence[Effect]) -> str:
        """How good the two are."""
        named = [effect for effect in effects if effect.quantity.metric in ("success", "return")]
        return "".join(
            f" ({self._name(effect.quantity)} {self._value(effect.quantity, effect.first)} and "
            f"{self._value(effect.quantity, effect.second)})"
            for effect in named[:1]
        )

    def gap(self, effect: Effect, labels: tuple[str, str]) -> str:
        return f"{labels[1]} minus {labels[0]}: {self._interval(effect)}."

    def basis(self, methods: tuple[Method, Method]) -> str:
        count = self.comparison.methods[0].entries[0].num_configurations
        runs = sorted({len(method.results) for method in methods})
        made = "one run of each" if runs == [1] else f"{' and '.join(map(str, runs))} runs"
        return f"Means over {count} configurations with 95 % intervals; {made}."

    def began(self) -> str:
        """Where the methods began: the pretrained policy, and at its best temperature."""
        parts = []
        for method in self.comparison.methods:
            ours = pooled(method)
            if ours and (method.key == BASE or not method.key):
                parts.append(f"{method.label} {self._both(ours)}")
        return f"Before fine-tuning: {'; '.join(parts)}." if parts else ""

    def alone(self) -> str:
        """One policy, or several that nothing can be compared with."""
        for method in self.comparison.methods:
            ours = pooled(method)
            if ours:
                return f"{self.title}: {method.label}, {self._both(ours)}."
        return f"{self.title}: not evaluated yet."

    def _both(self, ours: Mapping[str, Any]) -> str:
        """How good and how diverse."""
        if "success" in ours:
            kinds = _count(ours["distinct_successful_strategies"]["mean"])
            return f"{_percent(ours['success']['mean'])} {self.success}, {kinds} distinct {self.successes}"
        kinds = _count(ours["distinct_strategies"]["mean"])
        return f"{_short(ours['return']['mean'])} an episode, {kinds} distinct {self.strategies}"

    def _name(self, quantity: Quantity) -> str:
        names = {
            "distinct_successful_strategies": f"distinct {self.successes}",
            "distinct_strategies": f"distinct {self.strategies}",
            "success": f"{self.success} {self.attempts}",
            "pass_at_k": f"configurations solved within {self.most:,} {self.attempts}",
        }
        return names.get(quantity.metric, quantity.metric)

    def _value(self, quantity: Quantity, value: float) -> str:
        if quantity.unit:
            return _percent(value)
        return _short(value) if quantity.metric == "return" else _count(value)

    def _interval(self, effect: Effect) -> str:
        scale, unit = (100.0, " points") if effect.quantity.unit else (1.0, "")
        mean, low, high = (f"{scale * part:+.1f}".replace("-", "−") for part in effect.gap)
        return f"{mean}{unit} [{low}, {high}]"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 or value == round(value) else f"{value:.1f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _short(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")

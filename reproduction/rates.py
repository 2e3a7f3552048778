"""Learning rates for the tasks that the search did not have: every method also with a third and three times its rate.

The rule is that of the search: the best score wins, at a tie the rate of the search. Methods with UCB take what is
found without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from reproduction.plan import with_rate
from reproduction.search import score_of

if TYPE_CHECKING:
    from reproduction.lines import Line

FACTORS = {"": 1.0, ", learning rate × 1/3": 1 / 3, ", learning rate × 3": 3.0}  # by the end of a row's label


class Tried(NamedTuple):
    """A method on a task without a search of its own."""

    method: str
    scores: Mapping[float, float | None]  # by factor of what is tried; None before it was run, −1 if it diverged

    @property
    def finished(self) -> bool:
        """Whether all were tried."""
        return None not in self.scores.values()

    @property
    def factor(self) -> float:
        """The factor with the best score; 1 before all were tried."""
        return max(self.scores, key=lambda factor: self.scores[factor] or 0.0) if self.finished else 1.0


def tried(lines: Sequence[Line]) -> list[Tried]:
    """Every method of a task, from its rows by method and factor."""
    return tried_of(lines, FACTORS)


def tried_of(lines: Sequence[Line], factors: Mapping[str, float]) -> list[Tried]:
    """Every method of some rows. factors: by the end of their labels."""
    methods = dict.fromkeys(line.method for line in lines)
    return [
        Tried(
            method,
            {factors[line.label.removeprefix(method)]: _score(line) for line in lines if line.method == method},
        )
        for method in methods
    ]


def suited(settings: Mapping[str, Mapping[str, Any]], methods: Sequence[Tried]) -> dict[str, dict[str, Any]]:
    """Settings by method with the learning rates that scored best."""
    factors = {one.method: one.factor for one in methods}
    return {method: with_rate(own, factors.get(method.removesuffix("-ucb"), 1.0)) for method, own in settings.items()}


def rates_table(by_task: Mapping[str, Sequence[Tried]], names: Mapping[str, str]) -> Table:
    """The scores of every method on every task."""
    factors = list(dict.fromkeys(factor for own in by_task.values() for one in own for factor in one.scores))
    rows = tuple(
        (
            f"{task}, {names[one.method]}",
            *(shown_score(one.scores.get(factor)) for factor in factors),
            f"× {one.factor:.2g}" if one.finished else NOTHING,
        )
        for task, own in by_task.items()
        for one in own
    )
    columns = ("task, method", *(f"rate × {factor:.2g}" for factor in factors), "taken")
    return Table("", "Success + coverage, as in the search; one run each.", columns, rows)


def _score(line: Line) -> float | None:
    if line.diverged:
        return -1.0
    return score_of(line.records[0]) if line.records else None


def shown_score(score: float | None) -> str:
    """A score as tables show it."""
    return NOTHING if score is None else "diverged" if score < 0 else f"{score:.3f}"

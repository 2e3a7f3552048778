"""Settings for tasks without a search: those of another task, with other learning rates and λ_UCB tried around them.

Learning rates: the best score wins, as in the search. Methods with UCB take the rate that is found without it.
λ_UCB: that of the search stays unless the best is better by more than the noise. Larger ones are not tried, as on GoTo
and FourRooms they lost everywhere. At a tie that of the search stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from reproduction.plan import scaled, with_rate
from reproduction.search import score_of

if TYPE_CHECKING:
    from reproduction.lines import Line

# Factors of what is tried, by the end of a row's label.
RATE_FACTORS = {"": 1.0, ", learning rate × 1/3": 1 / 3, ", learning rate × 3": 3.0}
BONUS_FACTORS = {"": 1.0, ", λ × 1/3": 1 / 3, ", λ × 1/10": 0.1}
# Two runs of the tables that differ only in their seed differ by less than this in 19 of 20 cases.
NOISE = 0.1


class Tried(NamedTuple):
    """A method on a task without a search of its own."""

    method: str
    scores: Mapping[float, float | None]  # by factor; None before it was run, −1 if it diverged
    margin: float = 0.0  # what a factor must be better by than 1

    @property
    def finished(self) -> bool:
        """Whether all were tried."""
        return None not in self.scores.values()

    @property
    def factor(self) -> float:
        """The factor that is taken; 1 before all were tried."""
        scores = {factor: score for factor, score in self.scores.items() if score is not None}
        if not self.finished:
            return 1.0
        best = max(scores, key=lambda factor: scores[factor])
        return best if scores[best] - scores[1.0] > self.margin else 1.0


def tried(lines: Sequence[Line], factors: Mapping[str, float], margin: float = 0.0) -> list[Tried]:
    """Every method of some rows. factors: by the end of their labels."""
    return [
        Tried(
            method,
            {factors[line.label.removeprefix(method)]: score_of_line(line) for line in lines if line.method == method},
            margin,
        )
        for method in dict.fromkeys(line.method for line in lines)
    ]


def with_rates(settings: Mapping[str, Mapping[str, Any]], methods: Sequence[Tried]) -> dict[str, dict[str, Any]]:
    """Settings by method with the learning rates that were found."""
    factors = {one.method: one.factor for one in methods}
    return {method: with_rate(own, factors.get(method.removesuffix("-ucb"), 1.0)) for method, own in settings.items()}


def with_bonuses(settings: Mapping[str, Mapping[str, Any]], methods: Sequence[Tried]) -> dict[str, dict[str, Any]]:
    """Settings by method with the λ_UCB that were found."""
    found = {one.method: scaled(settings[one.method]["ucb"], one.factor) for one in methods}
    return {method: {**own, "ucb": found[method]} if method in found else {**own} for method, own in settings.items()}


def tried_table(by_task: Mapping[str, Sequence[Tried]], names: Mapping[str, str], what: str) -> Table:
    """The scores of every method on every task. what: is tried."""
    factors = next(iter(by_task.values()))[0].scores
    rows = tuple(
        (
            f"{task}, {names[one.method]}",
            *(shown_score(score) for score in one.scores.values()),
            f"× {one.factor:.2g}" if one.finished else NOTHING,
        )
        for task, own in by_task.items()
        for one in own
    )
    columns = ("task, method", *(f"{what} × {factor:.2g}" for factor in factors), "taken")
    return Table("", "Success + coverage, as in the search; one run each.", columns, rows)


def score_of_line(line: Line) -> float | None:
    """The score of its one run; None before it was run, −1 if it diverged."""
    if line.diverged:
        return -1.0
    return score_of(line.records[0]) if line.records else None


def shown_score(score: float | None) -> str:
    """A score as tables show it."""
    return NOTHING if score is None else "diverged" if score < 0 else f"{score:.3f}"

"""Do the settings of a search suit the tasks that had none? Every method with a third and with three times its rate.

The rule. A method keeps the settings of the search unless another learning rate scores higher on the task by more than
two runs of one setting would differ by chance: 2.8 standard deviations over seeds, as the method has them at about this
length on the task that was searched (95 % of the differences of two runs are smaller). Then it takes that rate. The
score is that of the search. Methods with UCB take what is found without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from reproduction.search import LAST, score_of

if TYPE_CHECKING:
    from reproduction.lines import Line

BY_CHANCE = 2.8  # standard deviations: 1.96 · √2
RATES = ("actor_learning_rate", "critic_learning_rate")
FACTORS = {"": 1.0, ", learning rate × 1/3": 1 / 3, ", learning rate × 3": 3.0}  # by the end of a row's label


class Checked(NamedTuple):
    """A method on a task without a search of its own."""

    method: str
    scores: Mapping[float, float | None]  # by factor of the learning rate; None before it was run, −1 if it diverged
    noise: float  # a difference that is due to chance

    @property
    def finished(self) -> bool:
        """Whether all rates were tried."""
        return None not in self.scores.values()

    @property
    def factor(self) -> float:
        """What the learning rate of the search is multiplied with."""
        known = {factor: score for factor, score in self.scores.items() if score is not None}
        best = max(known, key=lambda factor: known[factor], default=1.0)
        return best if self.finished and known[best] > known[1.0] + self.noise else 1.0


def check(lines: Sequence[Line], searched: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Checked]:
    """Every method of a task. lines: by method and factor, as the plan has them; searched: results of the same settings
    with several seeds on the task that was searched, by method."""
    found = []
    for method in dict.fromkeys(line.method for line in lines):
        own = {_factor(line): _score(line) for line in lines if line.method == method}
        found.append(Checked(method, own, BY_CHANCE * spread(searched.get(method, ()), lines)))
    return found


def spread(records: Sequence[Mapping[str, Any]], lines: Sequence[Line]) -> float:
    """The standard deviation over seeds of the score that longer runs have after as many trajectories."""
    ends = [record["curve"]["trajectories"][-1] for line in lines for record in line.records]
    curves = [record["curve"] for record in records]
    if not ends or len(curves) < 2:
        return 0.0
    scores = []
    for curve in curves:
        count = max(LAST, int(np.searchsorted(curve["trajectories"], ends[0], side="right")))
        scores.append(sum(float(np.mean(curve[name][count - LAST : count])) for name in ("success", "coverage")))
    return float(np.std(scores, ddof=1))


def adapted(settings: Mapping[str, Mapping[str, Any]], checked: Sequence[Checked]) -> dict[str, dict[str, Any]]:
    """Settings by method with the learning rates that the check found."""
    factors = {one.method: one.factor for one in checked}
    return {
        method: {
            name: float(f"{value * factors.get(method.removesuffix('-ucb'), 1.0):.6g}") if name in RATES else value
            for name, value in own.items()
        }
        for method, own in settings.items()
    }


def rates_table(by_task: Mapping[str, Sequence[Checked]], names: Mapping[str, str]) -> Table:
    """The scores of every method on every task."""
    factors = list(dict.fromkeys(factor for own in by_task.values() for one in own for factor in one.scores))
    rows = tuple(
        (
            f"{task}, {names[one.method]}",
            *(_shown(one.scores.get(factor)) for factor in factors),
            f"{one.noise:.3f}",
            f"× {one.factor:.2g}" if one.finished else NOTHING,
        )
        for task, own in by_task.items()
        for one in own
    )
    columns = ("task, method", *(f"rate × {factor:.2g}" for factor in factors), "by chance", "taken")
    return Table("", "Success + coverage, as in the search; one run each.", columns, rows)


def _factor(line: Line) -> float:
    return FACTORS[line.label.removeprefix(line.method)]


def _score(line: Line) -> float | None:
    if line.diverged:
        return -1.0
    return score_of(line.records[0]) if line.records else None


def _shown(score: float | None) -> str:
    return NOTHING if score is None else "diverged" if score < 0 else f"{score:.3f}"

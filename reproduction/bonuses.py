"""λ_UCB for the tasks that the search did not have: every method also with a third and a tenth of the λ of the search.

The rule, fixed before any run: the λ of the search stays if its score is within noise of the best, otherwise the best
is taken. Larger ones are not tried: on GoTo and FourRooms they lost everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from reproduction.plan import Settings, scaled
from reproduction.rates import Tried, shown_score, tried_of

if TYPE_CHECKING:
    from reproduction.lines import Line

BONUS_FACTORS = {"": 1.0, ", λ × 1/3": 1 / 3, ", λ × 1/10": 0.1}  # by the end of a row's label
# Two runs of the tables that differ only in their seed differ by less than this in 19 of 20 cases (REINFORCE with UCB
# aside, which fails now and then).
NOISE = 0.1


def tried_bonuses(lines: Sequence[Line]) -> list[Tried]:
    """Every method of a task, from its rows by method and factor."""
    return tried_of(lines, BONUS_FACTORS)


def taken(one: Tried) -> float:
    """What the λ of the search is multiplied with."""
    own, best = one.scores[1.0], one.scores[one.factor]
    if own is None or best is None or best - own <= NOISE:
        return 1.0
    return one.factor


def suited_bonuses(settings: Mapping[str, Settings], methods: Sequence[Tried]) -> dict[str, float]:
    """λ_UCB by method."""
    return {one.method: scaled(settings[one.method]["ucb"], taken(one)) for one in methods}


def bonuses_table(by_task: Mapping[str, Sequence[Tried]], names: Mapping[str, str]) -> Table:
    """The scores of every method on every task."""
    rows = tuple(
        (
            f"{task}, {names[one.method]}",
            *(shown_score(one.scores.get(factor)) for factor in BONUS_FACTORS.values()),
            f"× {taken(one):.2g}" if one.finished else NOTHING,
        )
        for task, own in by_task.items()
        for one in own
    )
    columns = ("task, method", *(f"λ × {factor:.2g}" for factor in BONUS_FACTORS.values()), "taken")
    return Table("", "Success + coverage, as in the search; one run each.", columns, rows)

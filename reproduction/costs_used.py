"""CPU hours that stored results really took."""

from __future__ import annotations

from typing import Any

from reproduction.intervals import cpu_hours
from reproduction.lines import Stored
from reproduction.plans import PLANS

SEARCHING = ("search", "screening")  # what the bound on the whole leaves aside


def hours_used(stored: Stored) -> dict[str, float | None]:
    """By plan, a result that several share counted with the first; None where no result says what it took."""
    return {name: _hours(records) for name, records in _own_results(stored).items()}


def without_cost(stored: Stored) -> list[str]:
    """Plans with results of their own, none of which says what it took."""
    return [name for name, records in _own_results(stored).items() if records and _hours(records) is None]


def _own_results(stored: Stored) -> dict[str, list[dict[str, Any]]]:
    """By plan, without those that a plan before it has too."""
    own = {"search": list(stored.search.cells.values())}
    seen: set[int] = set()
    for name, plan in PLANS.items():
        lines = [line for task in plan.tasks(stored.scale) for line in stored.lines(plan, task)]
        records = {id(record): record for line in lines for record in line.records if id(record) not in seen}
        seen |= records.keys()
        own[name] = list(records.values())
    return own


def _hours(records: list[dict[str, Any]]) -> float | None:
    known = [record for record in records if record.get("cpu_seconds")]
    return cpu_hours(known) if known else None

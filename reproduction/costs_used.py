"""CPU hours that stored results really took."""

from __future__ import annotations

from typing import Any, NamedTuple

from reproduction.intervals import cpu_hours
from reproduction.lines import Stored
from reproduction.plan import key_of
from reproduction.plans import PLANS

SEARCHING = ("search", "rates", "bonuses", "nearby", "screening")  # what the bound on the whole leaves aside
EARLIER = "study"  # was complete before there was a bound
REPLACED = "replaced"  # results that no plan asks for any more


class Used(NamedTuple):
    """What the results of a plan took."""

    hours: float
    results: int  # runs that diverged among them
    without_cost: int  # results that do not say what they took

    @property
    def estimated(self) -> float:
        """Hours of those, as many each as the others took on average."""
        known = self.results - self.without_cost
        return self.without_cost * self.hours / known if known else 0.0


def costs_used(stored: Stored) -> dict[str, Used]:
    """By plan, a result that several share counted with the first."""
    return {name: _used(records) for name, records in _own_results(stored).items()}


def _own_results(stored: Stored) -> dict[str, list[dict[str, Any]]]:
    """By plan: what it planned, and further seeds of its lines; then what none of them asks for any more."""
    own: dict[str, list[dict[str, Any]]] = {name: [] for name in ("search", *PLANS)}
    own["search"] += stored.search.cells.values()
    planned = {
        name: [one for task in plan.tasks(stored.scale) for one in stored.planned(plan, task)]
        for name, plan in PLANS.items()
    }
    cells = {name: {key_of(one.cell) for one in ones} for name, ones in planned.items()}
    lines = {name: {one.line for one in ones} for name, ones in planned.items()}
    for file in dict.fromkeys(plan.results for plan in PLANS.values()):
        names = [name for name, plan in PLANS.items() if plan.results == file]
        for record in stored.files[file].cells.values():
            exactly = [name for name in names if key_of(record) in cells[name]]
            alike = [name for name in names if key_of(record, seed=False) in lines[name]]
            own.setdefault((exactly or alike or [REPLACED])[0], []).append(record)
    return own


def _used(records: list[dict[str, Any]]) -> Used:
    unknown = sum(not record.get("cpu_seconds") for record in records)
    return Used(cpu_hours(records), len(records), unknown)

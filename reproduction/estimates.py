"""What a plan will take, from measured costs, printed before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polychromic.report.table import Table
from polychromic.sweep.cells import is_done
from polychromic.sweep.progress import duration, read_status
from reproduction.costs import cell_bytes, cell_seconds, estimate, measured, pace_here, scan_seconds
from reproduction.plan import Planned
from reproduction.temperatures import ATTEMPTS


def say_estimate(folder: Path, plan: Sequence[Planned], slots: int, *, known: int = 0) -> None:
    """Print what the cells not yet done in a folder will take; `known` more already have results."""
    costs = measured()
    cells = [planned.cell for planned in plan]
    todo = [cell for cell in cells if not is_done(folder / cell.name)]
    begun = [cell for cell in cells if (folder / cell.name).is_dir()]
    slower = pace_here(begun, [read_status(folder / cell.name) for cell in begun], costs)
    total = estimate(todo, costs)
    seconds = (total.core_seconds + sum(_scan(planned) for planned in plan)) * slower
    unknown = (
        f" ({', '.join(total.unknown)}: never measured, counted as the most expensive task)" if total.unknown else ""
    )
    print(
        f"{len(todo)} of {len(cells) + known} cells to run: about {duration(seconds)} of one core, "
        f"{duration(seconds / slots)} with {slots} at a time, {total.bytes / 1e6:,.0f} MB{unknown}"
    )


def _scan(planned: Planned) -> float:
    """Seconds that scoring at its temperatures takes."""
    return scan_seconds(planned.cell, len(planned.temperatures), ATTEMPTS, measured())


def needs_table(plan: Sequence[Planned]) -> Table:
    """What cells need, task by task, from the measured costs: cores, hours, bytes."""
    costs = measured()
    tasks = list(dict.fromkeys(planned.cell.task for planned in plan))
    rows = []
    for name, members in [(task, [task]) for task in tasks] + ([("all", tasks)] if len(tasks) > 1 else []):
        planned_here = [planned for planned in plan if planned.cell.task in members]
        cells = [planned.cell for planned in planned_here]
        total = estimate(cells, costs)
        seconds = total.core_seconds + sum(map(_scan, planned_here))
        longest = max(cell_seconds(planned.cell, costs) + _scan(planned) for planned in planned_here)
        rows.append(
            (
                name if name == "all" or not total.unknown else f"{name} (not measured: as the most expensive)",
                str(len(cells)),
                f"{seconds / 3600:.2f}",
                f"{seconds / 3600 / 16:.2f}",
                f"{longest / 60:.0f}",
                f"{max(cell_bytes(cell, costs) for cell in cells) / 1e6:.1f}",
                f"{total.bytes / 1e9:.2f}",
            )
        )
    return Table(
        "What it needs",
        f"A cell uses one core. Measured with `{costs['command']}` (Python {costs['versions']['python']}, "
        f"JAX {costs['versions']['jax']}).",
        (
            "task",
            "cells",
            "core hours",
            "hours on 16 cores",
            "longest cell, minutes",
            "largest cell, MB",
            "all cells, GB",
        ),
        tuple(rows),
    )

"""What will it take? Said before anything is started, from measured costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polychromic.report.tables import Table
from polychromic.sweep.cells import Cell, is_done
from polychromic.sweep.costs import cell_bytes, cell_seconds, estimate, measured, pace_here
from polychromic.sweep.progress import duration, read_status


def say_estimate(folder: Path, cells: Sequence[Cell], slots: int, *, known: int = 0) -> None:
    """Print what the cells that are not done in a folder will take; `known` more have their results already."""
    costs = measured()
    todo = [cell for cell in cells if not is_done(folder / cell.name)]
    begun = [cell for cell in cells if (folder / cell.name).is_dir()]
    slower = pace_here(begun, [read_status(folder / cell.name) for cell in begun], costs)
    found = estimate(todo, costs)
    seconds = found.core_seconds * slower
    unknown = f" ({', '.join(found.unknown)}: never measured, counted as the dearest task)" if found.unknown else ""
    print(
        f"{len(todo)} of {len(cells) + known} cells to run: about {duration(seconds)} of one core, "
        f"{duration(seconds / slots)} with {slots} at a time, {found.bytes / 1e6:,.0f} MB{unknown}"
    )


def needs_table(cells: Sequence[Cell]) -> Table:
    """What cells need, task by task, from the measured costs: cores, hours, bytes."""
    costs = measured()
    tasks = list(dict.fromkeys(cell.task for cell in cells))
    rows = []
    for name, members in [(task, [task]) for task in tasks] + ([("all", tasks)] if len(tasks) > 1 else []):
        own = [cell for cell in cells if cell.task in members]
        found = estimate(own, costs)
        longest = max(cell_seconds(cell, costs) for cell in own)
        rows.append(
            (
                name if name == "all" or not found.unknown else f"{name} (not measured: as the dearest)",
                str(len(own)),
                f"{found.core_seconds / 3600:.2f}",
                f"{found.core_seconds / 3600 / 16:.2f}",
                f"{longest / 60:.0f}",
                f"{max(cell_bytes(cell, costs) for cell in own) / 1e6:.1f}",
                f"{found.bytes / 1e9:.2f}",
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

"""The progress of a sweep, read from the files of its cells, so that it can be shown on any machine."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NotRequired, TypedDict

from rich.console import Group
from rich.table import Table
from rich.text import Text

from polychromic.errors import UserError
from polychromic.files import Float, read_json_or, readable_lines
from polychromic.sweep.cells import CELL, FIGURES, PRETRAINED, Cell, is_done, read_cell
from polychromic.sweep.lock import holder
from polychromic.sweep.run_cell import SECONDS, TRIES

RECENT = 50  # iterations: long enough to hold a brief evaluation
STATES = {"running": "cyan", "failed": "red", "interrupted": "yellow", "waiting": "dim", "done": "green"}


@dataclass(frozen=True)
class Status:
    """One cell as its files show it."""

    name: str
    kind: tuple[str, str]  # task and method
    state: str
    iteration: int
    iterations: int
    success: float | None = None
    iteration_seconds: float | None = None
    evaluation_seconds: float | None = None
    tries: int = 0
    message: str = ""
    failure: str = ""  # the kind of its last failure, see `Outcome`; missing in histories of earlier versions
    choices: Mapping[str, Any] = field(default_factory=dict)  # in which cells of one task and method may differ


def read_status(folder: Path) -> Status:
    """The state of a cell: waiting, running, done, failed, or interrupted (begun, but nobody is running it)."""
    try:
        cell, iterations, choices = _described(folder, (folder / CELL).stat().st_mtime_ns)
    except (UserError, OSError) as error:
        return Status(folder.name, ("", ""), "failed", 0, 0, message=str(error))
    history = _lines(folder / TRIES)
    last: dict[str, Any] = history[-1] if history else {}
    done = is_done(folder)
    metrics, evaluated = (_last(folder / f"{name}.jsonl") for name in ("metrics", "evaluations"))
    if done:
        state = "done"
    elif holder(folder):
        state = "running"
    elif last.get("state") == "failed":
        state = "failed"
    else:
        state = "interrupted" if history else "waiting"
    return Status(
        name=folder.name,
        kind=(cell.task, cell.method),
        state=state,
        iteration=iterations if done else _iterations(metrics),
        iterations=iterations,
        success=_final_success(folder) if done else _as_number(evaluated.get("success", metrics.get("successes"))),
        iteration_seconds=_mean_seconds(folder, done),
        evaluation_seconds=_number(folder / SECONDS),
        tries=sum("began" in line for line in history),
        message=str(last.get("message", "")) if state in ("failed", "interrupted") else "",
        failure=str(last.get("kind", "")) if state == "failed" else "",
        choices=choices,
    )


@functools.lru_cache(maxsize=10_000)
def _described(folder: Path, _changed: int) -> tuple[Cell, int, dict[str, Any]]:
    """A cell, its iterations and its choices: cached, as a live table asks every second and they do not change."""
    cell = read_cell(folder)
    choices = {"policy": Path(cell.policy).name, "horizon": cell.horizon, "time_penalty": cell.time_penalty}
    if cell.method == PRETRAINED:
        return cell, 0, choices
    config = asdict(cell.config())
    del config["seed"]
    return cell, config["iterations"], {**choices, **config}


def iterations_done(folder: Path) -> int:
    """Iterations that a cell has completed, according to its metrics."""
    return _iterations(_last(folder / "metrics.jsonl"))


def _iterations(last: Mapping[str, Any]) -> int:
    number = last.get("iteration")
    return number + 1 if isinstance(number, int) else 0


def differing(statuses: Sequence[Status]) -> list[str]:
    """For every cell, how it differs from others of its task and method: "kl_coefficient=0.1", or nothing."""
    kinds: dict[tuple[str, str], dict[str, set[str]]] = {}
    for status in statuses:
        values = kinds.setdefault(status.kind, {})
        for name, value in status.choices.items():
            values.setdefault(name, set()).add(str(value))
    several = {kind: [name for name, seen in values.items() if len(seen) > 1] for kind, values in kinds.items()}
    return [", ".join(f"{name}={status.choices.get(name)}" for name in several[status.kind]) for status in statuses]


def seconds_left(statuses: Sequence[Status], slots: int) -> float | None:
    """An estimate from the times of iterations and evaluations so far, preferably of the same task and method."""

    def typical(values: Iterable[tuple[tuple[str, str], float | None]], kind: tuple[str, str]) -> float:
        known = [(of, value) for of, value in values if value is not None]
        for alike in (lambda of: of == kind, lambda of: of[0] == kind[0], lambda _: True):
            chosen = [value for of, value in known if alike(of)]
            if chosen:
                return fmean(chosen)
        return 0.0

    paces = [(status.kind, status.iteration_seconds) for status in statuses if status.iterations]
    scorings = [(status.kind, status.evaluation_seconds) for status in statuses]
    open_cells = [status for status in statuses if status.state not in ("done", "failed")]
    if open_cells and not any(pace for _, pace in paces):
        return None
    total = 0.0
    for status in open_cells:
        total += (status.iterations - status.iteration) * typical(paces, status.kind) + typical(scorings, status.kind)
    return total / max(1, min(slots, len(open_cells)) or 1)


def show(statuses: Sequence[Status], *, slots: int, rows: int = 10_000) -> Group:
    """The table of cells with a line of totals; if there are more than `rows`, running and failed ones come first."""
    order = list(STATES)
    shown = list(zip(statuses, differing(statuses), strict=True))
    if len(shown) > rows:
        shown.sort(key=lambda row: order.index(row[0].state))
    table = Table(box=None, padding=(0, 1))
    for head, how in (("cell", "left"), ("state", "left"), ("iterations", "right"), ("success", "right")):
        table.add_column(head, justify=how, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for status, choices in shown[:rows]:
        progress = f"{status.iteration}/{status.iterations}" if status.iterations else "–"
        success = "" if status.success is None else f"{status.success:.3f}"
        remark = status.message.splitlines()[0][:100] if status.message else ""
        if status.tries > 1 and not remark:
            remark = f"try {status.tries}"
        remark = ": ".join(part for part in (choices, remark) if part)
        table.add_row(status.name, Text(status.state, style=STATES[status.state]), progress, success, Text(remark))
    hidden = len(shown) - rows
    return Group(table, *([Text(f"… and {hidden} more")] if hidden > 0 else []), Text(totals(statuses, slots)))


def totals(statuses: Sequence[Status], slots: int) -> str:
    """Counts and the time left, in a line."""
    counts = {state: sum(status.state == state for status in statuses) for state in STATES}
    parts = [f"{count} {state}" for state, count in counts.items() if count]
    left = seconds_left(statuses, slots)
    if left is not None and counts["done"] + counts["failed"] < len(statuses):
        parts.append(f"about {duration(left)} left")
    return f"{len(statuses)} cells: " + ", ".join(parts)


def duration(seconds: float) -> str:
    """12 s, 5 min, 3 h 20 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _last(path: Path) -> dict[str, Any]:
    """The last complete line of a log."""
    return (_tail(path, 1) or [{}])[-1]


def _tail(path: Path, count: int = 10_000) -> list[dict[str, Any]]:
    """The last complete lines of a log, without reading all of it."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 16384))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return []
    return readable_lines(b"\n".join(lines[1 if end > 16384 else 0 :]))[-count:]


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; a truncated last line is skipped."""
    try:
        return readable_lines(path.read_bytes())
    except OSError:
        return []


def _mean_seconds(folder: Path, done: bool) -> float | None:
    """Recent seconds per iteration, with brief evaluations, but without the first after a start, which compiles."""
    lines = _tail(folder / "timing.jsonl")[-RECENT:]
    steady = [line for line in lines if not line.get("start")] or (lines if done else [])
    seconds = [value for line in steady if (value := _as_number(line.get("seconds"))) is not None]
    return fmean(seconds) if seconds else None


class _Mean(TypedDict):
    mean: NotRequired[Float]


class _Part(TypedDict):
    success: NotRequired[_Mean]


class _Brief(TypedDict):
    success: NotRequired[Float]


class _Metrics(TypedDict):
    result: NotRequired[_Part]
    finetune: NotRequired[_Brief]


def _final_success(folder: Path) -> float | None:
    metrics = read_json_or(folder / FIGURES, _Metrics, {})
    success = metrics.get("result", {}).get("success", {}).get("mean", metrics.get("finetune", {}).get("success"))
    return _as_number(success)


def _number(path: Path) -> float | None:
    return _as_number(read_json_or(path, Float, None))


def _as_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None

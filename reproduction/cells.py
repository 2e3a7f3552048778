"""Run the cells without a result, as a sweep of the package, and store their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from polychromic.envs.registry import spec_of
from polychromic.sweep.cells import is_done, write_cells
from polychromic.sweep.drive import Engine, Summary
from polychromic.sweep.run import run_sweep
from reproduction.plan import Planned, base_name, key_of
from reproduction.records import Results, check_same, records_of
from reproduction.temperatures import ATTEMPTS, score_cell

STOPPED = 130


def unique(plan: Sequence[Planned]) -> list[Planned]:
    """Every cell once, at its first position."""
    return list({key_of(planned.cell): planned for planned in reversed(plan)}.values())[::-1]


def missing(plan: Sequence[Planned], results: Results, folder: Path) -> list[Planned]:
    """Cells without a result, each once; results of cells done in this folder are added first. Nothing is written."""
    for planned in plan:
        if key_of(planned.cell) in results.cells:
            check_same(results.cells[key_of(planned.cell)], planned.cell, ATTEMPTS if planned.temperatures else 0)
    unknown = [planned for planned in unique(plan) if key_of(planned.cell) not in results.cells]
    results.add([record for planned in unknown for record in records_of(folder / planned.cell.name, planned)])
    return [planned for planned in unknown if key_of(planned.cell) not in results.cells]


def run(
    folder: Path,
    plan: Sequence[Planned],
    results: Results,
    *,
    again: str,
    engine: Callable[[Path], Engine],
    retries: int,
) -> int:
    """Run cells; each result is written to the file as soon as it is known. Returns 0, 1 or 130 as a sweep does."""
    if not plan:
        return 0
    folders = write_cells(folder, [planned.cell for planned in plan])
    by_folder = dict(zip(folders, plan, strict=True))
    code = run_sweep(
        folder, folders, again=again, engine=engine, retries=retries, also=_keep_results(results, by_folder)
    )
    if code == STOPPED:
        return code
    for path, planned in by_folder.items():
        if planned.temperatures and is_done(path):
            cell = planned.cell
            print(f"{cell.name}: scored at {len(planned.temperatures)} temperatures", flush=True)
            score_cell(path, cell.task, cell.policy, planned.temperatures, cell.seed)
            if results.add(records_of(path, planned)):
                results.write()
    return code


def _keep_results(results: Results, plan: dict[Path, Planned]) -> Callable[[Summary], None]:
    seen: set[Path] = set()

    def keep(summary: Summary) -> None:
        ended = [path for path in [*summary.done, *summary.failed] if path not in seen]
        seen.update(ended)
        if results.add([record for path in ended for record in records_of(path, plan[path])]):
            results.write()

    return keep


def make_bases(plan: Sequence[Planned], folder: Path) -> bool:
    """Make the missing base policies that cells need; returns whether there were any."""
    policies = [planned.cell.policy for planned in plan]
    absent = dict.fromkeys(policy for policy in policies if policy and not Path(policy).exists())
    for path in absent:
        print(f"{path} is missing: polychromic pretrain {base_name(path)} --out {folder}", flush=True)
        spec = spec_of(base_name(path))
        assert spec.pretrain is not None
        print(spec.pretrain(spec.name, out=folder), flush=True)
    return bool(absent)

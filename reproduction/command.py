"""`polychromic reproduce search`, `first`, `study`, `page`: run what is missing, keep the results, write the page."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.report.tables import as_markdown
from polychromic.sweep.cells import Cell, write_cells
from polychromic.sweep.drive import Summary
from polychromic.sweep.local import available_cores
from polychromic.sweep.run import EngineName, choose_engine, run_sweep
from reproduction import search
from reproduction.estimates import needs_table, say_estimate
from reproduction.lines import Found
from reproduction.page import command_of, write_page
from reproduction.plan import (
    CHOSEN,
    FULL,
    OBSERVATION,
    OTHER_BASES,
    PARTS,
    PLAIN,
    QUICK,
    TASKS,
    UCB,
    Planned,
    Size,
    base_name,
    first_plan,
    key_of,
    study_plan,
)
from reproduction.records import Results, check_same, records_of

ITEMS = ("search", "first", "study", "page")
STOPPED = 130


@dataclass(frozen=True)
class Choices:
    """The options of these commands; `polychromic reproduce --help` explains them."""

    quick: bool = False
    seeds: int = 0
    tasks: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    out: Path | None = None
    results: Path | None = None
    page: Path | None = None
    base_policies: Path = Path("base-policies")
    engine: EngineName = "local"
    workers: int = 0
    retries: int = 3
    ray_address: str = ""
    slurm: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Of the cells."""
        return self.out or Path("reproduction-quick/runs" if self.quick else "reproduction-first")

    @property
    def results_folder(self) -> Path:
        """Of the files of results."""
        return self.results or Path("reproduction-quick/results" if self.quick else "results")

    @property
    def page_file(self) -> Path:
        """Of the tables."""
        inside = Path("docs").is_dir() and not self.quick and self.results is None
        return self.page or (Path("docs/results.md") if inside else self.results_folder / "results.md")

    def command(self, item: str) -> str:
        """What goes on after an interruption, with everything that was given."""
        again = ["polychromic", "reproduce", item, *(["--quick"] if self.quick else [])]
        for one in fields(self):
            value, flag = getattr(self, one.name), f"--{one.name.replace('_', '-')}"
            if one.name != "quick" and value != one.default:
                if one.name == "slurm":
                    again += [part for option in value for part in (flag, option)]
                else:
                    again += [flag, *(value if isinstance(value, tuple) else [str(value)])]
        return shlex.join(again)


def run_item(item: str, given: Choices, *, estimate_only: bool = False, size: Size | None = None) -> int:
    """Run an item as far as it is missing, then write the page. Returns 0, 1 if something failed, 130 if stopped."""
    usual = size or (QUICK if given.quick else FULL)
    size = replace(usual, seeds=given.seeds, more_seeds={}) if given.seeds else usual
    if item == "page":
        return _page(given, usual, estimate_only)
    tasks = _checked("tasks", given.tasks, TASKS) or TASKS
    only = _checked("only", given.only, PARTS.get(item, ()))
    found = _read(given, size, tasks)
    if item == "search":
        return _search(given, found, usual, estimate_only)
    if given.quick or estimate_only:
        _choose_something(found)
    if item == "first":
        plan = first_plan(found.chosen, size, tasks, only or PARTS["first"])
        if CHOSEN in (only or PARTS["first"]):
            _say_left_out(found)
    else:
        bases = _bases(tasks, given.base_policies) if OBSERVATION in only else {}
        plan = study_plan(found.chosen, found.best_by_configurations, size, tasks, bases)
    plan = [one for one in plan if not only or one.part in only]
    if not estimate_only:
        _check_writable(given)
    todo = _missing(plan, found.runs, given.folder)
    if not estimate_only and _make_bases(todo, given.base_policies):
        todo = _missing(plan, found.runs, given.folder)  # now that it is known with which parameters they begin
    say_estimate(given.folder, todo, _slots(given), known=len(_unique(plan)) - len(todo))
    if estimate_only:
        _say_needs(todo)
        return 0
    found.runs.write()
    code = _run(item, given, todo, found.runs)
    _write(given, found, usual)
    return code if code == STOPPED else int(bool(_missing(plan, found.runs, given.folder)))


def _page(given: Choices, usual: Size, estimate_only: bool) -> int:
    """The page alone, from files that are there."""
    for name, value in {"tasks": given.tasks, "only": given.only, "estimate-only": estimate_only}.items():
        if value:
            raise UserError(f"{name} is for search, first and study; page writes what there are results of")
    found = _read(given, usual, TASKS)
    if not any(results.path.exists() for results in (found.search, found.runs)):
        told = f"{given.results_folder} has neither search.json nor runs.json"
        raise UserError(f"results: {told}; run `polychromic reproduce search` first, or give their folder")
    if given.quick:
        _choose_something(found)
    _write(given, found, usual)
    return 0


def _search(given: Choices, found: Found, usual: Size, estimate_only: bool) -> int:
    """Stage after stage; what the next one tries follows from the results of those before."""
    results = found.search
    whole = [one.cell for one in search.most_search(found.size, found.tasks)]
    chains = search.search_chains(results.cells, found.size, found.tasks)
    done = {key_of(trial.planned.cell) for chain in chains for trial in chain.trials if trial.score is not None}
    print(f"{len(done)} of {len(whole)} runs of the search have results; all of it from nothing:")
    say_estimate(given.folder, whole, _slots(given))
    if estimate_only:
        _say_needs(whole)
        return 0
    _check_writable(given)
    while True:
        chains = search.search_chains(results.cells, found.size, found.tasks)
        results.notes |= {
            "command": command_of("search", quick=given.quick),
            "rule": search.RULE,
            "chosen": search.chosen_of(chains),  # other tasks stay as the file has them
            "best_by_configurations": search.best_by_configurations(chains),
        }
        results.write()
        waiting = [one for chain in chains for one in chain.missing]
        if not waiting:
            _write(given, found, usual)
            return 0
        todo = _missing(waiting, results, given.folder)
        if not todo:
            continue  # they were done in an earlier sitting, and their results are known now
        stages = sorted({f"{one.part} of {one.label} on {one.cell.task}" for one in waiting})
        print(f"next: {'; '.join(stages)}")
        code = _run("search", given, todo, results)
        if code == STOPPED or _missing(waiting, results, given.folder):
            _write(given, found, usual)
            return code or 1


def _run(item: str, given: Choices, cells: Sequence[Cell], results: Results) -> int:
    """Run cells; the result of each is in the file as soon as it is there."""
    if not cells:
        return 0
    again = given.command(item)
    print(f"to go on after an interruption: {again}", flush=True)
    folders = write_cells(given.folder, cells)
    engine = choose_engine(given.engine, given.workers, given.ray_address, given.slurm)
    return run_sweep(
        given.folder, folders, again=again, engine=engine, retries=given.retries, also=_keep_results(results)
    )


def _keep_results(results: Results) -> Callable[[Summary], None]:
    seen: set[Path] = set()

    def keep(summary: Summary) -> None:
        ended = [path for path in [*summary.done, *summary.failed] if path not in seen]
        seen.update(ended)
        if results.add([record for path in ended for record in records_of(path)]):
            results.write()

    return keep


def _missing(plan: Sequence[Planned], results: Results, folder: Path) -> list[Cell]:
    """Cells without a result, each once; those that were done in this folder get theirs first. Nothing is written."""
    for one in plan:
        if key_of(one.cell) in results.cells:
            check_same(results.cells[key_of(one.cell)], one.cell)
    unknown = [one.cell for one in _unique(plan) if key_of(one.cell) not in results.cells]
    results.add([record for cell in unknown for record in records_of(folder / cell.name)])
    return [cell for cell in unknown if key_of(cell) not in results.cells]


def _unique(plan: Sequence[Planned]) -> list[Planned]:
    return list({key_of(one.cell): one for one in reversed(plan)}.values())[::-1]


def _read(given: Choices, size: Size, tasks: tuple[str, ...]) -> Found:
    searched, runs = (Results(given.results_folder / f"{name}.json") for name in ("search", "runs"))
    return Found(searched, runs, size, tasks)


def _choose_something(found: Found) -> None:
    """A quick look and an estimate need no search; nothing is written of what is taken instead."""
    missing = [task for task in found.tasks if not {*PLAIN, *UCB} <= set(found.chosen.get(task, {}))]
    if missing:
        told = "learning rate 1e-4 where it has not chosen, the rest as in the paper"
        print(f"the search is not through on {', '.join(missing)}: {told}", file=sys.stderr)
        taken: dict[str, dict[str, Any]] = {}
        for method in (*PLAIN, *UCB):
            own = search.start_of(method.removesuffix("-ucb"))
            own |= {"actor_learning_rate": 1e-4, "critic_learning_rate": 1e-3}
            taken[method] = {**own, **({"ucb": 0.1} if method in UCB else {})}
        instead = {task: {**taken, **found.chosen.get(task, {})} for task in missing}
        found.search.notes["chosen"] = {**found.chosen, **instead}


def _say_left_out(found: Found) -> None:
    for task in found.tasks:
        missing = [method for method in (*PLAIN, *UCB) if method not in found.chosen.get(task, {})]
        if missing:
            print(f"left out until their search is through on {task}: {', '.join(missing)}", file=sys.stderr)


def _bases(tasks: Sequence[str], folder: Path) -> dict[str, str]:
    """Files of the other base policies by name, whether they are there or not."""
    names = [base for task in tasks for base in OTHER_BASES[task]]
    return {base: str((folder / base / "policy.safetensors").resolve()) for base in names}


def _make_bases(cells: Sequence[Cell], folder: Path) -> bool:
    """Make the base policies that cells need and that are missing; whether there were any."""
    missing = dict.fromkeys(cell.policy for cell in cells if cell.policy and not Path(cell.policy).exists())
    for path in missing:
        from polychromic.pretrain.command import pretrain

        print(f"{path} is missing: polychromic pretrain {base_name(path)} --out {folder}", flush=True)
        pretrain(base_name(path), out=folder)
    return bool(missing)


def _check_writable(given: Choices) -> None:
    """Before anything runs: can what comes of it be kept?"""
    for name, path in {"results": given.results_folder / "runs.json", "page": given.page_file}.items():
        nearest = path if path.exists() else next(one for one in path.absolute().parents if one.exists())
        if (nearest.is_dir() if nearest is path else not nearest.is_dir()) or not os.access(nearest, os.W_OK):
            raise UserError(f"{name}: {path} cannot be written; give another one with --{name}")


def _write(given: Choices, found: Found, usual: Size) -> None:
    """The page and its figures, from the files alone: all tasks and the usual seeds, whatever was asked for."""
    from reproduction.draw import draw_figures

    whole = replace(found, tasks=TASKS, size=usual)
    page = given.page_file
    try:
        figures = draw_figures(whole, page.parent / "figures")
        write_page(page, whole, figures, quick=given.quick)
    except UnicodeDecodeError as error:
        raise UserError(f"page: {page} is no text in UTF-8; give another one with --page") from error
    except OSError as error:
        raise UserError(f"page: cannot write {error.filename or page} ({error.strerror})") from error
    print(f"results: {given.results_folder}, page: {page}")


def _say_needs(cells: Sequence[Cell]) -> None:
    if cells:
        print("\n" + as_markdown([needs_table(cells)]))


def _slots(given: Choices) -> int:
    return given.workers or len(available_cores())


def _checked(name: str, values: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    for value in values:
        if value not in known:
            raise UserError(f"{name} has {value!r}; choose from {', '.join(known) or 'nothing'}")
    return tuple(dict.fromkeys(values))

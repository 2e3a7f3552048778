"""`python -m reproduction WHAT`: run the missing cells, store their results, write pages and figures."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import tyro

from polychromic.errors import UserError
from polychromic.report.table import as_markdown
from polychromic.sweep.local import available_cores
from polychromic.sweep.run import EngineName, check_retries, choose_engine
from reproduction import cells, search
from reproduction.estimates import needs_table, say_estimate
from reproduction.lines import Stored
from reproduction.page import (
    command_of,
    results_blocks,
    scale_blocks,
    set_credit_blocks,
    skeletons,
    triangle_blocks,
    write_page,
)
from reproduction.plan import Chosen, Plan, Planned, Scale, expand, key_of
from reproduction.plans import FULL, PLANS, QUICK, SEARCH, STAND_IN, TRIANGLE

PAGE, ALL = "page", "all"
KNOWN = {
    "search": "settings for every method, by a rule fixed in advance",
    **{name: plan.about for name, plan in PLANS.items()},
    PAGE: "pages and figures, only from stored results",
    ALL: "all of these in turn",
}


@dataclass(frozen=True)
class Arguments:
    """Run the missing cells of a plan, then write pages and figures from the stored results.

    The same command resumes after any interruption, on this machine or another: a cell that has a result in
    results/*.json is not run again. Plans that share cells share their results.
    """

    what: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="WHAT", help="; ".join(f"{name}: {about}" for name, about in KNOWN.items())),
    ]
    quick: bool = False
    """One seed, few iterations and attempts: a dry run, not a result."""
    seeds: int = 0
    """Seeds per method. 0: 3, and 5 of PPO and Poly-PPO in the main comparisons; 1 with --quick."""
    tasks: tuple[str, ...] = ()
    """Tasks of the plan. Not given: all of them."""
    only: tuple[str, ...] = ()
    """Parts of the plan. Tables: chosen, paper. Study: reference, or factors by name; `observation` runs only if it is
    named. Screening: rules, or factors by name. Credit: ppo, finalists."""
    out: Path | None = None
    """The folder for cells. Not given: reproduction-cells, or reproduction-quick/cells."""
    results: Path | None = None
    """The folder for results files. Not given: results, or reproduction-quick/results."""
    page: Path | None = None
    """The results page. Not given: docs/results.md if there is a folder docs, else results.md in RESULTS."""
    base_policies: Path = Path("base-policies")
    """For `study --only observation`: the folder of `polychromic pretrain`; missing policies are made."""
    estimate_only: bool = False
    """Print the estimated cost and stop."""
    engine: EngineName = "local"
    """local, ray or slurm, as for `polychromic sweep`."""
    workers: int = 0
    """Cells at the same time. 0: as many as there are cores, or as the cluster takes."""
    retries: int = 3
    """How often to retry a cell that fails."""
    ray_address: str = ""
    """The Ray cluster."""
    slurm: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE for submitit's executor; may be repeated."""

    @property
    def cells_folder(self) -> Path:
        """The folder of the cells."""
        return self.out or Path("reproduction-quick/cells" if self.quick else "reproduction-cells")

    @property
    def results_folder(self) -> Path:
        """The folder of the results files."""
        return self.results or Path("reproduction-quick/results" if self.quick else "results")

    @property
    def in_docs(self) -> bool:
        """Whether the pages are part of the documentation."""
        return Path("docs").is_dir() and not self.quick and self.results is None and self.page is None

    @property
    def page_file(self) -> Path:
        """The results page."""
        return self.page or (Path("docs/results.md") if self.in_docs else self.results_folder / "results.md")

    @property
    def command(self) -> str:
        """The command that resumes after an interruption, with all given options."""
        again = ["python", "-m", "reproduction", self.what]
        for field in fields(self):
            value, flag = getattr(self, field.name), f"--{field.name.replace('_', '-')}"
            if field.name == "what" or value == field.default:
                continue
            if field.name == "slurm":
                again += [part for option in value for part in (flag, option)]
            elif isinstance(value, bool):
                again.append(flag)
            else:
                again += [flag, *(value if isinstance(value, tuple) else [str(value)])]
        return shlex.join(again)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; a user's mistake ends in one line on stderr and exit code 2."""
    given = tyro.cli(Arguments, args=argv, prog="python -m reproduction", description=Arguments.__doc__)
    try:
        return reproduce(given)
    except UserError as error:
        print(f"python -m reproduction {given.what}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"python -m reproduction {given.what}: interrupted", file=sys.stderr)
        return cells.STOPPED


def reproduce(given: Arguments, scale: Scale | None = None) -> int:
    """Run the missing cells of a plan, then write the pages. Returns 0, 1 if something failed, 130 if stopped."""
    _checked("what", (given.what,), tuple(KNOWN))
    if given.seeds < 0:
        raise UserError(f"seeds is {given.seeds}; it must be at least 0")
    check_retries(given.retries)
    choose_engine(given.engine, given.workers, given.ray_address, given.slurm)
    usual = scale or (QUICK if given.quick else FULL)
    if given.what == PAGE:
        return _page(given, usual)
    if given.what != ALL:
        return _search(given, usual) if given.what == "search" else _plan(given, PLANS[given.what], usual)
    for name in ("tasks", "only"):
        if getattr(given, name):
            raise UserError(f"{name} is for one plan; all runs everything")
    codes = []
    for what in ("search", *PLANS):
        print(f"\n{what}:")
        own = replace(given, what=what)
        codes.append(_search(own, usual) if what == "search" else _plan(own, PLANS[what], usual))
        if codes[-1] == cells.STOPPED:
            break
    return max(codes)


def _plan(given: Arguments, plan: Plan, usual: Scale) -> int:
    scale = replace(usual, seeds=given.seeds, pair_seeds=given.seeds) if given.seeds else usual
    tasks = _checked("tasks", given.tasks, plan.tasks(scale)) or plan.tasks(scale)
    only = _checked("only", given.only, plan.parts)
    stored = Stored(given.results_folder, scale)
    if given.quick or given.estimate_only:
        _say_stand_ins(stored.chosen, tasks, plan)
        stored = replace(stored, stand_in=True)
    else:
        _say_left_out(stored.chosen, tasks, plan, only)
        if needed := stored.needed_first(plan, tasks):
            what, first = needed
            raise UserError(
                f"{what} yet; run `python -m reproduction {first}` to its end first, or give other tasks with --tasks"
            )
    chosen = stored.chosen_for(plan)
    if plan.has_finalists and not chosen.finalists:
        raise UserError("the screening is not finished; run `python -m reproduction screening` to its end first")
    results = stored.files[plan.results]
    planned = expand(plan, scale, chosen, tasks, only, _bases(scale, tasks, given.base_policies))
    if not given.estimate_only:
        _check_writable(given)
    todo = cells.missing(planned, results, given.cells_folder)
    if not given.estimate_only and cells.make_bases(todo, given.base_policies):
        todo = cells.missing(planned, results, given.cells_folder)  # now the parameters they start from are known
    say_estimate(given.cells_folder, todo, _slots(given), known=len(cells.unique(planned)) - len(todo))
    if given.estimate_only:
        _say_needs(todo)
        return 0
    if planned != todo:
        results.write()
    code = _run(given, todo, stored, plan.results)
    _write(given, usual)
    return code if code == cells.STOPPED else int(bool(cells.missing(planned, results, given.cells_folder)))


def _search(given: Arguments, usual: Scale) -> int:
    """Stage after stage; what a stage tries follows from the results of those before."""
    if given.only:
        raise UserError("only is for tables and study; search has no parts")
    tasks = _checked("tasks", given.tasks, SEARCH.tasks(usual)) or SEARCH.tasks(usual)
    stored = Stored(given.results_folder, usual)
    results = stored.search
    whole = search.whole_search(SEARCH, usual, tasks)
    chains = search.search_chains(results.cells, SEARCH, usual, tasks)
    done = {key_of(trial.planned.cell) for chain in chains for trial in chain.trials if trial.score is not None}
    print(f"{len(done)} of {len(whole)} runs of the search have results; the whole search from scratch:")
    say_estimate(given.cells_folder, whole, _slots(given))
    if given.estimate_only:
        _say_needs(whole)
        return 0
    _check_writable(given)
    while True:
        chains = search.search_chains(results.cells, SEARCH, usual, tasks)
        notes = {
            "command": command_of("search", quick=given.quick),
            "rule": search.RULE,
            "chosen": search.chosen_of(chains),  # other tasks keep what the file has
            "best_by_configurations": search.best_by_configurations(chains, SEARCH),
        }
        if any(results.notes.get(name) != value for name, value in notes.items()):
            results.notes |= notes
            results.write()
        waiting = [planned for chain in chains for planned in chain.missing]
        if not waiting:
            _write(given, usual)
            return 0
        todo = cells.missing(waiting, results, given.cells_folder)
        if not todo:
            continue  # they were already done; now their results are known
        stages = sorted({f"{planned.part} of {planned.label} on {planned.cell.task}" for planned in waiting})
        print(f"next: {'; '.join(stages)}")
        code = _run(given, todo, stored, "search")
        if code == cells.STOPPED or cells.missing(waiting, results, given.cells_folder):
            _write(given, usual)
            return code or 1


def _page(given: Arguments, usual: Scale) -> int:
    """Write only pages and figures, from existing results files."""
    for name, value in {"tasks": given.tasks, "only": given.only, "estimate-only": given.estimate_only}.items():
        if value:
            raise UserError(f"{name} is for plans that run cells; page only writes stored results")
    if not any(results.path.exists() for results in Stored(given.results_folder, usual).files.values()):
        problem = f"{given.results_folder} has no results file"
        raise UserError(f"results: {problem}; run `python -m reproduction search` first, or give their folder")
    _write(given, usual)
    return 0


def _run(given: Arguments, todo: Sequence[Planned], stored: Stored, file: str) -> int:
    if not todo:
        return 0
    print(f"after an interruption resume with: {given.command}", flush=True)
    engine = choose_engine(given.engine, given.workers, given.ray_address, given.slurm)
    results = stored.files[file]
    return cells.run(given.cells_folder, todo, results, again=given.command, engine=engine, retries=given.retries)


def _say_stand_ins(chosen: Chosen, tasks: Sequence[str], plan: Plan) -> None:
    absent = [task for task in tasks if _needs_search(plan) and not STAND_IN.keys() <= chosen.of_task(task).keys()]
    if absent:
        instead = "using learning rate 1e-4 where it has not chosen, the rest as in the paper"
        print(f"the search is not finished on {', '.join(absent)}: {instead}", file=sys.stderr)


def _say_left_out(chosen: Chosen, tasks: Sequence[str], plan: Plan, only: Sequence[str]) -> None:
    wanted = [runs for runs in plan.runs if runs.settings == "chosen" and (runs.part in only or not only)]
    methods = {method for runs in wanted for method in runs.methods}
    for task in tasks:
        absent = [method for method in STAND_IN if method in methods and method not in chosen.of_task(task)]
        if absent:
            print(f"skipped until their search is finished on {task}: {', '.join(absent)}", file=sys.stderr)


def _needs_search(plan: Plan) -> bool:
    return any(runs.settings != "none" and set(runs.methods) & STAND_IN.keys() for runs in plan.runs)


def _bases(scale: Scale, tasks: Sequence[str], folder: Path) -> dict[str, str]:
    """Files of further base policies by name, whether they exist or not."""
    names = [base for task in tasks for base in scale.tasks[task].bases]
    return {base: str((folder / base / "policy.safetensors").resolve()) for base in names}


def _check_writable(given: Arguments) -> None:
    """Check before anything runs that the results can be written."""
    for name, path in {"results": given.results_folder / "runs.json", "page": given.page_file}.items():
        nearest = path if path.exists() else next(parent for parent in path.absolute().parents if parent.exists())
        if (nearest.is_dir() if nearest is path else not nearest.is_dir()) or not os.access(nearest, os.W_OK):
            raise UserError(f"{name}: {path} cannot be written; give another one with --{name}")


def _write(given: Arguments, usual: Scale) -> None:
    """Pages and their figures, from the files alone: all tasks and the usual seeds, whatever the options."""
    from reproduction.draw import save
    from reproduction.figures import draw_figures
    from reproduction.triangles import triangle_figure

    stored, page = Stored(given.results_folder, usual, stand_in=given.quick), given.page_file
    beside = page.parent
    try:
        figures = draw_figures(stored, beside / "figures")
        blocks = results_blocks(stored, figures, quick=given.quick)
        for suffix, skeleton in skeletons(stored).items():
            write_page(page.with_stem(page.stem + suffix), blocks, skeleton)
        triangles = stored.lines(TRIANGLE, "triangle")
        if any(line.records for line in triangles):
            save(triangle_figure(triangles), beside / "figures" / "triangle.svg")
            own = "# Triangle discovery\n\n<!-- triangle -->\n\n<!-- end -->\n\n![validity](figures/triangle.svg)\n"
            write_page(beside / "triangle.md", triangle_blocks(stored), own)
        if given.in_docs:
            write_page(beside / "scale.md", scale_blocks(stored.chosen))
            write_page(beside / "set-credit.md", set_credit_blocks(stored))
    except UnicodeDecodeError as error:
        raise UserError(f"page: {page} is not UTF-8 text; give another one with --page") from error
    except OSError as error:
        raise UserError(f"page: cannot write {error.filename or page} ({error.strerror})") from error
    print(f"results: {given.results_folder}, page: {page}")


def _say_needs(plan: Sequence[Planned]) -> None:
    if plan:
        print("\n" + as_markdown([needs_table(plan)]))


def _slots(given: Arguments) -> int:
    return given.workers or len(available_cores())


def _checked(name: str, values: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    for value in values:
        if value not in known:
            raise UserError(f"{name} has {value!r}; choose from {', '.join(known) or 'nothing'}")
    return tuple(dict.fromkeys(values))


if __name__ == "__main__":
    sys.exit(main())

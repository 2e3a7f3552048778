"""`polychromic reproduce`: the sweeps, evaluations and report behind the paper's tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from polychromic.errors import UserError
from polychromic.evaluate.targets import EVALUATION
from polychromic.policies.files import available_policies
from polychromic.report.compare import Comparison, compare, pooled
from polychromic.report.gather import gather
from polychromic.report.page import write_report
from polychromic.report.tables import Table, as_markdown, tables
from polychromic.sweep.cells import PRETRAINED, Cell, Evaluation, is_done, make_cells, write_cells
from polychromic.sweep.local import available_cores
from polychromic.sweep.run import EngineName, check_retries, choose_engine, run_sweep
from reproduction.command import ITEMS as RESULTS
from reproduction.command import Choices, run_item
from reproduction.estimates import needs_table, say_estimate

BABYAI = ("goto", "pickup", "synthseq", "bosslevel")
METHODS = ("reinforce", "reinforce-ucb", "ppo", "ppo-ucb", "poly-ppo", "poly-ppo-ucb")
TRIANGLE = "triangle"
ITEMS = {
    "table1": ((*BABYAI, "fourrooms"), METHODS),
    "table2": ((*BABYAI, "fourrooms"), METHODS),
    "passk": (BABYAI, METHODS),
    TRIANGLE: ((TRIANGLE,), ("reinforce", "ppo", "poly-ppo")),
    "all": ((*BABYAI, "fourrooms", TRIANGLE), METHODS),
}
PASS_AT = (1, 2, 5, 10, 20, 40, 80, 160)


@dataclass(frozen=True)
class Scale:
    """How much of the paper's experiment is run."""

    methods: tuple[str, ...]
    seeds: int
    attempts: int
    settings: dict[str, float]
    perturbed: dict[str, tuple[str, ...]]  # by item: the tasks that are evaluated from perturbed starts too
    triangle_attempts: int = 1000  # at each graph, which has many right answers; as `polychromic evaluate` takes them


GRIDS = (*BABYAI, "fourrooms")
# The paper does not say how many iterations it ran; the defaults of tasks are this project's. Perturbed starts are
# part of every item, so that all items share their cells.
FULL = Scale(METHODS, 3, 160, {}, dict.fromkeys(ITEMS, GRIDS))
# A higher learning rate than the paper's, so that few iterations show something; perturbed starts, which take longest,
# of some tasks and only where they are asked for.
SOME = ("goto", "pickup", "fourrooms")
QUICK = Scale(
    ("ppo", "poly-ppo"),
    1,
    32,
    {
        "iterations": 30,
        "configurations_per_iteration": 1,
        "actor_learning_rate": 1e-4,
        "critic_learning_rate": 1e-4,
        "kl_coefficient": 0.01,
        "evaluate_every": 15,
        "evaluation_rollouts": 8,
    },
    {"table2": SOME, "all": SOME},
    triangle_attempts=200,
)


def reproduce(
    what: Annotated[
        tyro.conf.Positional[
            Literal["table1", "table2", "passk", "triangle", "all", "search", "first", "study", "page"]
        ],
        tyro.conf.arg(metavar="WHAT"),
    ],
    /,
    *,
    quick: bool = False,
    seeds: int = 0,
    out: Path | None = None,
    engine: EngineName = "local",
    workers: int = 0,
    retries: int = 3,
    ray_address: str = "",
    slurm: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    estimate_only: bool = False,
    tasks: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    results: Path | None = None,
    page: Path | None = None,
    base_policies: Path = Path("base-policies"),
) -> int:
    """Make the paper's tables and figures: sweeps, evaluations and a report with the paper's figures beside ours.

    The same command goes on after any interruption. Tables that share runs share them: `table2` after `table1` only
    writes another report.

    Args:
        what: table1 (reward and success), table2 (perturbed starts), passk (pass@k on BabyAI), triangle, all; or, of
            the first reproduction, search (for settings), first (all methods), study (what decides the outcome), page
            (its tables and figures, from files of results alone).
        quick: PPO and Poly-PPO alone, one seed, few iterations and attempts: shows the way, not the result.
        seeds: seeds per method (0: 3 as in the paper; in first and study 5 of PPO and Poly-PPO at full length; 1 with
            --quick).
        out: the folder. Not given: reproduction, of the first reproduction reproduction-first, with --quick one in
            reproduction-quick.
        engine: local, ray or slurm, as for `polychromic sweep`.
        workers: cells at the same time (0: as many as there are cores, or as the cluster takes).
        retries: how often a cell that fails is tried again.
        ray_address: of the Ray cluster.
        slurm: NAME=VALUE for submitit's executor.
        estimate_only: say what it would take and stop.
        tasks: of search, first and study: goto, fourrooms (not given: both).
        only: of first: chosen, paper; of study: reference, or factors by name; `observation` is run if named only.
        results: the folder for files of results. Not given: results, or reproduction-quick/results.
        page: the page of results. Not given: docs/results.md if there is a folder docs, else results.md in RESULTS.
        base_policies: of study's `observation`: the folder of `polychromic pretrain`; what is missing there is made.
    """
    if seeds < 0:
        raise UserError(f"seeds is {seeds}; it must be at least 0")
    check_retries(retries)
    chosen = choose_engine(engine, workers, ray_address, slurm)
    given = Choices(
        quick=quick,
        seeds=seeds,
        tasks=tasks,
        only=only,
        out=out,
        results=results,
        page=page,
        base_policies=base_policies,
        engine=engine,
        workers=workers,
        retries=retries,
        ray_address=ray_address,
        slurm=slurm,
    )
    if what in RESULTS:
        return run_item(what, given, estimate_only=estimate_only)
    for name, value in {"tasks": tasks, "only": only, "results": results, "page": page}.items():
        if value:
            raise UserError(f"{name} is for {', '.join(RESULTS)}; {what} does not have it")
    scale = QUICK if quick else FULL
    scale = replace(scale, seeds=seeds or scale.seeds)
    folder = out or (Path("reproduction-quick") / what if quick else Path("reproduction"))
    cells = cells_of(what, scale)
    slots = workers or len(available_cores())
    say_estimate(folder, cells, slots)
    if estimate_only:
        print("\n" + as_markdown([needs_table(cells)]))
        return 0
    again = given.command(what)
    print(f"to go on after an interruption: {again}")
    folders = write_cells(folder, cells)
    code = run_sweep(folder, folders, again=again, engine=chosen, retries=retries)
    if code == 130 or not any(map(is_done, folders)):
        return code
    _report(what, quick, scale, folder, folders)
    return code


def cells_of(what: str, scale: Scale) -> list[Cell]:
    """The cells of an item; a task that this version cannot run is refused, or told and left out of `all`."""
    tasks, methods = ITEMS[what]
    missing = [task for task in tasks if task not in available_policies()]
    if missing:
        told = f"no base policy for {', '.join(missing)} is shipped with this version, so it cannot be reproduced"
        if len(missing) == len(tasks):
            raise UserError(f"{what}: {told}")
        print(f"polychromic reproduce: {told}; the rest is", file=sys.stderr)
    cells = []
    if what == "table2":  # it is about nothing else
        tasks = tuple(task for task in tasks if task in scale.perturbed.get(what, ()))
    for task in tasks:
        if task not in missing:
            wanted = [method for method in methods if method in scale.methods]
            if task == TRIANGLE:
                wanted = [method for method in wanted if method in ITEMS[TRIANGLE][1]]
            attempts = scale.triangle_attempts if task == TRIANGLE else scale.attempts
            scored = Evaluation(attempts, perturbed=task in scale.perturbed.get(what, ()))
            cells += make_cells(
                [task], [PRETRAINED, *wanted], range(scale.seeds), settings=scale.settings, evaluation=scored
            )
    # Episodes for the viewer of one seed are enough.
    cells = [replace(cell, evaluation=replace(cell.evaluation, recordings=cell.seed == 0)) for cell in cells]
    return sorted(cells, key=lambda cell: cell.seed)


def _report(what: str, quick: bool, scale: Scale, folder: Path, folders: Sequence[Path]) -> None:
    # A cell of the base policy holds an evaluation and no run.
    found = [path if (path / "config.json").exists() else path / EVALUATION for path in folders]
    runs = [path for path in found if path.exists()]
    summary = []
    if quick:
        chosen = ", ".join(f"{name} = {value:g}" for name, value in scale.settings.items())
        summary = [
            f"The quick version: {scale.seeds} seed, {scale.attempts} attempts at each configuration "
            f"({scale.triangle_attempts} at each graph of triangle discovery), {chosen}. "
            "It shows how the comparison is made; differences between methods need the full one."
        ]
    page, markdown = folder / f"{what}.html", folder / f"{what}.md"
    title = f"{what} of the paper" + (", quick version" if quick else "")
    problems = write_report(runs, page, markdown=markdown, title=title, summary=summary)
    comparisons = compare(gather(runs)[0])
    shown = tables(comparisons)
    if what in ("passk", TRIANGLE, "all"):
        shown = [*shown, pass_table(comparisons)]
    if what == "table1":
        shown = shown[:1]
    elif what in ("table2", "passk"):
        shown = shown[1:2] if what == "table2" else shown[-1:]
    print()
    for line in summary:
        print(line + "\n")
    print(as_markdown(shown))
    for problem in problems:
        print(f"polychromic reproduce: {problem}", file=sys.stderr)
    print(f"report: {page}, tables: {markdown}")


def pass_table(comparisons: Sequence[Comparison]) -> Table:
    """pass@k of every method, read off the curves of the report."""
    ks = [k for k in PASS_AT if any(len(_curve(one)) >= k for one in comparisons)]
    rows = []
    for comparison in comparisons:
        for method in comparison.methods:
            found = pooled(method)
            if found:
                curve = found["pass_at_k"]["mean"]
                figures = [f"{curve[k - 1]:.3f}" if k <= len(curve) else "–" for k in ks]
                rows.append((comparison.title, method.label, *figures))
    return Table(
        "pass@k",
        "Share of configurations solved in k attempts. The paper shows these as curves without figures.",
        ("task", "method", *(f"k = {k}" for k in ks)),
        tuple(rows),
    )


def _curve(comparison: Comparison) -> list[float]:
    found = [pooled(method) for method in comparison.methods]
    return max((one["pass_at_k"]["mean"] for one in found if one), key=len, default=[])

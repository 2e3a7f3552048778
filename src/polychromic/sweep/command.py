"""`polychromic sweep`: tasks × methods × seeds, and `polychromic sweep status DIR`."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from polychromic.errors import UserError
from polychromic.files import parse_settings, parse_value, parse_values
from polychromic.finetuning.config_check import functions_in
from polychromic.policies.files import available_policies, policy_path
from polychromic.sweep.cells import CELL, Cell, Evaluation, find_cells, make_cells, read_cell, write_cells
from polychromic.sweep.plan import SCORING, Plan, parse_seeds, read_plan
from polychromic.sweep.progress import read_status, show
from polychromic.sweep.run import EngineName, check_retries, choose_engine, run_sweep
from polychromic.trust import OPTION, consent


@dataclass(frozen=True)
class Arguments:
    """Run tasks × methods × seeds. The same command resumes after an interruption; done cells are skipped.

    Every cell is a run directory of `polychromic finetune`, evaluated at its end. `polychromic sweep status OUT` shows
    its progress from any terminal; `polychromic sweep --out OUT` alone resumes all cells in a folder.
    """

    tasks: tuple[str, ...] = ()
    """Tasks, as `polychromic finetune` takes them."""
    methods: tuple[str, ...] = ()
    """Methods of fine-tuning; `pretrained` only evaluates the base policy, with a scan of temperatures."""
    seeds: tuple[str, ...] = ()
    """Seeds, as numbers or ranges: 0 1 2, or 0-19."""
    file: Path | None = None
    """A TOML or JSON file with tasks, methods, seeds, settings, vary, evaluation; options on the command line win."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE for any setting of `polychromic finetune`, for all cells; may be repeated."""
    vary: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE,VALUE,… to run every value of a setting; may be repeated."""
    policy: str = ""
    """A policy to start from, a file or a shipped one by name. Not given: the shipped policy of each task."""
    horizon: int = 0
    """H: maximum steps of an episode. 0: the task's default."""
    time_penalty: float | None = None
    """A success after t steps pays 1 − time_penalty · t/H (grid tasks only, where it is 0.5 if not given)."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE for an option of the tasks' own, for all cells; may be repeated."""
    attempts: int | None = None
    """Attempts at each configuration in the evaluation of a cell; 0: no evaluation."""
    perturbed: bool = False
    """Also evaluate from perturbed starts."""
    recordings: bool = True
    """Keep episodes for the report's viewer."""
    greedy: bool = False
    """Also evaluate with the most likely action at every step, into greedy.json of a cell."""
    along_the_way: bool = False
    """Evaluate kept policies (kept_policies) from perturbed starts too: points of the way, all with the same starts."""
    out: Path = Path("sweep")
    """The folder of the sweep."""
    engine: EngineName = "local"
    """local: processes on this machine; ray: tasks on a Ray cluster; slurm: jobs through submitit."""
    workers: int = 0
    """Cells at the same time. 0: one per core (local), as many as the cluster takes (ray, slurm)."""
    retries: int = 3
    """How often to retry a cell that fails or is killed."""
    ray_address: str = ""
    """The Ray cluster to use. Not given: the one of RAY_ADDRESS, or a new one on this machine."""
    slurm: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE for submitit's executor (slurm_partition=…, timeout_min=…, cluster=debug); may be repeated."""


def sweep_command(args: Sequence[str]) -> int:
    """Parse the arguments of `polychromic sweep` and run it."""
    if args[:1] == ["status"]:
        return tyro.cli(status, args=list(args[1:]), prog="polychromic sweep status")
    given, named = _given(args)
    engine = choose_engine(given.engine, given.workers, given.ray_address, given.slurm)
    check_retries(given.retries)
    asked = _cells(given, named)
    folders = write_cells(given.out, asked) if asked else find_cells(given.out)
    if not asked:
        _check_trust(folders)
    again = shlex.join(["polychromic", "sweep", *args, *([OPTION] if consent().everything else [])])
    return run_sweep(given.out, folders, again=again, engine=engine, retries=given.retries)


# Options that a sweep file may give too, with values that differ from their defaults.
_OTHERS = {"policy": "?", "horizon": -1, "time_penalty": -1.0, "attempts": -1}
_OTHERS |= {"perturbed": True, "recordings": False, "greedy": True, "along_the_way": True}


def _given(args: Sequence[str]) -> tuple[Arguments, frozenset[str]]:
    """The arguments, and which of those about cells were given.

    They are parsed twice with different defaults: a value that is the same in both was given.
    """
    first, second = (
        tyro.cli(Arguments, args=list(args), default=default, prog="polychromic sweep")
        for default in (Arguments(), Arguments(**_OTHERS))  # type: ignore[arg-type]
    )
    repeated = [name for name in ("set", "vary", "option") if getattr(first, name)]
    return first, frozenset([name for name in _OTHERS if getattr(first, name) == getattr(second, name)] + repeated)


def _check_trust(folders: Sequence[Path]) -> None:
    """Refuse cells that ask for untrusted imports before anything starts; damaged ones are reported later."""
    for folder in folders:
        try:
            cell = read_cell(folder)
        except UserError:
            continue
        consent().check_settings({"task": cell.task, **functions_in(cell.settings)}, folder / CELL)


def status(
    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")], /, *, watch: bool = False
) -> int:
    """The progress of a sweep, read from its files, from any terminal or machine.

    Args:
        folder: of the sweep.
        watch: repeat until all cells have ended.
    """
    folders = find_cells(folder)
    console = Console()
    while True:
        statuses = [read_status(path) for path in folders]
        running = sum(cell.state == "running" for cell in statuses)
        console.print(show(statuses, slots=running))
        for cell in statuses:
            if cell.state == "failed":
                console.print(f"\n{cell.name} failed:\n{cell.message}", markup=False)
        if not watch or all(cell.state in ("done", "failed") for cell in statuses):
            return 0
        time.sleep(2)
        console.print()


def _cells(given: Arguments, named: frozenset[str]) -> list[Cell]:
    """The requested cells; empty if only a folder is given, to resume its cells."""
    plan: Plan = read_plan(given.file) if given.file else {}
    tasks, methods = given.tasks or plan.get("tasks", ()), given.methods or plan.get("methods", ())
    seeds = given.seeds or plan.get("seeds", ())
    if not (tasks or methods or seeds):
        if given.file is None and given.out.is_dir():
            for name in sorted(named):
                raise UserError(
                    f"--{name.replace('_', '-')} is given without tasks; the cells in {given.out} are resumed as they "
                    "are: leave it out, or give tasks, methods and seeds"
                )
            return []
        raise UserError(
            "tasks is missing; for example: polychromic sweep --tasks goto --methods ppo poly-ppo --seeds 0 1"
        )
    settings = parse_values("set", given.set)
    vary = {
        name: [parse_value(value) for value in text.split(",")]
        for name, text in parse_settings("vary", given.vary).items()
    }
    planned, varied = plan.get("settings", {}), plan.get("vary", {})
    for part in (planned, *({name: value} for name, values in varied.items() for value in values)):
        consent().check_settings(functions_in(part), given.file or "")
    evaluation = dict(plan.get("evaluation", {}))
    evaluation |= {name: getattr(given, name) for name in SCORING if name in named or name not in evaluation}
    horizon = given.horizon if "horizon" in named else plan.get("horizon", given.horizon)
    time_penalty = given.time_penalty if "time_penalty" in named else plan.get("time_penalty", given.time_penalty)
    if horizon < 0 or not 0 <= (time_penalty or 0) <= 1:
        raise UserError(
            f"horizon is {horizon} and time_penalty {time_penalty}; they must be at least 0, and between 0 and 1"
        )
    policy = given.policy or plan.get("policy", "")
    if policy and policy not in available_policies():
        policy = str(policy_path(policy).resolve())
    return make_cells(
        tasks,
        methods,
        parse_seeds(seeds),
        settings={**planned, **settings},
        vary={**varied, **vary},
        policy=policy,
        horizon=horizon,
        time_penalty=time_penalty,
        options=parse_values("option", given.option),
        evaluation=Evaluation(**evaluation),
    )

"""`polychromic finetune`: a run from the command line."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polychromic.config import Config, make_config
from polychromic.envs.make import world_for
from polychromic.errors import UserError
from polychromic.policies.files import SavedPolicy, check_fits, load_policy
from polychromic.train import Result, finetune


@dataclass(frozen=True)
class Arguments:
    """Fine-tune a pretrained policy. The same command goes on with an interrupted run.

    Writes a run directory with the resolved configuration, metrics, TensorBoard events, checkpoints and the policy.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")] = "fourrooms"
    """fourrooms, goto, pickup, synthseq, bosslevel, triangle, or a Gymnasium id of a grid level."""
    policy: str = ""
    """A shipped base policy by name, or a policy file. Not given: the shipped policy of the task."""
    out: Path | None = None
    """The run directory. Not given: runs/TASK-METHOD-SEED."""
    settings: Path | None = None
    """A TOML or JSON file of settings (names as below, with underscores); options on the command line win."""
    horizon: int = 0
    """H: most steps of an episode. 0: 100 on grid levels, 9 tokens for triangle."""
    time_penalty: float = 0.5
    """A success after t steps pays 1 − time_penalty · t/H (grid levels only)."""
    config: tyro.conf.OmitArgPrefixes[Config] = field(default_factory=Config)


def finetune_command(args: Sequence[str]) -> int:
    """Parse the arguments of `polychromic finetune` and run it."""
    task, method, settings = _look_ahead(args)
    defaults = Arguments(task=task or "fourrooms", config=make_config(method or "poly-ppo", task, **settings))
    given = tyro.cli(Arguments, args=list(args), default=defaults, prog="polychromic finetune")
    if not task:
        raise UserError("TASK is missing; for example: polychromic finetune fourrooms --method poly-ppo")
    saved = load_policy(given.policy or given.task)
    seeds = saved.info.configurations
    if not seeds:
        raise UserError(f"policy: {saved.info.source} names no configurations to fine-tune on")
    world = world_for(
        given.task,
        seeds,
        observation=saved.info.observation,
        horizon=given.horizon,
        time_penalty=given.time_penalty,
    )
    check_fits(saved, world)
    out = given.out or Path("runs") / f"{given.task}-{given.config.method}-{given.config.seed}"
    result = _with_progress(world, saved, given.config, out)
    _summarise(result, out)
    return 0


def _look_ahead(args: Sequence[str]) -> tuple[str, str, dict[str, Any]]:
    """Task, method and settings file decide the defaults, so they are read before everything else."""
    flat = [part for arg in args for part in arg.split("=", 1)]
    found = dict(pairwise(flat))
    task = args[0] if args and not args[0].startswith("-") else ""
    path = found.get("--settings")
    settings = _read_settings(Path(path)) if path else {}
    method = found.get("--method") or settings.pop("method", "")
    return task, method, settings


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UserError(f"settings: {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UserError(f"settings: {path} is neither TOML nor JSON: {error}") from error
    if "return_range" in values:
        values["return_range"] = tuple(values["return_range"])
    return dict(values)


def _with_progress(world: Any, saved: SavedPolicy, config: Config, out: Path) -> Result:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{config.method} on {world.task}", total=config.iterations, figures="compiling")
        evaluated = ""

        def watch(iteration: int, figures: Mapping[str, Any]) -> None:
            nonlocal evaluated
            if "success" in figures:
                evaluated = f" │ evaluated: success {figures['success']:.2f}, coverage {figures['coverage']:.2f}"
            shown = (
                f"success {figures['successes']:.2f}, distinct {figures['distinct_per_group']:.1f}, "
                f"{figures['steps'] / figures['seconds']:,.0f} steps/s{evaluated}"
            )
            progress.update(task, completed=iteration + 1, figures=shown)

        return finetune(world, saved, config, out=out, watch=watch)


def _summarise(result: Result, out: Path) -> None:
    last = result.evaluations[-1]
    passes = ", ".join(f"{name} {value:.3f}" for name, value in last.items() if name.startswith("pass@"))
    print(f"success {last['success']:.3f}, reward {last['reward']:.3f}, coverage {last['coverage']:.2f}, {passes}")
    print(f"run: {out}")

"""`polychromic finetune`: a run from the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polychromic.envs.grid.tasks import TASKS
from polychromic.envs.registry import world_for
from polychromic.errors import UserError
from polychromic.files import read_table
from polychromic.finetuning.config import Config, make_config
from polychromic.finetuning.config_check import nearest
from polychromic.finetuning.loop import Result, Watcher, check_run, finetune
from polychromic.finetuning.run import is_done
from polychromic.policies.files import check_fits, load_policy

FAINT = 0.05  # a polychromic signal below this share of GAE's is worth a word


@dataclass(frozen=True)
class _Unchecked(Config):
    """Settings of the run; `polychromic.make_config` takes the same."""

    # Not checked here: what is wrong is said once all settings are known, in our words.

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class Arguments:
    """Fine-tune a pretrained policy. The same command goes on with an interrupted run.

    Writes a run directory with the resolved configuration, metrics, TensorBoard events, checkpoints and the policy.
    """

    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")] = ""
    """fourrooms, goto, pickup, synthseq, bosslevel, triangle, or a Gymnasium id of a grid level."""
    policy: str = ""
    """A shipped base policy by name, or a policy file. Not given: the shipped policy of the task."""
    out: Path | None = None
    """The run directory. Not given: runs/TASK-METHOD-SEED."""
    settings: Path | None = None
    """A TOML or JSON file of settings (names as below, with underscores); options on the command line win."""
    preset: str = "default"
    """default (on the paper's grid tasks the settings of a search), or paper: its table and pseudocode literally."""
    horizon: int = 0
    """H: most steps of an episode. 0: 100 on grid levels, 9 tokens for triangle."""
    time_penalty: float = 0.5
    """A success after t steps pays 1 − time_penalty · t/H (grid levels only)."""
    observation: str = ""
    """partial or full. Not given: what the policy was trained on."""
    wandb: str = ""
    """Log to this Weights & Biases project too (needs polychromic[wandb]); WANDB_MODE=offline needs no network."""
    config: tyro.conf.OmitArgPrefixes[_Unchecked] = field(default_factory=_Unchecked)


# What a settings file may hold beside the fields of Config.
TASK_OPTIONS: dict[str, type] = {"policy": str, "horizon": int, "time_penalty": float, "observation": str, "wandb": str}


def finetune_command(args: Sequence[str]) -> int:
    """Parse the arguments of `polychromic finetune` and run it."""
    given, config = parse(args)
    if not given.task:
        raise UserError("TASK is missing; for example: polychromic finetune fourrooms --method poly-ppo")
    known = (*TASKS, "triangle")
    if given.task not in known and "-" not in given.task:
        raise UserError(f"task is {given.task!r}; {nearest(given.task, known)}choose one of {', '.join(known)}")
    saved = load_policy(given.policy or given.task)
    seeds = saved.info.configurations
    if not seeds:
        raise UserError(f"policy: {saved.info.source} names no configurations to fine-tune on")
    world = world_for(
        given.task,
        seeds,
        observation=given.observation or saved.info.observation,
        horizon=given.horizon,
        time_penalty=given.time_penalty,
    )
    check_fits(saved, world)
    out = given.out or Path("runs") / f"{given.task}-{config.method}-{config.seed}"
    check_run(world, saved, config, out)
    if is_done(out):
        result = finetune(world, saved, config, out=out)
    else:
        with _wandb(given.wandb, out, config) as also, _bar(config, given.task) as show:

            def watch(iteration: int, figures: Mapping[str, Any]) -> None:
                show(iteration, figures)
                also(iteration, figures)

            result = finetune(world, saved, config, out=out, watch=watch)
    _summarise(result, out)
    return 0


def parse(args: Sequence[str]) -> tuple[Arguments, Config]:
    """The arguments; task, method, preset and settings file decide the defaults, so they are read before all others."""
    first = _first_look(args)
    settings = read_table("settings", first.settings) if first.settings else {}
    method = first.method or settings.pop("method", "poly-ppo")
    settings.pop("method", None)
    preset = first.preset or settings.pop("preset", "default")
    settings.pop("preset", None)
    own = {name: _task_option(name, settings.pop(name)) for name in TASK_OPTIONS if name in settings}
    defaults = _Unchecked(**asdict(make_config(method, first.task, preset=preset, **settings)))
    given = tyro.cli(
        Arguments,
        args=list(args),
        default=Arguments(task=first.task, preset=preset, config=defaults, **own),
        prog="polychromic finetune",
    )
    explicit = {name: value for name, value in asdict(given.config).items() if name in first.named and name != "method"}
    # Some defaults follow from other settings, so they are made again with all that is known now.
    return given, make_config(method, first.task, preset=preset, **{**settings, **explicit})


@dataclass(frozen=True)
class _FirstLook:
    task: str = ""
    method: str = ""
    preset: str = ""
    settings: Path | None = None
    named: frozenset[str] = frozenset()  # the fields of all options that are there


def _first_look(args: Sequence[str]) -> _FirstLook:
    """What TASK, --method, --preset and --settings are among options that are not read yet, and which these are."""
    flags = {f"--{name.name.replace('_', '-')}" for name in fields(Config) if isinstance(name.default, bool)}
    flags |= {f"--no-{flag.removeprefix('--')}" for flag in flags} | {"--help", "-h"}
    found: dict[str, Any] = {}
    named = set()
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        name, equals, value = arg.partition("=")
        name = name.replace("_", "-")
        if not arg.startswith("-"):
            found.setdefault("task", arg)
            continue
        named.add(name.removeprefix("--").removeprefix("no-").replace("-", "_"))
        if name in flags:
            continue
        value = value if equals else rest.pop(0) if rest else ""
        if name in ("--return-range",) and not equals and rest:
            rest.pop(0)  # the second of its two numbers
        if name in ("--method", "--preset", "--settings"):
            found[name.removeprefix("--")] = Path(value) if name == "--settings" else value
    return _FirstLook(**found, named=frozenset(named))


def _task_option(name: str, value: Any) -> Any:
    kind = TASK_OPTIONS[name]
    right = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
    if not right:
        raise UserError(f"{name} is {value!r}; it must be a {'text' if kind is str else 'number'}")
    return kind(value)


@contextmanager
def _bar(config: Config, task_name: str) -> Iterator[Watcher]:
    """A line on the terminal with what matters while a run goes on."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None if console.width > 100 else 8),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{config.method} {task_name}", total=config.iterations, figures="compiling")
        evaluated = ""

        def watch(iteration: int, figures: Mapping[str, Any]) -> None:
            nonlocal evaluated
            if "success" in figures and console.width > 100:
                evaluated = f" │ evaluated: success {figures['success']:.2f}, coverage {figures['coverage']:.2f}"
            shown = (
                f"{figures['successes']:.2f} won, {figures['distinct_per_group']:.1f} ways, "
                f"{figures['steps'] / figures['seconds'] / 1000:.1f}k/s{evaluated}"
            )
            progress.update(task, completed=iteration + 1, figures=shown)

        yield watch


@contextmanager
def _wandb(project: str, out: Path, config: Config) -> Iterator[Watcher]:
    if not project:
        yield lambda _iteration, _figures: None
        return
    from polychromic.integrations.wandb import logging_to_wandb

    with logging_to_wandb(project, out, config) as watch:
        yield watch


def _summarise(result: Result, out: Path) -> None:
    last = result.evaluations[-1]
    passes = ", ".join(f"{name} {value:.3f}" for name, value in last.items() if name.startswith("pass@"))
    print(f"success {last['success']:.3f}, reward {last['reward']:.3f}, coverage {last['coverage']:.2f}, {passes}")
    ratios = [line["polychromic_to_gae"] for line in result.metrics if "polychromic_to_gae" in line]
    config = result.policy.info.made.get("config", {})
    if ratios and sum(ratios) / len(ratios) < FAINT and config.get("normalise") == "joint":
        print(
            f"polychromic advantages were {sum(ratios) / len(ratios):.2%} of the size of GAE's: normalised together "
            "they hardly count; --normalise per-kind gives both the same weight"
        )
    print(f"run: {out}")

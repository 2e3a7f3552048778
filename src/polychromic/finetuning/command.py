"""`polychromic finetune`: a run from the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polychromic.errors import UserError
from polychromic.files import read_table
from polychromic.finetuning.config import Config, make_config
from polychromic.finetuning.config_check import functions_in
from polychromic.finetuning.loop import Result, Watcher, check_run, finetune
from polychromic.finetuning.run import is_done
from polychromic.finetuning.start import prepare
from polychromic.trust import consent

FAINT = 0.05  # warn if the polychromic signal is below this share of GAE's


@dataclass(frozen=True)
class _Unchecked(Config):
    """Settings of the run; `polychromic.make_config` takes the same."""

    # Not checked here: settings are checked together, with our own messages, once all of them are known.

    def __post_init__(self) -> None:
        pass


@dataclass(frozen=True)
class Arguments:
    """Fine-tune a pretrained policy. The same command resumes an interrupted run.

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
    """default (on the paper's grid tasks, settings found by a search), or paper: its table and pseudocode literally."""
    horizon: int = 0
    """H: maximum steps of an episode. 0: 100 on grid levels, 9 tokens for triangle."""
    time_penalty: float | None = None
    """A success after t steps pays 1 − time_penalty · t/H (grid tasks only, where it is 0.5 if not given)."""
    observation: str = ""
    """partial or full. Not given: what the policy was trained on."""
    wandb: str = ""
    """Log to this Weights & Biases project too (needs polychromic[wandb]); WANDB_MODE=offline needs no network."""
    config: tyro.conf.OmitArgPrefixes[_Unchecked] = field(default_factory=_Unchecked)


# What a settings file may hold besides the fields of Config.
TASK_OPTIONS: dict[str, type] = {"policy": str, "horizon": int, "time_penalty": float, "observation": str, "wandb": str}


def finetune_command(args: Sequence[str]) -> int:
    """Parse the arguments of `polychromic finetune` and run it."""
    given, config = parse(args)
    if not given.task:
        raise UserError("TASK is missing; for example: polychromic finetune fourrooms --method poly-ppo")
    world, saved = prepare(
        given.task,
        given.policy,
        observation=given.observation,
        horizon=given.horizon,
        time_penalty=given.time_penalty,
    )
    out = given.out or Path("runs") / f"{given.task}-{config.method}-{config.seed}"
    check_run(world, saved, config, out)
    if is_done(out):
        result = finetune(world, saved, config, out=out)
    else:
        with _wandb(given.wandb, out, config) as also, _bar(config, given.task) as show:

            def watch(iteration: int, metrics: Mapping[str, Any]) -> None:
                show(iteration, metrics)
                also(iteration, metrics)

            result = finetune(world, saved, config, out=out, watch=watch)
    _summarise(result, out)
    return 0


def parse(args: Sequence[str]) -> tuple[Arguments, Config]:
    """Parse the arguments. Task, method, preset and settings file decide the defaults, so they are read first."""
    first, named = _given(args)
    settings = read_table("settings", first.settings) if first.settings else {}
    consent().check_settings(functions_in(settings), first.settings or "")
    chosen = {"method": settings.pop("method", "poly-ppo"), "preset": settings.pop("preset", "default")}
    chosen |= {"method": first.config.method} if "method" in named else {}
    chosen |= {"preset": first.preset} if "preset" in named else {}
    options = {name: _task_option(name, settings.pop(name)) for name in TASK_OPTIONS if name in settings}
    explicit = {name: value for name, value in asdict(first.config).items() if name in named and name != "method"}
    # Defaults depend on the method and the task, some on other settings: pass everything that is given at once.
    config = make_config(chosen["method"], first.task, preset=chosen["preset"], **{**settings, **explicit})
    shown = Arguments(task=first.task, preset=chosen["preset"], config=_Unchecked(**asdict(config)), **options)
    return tyro.cli(Arguments, args=list(args), default=shown, prog="polychromic finetune"), config


def _given(args: Sequence[str]) -> tuple[Arguments, frozenset[str]]:
    """The arguments before defaults are known, and the names of those that were given.

    They are parsed twice with defaults that differ everywhere: a value that is the same in both was given.
    """
    rest = [arg for arg in args if arg not in ("-h", "--help")]  # help is shown once the defaults are known
    config = _Unchecked()
    other = _Unchecked(**{name: _another(name, value) for name, value in asdict(config).items()})
    defaults = (Arguments(config=config), Arguments(preset="", config=other))
    first, second = (
        tyro.cli(Arguments, args=rest, default=default, prog="polychromic finetune") for default in defaults
    )
    values, others = ({**vars(given), **vars(given.config)} for given in (first, second))
    return first, frozenset(name for name in values if values[name] == others[name])


def _another(name: str, value: Any) -> Any:
    """A different value of the same type."""
    hint = get_type_hints(Config)[name]
    if get_origin(hint) is Literal:
        return next(choice for choice in get_args(hint) if choice != value)
    if isinstance(value, bool):
        return not value
    return (
        f"{value}?"
        if isinstance(value, str)
        else tuple(part + 1 for part in value)
        if isinstance(value, tuple)
        else value + 1
    )


def _task_option(name: str, value: Any) -> Any:
    kind = TASK_OPTIONS[name]
    right = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
    if not right:
        raise UserError(f"{name} is {value!r}; it must be a {'string' if kind is str else 'number'}")
    return kind(value)


@contextmanager
def _bar(config: Config, task_name: str) -> Iterator[Watcher]:
    """A progress line on the terminal during a run."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None if console.width > 100 else 8),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[metrics]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{config.method} {task_name}", total=config.iterations, metrics="compiling")
        evaluated = ""

        def watch(iteration: int, metrics: Mapping[str, Any]) -> None:
            nonlocal evaluated
            if "success" in metrics:
                evaluated = f" │ evaluated: success {metrics['success']:.2f}, coverage {metrics['coverage']:.2f}"
            shown = f"success {metrics['successes']:.2f}, {metrics['distinct_per_group']:.1f} strategies"
            if console.width > 100:
                shown += f", {metrics['steps'] / metrics['seconds'] / 1000:.1f}k steps/s{evaluated}"
            progress.update(task, completed=iteration + 1, metrics=shown)

        yield watch


@contextmanager
def _wandb(project: str, out: Path, config: Config) -> Iterator[Watcher]:
    if not project:
        yield lambda _iteration, _metrics: None
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
    apart = config.get("normalise") == "joint" and config.get("set_credit", "window") == "window"
    if ratios and apart and sum(ratios) / len(ratios) < FAINT:
        print(
            f"polychromic advantages were {sum(ratios) / len(ratios):.2%} of the size of GAE's: normalised together, "
            "they hardly count; --normalise per-kind gives both the same weight"
        )
    print(f"run: {out}")

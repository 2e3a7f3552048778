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
    time_penalty: float | None = None
    """A success after t steps pays 1 − time_penalty · t/H (grid tasks only, where it is 0.5 if not given)."""
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

            def watch(iteration: int, figures: Mapping[str, Any]) -> None:
                show(iteration, figures)
                also(iteration, figures)

            result = finetune(world, saved, config, out=out, watch=watch)
    _summarise(result, out)
    return 0


def parse(args: Sequence[str]) -> tuple[Arguments, Config]:
    """The arguments; task, method, preset and settings file decide the defaults, so they are read before all others."""
    first, named = _given(args)
    settings = read_table("settings", first.settings) if first.settings else {}
    consent().check_settings(functions_in(settings), first.settings or "")
    chosen = {"method": settings.pop("method", "poly-ppo"), "preset": settings.pop("preset", "default")}
    chosen |= {"method": first.config.method} if "method" in named else {}
    chosen |= {"preset": first.preset} if "preset" in named else {}
    own = {name: _task_option(name, settings.pop(name)) for name in TASK_OPTIONS if name in settings}
    explicit = {name: value for name, value in asdict(first.config).items() if name in named and name != "method"}
    # Defaults follow from the method and the task, some from other settings: all that is given goes in at once.
    config = make_config(chosen["method"], first.task, preset=chosen["preset"], **{**settings, **explicit})
    shown = Arguments(task=first.task, preset=chosen["preset"], config=_Unchecked(**asdict(config)), **own)
    return tyro.cli(Arguments, args=list(args), default=shown, prog="polychromic finetune"), config


def _given(args: Sequence[str]) -> tuple[Arguments, frozenset[str]]:
    """The arguments before defaults are known, and the names of those that are there.

    They are parsed twice with defaults that differ everywhere: what is the same in both was given.
    """
    rest = [arg for arg in args if arg not in ("-h", "--help")]  # help is for when the defaults are known
    config = _Unchecked()
    other = _Unchecked(**{name: _another(name, value) for name, value in asdict(config).items()})
    defaults = (Arguments(config=config), Arguments(preset="", config=other))
    first, second = (tyro.cli(Arguments, args=rest, default=one, prog="polychromic finetune") for one in defaults)
    one, two = ({**vars(given), **vars(given.config)} for given in (first, second))
    return first, frozenset(name for name in one if one[name] == two[name])


def _another(name: str, value: Any) -> Any:
    """A value of the same type that differs."""
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
    apart = config.get("normalise") == "joint" and config.get("set_credit", "window") == "window"
    if ratios and apart and sum(ratios) / len(ratios) < FAINT:
        print(
            f"polychromic advantages were {sum(ratios) / len(ratios):.2%} of the size of GAE's: normalised together "
            "they hardly count; --normalise per-kind gives both the same weight"
        )
    print(f"run: {out}")

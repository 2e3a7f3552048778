"""`polychromic finetune`: a run from the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from polychromic.errors import UserError
from polychromic.files import parse_values, read_table
from polychromic.finetuning.config import Config, make_config
from polychromic.finetuning.config_check import functions_in
from polychromic.finetuning.loop import Result, check_run, check_world, finetune
from polychromic.finetuning.progress import Watcher
from polychromic.finetuning.run import is_done
from polychromic.finetuning.settle import settle
from polychromic.finetuning.start import prepare
from polychromic.trust import consent


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

    Defaults belong to a task and a method: this help shows those of the TASK and --method that stand before --help.
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
    """default (on the paper's grid tasks, settings found by a search); vines: with the paper's vines and window; paper:
    its table and pseudocode literally."""
    horizon: int = 0
    """H: maximum steps of an episode. 0: 100 on grid levels, 9 tokens for triangle."""
    time_penalty: float | None = None
    """A success after t steps pays 1 − time_penalty · t/H (grid tasks only, where it is 0.5 if not given)."""
    observation: str = ""
    """partial or full. Not given: what the policy was trained on."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE for an option of the task's own, such as is_slippery=false of FrozenLake-v1; may be repeated."""
    wandb: str = ""
    """Log to this Weights & Biases project too (needs polychromic[wandb]); WANDB_MODE=offline needs no network."""
    config: tyro.conf.OmitArgPrefixes[_Unchecked] = field(default_factory=_Unchecked)


# What a settings file may hold besides the fields of Config.
TASK_OPTIONS: dict[str, type] = {"policy": str, "horizon": int, "time_penalty": float, "observation": str, "wandb": str}
# What only set advantages read.
OF_SETS = (
    *("set_credit", "set_size", "num_sets", "set_former", "credit", "objective", "diversity", "window"),
    *("polychromic_weight", "polychromic_schedule", "return_range", "return_map"),
)


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
        options=parse_values("option", given.option),
    )
    check_world(world, saved, config)
    out = given.out or Path("runs") / f"{given.task}-{config.method}-{config.seed}"
    config = settle(world, saved, config, out)
    check_run(world, saved, config, out)
    if is_done(out):
        result = finetune(world, saved, config, out=out)
    else:
        with _wandb(given.wandb, out, config) as watch:
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
    if "task" in settings:
        raise UserError(f"settings: {first.settings} has task = {settings['task']!r}; give the task as TASK")
    options = {name: _task_option(name, settings.pop(name)) for name in TASK_OPTIONS if name in settings}
    explicit = {name: value for name, value in asdict(first.config).items() if name in named and name != "method"}
    # Defaults depend on the method and the task, some on other settings: pass everything that is given at once.
    config = make_config(chosen["method"], first.task, preset=chosen["preset"], **{**settings, **explicit})
    _refuse_unused(explicit, config)
    shown = Arguments(task=first.task, preset=chosen["preset"], config=_Unchecked(**asdict(config)), **options)
    return tyro.cli(Arguments, args=list(args), default=shown, prog="polychromic finetune"), config


def _given(args: Sequence[str]) -> tuple[Arguments, frozenset[str]]:
    """The arguments before defaults are known, and the names of those that were given.

    They are parsed twice with defaults that differ everywhere: a value that is the same in both was given.
    """
    rest = [arg for arg in args if arg not in ("-h", "--help")]  # help is shown once the defaults are known
    _refuse_unknown(rest)
    config = _Unchecked()
    other = _Unchecked(**{name: _another(name, value) for name, value in asdict(config).items()})
    defaults = (Arguments(config=config), Arguments(preset="", config=other))
    first, second = (
        tyro.cli(Arguments, args=rest, default=default, prog="polychromic finetune") for default in defaults
    )
    values, others = ({**vars(given), **vars(given.config)} for given in (first, second))
    return first, frozenset(name for name in values if values[name] == others[name])


def _refuse_unknown(args: Sequence[str]) -> None:
    """Refuse an option that is none, with the one that was meant: tyro would rather show one that contains it."""
    names = [one.name for one in fields(Arguments) if one.name not in ("task", "config")]
    names += [one.name for one in fields(Config)]
    known = [name.replace("_", "-") for name in names]
    for arg in args:
        given = arg.partition("=")[0].removeprefix("--").replace("_", "-")
        if arg.startswith("--") and given not in known and given.removeprefix("no-") not in known:
            near = difflib.get_close_matches(given, known, n=1)
            hint = f"did you mean '--{near[0]}'?" if near else "see polychromic finetune --help"
            raise UserError(f"no option '--{given}'; {hint}")


def _refuse_unused(explicit: Mapping[str, Any], config: Config) -> None:
    """Refuse options on the command line that a method without sets would ignore."""
    if not config.polychromic:
        for name in OF_SETS:
            if name in explicit:
                option = name.replace("_", "-")
                raise UserError(
                    f"--{option} is {explicit[name]}, but {config.method} has no sets to use it for; leave it out, or "
                    "choose --method poly-ppo"
                )


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
def _wandb(project: str, out: Path, config: Config) -> Iterator[Watcher]:
    if not project:
        yield lambda _iteration, _metrics: None
        return
    from polychromic.integrations.wandb import logging_to_wandb

    with logging_to_wandb(project, out, config) as watch:
        yield watch


def _summarise(result: Result, out: Path) -> None:
    last = result.evaluations[-1]
    if "success" in last:
        passes = ", ".join(f"{name} {value:.3f}" for name, value in last.items() if name.startswith("pass@"))
        print(f"success {last['success']:.3f}, reward {last['reward']:.3f}, coverage {last['coverage']:.2f}, {passes}")
    else:
        print(f"return {last['return']:.4g}, {last['distinct_strategies']:.1f} strategies a configuration")
    print(f"run: {out}")

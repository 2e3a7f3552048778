"""`polychromic demos` and `polychromic pretrain`."""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from polychromic.envs.registry import Later, spec_of, task_names
from polychromic.errors import UserError
from polychromic.files import parse_values


def demos(
    task: tyro.conf.Positional[str],
    out: Path,
    episodes: int | None = None,
    first_seed: int | None = None,
    horizon: int | None = None,
    observation: Literal["partial", "full"] | None = None,
    workers: int | None = None,
) -> int:
    """Record demonstrations: minigrid's bot on BabyAI levels, a shortest path on FourRooms.

    The same options give the same file on any number of processes. An interrupted recording resumes.

    Args:
        task: fourrooms, goto, pickup, synthseq, bosslevel, the Gymnasium id of a BabyAI level, or your own task, if it
            has an expert.
        out: the file to write (.npz).
        episodes: how many; levels that the expert does not solve within the horizon are left out and counted.
        first_seed: the first level seed; the next ones follow.
        horizon: the most steps of an episode.
        observation: the agent's 7 × 7 view or the whole grid.
        workers: processes.
    """
    options = {name: value for name, value in locals().items() if name not in ("task", "out") and value is not None}
    spec = spec_of(task)
    if spec.demonstrate is None:
        raise UserError(f"task is {task}, which has no expert; choose a task that has one")
    _refuse_unknown(spec.name, spec.demonstrate, options)
    print(spec.demonstrate(spec.name, out=out, **options))
    return 0


def pretrain(
    task: tyro.conf.Positional[str],
    out: Path = Path("base-policies"),
    demonstrations: Path | None = None,
    episodes: int | None = None,
    observation: Literal["partial", "full"] | None = None,
    network: Annotated[dict[str, Any] | None, tyro.conf.arg(constructor=json.loads, metavar="JSON")] = None,
    epochs: int | None = None,
    patience: int | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    entropy: float | None = None,
    seed: int | None = None,
    rollouts: int | None = None,
    workers: int | None = None,
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
) -> int:
    """Make a base policy: record demonstrations (if there are none yet), clone them, score the result.

    Everything is kept in OUT/TASK, and an interrupted run resumes. Options not given come from the task. Tasks differ
    in their options; an option that a task does not have is refused.

    Args:
        task: fourrooms, goto, pickup, synthseq, bosslevel, triangle; fourrooms-full, goto-full, goto-memory (base
            policies that see or remember more); the Gymnasium id of a BabyAI level; your own task; or `all` for every
            registered task.
        out: folder for demonstrations, checkpoints, configurations and policies.
        demonstrations: a file of demonstrations; default OUT/demonstrations/LEVEL.npz, recorded if it is missing. Of
            your own environment: minari:DATASET, or package.module:name of a function, a model or episodes.
        episodes: how many demonstrations to record, or to take from the file.
        observation: the agent's 7 × 7 view or the whole grid.
        network: architecture options that replace the task's, as JSON, for example '{"memory_units": 64}'.
        epochs: passes over the training episodes, at most.
        patience: epochs without a better validation loss before stopping; 0 never stops early.
        steps: gradient steps, where a task counts these instead of epochs.
        learning_rate: of Adam.
        weight_decay: decoupled weight decay.
        entropy: weight of the entropy regulariser.
        seed: of the weights and of the order of the minibatches.
        rollouts: per configuration, for the scores.
        workers: processes that record demonstrations.
        option: NAME=VALUE for an option of the task's own; may be repeated.
    """
    # Small arrays: more threads cost more than they gain. Only for this process, and only before JAX starts.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    if network is not None and not isinstance(network, dict):
        raise UserError(f"network is {network!r}; it must be a JSON object of architecture options")
    options = {name: value for name, value in locals().items() if name not in ("task", "out") and value is not None}
    if given := parse_values("option", options.pop("option")):
        options["options"] = given
    if task == "all" and demonstrations is not None:
        raise UserError(f"demonstrations is {demonstrations}; give a file for one task, not for all")
    specs = [spec_of(task)] if task != "all" else [spec for spec in map(spec_of, task_names()) if spec.pretrain]
    for spec in specs:
        if spec.pretrain is None:
            raise UserError(f"task is {spec.name}, which has no recipe for a base policy (TaskSpec.pretrain)")
        _refuse_unknown(spec.name, spec.pretrain, options)
    command = "polychromic " + shlex.join(sys.argv[1:]) if sys.argv else ""
    for spec in specs:
        assert spec.pretrain is not None
        print(spec.pretrain(spec.name, out=out, command=command, **options))
    return 0


def _refuse_unknown(task: str, recipe: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse an option that a task's recipe does not have before anything is written."""
    parameters = inspect.signature(recipe.function if isinstance(recipe, Later) else recipe).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    known = [name for name, parameter in parameters.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    known = [name for name in known if name not in ("out", "command")]
    for name, value in options.items():
        if name not in known:
            shown = str(value) if isinstance(value, Path) else repr(value)
            raise UserError(f"{name} is {shown}; {task} has no such option, it takes {', '.join(known) or 'none'}")

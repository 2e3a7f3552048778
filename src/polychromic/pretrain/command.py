"""`polychromic demos` and `polychromic pretrain`."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shlex
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polychromic.envs.grid.missions import WORDS, mission_words
from polychromic.envs.grid.tasks import level_id
from polychromic.envs.grid.world import make
from polychromic.errors import UserError
from polychromic.files import whole_file
from polychromic.pretrain.demonstrations import (
    Demonstrations,
    content_hash,
    first_episodes,
    load_demonstrations,
    see_as,
    take,
)
from polychromic.tasks.grids.record import Recording, record_demonstrations

KS = (1, 8, 32, 100)


def demos(
    task: tyro.conf.Positional[str],
    out: Path,
    episodes: int = 1000,
    first_seed: int = 0,
    horizon: int = 100,
    observation: Literal["partial", "full"] = "partial",
    workers: int = 2,
) -> int:
    """Record demonstrations: minigrid's bot on BabyAI levels, a shortest path on FourRooms.

    The same options give the same file on any number of processes. An interrupted recording goes on where it was.

    Args:
        task: fourrooms, goto, pickup, synthseq, bosslevel, or the Gymnasium id of a BabyAI level.
        out: the file to write (.npz).
        episodes: how many; levels that the expert does not solve within the horizon are left out and counted.
        first_seed: the first level seed; the next ones follow.
        horizon: the most steps of an episode.
        observation: the agent's 7 × 7 view or the whole grid.
        workers: processes.
    """
    recording = Recording(task, episodes, first_seed, horizon, observation)
    made = record_with_progress(recording, out, workers)
    print(
        f"{out}: {len(made)} episodes of {made.task}, {len(made.actions)} steps "
        f"({made.made['levels_unsolved']} of {made.made['levels_tried']} levels left out: "
        f"not solved within {horizon} steps)"
    )
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
    rollouts: int = 100,
    workers: int = 2,
) -> int:
    """Make a base policy: record demonstrations (if they are not there yet), clone them, score the result.

    Everything is kept in OUT/TASK, and a run that was interrupted goes on where it was. What is not given comes from
    the task's preset.

    Args:
        task: a preset (fourrooms, goto, pickup, synthseq, bosslevel, fourrooms-full, goto-full, goto-memory), the
            Gymnasium id of a BabyAI level, `all` for the five base policies of the grid, or `triangle`, which has no
            demonstrations but sequences of its own and takes out, network, steps, learning_rate and seed alone.
        out: folder for demonstrations, checkpoints, configurations and policies.
        demonstrations: a file of demonstrations; default OUT/demonstrations/LEVEL.npz, recorded if it is missing.
        episodes: how many demonstrations to record, or to take from the file.
        observation: the agent's 7 × 7 view or the whole grid.
        network: architecture options that replace the preset's, as JSON, for example '{"memory_units": 64}'.
        epochs: passes over the training episodes, at most.
        patience: epochs without a better validation loss before stopping; 0 never stops early.
        steps: gradient steps (triangle only).
        learning_rate: of Adam.
        weight_decay: decoupled weight decay.
        entropy: weight of the entropy regulariser.
        seed: of the weights and of the order of the minibatches.
        rollouts: per configuration, for the scores.
        workers: processes that record demonstrations.
    """
    # Small arrays: more threads cost more than they give. Only this process, and only before JAX starts.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    from polychromic.tasks.grids.presets import BASE, preset_for

    others: dict[str, Any] = {
        "demonstrations": demonstrations,
        "episodes": episodes,
        "observation": observation,
        "epochs": epochs,
        "patience": patience,
        "weight_decay": weight_decay,
        "entropy": entropy,
    }
    if task == "triangle":
        _pretrain_triangle(out, network, others, steps=steps, learning_rate=learning_rate, seed=seed)
        return 0
    if steps is not None:
        raise UserError(f"steps is {steps}; grid tasks count epochs, steps are for triangle")
    if rollouts < max(KS):
        raise UserError(f"rollouts: expected {max(KS)} or more, for pass@{max(KS)}, got {rollouts}")
    if episodes is not None and episodes < 1:
        raise UserError(f"episodes: expected 1 or more, got {episodes}")
    if network is not None and not isinstance(network, dict):
        raise UserError(f"network: expected a JSON object of architecture options, got {network!r}")
    names = BASE if task == "all" else (task,)
    if task == "all" and demonstrations is not None:
        raise UserError("demonstrations: give a file for one task, not for 'all'")
    given: dict[str, Any] = {
        "epochs": epochs,
        "patience": patience,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "entropy": entropy,
        "seed": seed,
    }
    given = {name: value for name, value in given.items() if value is not None}
    for name in names:
        preset = preset_for(name)
        preset = dataclasses.replace(
            preset,
            episodes=preset.episodes if episodes is None else episodes,
            observation=observation or preset.observation,
            network={**preset.network, **(network or {})},
            cloning=dataclasses.replace(preset.cloning, **given),
        )
        make_base_policy(name, preset, out, demonstrations, rollouts, workers)
    return 0


def _pretrain_triangle(out: Path, network: Any, others: dict[str, Any], **given: Any) -> None:
    from polychromic.pretrain.sequences import SequenceCloning
    from polychromic.tasks.triangle.pretrain import make_triangle_policy

    strange = [name for name, value in others.items() if value is not None]
    if strange:
        raise UserError(f"{strange[0]}: triangle has no such option; it takes network, steps, learning_rate and seed")
    chosen = {name: value for name, value in given.items() if value is not None}
    make_triangle_policy(out, SequenceCloning(**chosen), network)


def make_base_policy(
    name: str, preset: Any, out: Path, demonstrations: Path | None, rollouts: int, workers: int
) -> dict[str, Any]:
    """Demonstrations, split, cloning, scores; writes OUT/NAME and returns the report."""
    import numpy as np

    from polychromic.core.metrics import pass_at_k
    from polychromic.finetuning.attempts import attempt_all
    from polychromic.policies.files import PolicyInfo, save_policy
    from polychromic.policies.inference import Evaluator
    from polychromic.pretrain.cloning import clone, kept_epoch
    from polychromic.pretrain.split import save_split, split_episodes
    from polychromic.tasks.grids.presets import preset_policy

    started = time.process_time()
    level = level_id(preset.task)
    folder = out / name
    data = _demonstrations(preset, level, out, demonstrations, workers)
    split = split_episodes(data, seed=preset.split_seed, source=preset.source)
    data_hash = content_hash(data)
    data = see_as(data, preset.observation)
    train = take(data, split.train)
    policy = preset_policy(preset, data.image_size)
    bar, show = _epoch_bar(name, preset.cloning.epochs)
    with bar:
        params, epochs = clone(
            policy,
            train,
            take(data, split.test),
            preset.cloning,
            checkpoint=folder / "checkpoint.safetensors",
            on_epoch=show,
        )
    kept = kept_epoch(epochs, preset.cloning)
    world = make(level, seeds=split.configurations, observation=preset.observation)
    evaluator = Evaluator(policy, params, world.tables())
    attempts = attempt_all(evaluator, world, np.random.default_rng(0), attempts=rollouts)
    successes = attempts.success.reshape(-1, rollouts).sum(axis=1)
    passed = pass_at_k(rollouts, successes, KS).mean(axis=0)
    report = {
        "command": "polychromic " + shlex.join(sys.argv[1:]) if sys.argv else "",
        "preset": name,
        "episodes": len(data),
        "demonstrations": {"sha256": data_hash, **data.made},
        "source": preset.source,
        "split_seed": preset.split_seed,
        "cloning": dataclasses.asdict(preset.cloning),
        "epochs_run": len(epochs),
        "epoch_kept": kept.epoch,
        "validation_loss": kept.validation_loss,
        "validation_accuracy": kept.validation_accuracy,
        "scores": {
            "success": float(attempts.success.mean()),
            "reward": float(attempts.rewards.mean()),
            "pass_at_k": dict(zip(map(str, KS), passed.tolist(), strict=True)),
            "rollouts": rollouts,
            "configurations": len(split.configurations),
            "horizon": world.horizon,
            "temperature": 1.0,
        },
        "paper_success": preset.paper_success,
        "versions": {
            **{one: version(one) for one in ("polychromic", "jax", "numpy", "minigrid")},
            "python": platform.python_version(),
        },
    }
    words = {word for mission in train.missions for word in mission_words(mission)}
    info = PolicyInfo(
        task=level,
        observation=preset.observation,
        vocabulary=WORDS,
        words_seen=tuple(word for word in WORDS if word in words),
        configurations=split.configurations,
        made=report,
    )
    # Only now, so that a run that is refused changes nothing.
    save_split(folder / "configurations.json", split)
    save_policy(folder / "policy.safetensors", policy, params, info)
    curve = {
        "epochs": [epoch._asdict() for epoch in epochs],
        "cpu_seconds_without_recording": time.process_time() - started,
    }
    with whole_file(folder / "report.json") as partial:
        partial.write_text(json.dumps({**report, **curve}, indent=1) + "\n")
    paper = "" if preset.paper_success is None else f" (paper {preset.paper_success:.1%})"
    scores = report["scores"]
    shares = ", ".join(f"pass@{k} {value:.3f}" for k, value in zip(KS[1:], passed.tolist()[1:], strict=True))
    print(
        f"{name}: success {scores['success']:.1%}{paper}, reward {scores['reward']:.3f}, {shares}; "
        f"{folder}/policy.safetensors"
    )
    return report


def _demonstrations(preset: Any, level: str, out: Path, given: Path | None, workers: int) -> Demonstrations:
    path = given or out / "demonstrations" / f"{level}.npz"
    if given is None and not path.exists():
        return record_with_progress(Recording(level, preset.episodes), path, workers)
    found = load_demonstrations(path, task=level)
    if len(found) < preset.episodes:
        raise UserError(
            f"{path}: has {len(found)} episodes, {preset.episodes} are wanted; record more, or give --episodes"
        )
    return first_episodes(found, preset.episodes)


def record_with_progress(recording: Recording, out: Path, workers: int) -> Demonstrations:
    """`record_demonstrations` with a progress bar on standard error."""
    with _bar() as bar:
        line = bar.add_task(f"{recording.task}: demonstrations", total=recording.episodes)
        return record_demonstrations(recording, out, workers, lambda done: bar.update(line, completed=done))


def _bar(*columns: Any) -> Progress:
    middle = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *middle, *columns, console=Console(stderr=True))


def _epoch_bar(name: str, epochs: int) -> tuple[Progress, Any]:
    bar = _bar(TextColumn("{task.fields[figures]}"))
    line = bar.add_task(f"{name}: cloning", total=epochs, figures="")

    def show(epoch: Any) -> None:
        validation = f"validation {epoch.validation_loss:.3f}, accuracy {epoch.validation_accuracy:.3f}"
        bar.update(line, completed=epoch.epoch, figures=f"loss {epoch.train_loss:.3f}, {validation}")

    return bar, show

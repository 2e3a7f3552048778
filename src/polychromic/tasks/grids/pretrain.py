"""The base policy of a grid task: demonstrations, split, cloning, scores."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress, TextColumn

from polychromic.core.metrics import pass_at_k
from polychromic.envs.grid.missions import WORDS, mission_words
from polychromic.envs.grid.tasks import level_id
from polychromic.envs.grid.world import make
from polychromic.errors import UserError
from polychromic.files import alone_in, write_json
from polychromic.finetuning.attempts import attempt_all
from polychromic.policies.files import PolicyInfo, save_policy
from polychromic.policies.inference import Evaluator
from polychromic.pretrain.cloning import clone, kept_epoch
from polychromic.pretrain.demonstrations import (
    Demonstrations,
    content_hash,
    first_episodes,
    load_demonstrations,
    see_as,
    take,
)
from polychromic.pretrain.progress import progress_bar
from polychromic.pretrain.split import save_split, split_episodes
from polychromic.tasks.grids.presets import Preset, preset_for, preset_policy
from polychromic.tasks.grids.record import Recording, record_demonstrations

KS = (1, 8, 32, 100)


def demonstrate(
    task: str,
    *,
    out: Path,
    episodes: int = 1000,
    first_seed: int = 0,
    horizon: int = 100,
    observation: Any = "partial",
    workers: int = 2,
) -> str:
    """Record demonstrations of a level into a file; returns a summary line."""
    demos = record_with_progress(Recording(task, episodes, first_seed, horizon, observation), out, workers)
    return (
        f"{out}: {len(demos)} episodes of {demos.task}, {len(demos.actions)} steps "
        f"({demos.made['levels_unsolved']} of {demos.made['levels_tried']} levels left out: "
        f"not solved within {horizon} steps)"
    )


def make_base_policy(
    task: str,
    *,
    out: Path,
    command: str = "",
    demonstrations: Path | None = None,
    episodes: int | None = None,
    observation: Any = None,
    network: Mapping[str, Any] | None = None,
    epochs: int | None = None,
    patience: int | None = None,
    learning_rate: float | None = None,
    weight_decay: float | None = None,
    entropy: float | None = None,
    seed: int | None = None,
    rollouts: int = 100,
    workers: int = 2,
) -> str:
    """Demonstrations, split, cloning, scores; writes OUT/TASK and returns a summary line.

    None takes the value of the task's preset. command: the command that repeats it, for the files.
    """
    if rollouts < max(KS):
        raise UserError(f"rollouts is {rollouts}; pass@{max(KS)} needs {max(KS)} or more")
    if episodes is not None and episodes < 1:
        raise UserError(f"episodes is {episodes}; it must be at least 1")
    given: dict[str, Any] = {
        "epochs": epochs,
        "patience": patience,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "entropy": entropy,
        "seed": seed,
    }
    given = {name: value for name, value in given.items() if value is not None}
    preset = preset_for(task)
    preset = dataclasses.replace(
        preset,
        episodes=preset.episodes if episodes is None else episodes,
        observation=observation or preset.observation,
        network={**preset.network, **(network or {})},
        cloning=dataclasses.replace(preset.cloning, **given),
    )
    started = time.process_time()
    level = level_id(preset.task)
    folder = out / task
    data = _demonstrations(preset, level, out, demonstrations, workers)
    split = split_episodes(data, seed=preset.split_seed, source=preset.source)
    data_hash = content_hash(data)
    data = see_as(data, preset.observation)
    train = take(data, split.train)
    policy = preset_policy(preset, data.image_size)
    with alone_in(folder):
        bar, show = _epoch_bar(task, preset.cloning.epochs)
        with bar:
            params, history = clone(
                policy,
                train,
                take(data, split.test),
                preset.cloning,
                checkpoint=folder / "checkpoint.safetensors",
                on_epoch=show,
            )
        kept = kept_epoch(history, preset.cloning)
        world = make(level, seeds=split.configurations, observation=preset.observation)
        evaluator = Evaluator(policy, params, world.tables())
        attempts = attempt_all(evaluator, world, np.random.default_rng(0), attempts=rollouts)
        successes = attempts.solved.reshape(-1, rollouts).sum(axis=1)
        passed = pass_at_k(rollouts, successes, KS).mean(axis=0)
        report: dict[str, Any] = {
            "command": command,
            "preset": task,
            "episodes": len(data),
            "demonstrations": {"sha256": data_hash, **data.made},
            "source": preset.source,
            "split_seed": preset.split_seed,
            "cloning": dataclasses.asdict(preset.cloning),
            "epochs_run": len(history),
            "epoch_kept": kept.epoch,
            "validation_loss": kept.validation_loss,
            "validation_accuracy": kept.validation_accuracy,
            "scores": {
                "success": float(attempts.solved.mean()),
                "reward": float(attempts.rewards.mean()),
                "pass_at_k": dict(zip(map(str, KS), passed.tolist(), strict=True)),
                "rollouts": rollouts,
                "configurations": len(split.configurations),
                "horizon": world.horizon,
                "temperature": 1.0,
            },
            "paper_success": preset.paper_success,
            "versions": {
                **{package: version(package) for package in ("polychromic", "jax", "numpy", "minigrid")},
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
        # Only now, so that a refused run changes nothing.
        save_split(folder / "configurations.json", split)
        save_policy(folder / "policy.safetensors", policy, params, info)
        curve = {
            "epochs": [epoch._asdict() for epoch in history],
            "cpu_seconds_without_recording": time.process_time() - started,
        }
        write_json(folder / "report.json", {**report, **curve})
        paper = "" if preset.paper_success is None else f" (paper {preset.paper_success:.1%})"
        scores = report["scores"]
        shares = ", ".join(f"pass@{k} {value:.3f}" for k, value in zip(KS[1:], passed.tolist()[1:], strict=True))
        return (
            f"{task}: success {scores['success']:.1%}{paper}, reward {scores['reward']:.3f}, {shares}; "
            f"{folder}/policy.safetensors"
        )


def _demonstrations(preset: Preset, level: str, out: Path, given: Path | None, workers: int) -> Demonstrations:
    path = given or out / "demonstrations" / f"{level}.npz"
    if given is None and not path.exists():
        return record_with_progress(Recording(level, preset.episodes), path, workers)
    demos = load_demonstrations(path, task=level)
    if len(demos) < preset.episodes:
        raise UserError(
            f"{path}: has {len(demos)} episodes, {preset.episodes} are needed; record more, or give --episodes"
        )
    return first_episodes(demos, preset.episodes)


def record_with_progress(recording: Recording, out: Path, workers: int) -> Demonstrations:
    """`record_demonstrations` with a progress bar; bad input is refused before the bar is drawn."""
    recording.check(workers)
    with progress_bar() as bar:
        line = bar.add_task(f"{recording.task}: demonstrations", total=recording.episodes)
        return record_demonstrations(recording, out, workers, lambda done: bar.update(line, completed=done))


def _epoch_bar(name: str, epochs: int) -> tuple[Progress, Callable[[Any], None]]:
    bar = progress_bar(TextColumn("{task.fields[metrics]}"))
    line = bar.add_task(f"{name}: cloning", total=epochs, metrics="")

    def show(epoch: Any) -> None:
        validation = f"validation {epoch.validation_loss:.3f}, accuracy {epoch.validation_accuracy:.3f}"
        bar.update(line, completed=epoch.epoch, metrics=f"loss {epoch.train_loss:.3f}, {validation}")

    return bar, show

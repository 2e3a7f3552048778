"""The small runs that are attacked, and their results."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from polychromic.files import CHECKSUM
from polychromic.sweep.run_cell import one_thread

# A run of four iterations; the second half is repeated after an interruption.
FINETUNE = [
    "fourrooms", "--iterations", "4", "--configurations-per-iteration", "1", "--checkpoint-every", "2",
    "--evaluate-every", "2", "--evaluation-rollouts", "2", "--budget", "21", "--set-size", "2",
    "--method", "poly-ppo-ucb", "--preset", "vines",
]  # fmt: skip
SETTINGS = {
    "iterations": 4, "budget": 20, "rollouts_per_state": 4, "forks_per_rollout": 1, "set_size": 2,
    "evaluation_rollouts": 4, "evaluate_every": 50, "checkpoint_every": 2, "configurations_per_iteration": 1,
}  # fmt: skip
SWEEP = ["--tasks", "fourrooms", "--methods", "ppo", "poly-ppo", "--seeds", "0", "--attempts", "4"]
SWEEP += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
DEMOS = ["fourrooms", "--episodes", "250"]
# Times, locks, logs and histories of tries are not results.
VOLATILE = ("seconds", "command", "timing", "tensorboard", ".lock", "cell.lock", "log.txt", "attempts.jsonl", "retries")


def pretrain_arguments(scratch: Path) -> list[str]:
    demonstrations = str(scratch / "demonstrations" / "demos.npz")
    given = ["fourrooms", "--demonstrations", demonstrations, "--episodes", "250", "--epochs", "12"]
    return [*given, "--network", '{"hidden": [8]}']


def environment() -> dict[str, str]:
    """Environment variables: one thread, and compiled functions cached for all parts."""
    return {**os.environ, **one_thread(os.environ)}


def polychromic(*arguments: str) -> list[str]:
    """The command as its installed script runs it: without the working directory on the search path."""
    return [sys.executable, "-P", "-m", "polychromic.cli", *arguments]


def call(arguments: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        polychromic(*arguments), env=environment(), capture_output=True, text=True, check=False, **more
    )


def must(arguments: list[str]) -> None:
    done = call(arguments)
    if done.returncode:
        raise RuntimeError(f"polychromic {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")


def prepare_demonstrations(scratch: Path) -> None:
    """The demonstrations that pretraining needs."""
    (scratch / "demonstrations").mkdir()
    must(["demos", *DEMOS, "--out", str(scratch / "demonstrations" / "demos.npz")])


def prepare(scratch: Path) -> None:
    """Intact files of every format."""
    (scratch / "policy").mkdir()
    prepare_demonstrations(scratch)
    must(["pretrain", *pretrain_arguments(scratch), "--out", str(scratch / "pretrained")])
    shutil.copy(scratch / "pretrained" / "fourrooms" / "policy.safetensors", scratch / "policy")
    must(["finetune", *FINETUNE, "--out", str(scratch / "run")])
    halfway(scratch)
    shutil.copytree(scratch / "run", scratch / "evaluated")
    out = str(scratch / "evaluated" / "evaluation.json")
    must(["evaluate", str(scratch / "evaluated"), "--attempts", "2", "--out", out])
    must(["sweep", *SWEEP, "--out", str(scratch / "sweep"), "--workers", "1"])
    unfinished(scratch)


def halfway(scratch: Path) -> None:
    """A run as a kill leaves it: stopped by the process itself after its first checkpoint."""
    stop = (
        "import os, polychromic.finetuning.run as run\n"
        "save = run.Run.save\n"
        "def once(self, checkpoint):\n"
        "    save(self, checkpoint)\n"
        "    if checkpoint.iteration >= 2: os._exit(0)\n"
        "run.Run.save = once\n"
        "from polychromic.cli import main\n"
        f"main({['finetune', *FINETUNE, '--out', str(scratch / 'halfway')]!r})\n"
    )
    subprocess.run([sys.executable, "-P", "-c", stop], env=environment(), check=True, capture_output=True)


def unfinished(scratch: Path) -> None:
    """A recording as a kill leaves it: stopped by the process itself before its parts are put together."""
    stop = (
        "import os, polychromic.tasks.grids.record as record\n"
        "record.concatenate = lambda parts: os._exit(0)\n"
        "from polychromic.cli import main\n"
        f"main({['demos', *DEMOS, '--workers', '1', '--out', str(scratch / 'recording' / 'demos.npz')]!r})\n"
    )
    subprocess.run([sys.executable, "-P", "-c", stop], env=environment(), check=True, capture_output=True)


# ------------------------------------------------------------------ results


def results(path: Path) -> dict[str, Any]:
    """The results of a run, a cell or a file, without times; JSON is parsed."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    contents: dict[str, Any] = {}
    for file in files:
        name = str(file.relative_to(path)) if file != path else file.name
        if not any(word in name for word in VOLATILE):
            contents[name] = _content(file)
    return contents


def _content(file: Path) -> Any:
    """The bytes of a file; of JSON with times in it, all else that it holds."""
    data = file.read_bytes()
    with contextlib.suppress(ValueError, RecursionError):
        if file.suffix in (".json", ".jsonl"):
            lines = [data] if file.suffix == ".json" else data.splitlines()
            values = [json.loads(line) for line in lines]
            steady = [_steady(value) for value in values]
            if steady != values:
                return json.dumps([_without_checksum(value) for value in steady], sort_keys=True)
    return data


def _without_checksum(value: Any) -> Any:
    """It covers the times too."""
    return {key: inner for key, inner in value.items() if key != CHECKSUM} if isinstance(value, dict) else value


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(inner) for key, inner in value.items() if not any(word in key for word in VOLATILE)}
    return [_steady(inner) for inner in value] if isinstance(value, list) else value

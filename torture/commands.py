"""The small runs that are attacked, and their results."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

# A run of four iterations; the second half is repeated after an interruption.
FINETUNE = [
    "fourrooms", "--iterations", "4", "--configurations-per-iteration", "1", "--checkpoint-every", "2",
    "--evaluate-every", "2", "--evaluation-rollouts", "2", "--budget", "21", "--set-size", "2",
    "--method", "poly-ppo-ucb",
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
    demonstrations = str((scratch / "demonstrations" / "demos.npz").resolve())
    given = ["fourrooms", "--demonstrations", demonstrations, "--episodes", "250", "--epochs", "12"]
    return [*given, "--network", '{"hidden": [8]}']


def environment(scratch: Path) -> dict[str, str]:
    """Environment variables: one thread, and compiled functions cached in the scratch folder."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "JAX_COMPILATION_CACHE_DIR": str(scratch / "cache"),
    }


def polychromic(*arguments: str) -> list[str]:
    """The command as its installed script runs it: without the working directory on the search path."""
    return [sys.executable, "-P", "-m", "polychromic.cli", *arguments]


def call(arguments: list[str], scratch: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        polychromic(*arguments), env=environment(scratch), capture_output=True, text=True, check=False, **more
    )


def must(arguments: list[str], scratch: Path) -> None:
    done = call(arguments, scratch)
    if done.returncode:
        raise RuntimeError(f"polychromic {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")


def prepare_demonstrations(scratch: Path) -> None:
    """The demonstrations that pretraining needs."""
    (scratch / "demonstrations").mkdir()
    must(["demos", *DEMOS, "--out", str(scratch / "demonstrations" / "demos.npz")], scratch)


def prepare(scratch: Path) -> None:
    """Intact files of every format."""
    (scratch / "policy").mkdir()
    prepare_demonstrations(scratch)
    must(["pretrain", *pretrain_arguments(scratch), "--out", str(scratch / "pretrained")], scratch)
    shutil.copy(scratch / "pretrained" / "fourrooms" / "policy.safetensors", scratch / "policy")
    must(["finetune", *FINETUNE, "--out", str(scratch / "run")], scratch)
    halfway(scratch)
    shutil.copytree(scratch / "run", scratch / "evaluated")
    out = str(scratch / "evaluated" / "evaluation.json")
    must(["evaluate", str(scratch / "evaluated"), "--attempts", "2", "--out", out], scratch)
    must(["sweep", *SWEEP, "--out", str(scratch / "sweep"), "--workers", "1"], scratch)


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
    subprocess.run([sys.executable, "-P", "-c", stop], env=environment(scratch), check=True, capture_output=True)


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
    with contextlib.suppress(ValueError, RecursionError):
        if file.suffix == ".json":
            return json.dumps(_steady(json.loads(file.read_text(encoding="utf-8"))), sort_keys=True)
        if file.suffix == ".jsonl":
            lines = io.StringIO(file.read_text(encoding="utf-8"))
            return [json.dumps(_steady(json.loads(line)), sort_keys=True) for line in lines]
    return file.read_bytes()


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(inner) for key, inner in value.items() if not any(word in key for word in VOLATILE)}
    return [_steady(inner) for inner in value] if isinstance(value, list) else value


def same_results(actual: Any, expected: Any) -> bool:
    """Whether two results are equal, apart from checksums, which cover times."""
    return repr(actual) == repr(expected)

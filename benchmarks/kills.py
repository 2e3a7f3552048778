"""A run that is killed again and again must end in the same bytes as one that never was.

    python -m benchmarks.kills [--kills 20] [--iterations 160] [--out FILE]

Starts `polychromic finetune fourrooms` and sends SIGKILL at random moments (as it starts, compiles, collects, updates
or writes). Only kills that hit a run still at work count, and the run is long enough for all of them.
After every kill the folder must be readable, the checkpoint must hold all iterations up to the last multiple of
`checkpoint_every`, and nothing that an earlier checkpoint held may be lost. The last start then finishes, and every
file is compared with those of an undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from polychromic.files import read_json, read_lines
from polychromic.finetuning.run import CHECKPOINT_FORMAT, is_done
from polychromic.policies.tensors import read_tensors

CHECKPOINT_EVERY = 5
COMPARED = (
    "config.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "policy.safetensors",
    "checkpoint.safetensors",
    "done.json",
)


def main() -> int:
    """Kill, resume, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=160)
    parser.add_argument("--method", default="poly-ppo-ucb")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/kills.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        result = soak(Path(scratch), options.kills, options.iterations, options.method)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if result["same_bytes"] and result["kills_that_hit_a_live_run"] == options.kills else 1


def soak(scratch: Path, kills: int, iterations: int, method: str) -> dict[str, object]:
    """One killed run and one undisturbed run, in a scratch folder."""
    environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": str(scratch / "cache")}

    def command(out: Path) -> list[str]:
        settings = {
            "--iterations": iterations,
            "--configurations-per-iteration": 1,
            "--checkpoint-every": CHECKPOINT_EVERY,
            "--evaluate-every": 40,
            "--evaluation-rollouts": 2,
            "--preset": "vines",
            "--budget": 21,  # 3 trunks, 2 forks each, 3 vines per fork: small iterations, so that many kills fit in
            "--set-size": 2,
            "--method": method,
            "--out": out,
        }
        words = [str(word) for pair in settings.items() for word in pair]
        return [sys.executable, "-m", "polychromic.cli", "finetune", "fourrooms", *words]

    whole, disturbed = scratch / "whole", scratch / "disturbed"
    subprocess.run(command(whole), env=environment, check=True, capture_output=True)
    each = float(np.median([line["seconds"] for line in read_lines(whole / "timing.jsonl")]))
    span = 0.8 * iterations / kills * each  # seconds of work that a start may do, so that the run lasts for all kills
    rng = np.random.default_rng(0)
    story, after = [], 0
    while len(story) < kills:
        if not hit(command(disturbed), environment, disturbed, rng, span):
            break  # it finished: the machine was faster than planned
        after, logged = examine(disturbed, after)
        story.append({"iterations_logged": logged, "iterations_in_the_checkpoint": after})
    subprocess.run(command(disturbed), env=environment, check=True, capture_output=True)
    same = {name: (whole / name).read_bytes() == (disturbed / name).read_bytes() for name in COMPARED}
    return {
        "command": f"python -m benchmarks.kills --kills {kills} --iterations {iterations} --method {method}",
        "kills_that_hit_a_live_run": len(story),
        "iterations": iterations,
        "checkpoint_every": CHECKPOINT_EVERY,
        "method": method,
        "after_each_kill": story,
        "most_iterations_lost": max(kill["iterations_logged"] - kill["iterations_in_the_checkpoint"] for kill in story),
        "same_bytes_by_file": same,
        "same_bytes": all(same.values()),
    }


def hit(command: list[str], environment: dict[str, str], folder: Path, rng: np.random.Generator, span: float) -> bool:
    """Start a run and kill it: a quarter of the times before its first iteration, else up to `span` seconds later."""
    log = folder / "metrics.jsonl"
    early = rng.random() < 0.25
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        if early:
            time.sleep(float(rng.uniform(0, 6)))
        else:
            lock = folder / ".lock"
            before = lock.stat().st_mtime_ns if lock.exists() else 0
            while process.poll() is None and (not lock.exists() or lock.stat().st_mtime_ns == before):
                time.sleep(0.005)
            size = log.stat().st_size if log.exists() else 0  # the run cuts its log back to at most this
            while process.poll() is None and (not log.exists() or log.stat().st_size <= size):
                time.sleep(0.005)
            time.sleep(float(rng.uniform(0, span)))
        alive = process.poll() is None and not is_done(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return alive and not is_done(folder)


def examine(folder: Path, before: int) -> tuple[int, int]:
    """Read what a killed run left: iterations in its checkpoint and in its log. What was saved must still be there."""
    if not (folder / "config.json").exists():
        assert before == 0, "the description is missing"
        return 0, 0
    read_json(folder / "config.json")
    logged = [line["iteration"] for line in read_lines(folder / "metrics.jsonl")]
    assert logged == list(range(len(logged))), "the log has a gap"
    kept, path = 0, folder / "checkpoint.safetensors"
    if path.exists():
        _, metadata = read_tensors(path, CHECKPOINT_FORMAT)
        kept = int(json.loads(metadata["header"])["iteration"])
    assert kept >= before, f"the checkpoint went back from {before} to {kept}"
    assert len(logged) >= kept, "the log is shorter than the checkpoint"
    assert len(logged) - kept <= CHECKPOINT_EVERY, f"{len(logged) - kept} iterations lost"
    return kept, len(logged)


if __name__ == "__main__":
    sys.exit(main())

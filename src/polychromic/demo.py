"""`polychromic demo`: a base policy, fine-tuned with PPO and with Poly-PPO at the same time, compared in a report."""

from __future__ import annotations

import json
import multiprocessing
import time
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from polychromic.errors import UserError
from polychromic.evaluate.command import evaluate_and_write
from polychromic.evaluate.policy import SWEEP
from polychromic.evaluate.targets import EVALUATION, find_target, short_name, world_of
from polychromic.policies.files import available_policies
from polychromic.report.page import write_report
from polychromic.report.words import in_words

METHODS = ("ppo", "poly-ppo")


def demo(
    *,
    out: Path = Path("demo"),
    policy: str = "goto",
    iterations: int = 20,
    configurations_per_iteration: int = 4,
    actor_learning_rate: float = 3e-4,
    attempts: int = 100,
    configurations: int = 0,
    seed: int = 0,
) -> int:
    """PPO against Poly-PPO on a grid task, from a shipped base policy to a report; a few minutes on two cores.

    Args:
        out: the folder for runs, evaluations and report; calling again goes on where it was interrupted.
        policy: a shipped base policy by name, or a policy file.
        iterations: of fine-tuning.
        configurations_per_iteration: how many are played in an iteration, 136 trajectories each.
        actor_learning_rate: higher than the paper's, so that a few iterations show something.
        attempts: at each configuration in the evaluations.
        configurations: only the first so many (0: all).
        seed: of everything random.
    """
    started = time.perf_counter()
    if policy not in available_policies() and not Path(policy).exists():
        raise UserError(
            f"policy is {policy!r}; give a policy file or one of {', '.join(available_policies()) or 'none'}"
        )
    base = find_target(policy)
    world = world_of(base, configurations=configurations)
    task = short_name(world.task)
    print(f"Base policy {base.name}, {world.num_tasks} configurations of {task}, H = {world.horizon}.")
    print(
        f"Fine-tuning with {' and '.join(METHODS)} at the same time: {iterations} iterations, "
        f"{configurations_per_iteration} × 136 trajectories each."
    )
    settings = {
        "iterations": iterations,
        "configurations_per_iteration": configurations_per_iteration,
        "actor_learning_rate": actor_learning_rate,
        "evaluate_every": max(1, iterations // 4),
        "evaluation_rollouts": 16,
        "checkpoint_every": 5,
        "seed": seed,
    }
    runs = {method: out / f"{task}-{method}-{seed}" for method in METHODS}
    base_file = out / f"{task}-pretrained.json"
    # New processes rather than forks: JAX has threads.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        jobs = {
            method: pool.submit(_fine_tune, policy, configurations, method, settings, str(runs[method]), attempts)
            for method in METHODS
        }
        jobs["pretrained"] = pool.submit(_evaluate_base, policy, configurations, str(base_file), attempts, seed)
        _follow(jobs, runs, iterations)
    results = _results(base_file, runs)
    said = in_words(results, "pretrained", *METHODS)
    page = out / "report.html"
    title = f"PPO and Poly-PPO on {task}: the demo"
    problems = write_report([base_file, *runs.values()], page, markdown=out / "tables.md", title=title, summary=said)
    print()
    for line in [*said, *problems]:
        print(line)
    print(f"\n{time.perf_counter() - started:.0f} seconds. Open the report in a browser: {page.resolve()}")
    return 0


def _fine_tune(
    policy: str, configurations: int, method: str, settings: dict[str, Any], out: str, attempts: int
) -> None:
    """In a process of its own: the run, then its evaluation."""
    from polychromic.train import finetune

    target = find_target(policy)
    world = world_of(target, configurations=configurations)
    finetune(world, target.saved, method=method, out=out, **settings)
    evaluate_and_write(find_target(out), world, Path(out) / EVALUATION, attempts=attempts, seed=settings["seed"])


def _evaluate_base(policy: str, configurations: int, out: str, attempts: int, seed: int) -> None:
    target = find_target(policy)
    world = world_of(target, configurations=configurations)
    evaluate_and_write(target, world, Path(out), attempts=attempts, sweep=SWEEP, seed=seed)


def _follow(jobs: dict[str, Future[None]], runs: dict[str, Path], iterations: int) -> None:
    """Bars that count the iterations in the runs' logs, until all jobs are done; a failure is raised."""
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[doing]}"), console=Console(stderr=True)) as progress:
        bars = {
            name: progress.add_task(name, total=iterations if name in runs else 1, doing="starting") for name in jobs
        }
        while True:
            for name, job in jobs.items():
                if job.done():
                    job.result()
                    progress.update(bars[name], completed=iterations if name in runs else 1, doing="done")
                elif name in runs:
                    log = runs[name] / "metrics.jsonl"
                    count = log.read_bytes().count(b"\n") if log.exists() else 0
                    doing = "evaluating" if count >= iterations else "fine-tuning" if count else "compiling"
                    progress.update(bars[name], completed=count, doing=doing)
                elif job.running():
                    progress.update(bars[name], doing="evaluating, with a sweep of temperatures")
            if all(job.done() for job in jobs.values()):
                return
            time.sleep(0.3)


def _results(base_file: Path, runs: dict[str, Path]) -> dict[str, Any]:
    base = json.loads(base_file.read_text(encoding="utf-8"))
    best = base["best"]
    return {
        "pretrained": base["result"],
        f"pretrained at its best temperature ({best['temperature']:g})": best,
        **{
            method: json.loads((folder / EVALUATION).read_text(encoding="utf-8"))["result"]
            for method, folder in runs.items()
        },
    }

"""`polychromic demo`: fine-tune base policies with PPO and with Poly-PPO in parallel, then compare them in a report."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from polychromic.envs.registry import short_name
from polychromic.errors import UserError
from polychromic.evaluate.file import evaluate_to_file
from polychromic.evaluate.policy import TEMPERATURES, Choices
from polychromic.evaluate.targets import EVALUATION, find_target, world_of
from polychromic.memory import keep_freed_memory
from polychromic.policies.files import available_policies
from polychromic.report.compare import compare
from polychromic.report.gather import gather
from polychromic.report.headline import in_order
from polychromic.report.page import write_report

METHODS = ("ppo", "poly-ppo")
BASE = "pretrained"


@dataclass(frozen=True)
class Part:
    """One task of the demo."""

    policy: str
    """The base policy, by name or as a file."""
    attempts: int = 80
    """Attempts at each configuration in the evaluations."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the runs, by the names of `Config`; both methods get the same."""
    sets: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Poly-PPO alone: how its sets are made."""


# The learning rate is higher than the paper's, so that a few iterations show something. 10 attempts at each of 50
# configurations in the evaluations along the way are a batch of 500, which needs hardly any padding.
DEMO = (
    # One group of all 136 answers to a prompt and sets of 64 of them, by the closed form: docs/triangle.md.
    Part(
        "triangle",
        attempts=1000,
        settings={
            "iterations": 40,
            "configurations_per_iteration": 3,
            "minibatch_size": 288,
            "actor_learning_rate": 3e-4,
            "critic_learning_rate": 1e-3,
            "evaluation_rollouts": 64,
        },
        sets={"preset": "vines", "forks_per_rollout": 0, "num_sets": 0, "set_size": 64, "window": -1},
    ),
    # Poly-PPO as it is by default: all sets of four, as an annealed control variate.
    Part(
        "goto",
        settings={
            "iterations": 12,
            "configurations_per_iteration": 4,
            "actor_learning_rate": 3e-4,
            "evaluation_rollouts": 10,
        },
    ),
)
USUAL = DEMO[1]  # the settings for any other policy
SCAN_ATTEMPTS = 10
PROCESSES = 2


@dataclass(frozen=True)
class Work:
    """A part in its folder: where its runs and the evaluation of its base policy go."""

    part: Part
    task: str
    configurations: int
    seed: int
    runs: Mapping[str, Path]  # by method
    base_file: Path

    @property
    def iterations(self) -> int:
        return int(self.part.settings["iterations"])


def demo(
    *,
    out: Path = Path("demo"),
    policy: str = "",
    iterations: int = 0,
    configurations_per_iteration: int = 0,
    actor_learning_rate: float = 0.0,
    attempts: int = 0,
    configurations: int = 0,
    seed: int = 0,
) -> int:
    """PPO against Poly-PPO, from shipped base policies to a report; a few minutes on two cores.

    Args:
        out: the folder for runs, evaluations and report; an interrupted demo resumes here.
        policy: a base policy by name, or a policy file, instead of the demo's own.
        iterations: of fine-tuning (0: the demo's default, here and below).
        configurations_per_iteration: configurations per iteration, 136 trajectories each.
        actor_learning_rate: of both methods.
        attempts: at each configuration in the evaluations.
        configurations: use only this many, from the first (0: all).
        seed: of all random numbers.
    """
    started = time.perf_counter()
    given = {
        "iterations": iterations,
        "configurations_per_iteration": configurations_per_iteration,
        "actor_learning_rate": actor_learning_rate,
    }
    for name, value in {**given, "attempts": attempts, "configurations": configurations, "seed": seed}.items():
        if value < 0:
            raise UserError(f"{name} is {value}; it must be 0 or more")
    changed = {name: value for name, value in given.items() if value}
    works = [
        _work(
            replace(part, attempts=attempts or part.attempts, settings={**part.settings, **changed}),
            out,
            configurations,
            seed,
        )
        for part in parts(policy)
    ]
    # New processes rather than forks: JAX has threads. The longest jobs come first.
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"), keep_freed_memory) as pool:
        jobs: dict[tuple[str, str], Future[None]] = {}
        for work in works:
            for method in METHODS:
                jobs[work.task, method] = pool.submit(_fine_tune, work, method)
        for work in works:
            jobs[work.task, BASE] = pool.submit(_evaluate_base, work)
        _follow(jobs, {work.task: work for work in works})
    page = out / "report.html"
    title = f"PPO and Poly-PPO on {' and '.join(work.task for work in works)}: the demo"
    shown = [path for work in works for path in (work.base_file, *work.runs.values())]
    problems = write_report(shown, page, markdown=out / "tables.md", title=title)
    told = [headline for _, headline in in_order(compare(gather(shown)[0]))]
    if problems:
        print("", *problems, sep="\n")
    for headline in told:
        print("", headline.title, *(f"  {line}" for line in headline.lines), sep="\n")
    print("", *(headline.sentence for headline in told), sep="\n")
    print(f"{time.perf_counter() - started:.0f} seconds. Open the report in a browser: {page.resolve()}")
    return 0


def parts(policy: str = "") -> list[Part]:
    """The tasks of the demo, or the task of a given policy."""
    if not policy:
        return list(DEMO)
    if policy not in available_policies() and not Path(policy).exists():
        raise UserError(
            f"policy is {policy!r}; give a policy file or one of {', '.join(available_policies()) or 'none'}"
        )
    chosen = next((part for part in DEMO if part.policy == policy), USUAL)
    return [replace(chosen, policy=policy)]


def _work(part: Part, out: Path, configurations: int, seed: int) -> Work:
    """The work of a part. Announces it, and refuses bad input before anything is written."""
    base = find_target(part.policy)
    world = world_of(base, configurations=configurations)
    Choices(attempts=part.attempts, seed=seed)
    task = short_name(world.task)
    played = part.settings["configurations_per_iteration"]
    print(
        f"{task}: base policy {base.name}, {world.num_configurations} configurations, H = {world.horizon}; "
        f"{part.settings['iterations']} iterations of {played} × 136 trajectories with {' and with '.join(METHODS)}."
    )
    runs = {method: out / f"{task}-{method}-{seed}" for method in METHODS}
    return Work(part, task, configurations, seed, runs, out / f"{task}-{BASE}.json")


def _fine_tune(work: Work, method: str) -> None:
    """In its own process: the run, then its evaluation."""
    from polychromic.finetuning.loop import finetune

    target = find_target(work.part.policy)
    world = world_of(target, configurations=work.configurations)
    folder = work.runs[method]
    settings = {
        "evaluate_every": max(1, work.iterations // 4),
        "checkpoint_every": 5,
        **work.part.settings,
        **(work.part.sets if method == "poly-ppo" else {}),
        "seed": work.seed,
    }
    finetune(world, target.saved, method=method, out=folder, **settings)
    run = find_target(str(folder))
    choices = {"attempts": work.part.attempts, "seed": work.seed}
    evaluate_to_file(run, world, folder / EVALUATION, command="polychromic demo", **choices)


def _evaluate_base(work: Work) -> None:
    target = find_target(work.part.policy)
    world = world_of(target, configurations=work.configurations)
    choices = {
        "attempts": work.part.attempts,
        "seed": work.seed,
        "temperatures": TEMPERATURES,
        "scan_attempts": SCAN_ATTEMPTS,
    }
    evaluate_to_file(target, world, work.base_file, command="polychromic demo", **choices)


def _follow(jobs: Mapping[tuple[str, str], Future[None]], works: Mapping[str, Work]) -> None:
    """Show bars that count the iterations in the runs' logs until all jobs are done; a failure is raised.

    Without a terminal, a line is printed whenever a job enters its next phase.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, TextColumn("{task.fields[doing]}"), console=console, disable=not console.is_terminal
    ) as bars:
        rows = {}
        for task, method in jobs:
            total = works[task].iterations if method != BASE else 1
            rows[task, method] = bars.add_task(f"{task} {method}", total=total, doing="waiting")
        printed: dict[tuple[str, str], str] = {}
        while True:
            # Jobs start in order. (A future claims to be running as soon as it is next in the queue.)
            busy = [name for name, job in jobs.items() if not job.done()][:PROCESSES]
            for (task, method), job in jobs.items():
                work, running = works[task], (task, method) in busy
                if job.done():
                    job.result()
                    count, doing = work.iterations if method != BASE else 1, "done"
                elif method == BASE:
                    count, doing = 0, "evaluating, with a scan of temperatures" if running else "waiting"
                else:
                    count, doing = _progress_of(work.runs[method], work.iterations, running)
                bars.update(rows[task, method], completed=count, doing=doing)
                if not console.is_terminal and printed.get((task, method)) != doing:
                    printed[task, method] = doing
                    console.print(f"{task} {method}: {doing}", highlight=False)
            if all(job.done() for job in jobs.values()):
                return
            time.sleep(0.3)


def _progress_of(run: Path, iterations: int, running: bool) -> tuple[int, str]:
    log = run / "metrics.jsonl"
    count = log.read_bytes().count(b"\n") if log.exists() else 0
    if not running:
        return count, "waiting"
    return count, "evaluating" if count >= iterations else "fine-tuning" if count else "compiling"

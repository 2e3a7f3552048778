"""The Slurm engine: a cell is a job, submitted through submitit."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.sweep.run_cell import Outcome, last_lines, one_thread, run_cell

ENOUGH_WAITING = 1000  # jobs in the queue at the same time; many clusters allow no more
DAY = 24 * 60


class SlurmEngine:
    """Submits every cell as a job with one core. A job that is requeued or killed goes on where its run was."""

    def __init__(self, sweep_folder: Path, workers: int = 0, options: Mapping[str, Any] | None = None) -> None:
        submitit = _import_submitit()
        given = dict(options or {})
        cluster = given.pop("cluster", "slurm")
        self.sweep_folder, self.limit = sweep_folder, workers
        self.jobs: dict[Path, Any] = {}
        try:
            self.executor = submitit.AutoExecutor(folder=sweep_folder / ".jobs" / "%j", cluster=cluster)
            defaults = {"timeout_min": DAY, "cpus_per_task": 1, "tasks_per_node": 1, "name": "polychromic"}
            self.executor.update_parameters(**{**defaults, **given})
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            told = " ".join(str(error).split())
            raise UserError(f"slurm: submitit refuses {cluster!r} with {given}: {told}") from error
        self.failures = (
            submitit.core.utils.FailedJobError,
            submitit.core.utils.UncompletedJobError,
            submitit.core.utils.FailedSubmissionError,
        )

    @property
    def slots(self) -> int:
        """Cells that run at the same time, as far as is known: jobs that run now."""
        return self.limit or max(1, sum(job.state == "RUNNING" for job in self.jobs.values()))

    def free(self) -> int:
        """Slurm queues by itself; more than a limit is not handed over."""
        return (self.limit or ENOUGH_WAITING) - len(self.jobs)

    def start(self, folder: Path) -> None:
        """Submit a cell."""
        self.jobs[folder] = self.executor.submit(slurm_cell, str(folder), str(self.sweep_folder))

    def finished(self, timeout: float) -> list[tuple[Path, Outcome]]:
        """Jobs that ended; one that was killed or cancelled counts as failed."""
        give_up = time.monotonic() + timeout
        while True:
            ended = [(folder, self._outcome(folder, job)) for folder, job in self.jobs.items() if job.done()]
            for folder, _ in ended:
                del self.jobs[folder]
            if ended or time.monotonic() > give_up:
                return ended
            time.sleep(min(0.1, timeout))

    def _outcome(self, folder: Path, job: Any) -> Outcome:
        try:
            return Outcome(**job.result())
        except self.failures as error:
            lines = str(error).strip().splitlines()[:1]
            return Outcome("failed", "\n".join([f"job {job.job_id}: {lines[0] if lines else ''}", *last_lines(folder)]))

    def close(self) -> None:
        """Cancel the jobs that are still there."""
        for job in self.jobs.values():
            with contextlib.suppress(Exception):
                job.cancel(check=False)
        self.jobs = {}


def slurm_cell(folder: str, sweep_folder: str) -> dict[str, Any]:
    """What a job runs."""
    if "jax" not in sys.modules:
        os.environ.update(one_thread(os.environ, Path(sweep_folder)))
    return run_cell(Path(folder))._asdict()


def _import_submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise UserError("engine is slurm, which needs submitit: pip install 'polychromic[slurm]'") from error
    return submitit

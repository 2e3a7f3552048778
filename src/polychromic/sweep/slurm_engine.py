"""The Slurm engine: a cell is a job, submitted through submitit."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.sweep.run_cell import Outcome, last_lines, one_thread, run_cell
from polychromic.trust import Trust, consent

ENOUGH_WAITING = 1000  # jobs in the queue at the same time; many clusters allow no more
DAY = 24 * 60
# A refused job is submitted again after a minute, then after twice as long each time up to an hour; half a day in all.
FIRST_WAIT, LONGEST_WAIT, MOST_REFUSALS = 60.0, 3600.0, 16


class SlurmEngine:
    """Submits every cell as a job with one core. A job that is requeued or killed resumes its run."""

    def __init__(self, sweep_folder: Path, workers: int = 0, options: Mapping[str, Any] | None = None) -> None:
        submitit = _import_submitit()
        given = dict(options or {})
        cluster = given.pop("cluster", "slurm")
        self.limit, self.trust = workers, consent()
        self.jobs: dict[Path, Any] = {}
        self.refused: list[tuple[Path, str]] = []  # the job that Slurm refused, with its message; at most one
        self.refusals, self.again = 0, 0.0  # in a row, and when to try again
        self.submitted = False
        try:
            self.executor = submitit.AutoExecutor(folder=sweep_folder / ".jobs" / "%j", cluster=cluster)
            defaults = {"timeout_min": DAY, "cpus_per_task": 1, "tasks_per_node": 1, "name": "polychromic"}
            self.executor.update_parameters(**{**defaults, **given})
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"slurm: submitit refuses {cluster!r} with {given}: {reason}") from error
        self.failures = (
            submitit.core.utils.FailedJobError,
            submitit.core.utils.UncompletedJobError,
            submitit.core.utils.FailedSubmissionError,
        )

    @property
    def slots(self) -> int:
        """Jobs that are running now, as far as is known."""
        return self.limit or max(1, sum(job.state == "RUNNING" for job in self.jobs.values()))

    def free(self) -> int:
        """Slurm has its own queue; only a limited number is handed over, and nothing while it refuses jobs."""
        return 0 if self.refused else (self.limit or ENOUGH_WAITING) - len(self.jobs)

    def start(self, folder: Path) -> None:
        """Submit a cell. If Slurm refuses it (too many jobs, for example), it is submitted again later."""
        printed = io.StringIO()  # submitit prints what sbatch says
        try:
            with contextlib.redirect_stderr(printed):
                consent = self.trust.everything, sorted(self.trust.names)
                self.jobs[folder] = self.executor.submit(slurm_cell, str(folder), *consent)
        except (*self.failures, OSError) as error:
            reason = (str(error).strip() or printed.getvalue().strip() or type(error).__name__).splitlines()[0]
            if not self.submitted:
                raise UserError(f"slurm: the first job was refused: {reason}") from error
            self.refused = [(folder, reason)]
            self.again = time.monotonic() + min(FIRST_WAIT * 2**self.refusals, LONGEST_WAIT)
            self.refusals += 1
        else:
            self.submitted, self.refusals = True, 0

    def _try_refused_again(self) -> list[tuple[Path, Outcome]]:
        """Submit the refused job again when it is due; gives up if Slurm has refused it for too long."""
        if not self.refused or time.monotonic() < self.again:
            return []
        ((folder, reason),) = self.refused
        self.refused = []
        if self.refusals > MOST_REFUSALS:
            return [
                (folder, Outcome("failed", f"Slurm refused the job {self.refusals} times: {reason}", hopeless=True))
            ]
        self.start(folder)
        return []

    def finished(self, timeout: float) -> list[tuple[Path, Outcome]]:
        """Jobs that ended; one that was killed or cancelled counts as failed."""
        give_up = time.monotonic() + timeout
        while True:
            ended = [(folder, self._outcome(folder, job)) for folder, job in self.jobs.items() if job.done()]
            for folder, _ in ended:
                del self.jobs[folder]
            ended += self._try_refused_again()
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
        """Cancel the remaining jobs."""
        for job in self.jobs.values():
            with contextlib.suppress(Exception):
                job.cancel(check=False)
        self.jobs, self.refused = {}, []


def slurm_cell(folder: str, everything: bool, names: Sequence[str]) -> dict[str, Any]:
    """What a job runs."""
    if "jax" not in sys.modules:
        os.environ.update(one_thread(os.environ))
    return run_cell(Path(folder), Trust(everything, frozenset(names)))._asdict()


def _import_submitit() -> Any:
    # When imported, submitit ties its log for good to the standard output and error of that moment, which may be
    # redirected and closed later. Its jobs, which are processes of their own, keep their log.
    named = "SUBMITIT_LOG_LEVEL"
    ours = named not in os.environ
    os.environ.setdefault(named, "NOCONFIG")
    try:
        import submitit
    except ImportError as error:
        raise UserError("engine is slurm, which needs submitit: pip install 'polychromic[slurm]'") from error
    finally:
        if ours:
            del os.environ[named]
    return submitit

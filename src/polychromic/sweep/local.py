"""The local engine: worker processes with one thread each, each pinned to a core."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polychromic.sweep.run_cell import Outcome, last_lines, one_thread
from polychromic.trust import consent


@dataclass
class Worker:
    """A process and the cell that it runs."""

    process: subprocess.Popen[str]
    folder: Path | None = None


class LocalEngine:
    """Runs cells in `workers` processes of this machine."""

    def __init__(self, workers: int = 0) -> None:
        self.trust = consent()  # workers may import what this process may
        self.environment = {**os.environ, **one_thread(os.environ)}
        self.workers: list[Worker | None] = [None] * (workers or len(available_cores()))

    @property
    def slots(self) -> int:
        """Cells that run at the same time."""
        return len(self.workers)

    def free(self) -> int:
        """How many cells can start at once."""
        return sum(worker is None or worker.folder is None for worker in self.workers)

    def start(self, folder: Path) -> None:
        """Give a cell to an idle worker."""
        number = next(n for n, worker in enumerate(self.workers) if worker is None or worker.folder is None)
        worker = self.workers[number]
        if worker is None or worker.process.poll() is not None:
            _end(worker)
            worker = self.workers[number] = self._launch()
        worker.folder = folder
        assert worker.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it just died; `finished` will report it
            asked = {"folder": str(folder), "everything": self.trust.everything, "names": sorted(self.trust.names)}
            worker.process.stdin.write(json.dumps(asked) + "\n")
            worker.process.stdin.flush()

    def finished(self, timeout: float) -> list[tuple[Path, Outcome]]:
        """Cells that ended, waiting for the first one up to `timeout` seconds."""
        ended: list[tuple[Path, Outcome]] = []
        with selectors.DefaultSelector() as waiting:
            for number, worker in enumerate(self.workers):
                if worker is not None and worker.folder is not None:
                    waiting.register(worker.process.stdout, selectors.EVENT_READ, number)  # type: ignore[arg-type]
            for key, _ in waiting.select(timeout):
                worker = self.workers[key.data]
                assert worker is not None
                assert worker.folder is not None
                assert worker.process.stdout is not None
                line = worker.process.stdout.readline()
                outcome = Outcome(**json.loads(line)) if line.endswith("\n") else _lost(worker)
                ended.append((worker.folder, outcome))
                worker.folder = None
                if outcome.state == "failed":  # a fresh process for the next cell
                    _end(worker)
                    self.workers[key.data] = None
        return ended

    def close(self) -> None:
        """End all workers; running cells can later resume from their last checkpoint."""
        for worker in self.workers:
            if worker is not None:
                _close(worker.process.stdin)
        for worker in self.workers:
            _end(worker)
        self.workers = [None] * len(self.workers)

    def _launch(self) -> Worker:
        command = [sys.executable, "-P", "-m", "polychromic.sweep.worker"]
        # Its own session: Ctrl-C reaches only the sweep, which then ends its workers.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
            start_new_session=True,
        )
        return Worker(process)


def available_cores() -> Sequence[int]:
    """The cores that this process may use."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return range(os.cpu_count() or 1)


def _lost(worker: Worker) -> Outcome:
    """The outcome of a worker that ended without an answer."""
    code = worker.process.wait()
    how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    assert worker.folder is not None
    return Outcome("failed", "\n".join([f"the process {how}", *last_lines(worker.folder)]))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _close(stream: Any) -> None:
    with contextlib.suppress(OSError):  # the reader of the buffered data may be gone
        stream.close()


def _end(worker: Worker | None) -> None:
    """A worker ends when its standard input closes; one that does not is killed."""
    if worker is None:
        return
    _close(worker.process.stdin)
    _close(worker.process.stdout)
    try:
        worker.process.wait(2)
    except subprocess.TimeoutExpired:
        worker.process.kill()
        worker.process.wait()

"""Which cell runs next, which is retried, and when is a sweep over? The same for every engine."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from polychromic.sweep.cells import is_done
from polychromic.sweep.progress import iterations_done
from polychromic.sweep.run_cell import Outcome, note

BUSY_SECONDS = 2.0  # before a cell that another sweep is running is tried again


class Engine(Protocol):
    """Where cells run. An engine takes folders and reports how each try ended; everything else is on disk."""

    @property
    def slots(self) -> int:
        """Cells that run at the same time, 0 if unknown."""

    def free(self) -> int:
        """How many cells it accepts now."""

    def start(self, folder: Path) -> None:
        """Take a cell."""

    def finished(self, timeout: float) -> list[tuple[Path, Outcome]]:
        """Tries that ended, waiting for the first one up to `timeout` seconds."""

    def close(self) -> None:
        """Stop everything."""


@dataclass
class Summary:
    """The state of a sweep."""

    done: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)  # with its last message
    retried: int = 0


def drive(engine: Engine, folders: Sequence[Path], *, retries: int, watch: Callable[[Summary], None]) -> Summary:
    """Run all cells that are not done; a failed one is retried up to `retries` times while the rest continue.

    A try that got further than any before resets the count: a machine that loses its workers every hour still finishes
    a run of a day.

    watch: called about twice a second and after every event.
    """
    done = {folder for folder in folders if is_done(folder, thorough=True)}
    summary = Summary(done=[folder for folder in folders if folder in done])
    waiting = deque(folder for folder in folders if folder not in done)
    running: set[Path] = set()
    later: list[tuple[float, Path]] = []
    failures: Counter[Path] = Counter()
    furthest: dict[Path, int] = {}
    try:
        while waiting or running or later:
            watch(summary)
            waiting.extend(folder for due, folder in later if due <= time.monotonic())
            later = [(due, folder) for due, folder in later if due > time.monotonic()]
            while waiting and engine.free() > 0:
                running.add(waiting[0])
                furthest.setdefault(waiting[0], iterations_done(waiting[0]))
                engine.start(waiting.popleft())
            for folder, outcome in engine.finished(0.5):
                running.discard(folder)
                if outcome.state == "done":
                    summary.done.append(folder)
                elif outcome.state == "busy":
                    later.append((time.monotonic() + BUSY_SECONDS, folder))
                else:
                    reached = iterations_done(folder)
                    failures[folder] = 1 if reached > furthest[folder] else failures[folder] + 1
                    furthest[folder] = max(furthest[folder], reached)
                    if outcome.hopeless or failures[folder] > retries:
                        summary.failed[folder] = outcome.message
                        ended = {"state": "failed", "kind": outcome.kind, "message": outcome.message}
                        note(folder, {"ended": time.time(), **ended})
                    else:
                        summary.retried += 1
                        waiting.append(folder)
    finally:
        engine.close()
    watch(summary)
    return summary

"""A process of the local engine: reads folders of cells from standard input, runs them, answers with JSON lines.

    python -m polychromic.sweep.worker CORE

It keeps what it has loaded and compiled for the next cell. When its standard input closes, because the sweep was
stopped or killed, it ends at once; everything a run needs to go on is on disk at any moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from pathlib import Path


def main() -> int:
    """Serve cells until standard input closes."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # not every system can pin
        os.sched_setaffinity(0, {int(sys.argv[1])})
    from polychromic.memory import keep_freed_memory
    from polychromic.sweep.run_cell import run_cell

    keep_freed_memory()

    # Only answers go to the pipe; what anyone prints outside a cell goes to standard error.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        folders: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(folders,), daemon=True).start()
        while True:
            outcome = run_cell(Path(folders.get()))
            answers.write(json.dumps(outcome._asdict()) + "\n")
            answers.flush()


def _read(folders: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        folders.put(line.rstrip("\n"))
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

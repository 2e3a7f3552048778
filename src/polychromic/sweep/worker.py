"""A process of the local engine: reads cells from standard input, runs them, answers; both as lines of JSON.

    python -P -m polychromic.sweep.worker

With -P nothing is imported from the working folder except functions that the user has named or trusted.
It keeps what it has loaded and compiled for the next cell. When its standard input closes, because the sweep was
stopped or killed, it ends at once; everything that a run needs to resume is always on disk.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import queue
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.files import lock_file
from polychromic.sweep.local import available_cores


def main() -> int:
    """Serve cells until standard input closes."""
    faulthandler.enable()
    core = pin_to_free_core()  # kept open: the core is this worker's as long as it lives
    from polychromic.memory import keep_freed_memory
    from polychromic.sweep.run_cell import run_cell
    from polychromic.trust import Trust

    keep_freed_memory()

    # Only answers go to the pipe; other output outside a cell goes to standard error.
    with contextlib.closing(core), os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        cells: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(cells,), daemon=True).start()
        while True:
            asked = json.loads(cells.get())
            outcome = run_cell(Path(asked["folder"]), Trust(asked["everything"], frozenset(asked["names"])))
            answers.write(json.dumps(outcome._asdict()) + "\n")
            answers.flush()


def pin_to_free_core() -> Any:
    """Pin this process to the first core that no other worker of this user has locked; to none if all are taken.

    Returns an object that holds the lock until it is closed or the process ends.
    """
    for core in available_cores():
        path = Path(tempfile.gettempdir()) / f"polychromic-{os.getuid()}-core-{core}"
        with contextlib.suppress(AttributeError, OSError, UserError):  # not every system can pin
            file = lock_file(path, mode=0o600)
            os.sched_setaffinity(0, {core})
            return file
    return contextlib.ExitStack()


def _read(cells: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        cells.put(line)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

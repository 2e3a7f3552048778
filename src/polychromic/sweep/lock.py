"""Who runs a cell? The process that holds the lock on a file in its folder; the lock dies with its process.

The kernel (on NFS the server) keeps the lock itself. The file says who holds it and is touched every few
seconds, so that `polychromic sweep status` can tell a running cell from one whose process is gone without locking.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from polychromic.errors import UserError
from polychromic.files import Count, lock_file, read_json

LOCK = "cell.lock"
BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0


class _Holder(TypedDict):
    host: str
    pid: Count
    process: str


@contextlib.contextmanager
def holding(folder: Path) -> Iterator[bool]:
    """Hold a cell while it is run; False if another process does."""
    try:
        locked = lock_file(folder / LOCK)
    except BlockingIOError:
        yield False
        return
    with locked as file:
        file.truncate(0)
        file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "process": _born(os.getpid())}))
        file.flush()
        stop = threading.Event()
        beat = threading.Thread(target=_beat, args=(folder / LOCK, stop), daemon=True)
        beat.start()
        try:
            yield True
        finally:
            stop.set()
            beat.join()
            with contextlib.suppress(OSError):  # a full disk must not hide why the cell ended
                file.truncate(0)


def holder(folder: Path) -> dict[str, Any] | None:
    """Who runs a cell now, from the file alone; None if nobody does."""
    path = folder / LOCK
    try:
        claim: dict[str, Any] = read_json(path, _Holder)
        touched = path.stat().st_mtime
    except (OSError, UserError):
        return None
    if claim.get("host") == socket.gethostname() and claim.get("process"):
        return claim if _born(claim["pid"]) == claim["process"] else None
    return claim if time.time() - touched < STALE_SECONDS else None


def _beat(path: Path, stop: threading.Event) -> None:
    while not stop.wait(BEAT_SECONDS):
        with contextlib.suppress(OSError):
            os.utime(path)


def _born(pid: int) -> str:
    """When a process started, in kernel ticks; "" if there is none. It distinguishes processes that reuse a pid."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]

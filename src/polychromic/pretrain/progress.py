"""Progress bars on standard error."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(*columns: Any) -> Progress:
    """A bar with a count and the time left; further columns at its end."""
    middle = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *middle, *columns, console=Console(stderr=True))

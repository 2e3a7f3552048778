"""A bar on the terminal while a run is under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polychromic.finetuning.config import Config

Watcher = Callable[[int, Mapping[str, Any]], None]


@contextmanager
def progress_bar(config: Config, task_name: str, *, shown: bool = True) -> Iterator[Watcher]:
    """A line on the terminal with what matters while a run is under way; nothing where there is no terminal."""
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield lambda _iteration, _metrics: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None if console.width > 100 else 8),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[metrics]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{config.method} {task_name}", total=config.iterations, metrics="compiling")
        evaluated = ""

        def watch(iteration: int, metrics: Mapping[str, Any]) -> None:
            nonlocal evaluated
            if "reward" in metrics:
                evaluated = f" │ evaluated: {_evaluated(metrics)}"
            known = "successes" in metrics
            led = f"success {metrics['successes']:.2f}" if known else f"return {metrics['return']:.4g}"
            shown = f"{led}, {metrics['distinct_per_group']:.1f} strategies"
            if console.width > 100:
                shown += f", {metrics['steps'] / metrics['seconds'] / 1000:.1f}k steps/s{evaluated}"
            progress.update(task, completed=iteration + 1, metrics=shown)

        yield watch


def _evaluated(metrics: Mapping[str, Any]) -> str:
    """The brief evaluation of an iteration."""
    if "success" in metrics:
        return f"success {metrics['success']:.2f}, coverage {metrics['coverage']:.2f}"
    return f"return {metrics['reward']:.4g}"

"""Weights & Biases as a watcher of runs: `polychromic finetune TASK --wandb PROJECT`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from polychromic.errors import UserError


@contextmanager
def logging_to_wandb(project: str, folder: Path, config: Any) -> Iterator[Callable[[int, Mapping[str, Any]], None]]:
    """A `watch` for `polychromic.finetune` that logs every number of an iteration, while the block lasts.

    The same folder is always the same W&B run, so an interrupted run continues there too. Whether there is a network is
    W&B's own affair: with WANDB_MODE=offline it writes to FOLDER-wandb beside the run, for `wandb sync` later on.

    Args:
        project: the name of the project.
        folder: the run directory.
        config: a dataclass of settings.
    """
    try:
        import wandb
    except ImportError as error:
        raise UserError("wandb is not installed; pip install 'polychromic[wandb]'") from error
    folder = Path(folder).resolve()
    where = folder.parent / f"{folder.name}-wandb"  # beside the run: a run directory holds nothing but its run
    where.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=project,
        name=folder.name,
        id=uuid.uuid5(uuid.NAMESPACE_URL, f"{project}:{folder}").hex,
        resume="allow",
        dir=str(where),
        config=asdict(config),
        settings=wandb.Settings(silent=True),
    )

    def watch(iteration: int, figures: Mapping[str, Any]) -> None:
        run.log({name: value for name, value in figures.items() if isinstance(value, int | float)}, step=iteration)

    try:
        yield watch
    except BaseException:
        run.finish(exit_code=1)
        raise
    run.finish()

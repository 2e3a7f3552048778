"""The Ray engine: a cell is a Ray task, on an existing cluster or on one made for the sweep on this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.sweep.local import available_cores
from polychromic.sweep.run_cell import Outcome, last_lines, one_thread, run_cell
from polychromic.trust import Trust, consent

OBJECT_STORE_BYTES = 100 * 2**20  # it carries only folder names and outcomes
ENOUGH_WAITING = 1000  # tasks that Ray may hold at the same time


class RayEngine:
    """Gives every cell to Ray as a task with one CPU; Ray decides where and when it runs."""

    def __init__(self, workers: int = 0, address: str = "") -> None:
        self.folders: dict[Any, Path] = {}
        self.trust = consent()  # tasks may import what this process may
        self.limit = workers
        self.own: dict[str, str] = {}
        if "ray" not in sys.modules or not sys.modules["ray"].is_initialized():
            self.own = own_token(os.environ, address)
            os.environ.update(self.own)  # before Ray is imported, which reads it once
        ray = self.ray = _import_ray()
        self.started_here = not ray.is_initialized()
        if self.started_here:
            _connect(ray, address, workers)
        self.cores = self._count_cores()
        self.task = ray.remote(num_cpus=1, max_retries=0)(ray_cell)

    @property
    def slots(self) -> int:
        """Cells that can run at the same time."""
        if self.ray.is_initialized():  # the table is drawn again after the end
            self.cores = self._count_cores()
        return min(self.cores, self.limit) if self.limit else self.cores

    def _count_cores(self) -> int:
        return int(self.ray.cluster_resources().get("CPU", 1))

    def free(self) -> int:
        """Ray has its own queue; only a limited number is handed over."""
        return (self.limit or ENOUGH_WAITING) - len(self.folders)

    def start(self, folder: Path) -> None:
        """Hand a cell to Ray."""
        consent = self.trust.everything, sorted(self.trust.names)
        reference = self.task.options(name=folder.name).remote(str(folder), *consent)
        self.folders[reference] = folder

    def finished(self, timeout: float) -> list[tuple[Path, Outcome]]:
        """Tasks that ended; one whose worker or node died counts as failed."""
        if not self.folders:
            return []
        ready, _ = self.ray.wait(list(self.folders), num_returns=1, timeout=timeout)
        ended = []
        for reference in ready:
            folder = self.folders.pop(reference)
            try:
                outcome = Outcome(**self.ray.get(reference))
            except self.ray.exceptions.RayError as error:
                first = str(error).strip().splitlines()[:1] or [type(error).__name__]
                outcome = Outcome("failed", "\n".join([*first, *last_lines(folder)]))
            ended.append((folder, outcome))
        return ended

    def close(self) -> None:
        """Stop the tasks, and the cluster if it was made for this sweep."""
        for reference in self.folders:
            with contextlib.suppress(Exception):
                self.ray.cancel(reference, force=True)
        self.folders = {}
        if self.started_here:
            self.ray.shutdown()
        for name in self.own:
            os.environ.pop(name, None)


def ray_cell(folder: str, everything: bool, names: Sequence[str]) -> dict[str, Any]:
    """The task itself. A worker of Ray runs many of them and keeps what it has loaded and compiled."""
    if "jax" not in sys.modules:
        os.environ.update(one_thread(os.environ))
    return run_cell(Path(folder), Trust(everything, frozenset(names)))._asdict()


def own_token(environment: Mapping[str, str], address: str) -> dict[str, str]:
    """Environment variables for a cluster of this sweep alone: a token that is not stored in a file.

    By default Ray writes a token into the home folder, and from then on asks for one everywhere, unless RAY_AUTH_MODE
    says otherwise. If the user has decided (RAY_AUTH_MODE is set), or for an existing cluster, nothing is changed.
    """
    if address or environment.get("RAY_ADDRESS") or environment.get("RAY_AUTH_MODE"):
        return {}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UserError("engine is ray, which is not installed: pip install 'polychromic[ray]'") from error
    return ray


def _connect(ray: Any, address: str, workers: int) -> None:
    # Ray's own warnings would break the live table.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    where = address or os.environ.get("RAY_ADDRESS", "")
    if where:
        try:
            _knock(where)
            ray.init(address=address or None, **common)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"ray_address is {where!r}, where no cluster answers: {_one_line(error)}") from error
    else:
        # Ray gives its workers a low priority; here they are the work itself.
        os.environ.setdefault("RAY_worker_niceness", "0")
        try:
            ray.init(
                num_cpus=workers or len(available_cores()),
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                **common,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(f"engine is ray, which could not start a cluster here: {_one_line(error)}") from error


def _knock(address: str) -> None:
    """Ray waits minutes for a missing cluster; a connection shows at once whether anything listens."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())

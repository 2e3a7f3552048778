"""A run on disk: what was asked for, what happened, and where to go on after an interruption.

config.json            the resolved configuration, the task and the policy that it started from
metrics.jsonl          a line per iteration
evaluations.jsonl      a line per evaluation
timing.jsonl           wall-clock seconds, apart from the metrics so that these are the same in every repetition
tensorboard/           the same figures as events
checkpoint.safetensors all that the next iteration needs; replaced atomically
policy.safetensors     the policy at the end
policy-N.safetensors   the policy after N iterations, if `kept_policies` asks for some
done.json              there when the run is complete
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from polychromic.errors import UserError
from polychromic.policies.tensors import (
    PARTIAL,
    fill_tree,
    named_arrays,
    read_tensors,
    remove_partial,
    whole_file,
    write_tensors,
)

CHECKPOINT_FORMAT = "polychromic-checkpoint-1"
TIMING = "timing.jsonl"
# What may lie in a folder before its run begins: its lock, and what a sweep says about it.
BESIDE = (".lock", "cell.json", "cell.lock", "settings.json", "attempts.jsonl", "log.txt")
# Files that are replaced whole.
WHOLE = ("config.json", "checkpoint.safetensors", "policy.safetensors", "policy-*.safetensors", "done.json")
LOGS = ("metrics.jsonl", "evaluations.jsonl", TIMING)


class Checkpoint(NamedTuple):
    """The state after `iteration` iterations."""

    iteration: int
    learner: Any
    visits: dict[int, int]


class Run:
    """An open run directory. One process at a time may hold it."""

    def __init__(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Open a new folder, or one that was made for exactly the same run."""
        self.folder = folder
        described = json.loads(json.dumps(description))
        check_folder(folder, described)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / ".lock").open("w")
        except OSError as error:
            raise UserError(
                f"out: cannot write to {folder} ({error.strerror}); give a folder that can be written"
            ) from error
        self._logs: dict[str, Any] = {}
        self._board: Any = None
        self._timed = False  # the first iteration after a start takes longer: it compiles
        try:
            self._acquire()
            check_folder(folder, described)  # again: now nobody else can change it
            remove_partial(folder, WHOLE)
            if not (folder / "config.json").exists() or not _has_begun(folder):
                write_text(folder / "config.json", json.dumps(described, indent=1) + "\n")
        except UserError:
            self._lock.close()
            raise

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (*self._logs.values(), self._board, self._lock):
            if file is not None:
                file.close()

    def _acquire(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"out: another process is writing to {self.folder}") from error

    def resume(self, learner: Any) -> Checkpoint:
        """The last checkpoint, in the shape of `learner`; logs are cut back to it. A fresh run starts at 0."""
        path = self.folder / "checkpoint.safetensors"
        if path.exists():
            tensors, metadata = read_tensors(path, CHECKPOINT_FORMAT)
            header = json.loads(metadata["header"])
            keys, counts = tensors.pop("visit_keys"), tensors.pop("visit_counts")
            restored = fill_tree(path, jax.eval_shape(lambda: learner), tensors)
            checkpoint = Checkpoint(
                header["iteration"], restored, dict(zip(keys.tolist(), counts.tolist(), strict=True))
            )
            lengths = header["log_bytes"]
        else:
            checkpoint, lengths = Checkpoint(0, learner, {}), {}
        for name in LOGS:
            # What was written after the checkpoint will be written again.
            log = (self.folder / name).open("a+b")
            kept = lengths.get(name, 0) if name != TIMING else self._timed_before(checkpoint.iteration)
            if log.seek(0, os.SEEK_END) < kept:
                log.close()
                raise UserError(
                    f"out: {self.folder / name} is shorter than at the last checkpoint, so lines of it are lost; "
                    "put the file back, or give another folder"
                )
            log.truncate(kept)
            self._logs[name] = log
        return checkpoint

    def _timed_before(self, iteration: int) -> int:
        """The length of the timing log up to an iteration. Seconds differ from run to run: no checkpoint holds it."""
        path = self.folder / TIMING
        kept = 0
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if not line.endswith(b"\n") or json.loads(line)["iteration"] >= iteration:
                break
            kept += len(line)
        return kept

    def save(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint; a kill at any moment leaves this one or the one before."""
        for log in self._logs.values():
            log.flush()
            os.fsync(log.fileno())
        header = {
            "iteration": checkpoint.iteration,
            "log_bytes": {name: log.seek(0, os.SEEK_END) for name, log in self._logs.items() if name != TIMING},
        }
        visits = sorted(checkpoint.visits.items())
        tensors = {
            **named_arrays(checkpoint.learner),
            "visit_keys": np.array([key for key, _ in visits], np.uint64),
            "visit_counts": np.array([count for _, count in visits], np.int64),
        }
        write_tensors(
            self.folder / "checkpoint.safetensors", tensors, {"format": CHECKPOINT_FORMAT, "header": json.dumps(header)}
        )

    def log(self, name: str, iteration: int, figures: Mapping[str, Any]) -> None:
        """Add a line to one of `LOGS`, and its numbers to TensorBoard."""
        started = {"start": True} if name == TIMING and not self._timed else {}
        self._timed = self._timed or name == TIMING
        line = json.dumps({"iteration": iteration, **figures, **started})
        self._logs[name].write(line.encode() + b"\n")
        self._logs[name].flush()
        if self._board is None:
            self._board = _Board(self.folder / "tensorboard", iteration)
        numbers = {key: float(value) for key, value in figures.items() if isinstance(value, int | float)}
        self._board.add({f"{name.removesuffix('.jsonl')}/{key}": value for key, value in numbers.items()}, iteration)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Mark the run as complete."""
        write_text(self.folder / "done.json", json.dumps(summary, indent=1) + "\n")


def kept_policy_name(iterations: int) -> str:
    """The file of the policy after so many iterations."""
    return f"policy-{iterations}.safetensors"


def kept_policies(folder: Path) -> dict[int, Path]:
    """The policies that a run kept before its end, by the number of iterations they are after."""
    found = {int(path.stem.removeprefix("policy-")): path for path in folder.glob("policy-*.safetensors")}
    return dict(sorted(found.items()))


def is_done(folder: Path) -> bool:
    """Whether a folder holds a complete run."""
    return (folder / "done.json").exists()


def _has_begun(folder: Path) -> bool:
    """Whether there is anything in a run's folder that a new description would make wrong."""
    log = folder / "metrics.jsonl"
    return is_done(folder) or (folder / "checkpoint.safetensors").exists() or (log.exists() and log.stat().st_size > 0)


def check_folder(folder: Path, description: Mapping[str, Any]) -> None:
    """Refuse a folder that holds anything but this very run. Nothing is written."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"out: cannot write to {folder} (it is a file); give a folder")
    path = folder / "config.json"
    if not path.exists():
        strange = sorted(file.name for file in folder.iterdir() if file.name not in BESIDE)
        strange = [name for name in strange if not (name.startswith(".") and name.endswith(PARTIAL))]
        if strange:
            raise UserError(f"out: {folder} is not empty ({strange[0]}, …) and holds no run; give a new folder")
        return
    found = read_json(path)
    if not isinstance(found, dict) or not isinstance(found.get("config"), dict) or "policy" not in found:
        raise UserError(f"out: {path} was not written by polychromic finetune; give a new folder")
    if not _has_begun(folder):
        return
    for name, (before, now) in _differences(found, json.loads(json.dumps(description))):
        raise UserError(
            f"out: {folder} holds a run with {name} = {before!r}, now it is {now!r}; "
            "give another folder, or the same settings to go on with it"
        )


class _Board:
    """TensorBoard events, written by the caller itself.

    tensorboardX's own SummaryWriter leaves it to a thread behind a short queue: on a full disk the thread dies, and the
    run would wait for it forever instead of saying so.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(exist_ok=True)
        self._event = Event
        # A name of its own for every start within a second.
        self._file = EventsWriter(str(folder / "events"), f".{os.getpid()}.{first_step}")
        # What an earlier start wrote from this step on is hidden.
        self._file.write_event(Event(step=first_step, session_log=SessionLog(status=SessionLog.START)))

    def add(self, figures: Mapping[str, float], step: int) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in figures.items()]
        self._file.write_event(self._event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; a last line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines[:-1] if line]
    except ValueError as error:
        raise UserError(f"{path} has a line that is not JSON: {error}") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file of a run."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error


def read_table(field: str, path: Path) -> dict[str, Any]:
    """The table in a TOML or JSON file that a user gave as `field`."""
    kind, read = ("JSON", json.loads) if path.suffix == ".json" else ("TOML", tomllib.loads)
    try:
        values = read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{field}: {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UserError(f"{field}: {path} is not {kind}: {error}") from error
    if not isinstance(values, dict):
        raise UserError(f"{field}: {path} holds a {type(values).__name__}; it must be a table of names and values")
    return values


def write_text(path: Path, text: str) -> None:
    """Write a file so that it appears whole or not at all."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif before != now:
        yield name, (before, now)

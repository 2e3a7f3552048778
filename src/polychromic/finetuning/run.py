"""A run on disk: its settings, its metrics, and where to resume after an interruption.

config.json            the resolved configuration, the task and the policy that it started from
metrics.jsonl          a line per iteration
evaluations.jsonl      a line per evaluation
timing.jsonl           wall-clock seconds, apart from the metrics, which are the same in every repetition
tensorboard/           the same metrics as events
checkpoint.safetensors everything that the next iteration needs; replaced atomically
policy.safetensors     the policy at the end
policy-N.safetensors   the policy after N iterations, if `kept_policies` asks for some
done.json              present once the run is complete
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import jax
import numpy as np

from polychromic.errors import NO_SPACE, UserError
from polychromic.files import (
    Count,
    checked,
    is_inside,
    is_partial,
    lock_file,
    open_log,
    read_json,
    read_json_or,
    readable_lines,
    remove_partial,
    write_json,
)
from polychromic.policies.tensors import (
    check_finite,
    fill_tree,
    named_arrays,
    parse_object,
    read_tensors,
    write_tensors,
)

CHECKPOINT_FORMAT = "polychromic-checkpoint-1"
TIMING = "timing.jsonl"
# Files that may be in a folder before its run begins: its lock, and those of a sweep.
BESIDE = (".lock", "cell.json", "cell.lock", "settings.json", "attempts.jsonl", "log.txt")
# Files that are replaced whole.
WHOLE = ("config.json", "checkpoint.safetensors", "policy.safetensors", "policy-*.safetensors", "done.json")
LOGS = ("metrics.jsonl", "evaluations.jsonl", TIMING)


class _Header(TypedDict):
    """The header of a checkpoint."""

    iteration: Count
    log_bytes: dict[str, Count]
    log_sha256: NotRequired[dict[str, str]]  # of the first `log_bytes` bytes; not in checkpoints of earlier versions


class _Description(TypedDict):
    config: dict[str, Any]
    policy: str


class _Done(TypedDict):
    """What done.json holds besides the metrics of the last evaluation."""

    iterations: Count
    log_sha256: NotRequired[dict[str, str]]


class Checkpoint(NamedTuple):
    """The state after `iteration` iterations."""

    iteration: int
    learner: Any
    visits: dict[int, int]


class Run:
    """An open run directory. Only one process at a time can hold it."""

    def __init__(self, folder: Path, description: Mapping[str, Any]) -> None:
        """Open a new folder, or one that was made for exactly the same run."""
        self.folder = folder
        self._saved = 0  # iterations at the last checkpoint
        self._logs: dict[str, Any] = {}
        self._digests = {name: hashlib.sha256() for name in LOGS if name != TIMING}
        self._board: Any = None
        self._timed = False  # the first iteration after a start takes longer: it compiles
        described = json.loads(json.dumps(description))
        self._iterations = described["config"].get("iterations")
        check_folder(folder, described)
        with self._telling(everywhere=True):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                self._lock = lock_file(folder / ".lock")
            except BlockingIOError as error:
                raise UserError(f"out: another process is writing to {folder}") from error
        try:
            check_folder(folder, described)  # again, now that no other process can change it
            remove_partial(folder, WHOLE)
            if not (folder / "config.json").exists() or not has_begun(folder):
                with self._telling(everywhere=True):
                    write_json(folder / "config.json", described)
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Run:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with self._telling():
            self._close(quietly=error is not None)
            if isinstance(error, OSError):
                raise error

    def _close(self, *, quietly: bool) -> None:
        with contextlib.ExitStack() as closing:
            for file in (*self._logs.values(), self._board, self._lock):
                if file is not None:
                    # What a full disk refused cannot be written now either, and the reason is already known.
                    if quietly:
                        closing.enter_context(contextlib.suppress(OSError))
                    closing.callback(file.close)

    @contextlib.contextmanager
    def _telling(self, *, everywhere: bool = False) -> Iterator[None]:
        """Report a full disk, or any other system error about a file of the run, in one line.

        everywhere: errors about any file; otherwise only the run's own, as a world may have files of its own.
        """
        try:
            yield
        except OSError as error:
            if not everywhere and error.errno not in NO_SPACE and not is_inside(error.filename, self.folder):
                raise
            advice = "free some space" if error.errno in NO_SPACE else "give a folder that can be written"
            lost = "; nothing is lost: the same command resumes the run" if self._logs else ""
            where = error.filename if isinstance(error.filename, str) else self.folder
            raise UserError(f"out: cannot write to {where} ({error.strerror}); {advice}{lost}") from error

    def resume(self, learner: Any) -> Checkpoint:
        """The last checkpoint, in the shape of `learner`; logs are cut back to it. A fresh run starts at 0."""
        path = self.folder / "checkpoint.safetensors"
        header: _Header = {"iteration": 0, "log_bytes": {}}
        checkpoint = Checkpoint(0, learner, {})
        if path.exists():
            tensors, metadata = read_tensors(path, CHECKPOINT_FORMAT)
            check_finite(path, tensors)
            header = checked(parse_object(path, metadata["header"]), _Header, f"{path}: header")
            visits = _visits(path, tensors.pop("visit_keys", None), tensors.pop("visit_counts", None))
            checkpoint = Checkpoint(
                header["iteration"], fill_tree(path, jax.eval_shape(lambda: learner), tensors), visits
            )
        with self._telling(everywhere=True):
            kept = {name: self._kept(path, name, header) for name in LOGS}
            for name in LOGS:
                # Lines after the checkpoint will be written again.
                self._logs[name] = open_log(self.folder / name)
                self._logs[name].truncate(kept[name])
        self._saved = checkpoint.iteration
        return checkpoint

    def _kept(self, path: Path, name: str, header: _Header) -> int:
        """How many bytes of a log belong to the checkpoint; refuses a log that does not match it."""
        file, iteration = self.folder / name, header["iteration"]
        content = file.read_bytes() if file.exists() else b""
        if name == TIMING:
            return _timed_before(content, iteration)
        length = header["log_bytes"].get(name, 0)
        if len(content) < length:
            raise UserError(
                f"out: {file} is shorter than at the last checkpoint, so lines are missing; "
                "put the file back, or give another folder"
            )
        self._digests[name].update(content[:length])
        if header.get("log_sha256", {}).get(name, (now := self._digests[name].hexdigest())) != now:
            raise UserError(
                f"out: {file} was changed since the last checkpoint; put the file back, or give another folder"
            )
        lines = content.count(b"\n", 0, length)
        too_far = self._iterations is not None and iteration > self._iterations
        if name == "metrics.jsonl" and (lines != iteration or too_far):
            raise UserError(
                f"out: {path} claims {iteration} iterations of {self._iterations}, but {file} has {lines} "
                "up to it; the checkpoint is damaged: put back a copy, or give another folder"
            )
        return length

    def save(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint; a kill at any moment leaves this one or the one before."""
        for log in self._logs.values():
            log.flush()
            os.fsync(log.fileno())
        header: _Header = {
            "iteration": checkpoint.iteration,
            "log_bytes": {name: log.seek(0, os.SEEK_END) for name, log in self._logs.items() if name != TIMING},
            "log_sha256": {name: digest.hexdigest() for name, digest in self._digests.items()},
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
        self._saved = checkpoint.iteration

    def last_good(self) -> str:
        """Where a run that cannot continue can be resumed, as the end of a message."""
        if not self._saved:
            return "; no checkpoint had been written yet"
        path = self.folder / "checkpoint.safetensors"
        return f"; the last good checkpoint, after {self._saved} iterations, is {path}"

    def log(self, name: str, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Add a line to one of `LOGS`, and its numbers to TensorBoard."""
        started = {"start": True} if name == TIMING and not self._timed else {}
        self._timed = self._timed or name == TIMING
        line = json.dumps({"iteration": iteration, **metrics, **started}).encode() + b"\n"
        self._logs[name].write(line)
        self._logs[name].flush()
        if name in self._digests:
            self._digests[name].update(line)
        if self._board is None:
            self._board = _Board(self.folder / "tensorboard", iteration)
        numbers = {key: float(value) for key, value in metrics.items() if isinstance(value, int | float)}
        self._board.add({f"{name.removesuffix('.jsonl')}/{key}": value for key, value in numbers.items()}, iteration)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Mark the run as complete."""
        digests = {name: digest.hexdigest() for name, digest in self._digests.items()}
        write_json(self.folder / "done.json", {**summary, "log_sha256": digests})


class Unsaved:
    """A run that exists only in memory."""

    folder: Path | None = None

    def __init__(self) -> None:
        self._logs: dict[str, list[dict[str, Any]]] = {name: [] for name in LOGS}

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """A dict per iteration."""
        return self._logs["metrics.jsonl"]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """A dict per evaluation."""
        return self._logs["evaluations.jsonl"]

    def log(self, name: str, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Add a line to one of `LOGS`."""
        self._logs[name].append({"iteration": iteration, **metrics})

    def save(self, checkpoint: Checkpoint) -> None:
        """Nothing to save to."""

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Nothing to mark."""

    def last_good(self) -> str:
        """Nothing was kept."""
        return ""


def kept_policy_name(iterations: int) -> str:
    """The file of the policy after this many iterations."""
    return f"policy-{iterations}.safetensors"


def kept_policies(folder: Path) -> dict[int, Path]:
    """The policies that a run kept before its end, by number of iterations."""
    named = {path.stem.removeprefix("policy-"): path for path in folder.glob("policy-*.safetensors")}
    return {int(number): named[number] for number in sorted(filter(str.isdecimal, named), key=int)}


def is_done(folder: Path) -> bool:
    """Whether a folder holds a complete run. A damaged done.json is made again from the last checkpoint."""
    return read_json_or(folder / "done.json", _Done, None) is not None


def read_done(folder: Path) -> dict[str, Any]:
    """The end of a complete run: its iterations and the metrics of its last evaluation."""
    summary: dict[str, Any] = read_json(folder / "done.json", _Done)
    return {name: value for name, value in summary.items() if name != "log_sha256"}


def check_logs(folder: Path) -> None:
    """Refuse logs of a complete run that were changed since."""
    for name, digest in read_json_or(folder / "done.json", _Done, {}).get("log_sha256", {}).items():
        log = folder / name
        if name in LOGS and (not log.is_file() or hashlib.sha256(log.read_bytes()).hexdigest() != digest):
            raise UserError(f"{log} is damaged: it was changed after its run ended")


def has_begun(folder: Path) -> bool:
    """Whether a run's folder holds anything that a new description would contradict."""
    log = folder / "metrics.jsonl"
    return is_done(folder) or (folder / "checkpoint.safetensors").exists() or (log.exists() and log.stat().st_size > 0)


def check_folder(folder: Path, description: Mapping[str, Any]) -> None:
    """Refuse a folder that holds anything but this run. Nothing is written."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"out: cannot write to {folder} (it is a file); give a folder")
    path = folder / "config.json"
    if not path.exists():
        names = sorted(file.name for file in folder.iterdir())
        strange = [name for name in names if name not in BESIDE and not is_partial(name)]
        if strange:
            raise UserError(f"out: {folder} is not empty ({strange[0]}, …) and holds no run; give a new folder")
        return
    try:
        described = read_json(path, _Description)
    except UserError as error:
        raise UserError(f"out: {path} was not written by polychromic finetune ({error}); give a new folder") from error
    if not has_begun(folder):
        return
    for name, (before, now) in _differences(described, json.loads(json.dumps(description))):
        raise UserError(
            f"out: {folder} holds a run with {name} = {before!r}, now it is {now!r}; "
            "give another folder, or the same settings to resume it"
        )


class _Board:
    """TensorBoard events, written in the calling thread.

    tensorboardX's own SummaryWriter uses a thread with a short queue: on a full disk the thread dies, and the run would
    wait for it forever without an error.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(exist_ok=True)
        self._event = Event
        # A different name for every start, even within the same second.
        self._file = EventsWriter(str(folder / "events"), f".{os.getpid()}.{first_step}")
        # Hides what an earlier start wrote from this step on.
        self._file.write_event(Event(step=first_step, session_log=SessionLog(status=SessionLog.START)))

    def add(self, metrics: Mapping[str, float], step: int) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in metrics.items()]
        self._file.write_event(self._event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _visits(path: Path, keys: Any, counts: Any) -> dict[int, int]:
    if keys is None or counts is None or keys.ndim != 1 or keys.shape != counts.shape:
        raise UserError(f"{path}: 'visit_keys' and 'visit_counts' do not fit together")
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def _timed_before(content: bytes, iteration: int) -> int:
    """The length of the timing log up to an iteration, or up to its first damaged line: no result depends on it.

    Seconds differ from run to run, so checkpoints do not cover this log.
    """
    kept = 0
    for line in content.splitlines(keepends=True):
        number = next((entry.get("iteration") for entry in readable_lines(line)), None)
        if not line.endswith(b"\n") or not isinstance(number, int) or number >= iteration:
            break
        kept += len(line)
    return kept


def _differences(before: Any, now: Any, name: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif before != now:
        yield name, (before, now)

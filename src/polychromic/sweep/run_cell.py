"""Run or resume one cell to its end under its lock: fine-tune, then evaluate."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from polychromic.errors import NO_SPACE, Diverged, Untrusted, UserError
from polychromic.files import (
    Float,
    is_inside,
    open_log,
    read_json_or,
    remove_partial,
    write_json,
    write_text,
)
from polychromic.trust import NOTHING, Trust, consent, limited_to

if TYPE_CHECKING:
    from polychromic.sweep.cells import Cell

TRIES, LOG = "attempts.jsonl", "log.txt"  # a line when a try of a cell begins and ends; what it printed
SECONDS, EVALUATION_CPU = "evaluation_seconds.json", "evaluation_cpu_seconds.json"
GREEDY = "greedy.json"
LAST_LINES = 8
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # XLA's own pool: handing the small loops of an update to a second thread takes longer than the loops.
    "PJRT_NPROC": "1",
}
XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
# Errors that persist until somebody acts: a retry does not help.
HOPELESS = {*NO_SPACE, errno.EROFS, errno.EACCES, errno.EPERM}


Failure = Literal["", "diverged", "untrusted", "mistake", "system", "crash"]


class Outcome(NamedTuple):
    """How one try of a cell ended."""

    state: Literal["done", "busy", "failed"]
    message: str = ""
    hopeless: bool = False
    kind: Failure = ""  # of a failure: the kind of error


def one_thread(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of a process that runs cells, set before it imports anything heavy.

    One thread each. Code that XLA compiles for one cell is kept for the others in the user's own cache, as it is
    executed, separately for every kind of processor.
    """
    flags = environment.get("XLA_FLAGS", "")
    wanted = flags if XLA_ONE_THREAD in flags else f"{flags} {XLA_ONE_THREAD}".strip()
    cache = Path(environment.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    compiled = environment.get("JAX_COMPILATION_CACHE_DIR") or str(cache / "polychromic" / "compiled" / _processor())
    return {
        **ONE_THREAD,
        "XLA_FLAGS": wanted,
        "JAX_COMPILATION_CACHE_DIR": compiled,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def run_cell(folder: Path, trust: Trust = NOTHING) -> Outcome:
    """Run a cell to its end, unless it is done or another process is running it. A failure is returned, not raised.

    trust: which functions and tasks that the cell's files name may be imported.
    """
    from polychromic.sweep.cells import is_done
    from polychromic.sweep.lock import holding

    try:
        if is_done(folder, thorough=True):
            return Outcome("done")
        with holding(folder) as held:
            if not held:
                return Outcome("busy")
            if is_done(folder, thorough=True):
                return Outcome("done")
            _remove_partial(folder)
            note(folder, {"began": time.time(), "pid": os.getpid(), "commit": source_commit()})
            with limited_to(trust):
                outcome = _try_once(folder)
            # Whether to retry, and so whether the cell has failed, is not decided here.
            state = "error" if outcome.state == "failed" else outcome.state
            note(folder, {"ended": time.time(), "state": state, "kind": outcome.kind, "message": outcome.message})
            return outcome
    except (OSError, UserError) as error:
        return _failure(folder, error)


def _remove_partial(folder: Path) -> None:
    """Remove what a kill has left of files that only the holder of a cell writes."""
    from polychromic.evaluate.targets import EVALUATION
    from polychromic.sweep.cells import CELL, FIGURES

    remove_partial(folder, (CELL, FIGURES, EVALUATION, late_evaluation_name("*"), GREEDY, SECONDS, EVALUATION_CPU))


def _try_once(folder: Path) -> Outcome:
    with _output_to(folder / LOG):
        try:
            _finetune_and_evaluate(folder)
        except (Exception, SystemExit) as error:
            with contextlib.suppress(OSError):  # the disk may be full
                traceback.print_exc()
            return _failure(folder, error)
    return Outcome("done")


def _finetune_and_evaluate(folder: Path) -> None:
    from polychromic.finetuning.config_check import functions_in
    from polychromic.finetuning.loop import finetune
    from polychromic.finetuning.run import read_done
    from polychromic.finetuning.start import prepare
    from polychromic.sweep.cells import CELL, FIGURES, PRETRAINED, check_policy, read_cell

    cell = read_cell(folder)
    consent().check_settings({"task": cell.task, **functions_in(cell.settings)}, folder / CELL)
    check_policy(cell)
    if not (folder / "config.json").exists() and cell.name != folder.name:
        raise UserError(
            f"{folder} was made with another policy or other defaults; now it would be {cell.name}; give the whole "
            "command again, with tasks, methods and seeds, for a new cell"
        )
    metrics: dict[str, Any] = {"task": cell.task, "method": cell.method, "seed": cell.seed}
    if cell.method != PRETRAINED:
        start = prepare(
            cell.task, cell.policy, horizon=cell.horizon, time_penalty=cell.time_penalty, options=cell.options
        )
        finetune(start.world, start.policy, cell.config(), out=folder)
        metrics["finetune"] = read_done(folder)
    if cell.evaluation.attempts:
        metrics |= _evaluate(folder, cell)
    write_json(folder / FIGURES, metrics)


def _evaluate(folder: Path, cell: Cell) -> dict[str, Any]:
    """Make the missing evaluations of a cell, each in its own file; returns the metrics of the main one."""
    from polychromic.evaluate.file import read_evaluation
    from polychromic.evaluate.policy import TEMPERATURES
    from polychromic.evaluate.targets import EVALUATION
    from polychromic.finetuning.run import kept_policies
    from polychromic.sweep.cells import PRETRAINED

    base = cell.method == PRETRAINED
    target = cell.base_policy if base else str(folder)
    attempts, recordings = cell.evaluation.attempts, cell.evaluation.recordings
    began = time.perf_counter()
    temperatures = TEMPERATURES if base else ()
    _evaluate_one(
        cell,
        target,
        folder / EVALUATION,
        attempts=attempts,
        temperatures=temperatures,
        record=recordings,
        main=True,
    )
    for iterations, policy in kept_policies(folder).items():
        path = folder / late_evaluation_name(iterations)
        if read_json_or(path, dict[str, Any], None) is None:
            along = cell.evaluation.along_the_way
            # Points of the way have the same starts. Of late policies each has random numbers of its own, so that an
            # average over them knows more than one of them.
            seed = {} if along else {"seed": iterations}
            _evaluate_one(cell, str(policy), path, attempts=attempts, record=False, main=along, **seed)
    if cell.evaluation.greedy:
        _evaluate_one(cell, target, folder / GREEDY, attempts=1, temperature=0.0, record=False, main=True)
    write_text(folder / SECONDS, json.dumps(time.perf_counter() - began) + "\n")
    evaluation = read_evaluation(folder / EVALUATION)
    large = ("recordings", "configurations")
    return {
        part: {name: value for name, value in evaluation[part].items() if name not in large}
        for part in ("result", "best")
        if part in evaluation
    }


def _evaluate_one(cell: Cell, target: str, path: Path, *, main: bool = False, **choices: Any) -> None:
    """One evaluation and its cost. After an interruption, existing evaluations are not made again.

    main: the evaluation of a policy the cell is about, also from perturbed starts if the cell asks for them.
    """
    from polychromic.evaluate.file import evaluate_to_file
    from polychromic.evaluate.targets import find_target, pretrained_of, world_of
    from polychromic.sweep.cells import PRETRAINED

    began = time.process_time()
    player = find_target(target)
    world = world_of(
        player,
        horizon=cell.horizon,
        time_penalty=None if player.is_run else cell.time_penalty,
        options={} if player.is_run else cell.options,
    )
    perturbed = main and cell.evaluation.perturbed
    kept = not player.is_run and cell.method != PRETRAINED
    evaluate_to_file(
        player,
        world,
        path,
        command=_command(target, choices),
        pretrained=pretrained_of(player, cell.base_policy if kept else cell.policy) if perturbed else None,
        **choices,
    )
    before = read_json_or(path.parent / EVALUATION_CPU, dict[str, Float], {})
    write_json(path.parent / EVALUATION_CPU, {**before, path.name: time.process_time() - began})


def _command(target: str, choices: Mapping[str, Any]) -> str:
    """The command that repeats an evaluation, for its file."""
    options = [f"--{name}={choices[name]}" for name in ("attempts", "temperature", "seed") if name in choices]
    return shlex.join(["polychromic", "evaluate", target, *options])


def late_evaluation_name(iterations: int | str) -> str:
    """The file with the evaluation of the policy kept after this many iterations (or a pattern for all)."""
    return f"evaluation-{iterations}.json"


@functools.cache
def source_commit() -> str:
    """The commit of the running source, with + if the package was changed since; empty if it is installed."""
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)

    try:
        # A package merely installed inside another repository does not have that repository's commit.
        if git("ls-files", "--error-unmatch", "errors.py").returncode:
            return ""
        commit = git("rev-parse", "--short=8", "HEAD").stdout.strip()
        return commit + ("+" if git("diff", "--quiet", "HEAD", "--", ".").returncode else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _failure(folder: Path, error: BaseException) -> Outcome:
    number = _system_error(error, folder)
    if number in HOPELESS:
        # What was written is safe: files are replaced whole, and logs are cut back to the last checkpoint.
        advice = "free some space" if number in NO_SPACE else "make the folder writable"
        text = f"cannot write to {folder} ({os.strerror(number or 0)}); {advice} and give the same command again"
        return Outcome("failed", text, hopeless=True, kind="system")
    if isinstance(error, UserError):
        # The same error would come again, unless it wraps a system error, which may be temporary.
        if number is not None:
            return Outcome("failed", str(error), kind="system")
        kinds: dict[type, Failure] = {Diverged: "diverged", Untrusted: "untrusted"}
        return Outcome("failed", str(error), hopeless=True, kind=kinds.get(type(error), "mistake"))
    return Outcome("failed", "\n".join([f"{type(error).__name__}: {error}", *last_lines(folder)]), kind="crash")


def _system_error(error: BaseException | None, folder: Path) -> int | None:
    """The errno behind an error, if there is one; 0 if it is about a file elsewhere."""
    while error is not None:
        if isinstance(error, OSError):
            named = isinstance(error.filename, str | bytes)
            return error.errno if not named or is_inside(error.filename, folder) else 0
        match = re.search(r"\(os error (\d+)\)", str(error))  # the wording of Rust libraries such as safetensors
        if match:
            return int(match[1])
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def last_lines(folder: Path, count: int = LAST_LINES) -> list[str]:
    """The end of a cell's log."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()][-count:]


def note(folder: Path, line: Mapping[str, Any]) -> None:
    """Add to the history of a cell: a line when a try begins and one when it ends, unless it was killed."""
    with contextlib.suppress(OSError, UserError), open_log(folder / TRIES) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        torn = file.read(1) not in (b"", b"\n")  # truncated by a full disk or a kill
        file.write(b"\n" * torn + json.dumps(line).encode() + b"\n")


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Redirect everything that this process prints, including C++ libraries, to a file."""
    with open_log(path) as file:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = os.dup(1), os.dup(2)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        # With descriptors of their own: what a full disk keeps them from writing must not end up on the terminal.
        streams = [_lines_to(os.dup(file.fileno())) for _ in kept]
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for number, (stream, saved) in enumerate(zip(streams, kept, strict=True), start=1):
            with contextlib.suppress(OSError):
                stream.close()
            os.dup2(saved, number)
            os.close(saved)


def _lines_to(descriptor: int) -> IO[str]:
    return os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", errors="replace")


def _processor() -> str:
    """A hash of this processor's features: machine code for one kind may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = list(os.uname())[3:]
    features = [line for line in lines if line.startswith(("model name", "flags", "Features"))][:2] or lines[:2]
    return hashlib.sha256("\n".join(features).encode()).hexdigest()[:12]

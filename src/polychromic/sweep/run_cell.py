"""One cell, from wherever it stands to its end: `polychromic finetune`, then `polychromic evaluate`, under its lock."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from polychromic.errors import UserError

ATTEMPTS, LOG = "attempts.jsonl", "log.txt"
SECONDS, EVALUATION_CPU = "evaluation_seconds.json", "evaluation_cpu_seconds.json"
GREEDY = "greedy.json"
LAST_LINES = 8
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
# Trying again changes nothing about these before somebody acts.
HOPELESS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


class Outcome(NamedTuple):
    """How an attempt at a cell ended."""

    state: Literal["done", "busy", "failed"]
    message: str = ""
    hopeless: bool = False


def one_thread(environment: Mapping[str, str], sweep_folder: Path) -> dict[str, str]:
    """What the environment of a process that runs cells needs, before it loads anything heavy.

    One thread each; what XLA compiled for one cell is kept for the others, apart for every kind of processor.
    """
    flags = environment.get("XLA_FLAGS", "")
    wanted = flags if XLA_ONE_THREAD in flags else f"{flags} {XLA_ONE_THREAD}".strip()
    compiled = environment.get("JAX_COMPILATION_CACHE_DIR") or str(sweep_folder / ".compiled" / _processor())
    return {
        **ONE_THREAD,
        "XLA_FLAGS": wanted,
        "JAX_COMPILATION_CACHE_DIR": compiled,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def run_cell(folder: Path) -> Outcome:
    """Run a cell to its end, unless it is done or another process has it. A failure is returned, not raised."""
    from polychromic.sweep.cells import is_done
    from polychromic.sweep.lock import holding

    try:
        if is_done(folder):
            return Outcome("done")
        with holding(folder) as held:
            if not held:
                return Outcome("busy")
            if is_done(folder):
                return Outcome("done")
            _remove_partial(folder)
            note(folder, {"began": time.time(), "pid": os.getpid(), "commit": source_commit()})
            outcome = _attempt(folder)
            # Whether it is tried again, and so whether the cell has failed, is not decided here.
            state = "error" if outcome.state == "failed" else outcome.state
            note(folder, {"ended": time.time(), "state": state, "message": outcome.message})
            return outcome
    except OSError as error:
        return _failure(folder, error)


def _remove_partial(folder: Path) -> None:
    """What kills left of files that only the holder of a cell writes; another sweep may be writing the first two."""
    from polychromic.evaluate.targets import EVALUATION
    from polychromic.policies.tensors import remove_partial
    from polychromic.sweep.cells import CELL, FIGURES, SETTINGS

    remove_partial(folder, (CELL, SETTINGS), older_than=60.0)
    remove_partial(folder, (FIGURES, EVALUATION, late_evaluation_name("*"), GREEDY, SECONDS, EVALUATION_CPU))


def _attempt(folder: Path) -> Outcome:
    with _output_to(folder / LOG):
        try:
            _finetune_and_evaluate(folder)
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            return _failure(folder, error)
    return Outcome("done")


def _finetune_and_evaluate(folder: Path) -> None:
    from polychromic.evaluate.command import evaluate
    from polychromic.evaluate.targets import EVALUATION
    from polychromic.finetuning.command import finetune_command
    from polychromic.finetuning.run import kept_policies, read_json, write_text
    from polychromic.sweep.cells import FIGURES, PRETRAINED, SETTINGS, check_policy, read_cell

    cell = read_cell(folder)
    check_policy(cell)
    if not (folder / "config.json").exists() and cell.name != folder.name:
        raise UserError(
            f"{folder} is named after another policy or other defaults than those of now, {cell.name}; give the whole "
            "command again, with tasks, methods and seeds, for a new cell"
        )
    base = cell.method == PRETRAINED
    if not base:
        command = [cell.task, "--settings", str(folder / SETTINGS), "--out", str(folder)]
        command += ["--horizon", str(cell.horizon)] if cell.horizon else []
        command += ["--time-penalty", str(cell.time_penalty)] if cell.time_penalty != 0.5 else []
        command += ["--policy", cell.policy] if cell.policy else []
        with _as_if_typed("finetune", *command):
            finetune_command(command)
    figures: dict[str, Any] = {"task": cell.task, "method": cell.method, "seed": cell.seed}
    if not base:
        figures["finetune"] = read_json(folder / "done.json")
    if cell.evaluation.attempts:
        target = (cell.policy or cell.task) if base else str(folder)
        began = time.perf_counter()
        with (
            _cpu_seconds_kept(folder, EVALUATION),
            _as_if_typed("evaluate", target, "--attempts", str(cell.evaluation.attempts)),
        ):
            evaluate(
                target,
                attempts=cell.evaluation.attempts,
                perturbed=cell.evaluation.perturbed,
                pretrained=cell.policy if cell.evaluation.perturbed else "",
                horizon=cell.horizon,
                time_penalty=cell.time_penalty if base else None,
                recordings=cell.evaluation.recordings,
                out=folder / EVALUATION,
            )
        for iterations, policy in kept_policies(folder).items():
            path = folder / late_evaluation_name(iterations)
            if path.exists():
                continue
            # With random numbers of its own each, so that an average over them knows more than one of them.
            attempts = cell.evaluation.attempts
            typed = _as_if_typed("evaluate", str(policy), f"--attempts={attempts}", f"--seed={iterations}")
            with _cpu_seconds_kept(folder, path.name), typed:
                evaluate(
                    str(policy),
                    attempts=attempts,
                    sweep="never",
                    horizon=cell.horizon,
                    time_penalty=cell.time_penalty,
                    seed=iterations,
                    recordings=False,
                    out=path,
                )
        if cell.evaluation.greedy:
            typed = _as_if_typed("evaluate", target, "--attempts=1", "--temperature=0")
            with _cpu_seconds_kept(folder, GREEDY), typed:
                evaluate(
                    target,
                    attempts=1,
                    temperature=0.0,
                    sweep="never",
                    perturbed=cell.evaluation.perturbed,
                    pretrained=cell.policy if cell.evaluation.perturbed else "",
                    horizon=cell.horizon,
                    time_penalty=cell.time_penalty if base else None,
                    recordings=False,
                    out=folder / GREEDY,
                )
        evaluation = read_json(folder / EVALUATION)
        large = ("recordings", "configurations")
        for part in [name for name in ("result", "best") if name in evaluation]:
            figures[part] = {name: value for name, value in evaluation[part].items() if name not in large}
        write_text(folder / SECONDS, json.dumps(time.perf_counter() - began) + "\n")
    write_text(folder / FIGURES, json.dumps(figures, indent=1) + "\n")


@contextlib.contextmanager
def _cpu_seconds_kept(folder: Path, name: str) -> Iterator[None]:
    """What an evaluation costs, by its file: after an interruption those that are there are not made again."""
    from polychromic.files import read_json, write_text

    began = time.process_time()
    yield
    before = read_json(folder / EVALUATION_CPU) if (folder / EVALUATION_CPU).exists() else {}
    write_text(folder / EVALUATION_CPU, json.dumps({**before, name: time.process_time() - began}) + "\n")


def late_evaluation_name(iterations: int | str) -> str:
    """The file with the evaluation of the policy that a run kept after so many iterations (or a pattern for all)."""
    return f"evaluation-{iterations}.json"


@functools.cache
def source_commit() -> str:
    """The commit of the source that runs, with + if the package was changed since; nothing for an installed one."""
    package = Path(__file__).parents[1]

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)

    try:
        # A package that is merely installed inside somebody's repository has none of its commits.
        if git("ls-files", "--error-unmatch", "errors.py").returncode:
            return ""
        commit = git("rev-parse", "--short=8", "HEAD").stdout.strip()
        return commit + ("+" if git("diff", "--quiet", "HEAD", "--", ".").returncode else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _failure(folder: Path, error: BaseException) -> Outcome:
    number = _system_error(error, folder)
    if number in HOPELESS:
        # Whatever was written stays: files are replaced whole, and logs are cut back to the last checkpoint.
        advice = "free some space" if number in (errno.ENOSPC, errno.EDQUOT) else "make the folder writable"
        text = f"cannot write to {folder} ({os.strerror(number or 0)}); {advice} and give the same command again"
        return Outcome("failed", text, hopeless=True)
    if isinstance(error, UserError):
        # It will be said again, unless it stands for an error of the system, which may pass.
        return Outcome("failed", str(error), hopeless=number is None)
    return Outcome("failed", "\n".join([f"{type(error).__name__}: {error}", *last_lines(folder)]))


def _system_error(error: BaseException | None, folder: Path) -> int | None:
    """The number of the system's error behind an error, if there is one; 0 if it is about another place."""
    while error is not None:
        if isinstance(error, OSError):
            inside = not isinstance(error.filename, str | bytes) or _is_in(os.fsdecode(error.filename), folder)
            return error.errno if inside else 0
        told = re.search(r"\(os error (\d+)\)", str(error))  # how libraries in Rust, safetensors say, put it
        if told:
            return int(told[1])
        error = error.__cause__ or error.__context__
    return None


def _is_in(name: str, folder: Path) -> bool:
    return Path(name).absolute().is_relative_to(folder.absolute()) or Path(name).resolve().is_relative_to(
        folder.resolve()
    )


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
    """The history of a cell: a line as an attempt begins and one as it ends; none at its end if it was killed."""
    with contextlib.suppress(OSError), (folder / ATTEMPTS).open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - 1))
        torn = file.read(1) not in (b"", b"\n")  # by a full disk or a kill
        file.write(b"\n" * torn + json.dumps(line).encode() + b"\n")


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Everything that this process prints, libraries in C++ included, goes to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    streams = sys.stdout, sys.stderr
    with _lines_to(1) as out, _lines_to(2) as err:
        sys.stdout, sys.stderr = out, err
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                out.flush()
                err.flush()
            sys.stdout, sys.stderr = streams
            for number, saved in zip((1, 2), kept, strict=True):
                os.dup2(saved, number)
                os.close(saved)


def _lines_to(descriptor: int) -> Any:
    return open(descriptor, "w", buffering=1, closefd=False, encoding="utf-8", errors="replace")


@contextlib.contextmanager
def _as_if_typed(*arguments: str) -> Iterator[None]:
    """Files say which command made them: the one that repeats this part alone."""
    before = sys.argv
    sys.argv = ["polychromic", *arguments]
    try:
        yield
    finally:
        sys.argv = before


def _processor() -> str:
    """A short name for what this processor can do: machine code for one kind may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = list(os.uname())[3:]
    told = [line for line in lines if line.startswith(("model name", "flags", "Features"))][:2] or lines[:2]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:12]

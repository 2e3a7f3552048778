"""Damaged files: every file of runs, sweeps, evaluations, policies and demonstrations, flipped, cut and rewritten.

A reader must refuse a damaged file in one line, name it and continue without it, or give exactly the same results. A
traceback, a hang or a silently different result is a failure. In every fourth file a value is changed and the checksum
put right: such a file may have other results, as its author wanted, but no traceback.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import io
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import safe_open

from polychromic.files import CHECKSUM, write_json
from polychromic.policies.tensors import write_tensors
from torture.commands import DEMOS, FINETUNE, SWEEP, environment, prepare, results

SECONDS = 240  # after which an attack counts as a hang
NUMBER = b"0123456789"
READ = ("figures.json", "evaluation.json")  # of the cells of a sweep
FAILURES = ("traceback", "silently different", "hang", "crash")


class Target(NamedTuple):
    """A folder, the files in it that are damaged, and what reads them."""

    name: str
    folder: str  # below the scratch folder
    files: tuple[str, ...]  # patterns
    read: str  # a function below
    share: int  # of the mutations


TARGETS = (
    Target("policy", "policy", ("policy.safetensors",), "load_policy", 16),
    Target("demonstrations", "demonstrations", ("demos.npz",), "load_demonstrations", 12),
    Target(
        "run, resumed",
        "halfway",
        ("config.json", "metrics.jsonl", "evaluations.jsonl", "timing.jsonl", "checkpoint.safetensors"),
        "resume",
        4,
    ),
    Target("run, evaluated", "run", ("config.json", "policy.safetensors", "done.json"), "evaluate", 3),
    Target("run, reported", "run", ("*.json", "*.jsonl", "*.safetensors"), "report", 3),
    Target("evaluation, reported", "evaluated", ("evaluation.json",), "report", 3),
    Target("sweep", "sweep", ("*/*.json", "*/*.jsonl", "*/*.safetensors"), "sweep", 4),
    Target("pretraining, resumed", "pretrained", ("*/*.json", "*/*.safetensors"), "pretrain", 2),
    Target("recording, resumed", "recording", ("*.parts/*.json", "*.parts/*.npz"), "demos", 2),
)


# ------------------------------------------------------------------ mutations


def mutate(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """The content with one thing wrong, and what that is."""
    name, change = rng.choice(MUTATIONS)
    changed = change(content, rng)
    return (name, changed) if changed != content else ("a bit", _flip(content, rng))


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return b"\x00"
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def _digit(content: bytes, rng: random.Random) -> bytes:
    """Change a digit: damage that stays readable is the hardest to detect."""
    places = [at for at, byte in enumerate(content[:100_000]) if byte in NUMBER]
    if not places:
        return content
    at = rng.choice(places)
    return content[:at] + bytes([rng.choice(NUMBER)]) + content[at + 1 :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _block(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice((b"\x00", b"\xff", b"9")) * 16 + content[at + 16 :]


def _insert(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.randbytes(rng.randint(1, 8)) + content[at:]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    at = rng.randrange(len(lines))
    return b"".join(lines[:at] + lines[at : at + 1] * rng.choice((0, 2)) + lines[at + 1 :])


STRANGE: tuple[Any, ...] = (
    None, True, -1, 10**30, float("nan"), float("inf"), "", "x", "\ud800", "evil:boom", "../../x", [], [[]], {},
    {"a": []}, 1e-300, 99,
)  # fmt: skip


def _json_value(content: bytes, rng: random.Random) -> bytes:
    """Change or remove one value in a JSON file, in the header of a tensor file or in a line of a log."""
    with contextlib.suppress(ValueError, IndexError, UnicodeDecodeError):
        if content[8:9] == b"{" and int.from_bytes(content[:8], "little") < len(content):
            size = int.from_bytes(content[:8], "little")
            header = _changed(json.loads(content[8 : 8 + size]), rng)
            return len(header).to_bytes(8, "little") + header + content[8 + size :]
        if content[:1] == b"{" and b"\n{" in content:
            lines = content.split(b"\n")
            at = rng.randrange(len(lines) - 1)
            return b"\n".join([*lines[:at], _changed(json.loads(lines[at]), rng), *lines[at + 1 :]])
        return _changed(json.loads(content), rng) + b"\n"
    return content


def craft(path: Path, rng: random.Random) -> bool:
    """Change a value of a file and put its checksum right, as somebody does who means it; False if it has none."""
    if path.suffix == ".json":
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict) or value.pop(CHECKSUM, None) is None:
            return False
        changed = json.loads(_changed(value, rng))
        with contextlib.suppress(ValueError):  # a lone surrogate cannot be written
            write_json(path, changed)
        return True
    if path.suffix == ".safetensors":
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if rng.random() < 0.3:
            name = rng.choice(list(tensors))
            tensors[name] = rng.choice(STRANGE_ARRAYS)(tensors[name])
        else:
            metadata["header"] = _changed(json.loads(metadata["header"]), rng).decode()
        write_tensors(path, tensors, metadata)
        return True
    if path.suffix == ".npz":
        with np.load(path) as archive:
            arrays = dict(archive)
        header = json.loads(arrays.pop("header").tobytes())
        del header[CHECKSUM]
        if rng.random() < 0.5:
            name = rng.choice(list(arrays))
            arrays[name] = rng.choice(STRANGE_ARRAYS)(arrays[name])
        else:
            header = json.loads(_changed(header, rng))
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        np.savez_compressed(path, header=text, **arrays)
        return True
    return False


STRANGE_ARRAYS: tuple[Callable[[Any], Any], ...] = (
    lambda array: array[:0],
    lambda array: array[None],
    lambda array: array.astype(np.float16),
    lambda array: array.astype(np.int64) - 1000,
    lambda array: np.full_like(array, np.nan if array.dtype.kind == "f" else 255),
    lambda array: array.ravel()[:1],
    lambda array: np.zeros((0,), array.dtype),
    lambda array: array[::-1].copy() if array.ndim else array,
)


def _changed(value: Any, rng: random.Random) -> bytes:
    places = list(_places(value))
    holder, key = rng.choice(places)
    if rng.random() < 0.25:
        del holder[key]
    elif isinstance(holder[key], str) and holder[key][:1] in "[{" and rng.random() < 0.7:
        with contextlib.suppress(ValueError, IndexError):  # JSON in JSON: headers of tensor files
            holder[key] = _changed(json.loads(holder[key]), rng).decode()
    else:
        holder[key] = rng.choice(STRANGE)
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


MUTATIONS: list[tuple[str, Callable[[bytes, random.Random], bytes]]] = [
    ("a bit", _flip),
    ("a bit", _flip),
    ("a bit", _flip),
    ("a digit", _digit),
    ("cut off", _cut),
    ("16 bytes", _block),
    ("bytes inserted", _insert),
    ("a line gone or twice", _lines),
    ("a JSON value", _json_value),
    ("a JSON value", _json_value),
    ("a JSON value", _json_value),
    ("empty", lambda _content, _rng: b""),
    ("deep JSON", lambda _content, _rng: b"[" * 100_000 + b"]" * 100_000),
    ("noise", lambda content, rng: rng.randbytes(min(len(content) + 1, 4096))),
    ("a surrogate", lambda _content, _rng: b'{"a": "\\ud800"}\n'),
]


# ------------------------------------------------------------------ readers: their results, in a comparable form


def load_policy(folder: Path) -> Any:
    import jax

    import polychromic

    saved = polychromic.load_policy(folder / "policy.safetensors")
    leaves = [(np.asarray(leaf).dtype.str, np.asarray(leaf).tobytes()) for leaf in jax.tree.leaves(saved.params)]
    return str(jax.tree.structure(saved.params)), leaves, repr(dataclasses.replace(saved.info, source=""))


def load_demonstrations(folder: Path) -> Any:
    from polychromic.pretrain.demonstrations import load_demonstrations as load

    demos = load(folder / "demos.npz")
    fields = {field.name: getattr(demos, field.name) for field in dataclasses.fields(demos) if field.name != "source"}
    return {name: value.tobytes() if isinstance(value, np.ndarray) else repr(value) for name, value in fields.items()}


def _run(arguments: list[str]) -> tuple[int, str]:
    from polychromic.cli import main

    out = io.StringIO()
    sys.argv = ["polychromic", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(arguments)
    return code, out.getvalue()


class Refused(Exception):
    """The command ended with an error message."""


def _succeed(arguments: list[str]) -> str:
    code, words = _run(arguments)
    if code:
        raise Refused(words)
    return words


def resume(folder: Path) -> Any:
    _succeed(["finetune", *FINETUNE, "--out", str(folder)])
    return results(folder)


def evaluate(folder: Path) -> Any:
    out = folder.parent / "evaluation.json"
    _succeed(["evaluate", str(folder), "--attempts", "2", "--out", str(out)])
    return results(out)


def report(folder: Path) -> Any:
    page = folder.parent / "page"
    words = _succeed(["report", str(folder), "--out", str(page)])
    lines = [line for line in words.splitlines() if line.startswith("polychromic report:")]
    named = [line for line in lines if "is not evaluated yet" not in line and str(folder) in line]
    return "named" if named else _page(page)


def _page(folder: Path) -> str:
    """The text of a report, without paths and times."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.html"))
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)
    return re.sub(r"\d{4}-\d\d-\d\d[ T]?[\d:]*|/[^\"' <]*scratch[^\"' <]*", "", text)


def sweep(folder: Path) -> Any:
    _succeed(["sweep", *SWEEP, "--out", str(folder), "--workers", "1"])
    # The files that other code reads from a sweep. The others are checked when they are read.
    return {str(path.relative_to(folder)): results(path) for name in READ for path in sorted(folder.glob(f"*/{name}"))}


def pretrain(folder: Path) -> Any:
    from torture.commands import pretrain_arguments

    # Relative: the command is in the header of the policy.
    with contextlib.chdir(folder.parent):
        _succeed(["pretrain", *pretrain_arguments(Path()), "--out", folder.name])
    return results(folder / "fourrooms")


def demos(folder: Path) -> Any:
    _succeed(["demos", *DEMOS, "--out", str(folder / "demos.npz"), "--workers", "1"])
    return results(folder)


# ------------------------------------------------------------------ attacks


def _copy(scratch: Path, target: Target, folder: Path) -> None:
    shutil.copytree(scratch / target.folder, folder)
    for beside in ("demonstrations", "policy"):
        if (scratch / beside).exists() and not (folder.parent / beside).exists():
            (folder.parent / beside).symlink_to(scratch / beside)


def damage_one(scratch: str, target: Target, index: int, expected: Any) -> tuple[str, str, str, str]:
    """Damage one file of a copy and read it: (file, mutation, outcome, words)."""
    from polychromic.errors import UserError

    rng = random.Random(f"{target.name} {index}")
    source = Path(scratch) / target.folder
    files = sorted({path for pattern in target.files for path in source.glob(pattern) if path.is_file()})
    file = files[index % len(files)].relative_to(source)
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        folder = Path(place) / source.name
        _copy(Path(scratch), target, folder)
        crafted = rng.random() < 0.25 and craft(folder / file, rng)
        mutation = "crafted"
        if not crafted:
            mutation, content = mutate((folder / file).read_bytes(), rng)
            (folder / file).write_bytes(content)
        outcome, words = _outcome(globals()[target.read], folder, expected, UserError)
        if crafted and outcome == "silently different":
            outcome = "taken as crafted"  # whoever can write a file can write its checksum too
    return file.name, mutation, outcome, words


def _outcome(read: Callable[[Path], Any], folder: Path, expected: Any, refusal: type[Exception]) -> tuple[str, str]:
    def too_long(*_: object) -> None:
        raise TimeoutError("no answer")

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        result = read(folder)
    except (refusal, Refused) as error:
        words = str(error)
        return ("traceback", words) if "Traceback" in words else ("refused", words)
    except TimeoutError as error:
        return "hang", str(error)
    except BaseException as error:
        return "traceback", f"{type(error).__name__}: {error}"[:500]
    finally:
        signal.alarm(0)
    if result == "named":
        return "named and left out", ""
    return ("the same results", "") if repr(result) == repr(expected) else ("silently different", "")


def attack(count: int, jobs: int, only: str = "") -> dict[str, Any]:
    """`count` damaged files over all targets."""
    chosen = [target for target in TARGETS if only in target.name]
    outcomes: Counter[str] = Counter()
    by_target: dict[str, Counter[str]] = {target.name: Counter() for target in chosen}
    bad: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="scratch-") as scratch:
        os.environ.update(environment())
        prepare(Path(scratch))
        expected = {}
        for target in chosen:
            with tempfile.TemporaryDirectory(prefix="scratch-") as place:
                folder = Path(place) / target.folder
                _copy(Path(scratch), target, folder)
                expected[target.name] = globals()[target.read](folder)
        total = sum(target.share for target in chosen)
        tasks = [(target, index) for target in chosen for index in range(-(-count * target.share // total))]
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
            futures = {
                pool.submit(damage_one, scratch, target, index, expected[target.name]): (target, index)
                for target, index in tasks
            }
            for done, future in enumerate(concurrent.futures.as_completed(futures), start=1):
                target, index = futures[future]
                try:
                    file, mutation, outcome, words = future.result()
                except Exception as error:  # the process is gone
                    file, mutation, outcome, words = "?", "?", "crash", repr(error)
                outcomes[outcome] += 1
                by_target[target.name][outcome] += 1
                if outcome in FAILURES:
                    values = (target.name, str(index), file, mutation, outcome, words)
                    names = ("target", "index", "file", "mutation", "outcome", "words")
                    bad.append(dict(zip(names, values, strict=True)))
                    print(f"  {bad[-1]}", file=sys.stderr, flush=True)
                if done % 100 == 0:
                    print(f"  {done} of {len(tasks)}: {dict(outcomes)}", file=sys.stderr, flush=True)
    return {
        "part": "damage",
        "attacks": sum(outcomes.values()),
        "outcomes": dict(outcomes),
        "by target": {name: dict(counts) for name, counts in by_target.items()},
        "bad": bad[:200],
        "failures": sum(outcomes[name] for name in FAILURES),
    }

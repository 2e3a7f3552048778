"""Files: written whole or not at all, errors in one line, one process at a time.

All JSON is read with `decode_json`, and its structure is declared as a type that msgspec checks. POSIX only: locks use
`flock`, and links are not followed where a file is written in place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec

from polychromic.errors import UserError

PARTIAL = ".partial"  # suffix of files being written, or left behind by a killed process
CHECKSUM = "checksum"  # the entry with the SHA-256 of all other entries

# Numbers in files. No number in a run comes near the bounds; infinity and NaN are excluded.
_LARGEST = 10**15
Int = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
Float = Annotated[float, msgspec.Meta(ge=-float(_LARGEST), le=float(_LARGEST))]


# ---------------------------------------------------------------------- writing


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside the target. At the end it replaces the target; after an error it is removed.

    A reader sees the old file or the new one, never half of one. A kill leaves a hidden file, .NAME.XXXX.partial.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=PARTIAL)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        # Temporary files are private; the result gets the permissions of any new file.
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)
        partial.replace(target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            error.filename = str(target)  # the system does not say which file a full disk has stopped
        raise


def remove_partial(folder: Path, names: Iterable[str]) -> None:
    """Remove partial files that kills left behind, by name or pattern. No other process may be writing them."""
    for name in names:
        for partial in folder.glob(f".{name}.*{PARTIAL}"):
            with contextlib.suppress(OSError):
                partial.unlink()


def is_partial(name: str) -> bool:
    """Whether this is the name of a partial file."""
    return name.startswith(".") and name.endswith(PARTIAL)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    with whole_file(path) as partial:
        partial.write_bytes(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file so that it appears whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], value: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Write a table as JSON with a checksum, indented or on one line, so that it appears whole or not at all."""
    separators = None if indent is not None else (",", ":")
    plain = json.dumps(value, ensure_ascii=False)
    if not plain.isprintable():  # file names may hold invalid Unicode, which becomes a question mark
        value = json.loads(plain.encode(errors="replace"))
    text = json.dumps({**value, CHECKSUM: _checksum(value)}, indent=indent, separators=separators, ensure_ascii=False)
    write_text(path, text + "\n")


def _checksum(value: Mapping[str, Any]) -> str:
    """SHA-256 of a table, independent of the order of its entries and of whitespace."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def open_log(path: Path) -> IO[bytes]:
    """Open a file for reading and appending. A link is refused: writing would change its target."""
    return os.fdopen(_open_in_place(path, os.O_APPEND), "a+b")


def lock_file(path: Path, *, wait: bool = False, mode: int = 0o666) -> IO[str]:
    """Open a file and hold the lock on it until it is closed or the process ends. Its content stays as it is.

    Raises BlockingIOError if another process holds it and `wait` is False. A link is refused.
    """
    file = os.fdopen(_open_in_place(path, 0, mode), "r+", encoding="utf-8", errors="replace")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder while its files are written, and remove what kills have left in it.

    One that another process holds is refused.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        locked = lock_file(folder / ".lock")
    except BlockingIOError as error:
        raise UserError(f"out: another process is writing to {folder}") from error
    with locked:
        remove_partial(folder, ("*",))
        yield


def is_inside(name: object, folder: Path) -> bool:
    """Whether a file that the system named in an error is in a folder."""
    if not isinstance(name, str | bytes):
        return False
    path = Path(os.fsdecode(name))
    return path.absolute().is_relative_to(folder.absolute()) or path.resolve().is_relative_to(folder.resolve())


def _open_in_place(path: Path, flags: int, mode: int = 0o666) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{path} is a symbolic link; nothing is written through links: remove it") from None
        raise


# ---------------------------------------------------------------------- reading


def decode_json(data: bytes | str, where: str) -> Any:
    """Parse JSON; an error is one line that begins with `where`."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # ValueError: msgspec's own errors, and bytes that are not UTF-8
        raise UserError(f"{where}: {_not_json(error)}") from error


def checked(value: Any, kind: Any, where: str) -> Any:
    """A decoded value, if it has this type; otherwise an error that begins with `where` and names the first bad entry.

    kind: any type that msgspec supports, such as a TypedDict; additional entries are allowed.
    """
    try:
        msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UserError(f"{where}: {_wrong_entry(error)}") from error
    return value


def converted(value: Any, kind: Any, where: str) -> Any:
    """A decoded value as an object of this type, such as a dataclass; unknown entries are refused."""
    known = {field.name for field in dataclasses.fields(kind)}
    for name in value if isinstance(value, dict) else ():
        if name not in known:
            raise UserError(f"{where}: it has the unknown entry '{name}'")
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise UserError(f"{where}: {_wrong_entry(error)}") from error


def read_json(path: Path, kind: Any = Any) -> Any:
    """The content of a JSON file, checked against a type (see `checked`).

    If the file has a checksum, it must match; the checksum is not returned.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error
    value = decode_json(data, f"{path} cannot be read")
    if isinstance(value, dict) and CHECKSUM in value and value.pop(CHECKSUM) != _checksum(value):
        raise UserError(f"{path} is damaged: its checksum does not match its content")
    return value if kind is Any else checked(value, kind, f"{path} is damaged")


def read_json_or(path: Path, kind: Any, otherwise: Any) -> Any:
    """The content of a JSON file, or `otherwise` if it is missing or damaged: for files that can be made again."""
    try:
        return read_json(path, kind)
    except UserError:
        return otherwise


def read_lines(path: Path, kind: Any = dict[str, Any]) -> list[dict[str, Any]]:
    """The complete lines of a log, each checked against a type; a truncated last line is skipped."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error
    damaged = f"{path} is damaged: line"
    return [
        checked(decode_json(line, f"{damaged} {number}"), kind, f"{damaged} {number}")
        for number, line in enumerate(lines[:-1], start=1)
        if line
    ]


def readable_lines(data: bytes) -> list[dict[str, Any]]:
    """The lines of a log that hold a table; truncated or damaged lines are skipped."""
    tables = []
    for line in data.split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            tables.append(msgspec.json.decode(line))
    return [line for line in tables if isinstance(line, dict)]


def read_table(field: str, path: Path) -> dict[str, Any]:
    """The table in a TOML or JSON file that a user gave as `field`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{field}: {path} cannot be read ({error.strerror})") from error
    if path.suffix == ".json":
        values = decode_json(data, f"{field}: {path} is not JSON")
    else:
        try:
            values = tomllib.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise UserError(f"{field}: {path} is not TOML: {_one_line(error)}") from error
    if not isinstance(values, dict):
        raise UserError(f"{field}: {path} holds a {type(values).__name__}; it must be a table of names and values")
    return values


def _not_json(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else _one_line(error)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "null",
}


def _wrong_entry(error: Exception) -> str:
    """Rewrite msgspec's message: the entry, its type and the expected type."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text, _, place = str(error).partition(" - at `$")
    entry = place.rstrip("`").lstrip(".")
    missing = re.fullmatch("Object missing required field `(.+)`", text)
    if missing:
        return f"it has no '{f'{entry}.' if entry else ''}{missing[1]}'"
    named = f"'{entry}'" if entry else "it"
    kinds = re.fullmatch("Expected `(.+)`, got `(.+)`", text)
    if kinds:
        wanted = " or ".join(_WORDS.get(kind.strip(), kind.strip()) for kind in kinds[1].split("|"))
        return f"{named} is {_WORDS.get(kinds[2], kinds[2])}; it must be {wanted}"
    if text.startswith(("Expected `int` ", "Expected `float` ", "Number out of range")):
        return f"{named} is out of range"
    return f"{named}: {text}"


def parse_settings(field_name: str, given: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE arguments by name, values as strings."""
    settings = {}
    for part in given:
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise UserError(f"{field_name} has {part!r}; give NAME=VALUE")
        settings[name.replace("-", "_")] = value
    return settings


def parse_value(text: str) -> Any:
    """A setting as a Python value: parsed as JSON if it is JSON (numbers, true, [0, 1]), else a string."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


def parse_values(field_name: str, given: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE arguments by name, values as Python values."""
    return {name: parse_value(text) for name, text in parse_settings(field_name, given).items()}

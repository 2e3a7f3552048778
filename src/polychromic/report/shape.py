"""Does a file from disk hold what it should? A shape is compared with what was read, before anything else uses it.

int, float, str, bool      a value of that kind; a float may be a whole number; neither may be infinite or NaN
[shape]                    a list of such values, of any length
(shape, count)             a list of exactly so many
{"name": shape, …}         a dict with at least these entries; one called "name?" may be missing
"""

from __future__ import annotations

from typing import Any

from polychromic.errors import UserError

LARGEST = 1e15  # no number in a run comes near; not even infinity or NaN is below it


def check_shape(value: Any, shape: Any, where: str) -> None:
    """Raise a UserError that begins with `where` and names the first entry that is missing or of another kind."""
    _check(value, shape, where, "")


def _check(value: Any, shape: Any, where: str, name: str) -> None:
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            raise _wrong(where, name, value, "a dict")
        for key, inner in shape.items():
            plain = key.removesuffix("?")
            path = f"{name}.{plain}" if name else plain
            if plain in value:
                _check(value[plain], inner, where, path)
            elif plain == key:
                raise UserError(f"{where}: it has no '{path}'")
    elif isinstance(shape, list | tuple):
        if not isinstance(value, list):
            raise _wrong(where, name, value, "a list")
        if isinstance(shape, tuple) and len(value) != shape[1]:
            raise UserError(f"{where}: '{name}' has {len(value)} entries instead of {shape[1]}")
        for entry in value:
            _check(entry, shape[0], where, name)
    elif not _is(value, shape):
        raise _wrong(
            where, name, value, {int: "a whole number", float: "a number", str: "a text", bool: "a bool"}[shape]
        )


def _is(value: Any, kind: type) -> bool:
    if kind in (int, float):
        numbers = int if kind is int else int | float
        return isinstance(value, numbers) and not isinstance(value, bool) and abs(value) < LARGEST
    return isinstance(value, kind)


def _wrong(where: str, name: str, value: Any, wanted: str) -> UserError:
    return UserError(
        f"{where}: '{name}' is {value!r:.40}; it must be {wanted}" if name else f"{where}: it is not {wanted}"
    )

"""Functions in settings: by a short name, by `package.module:function`, or as they are, from Python.

A configuration holds names alone, so that it can be compared, hashed and written down. A function that is given itself
gets the name that it can be imported by. One that has none (a lambda, a local function) is known in this process under
a name in angle brackets, which says so to whoever reads it in a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from polychromic.errors import UserError
from polychromic.trust import import_named, is_name

_local: dict[str, Callable[..., Any]] = {}


def name_of(function: Callable[..., Any]) -> str:
    """What a configuration calls a function."""
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if getattr(sys.modules.get(module), name, None) is function:
        return f"{module}:{name}"
    for known, other in _local.items():
        if other is function:
            return known
    short = f"{module}:<{name.rpartition('.')[2].strip('<>')}>"
    taken = sum(known.partition("#")[0] == short for known in _local)
    known = f"{short}#{taken + 1}" if taken else short
    _local[known] = function
    return known


def is_local(name: str) -> bool:
    """Whether a name stands for a function that cannot be imported."""
    return is_name(name) and name.partition(":")[2].startswith("<")


def named_function(field: str, name: str) -> Callable[..., Any]:
    """The function behind `package.module:function`, or one that was given in this process."""
    if name in _local:
        return _local[name]
    if is_local(name):
        raise UserError(f"{field} is {name!r}, a function that cannot be imported; give it again from Python")
    function = import_named(field, name)
    if not callable(function):
        raise UserError(f"{field} is {name!r}, which is not a function")
    return function  # type: ignore[no-any-return]


def local_functions(settings: Mapping[str, Any]) -> dict[str, str]:
    """Those of the settings that name functions without an importable name."""
    return {field: value for field, value in settings.items() if isinstance(value, str) and is_local(value)}

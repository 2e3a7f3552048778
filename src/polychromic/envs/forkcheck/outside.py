"""State outside the environment object that its code can reach: variables of modules and classes, default arguments."""

from __future__ import annotations

import builtins
import functools
import os
import random
import sys
import types
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from polychromic.envs.forkcheck.picture import Picture, grown, take
from polychromic.envs.gymnasium.generators import GENERATORS

_ABSENT = "not there"
_TRUSTED = ("gymnasium", "builtins", "typing", "abc", "numpy")
_MAX_OBJECTS = 50_000
RANDOM = ("the global generator of numpy.random", "the global generator of the module random")


def outside(seen: Picture) -> dict[str, Any]:
    """Every variable outside the object that its code uses or could use: label -> value."""
    search = _Search(seen)
    variables: dict[str, Any] = {
        RANDOM[0]: repr(np.random.get_state(legacy=False)),  # noqa: NPY002
        RANDOM[1]: hash(random.getstate()),
        "os.environ": dict(os.environ),
        "the working directory": os.getcwd(),  # noqa: PTH109
    }
    return variables | search.found


def look(variables: dict[str, Any]) -> Picture:
    """A picture of the variables at this moment."""
    return take(variables, _MAX_OBJECTS, stop=gymnasium.Env)


def changed(before: Picture, variables: dict[str, Any], now: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Names of (randomness, other state) outside the object that have changed; caches may grow."""
    after = look({label: now.get(label, _ABSENT) for label in variables})
    labels = {f"[{label!r}]": label for label in variables}
    noise: list[str] = []
    state: list[str] = []
    for path in grown(before, after):
        is_noise = labels[path[0]] in RANDOM or isinstance(after.objects.get(path), GENERATORS)
        (noise if is_noise else state).append(labels[path[0]] + "".join(path[1:]))
    return noise, state


class _Search:
    """Follows the code of the classes and functions in a picture through the names that it uses."""

    def __init__(self, seen: Picture) -> None:
        self.found: dict[str, Any] = {}
        self._known: set[int] = set()
        kinds = {type(value) for value in seen.objects.values()}
        environments = {base for kind in kinds if issubclass(kind, gymnasium.Env) for base in kind.__mro__}
        self._roots = {_root(base.__module__) for base in environments} - {*_TRUSTED}
        for kind in sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__)):
            self._follow_class(kind)
        for value in seen.objects.values():
            if isinstance(value, types.FunctionType):
                self._follow_function(value.__qualname__, value)
        for name in sorted({base.__module__ for base in environments if self._is_own(base.__module__)}):
            for variable in list(vars(sys.modules[name])):
                self._follow_variable(sys.modules[name], variable, None)

    def _is_own(self, name: str | None) -> bool:
        """Whether a module belongs to the environment rather than to Python or to a library it uses."""
        module = sys.modules.get(name or "")
        if module is None or name is None or _root(name) in _TRUSTED or _root(name) in sys.stdlib_module_names:
            return False
        installed = "-packages" in (getattr(module, "__file__", None) or "")
        return not installed or _root(name) in self._roots

    def _new(self, thing: Any) -> bool:
        if id(thing) in self._known:
            return False
        self._known.add(id(thing))
        return True

    def _follow_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if not self._is_own(base.__module__) or not self._new(base):
                continue
            for name, value in list(vars(base).items()):
                functions = list(_functions_of(value))
                for function in functions:
                    self._follow_function(f"{base.__qualname__}.{name}", function)
                if not functions and not name.startswith(("__", "_abc_")) and not _is_code(value):
                    self.found[f"class attribute {base.__name__}.{name}"] = value

    def _follow_function(self, label: str, function: types.FunctionType) -> None:
        if not self._new(function) or not self._is_own(function.__module__):
            return
        if function.__defaults__ or function.__kwdefaults__ or function.__closure__ or function.__dict__:
            self.found[f"function {label}"] = function  # defaults, attributes and closures are shared by all calls
        for cell in function.__closure__ or ():
            for inner in _functions_of(_contents(cell)):
                self._follow_function(inner.__qualname__, inner)
        module = sys.modules[function.__module__]
        names = set(_names(function.__code__))
        for name in sorted(names):
            if not hasattr(builtins, name):
                self._follow_variable(module, name, names)

    def _follow_variable(self, module: types.ModuleType, name: str, names: set[str] | None) -> None:
        value = vars(module).get(name, _ABSENT)
        if isinstance(value, types.ModuleType):
            if names is not None and self._is_own(value.__name__) and value is not module:
                for inner in sorted(names - {name}):
                    if inner in vars(value):
                        self._follow_variable(value, inner, names - {name})
            return
        functions = list(_functions_of(value))
        for function in functions:
            self._follow_function(function.__qualname__, function)
        if isinstance(value, type):
            self._follow_class(value)
        elif not functions and not name.startswith("__") and not _is_code(value):
            self.found[f"module variable {module.__name__}.{name}"] = value


def _root(name: str) -> str:
    return name.partition(".")[0]


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _functions_of(value: Any) -> Iterator[types.FunctionType]:
    """The Python functions behind a function, method, property or cached function."""
    if isinstance(value, types.FunctionType):
        yield value
    elif isinstance(value, staticmethod | classmethod):
        yield from _functions_of(value.__func__)
    elif isinstance(value, property):
        for function in (value.fget, value.fset, value.fdel):
            yield from _functions_of(function)
    elif isinstance(value, functools.cached_property | functools.partialmethod):
        yield from _functions_of(value.func)
    elif type(value).__module__ == "functools" and hasattr(value, "__wrapped__"):  # an lru_cache
        yield from _functions_of(value.__wrapped__)


def _is_code(value: Any) -> bool:
    return isinstance(
        value,
        types.ModuleType | type | types.BuiltinFunctionType | types.MemberDescriptorType | types.GetSetDescriptorType,
    )


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)

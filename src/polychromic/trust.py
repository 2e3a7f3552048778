"""What may be imported? Functions and tasks that the user named on this command line, or all with `--trust`.

Files of runs, sweeps and policies may come from somebody else, and importing a module runs its code. So a command
imports `package.module:name` only with the user's consent: the name is among its arguments, or `--trust` is
(`--trust=package.module:name` for one name alone). A Python program decides for itself: there everything is allowed.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polychromic.errors import Untrusted, UserError

OPTION = "--trust"


@dataclass(frozen=True)
class Trust:
    """The user's consent: to everything that files name, or to some names."""

    everything: bool = False
    names: frozenset[str] = frozenset()

    def check(self, field: str, name: str, source: str | Path = "a file") -> None:
        """Refuse a name from a file without consent, before anything is imported."""
        if not self.everything and name not in self.names:
            raise Untrusted(
                f"{source} asks for {field} = {name!r}, which would import and run '{name.partition(':')[0]}'; "
                f"if you trust it, give {OPTION} or {OPTION}={name}"
            )

    def check_settings(self, settings: Mapping[str, Any], source: str | Path) -> None:
        """The same for all settings that are names."""
        for field, value in settings.items():
            if is_name(value):
                self.check(field, value, source)


NOTHING = Trust()
EVERYTHING = Trust(everything=True)
_consent = EVERYTHING


def consent() -> Trust:
    """What may be imported now."""
    return _consent


@contextlib.contextmanager
def limited_to(trust: Trust) -> Iterator[None]:
    """Import only what this allows."""
    global _consent
    before, _consent = _consent, trust
    try:
        yield
    finally:
        _consent = before


def from_arguments(args: Sequence[str]) -> tuple[Trust, list[str]]:
    """The consent in the arguments of a command, and the arguments without `--trust`."""
    names = [part for arg in args for part in re.split("[=,]", arg) if ":" in part]
    rest = [arg for arg in args if arg.partition("=")[0] != OPTION]
    return Trust(OPTION in args, frozenset(names)), rest


def is_name(value: Any) -> bool:
    """Whether a value is `package.module:name`."""
    return isinstance(value, str) and all(value.partition(":"))


def import_named(field: str, name: str) -> Any:
    """Import `package.module:name`, also from the working folder, which is searched last."""
    _consent.check(field, name)
    look_in_working_folder()
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may raise anything while it is imported
        why = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{field} is {name!r}, which cannot be imported: {why}") from error


def look_in_working_folder() -> None:
    """Allow imports from the working folder. Only called when a user asked for one: nothing else may come from it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)

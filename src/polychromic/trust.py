"""What may be imported? A function that the user named on this command line, or one in a file that the user trusts.

Files of runs and sweeps may come from somebody else, and importing a module runs its code. So a name that was read from
a file is imported only with a word of consent: `--trust`, or the same name given on the command line.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polychromic.errors import Untrusted, UserError


@dataclass(frozen=True)
class Trust:
    """The consent of a user: to everything that files name, or to some names."""

    everything: bool = False
    names: frozenset[str] = frozenset()

    def check(self, values: Mapping[str, Any], source: str | Path) -> None:
        """Refuse values from a file that name functions without consent, before anything is imported."""
        for field, value in values.items():
            if is_name(value) and not self.everything and value not in self.names:
                raise Untrusted(
                    f"{source} asks for {field} = {value!r}, which would import and run '{module_of(value)}'; "
                    f"if you trust it, give --trust or the name itself"
                )


NOTHING = Trust()
EVERYTHING = Trust(everything=True)


def is_name(value: Any) -> bool:
    """Whether a value is `package.module:function`."""
    return isinstance(value, str) and all(value.partition(":"))


def names_in(values: Iterable[Any]) -> frozenset[str]:
    """Those of the values that name functions; what a user typed is consent."""
    return frozenset(value for value in values if is_name(value))


def module_of(name: str) -> str:
    """`package.module` of `package.module:function`."""
    return name.partition(":")[0]


def import_named(field: str, name: str) -> Any:
    """The function `package.module:function`, looked for in the working folder too, after all other places."""
    look_in_working_folder()
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # a user's module may raise anything while it is imported
        why = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{field} is {name!r}, which cannot be imported: {why}") from error
    if not callable(found):
        raise UserError(f"{field} is {name!r}, which is not a function")
    return found


def look_in_working_folder() -> None:
    """Let modules be found in the working folder. Only where a user asked for one: nothing else is to come from it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)

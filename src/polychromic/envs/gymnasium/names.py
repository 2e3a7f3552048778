"""What an environment and the functions around it are called, the same in every process."""

from __future__ import annotations

import functools
import re
from typing import Any

from gymnasium.envs.registration import EnvSpec


def environment_name(make_env: Any) -> str:
    """The id of a registered environment, or the name of the function that makes an own one."""
    spec = _spec(make_env)
    return spec.id if spec else qualified_name(make_env)


def describe_maker(make_env: Any) -> dict[str, Any]:
    """How an environment is made, as JSON."""
    spec = _spec(make_env)
    arguments = sorted((spec.kwargs if spec else {}).items())
    return {
        "environment": qualified_name(make_env),
        "environment_arguments": {name: _shown(value) for name, value in arguments},
    }


def qualified_name(thing: Any) -> str:
    """module.name of a function or class, with the arguments of a partial one."""
    if isinstance(thing, functools.partial):
        given = [value.id if isinstance(value, EnvSpec) else _shown(value) for value in thing.args]
        given += [f"{name}={_shown(value)}" for name, value in sorted(thing.keywords.items())]
        return f"{qualified_name(thing.func)}({', '.join(given)})"
    name = getattr(thing, "__qualname__", None)
    return f"{thing.__module__}.{name}" if name else qualified_name(type(thing))


def _spec(make_env: Any) -> EnvSpec | None:
    """The spec that `gymnasium.make` was given, if the maker is that."""
    first = make_env.args[0] if isinstance(make_env, functools.partial) and make_env.args else None
    return first if isinstance(first, EnvSpec) else None


def _shown(value: Any) -> str:
    """What an argument looks like, without the address of the object, which is another one in the next process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))

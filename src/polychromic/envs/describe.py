"""Which world is this? What must agree for a run to go on in it, and what evaluation needs to build it again."""

from __future__ import annotations

import functools
import re
from typing import Any


def describe_world(world: Any) -> dict[str, Any]:
    """What tells a world from others, as JSON: its kind, task, seeds, horizon, reward, observation, forks.

    A world of your own may have `describe()`, which returns a dict of whatever else matters (`time_penalty`, say). The
    seed of a world's noise is not part of it: a run reseeds the world in every iteration from its own seed.
    """
    found: dict[str, Any] = {
        "world": _qualified(type(world)),
        "task": getattr(world, "task", "") or _environment_name(world) or type(world).__name__,
        "num_configurations": world.num_configurations,
        "horizon": world.horizon,
        "level_seeds": [int(seed) for seed in getattr(world, "seeds", ())],
        "num_actions": world.num_actions,
    }
    if hasattr(world, "penalty"):
        found["time_penalty"] = float(world.penalty)
    if hasattr(world, "observation"):
        found["observation"] = str(world.observation)
    if hasattr(world, "recipe"):
        found |= _describe_recipe(world)
    if callable(getattr(world, "describe", None)):
        found |= dict(world.describe())
    return found


def _describe_recipe(world: Any) -> dict[str, Any]:
    """Of a wrapped Gymnasium environment: how it is made, forked and read."""
    recipe = world.recipe
    spec = _spec(recipe.make_env)
    return {
        "environment": _qualified(recipe.make_env),
        "environment_arguments": {name: _shown(value) for name, value in sorted((spec.kwargs if spec else {}).items())},
        "fork": recipe.method,
        "place": _qualified(recipe.place) if recipe.place else None,
        "reseed_on_fork": world._reseed_on_fork,
        "reseed_on_start": world._reseed_on_start,
    }


def _environment_name(world: Any) -> str:
    """The id of a registered environment, or the name of the function that makes an own one."""
    if not hasattr(world, "recipe"):
        return ""
    spec = _spec(world.recipe.make_env)
    return spec.id if spec else _qualified(world.recipe.make_env)


def _spec(make_env: Any) -> Any:
    """The spec that `gymnasium.make` was given, if the maker is that."""
    first = make_env.args[0] if isinstance(make_env, functools.partial) and make_env.args else None
    return first if hasattr(first, "kwargs") and hasattr(first, "id") else None


def _qualified(thing: Any) -> str:
    """module.name of a function or class, with the arguments of a partial one."""
    if isinstance(thing, functools.partial):
        given = [value.id if value is _spec(thing) else _shown(value) for value in thing.args]
        given += [f"{name}={_shown(value)}" for name, value in sorted(thing.keywords.items())]
        return f"{_qualified(thing.func)}({', '.join(given)})"
    name = getattr(thing, "__qualname__", None)
    return f"{thing.__module__}.{name}" if name else _qualified(type(thing))


def _shown(value: Any) -> str:
    """What an argument looks like, without the address of the object, which is another one in the next process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))

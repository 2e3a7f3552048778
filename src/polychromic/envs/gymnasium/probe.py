"""Look at a user's environment once: its actions and its observations."""

from __future__ import annotations

import difflib
import functools
import importlib
import numbers
import types
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import gymnasium
import numpy as np

from polychromic.core.checks import whole_number
from polychromic.envs.grid.register import register_grid_envs
from polychromic.envs.gymnasium.actions import actions_of
from polychromic.envs.gymnasium.episodes import MakeEnv, Method, Recipe, describe, reset_env
from polychromic.envs.gymnasium.observations import Tokenize, layout_of
from polychromic.envs.protocol import World
from polychromic.errors import UserError
from polychromic.trust import consent, is_name, look_in_working_folder

TEXT_LENGTH = 256


def maker_of(source: Any) -> Any:
    """A function that makes the environment, from a function, a registered id, `module:function` or an Env."""
    if isinstance(source, str):
        return _maker_of_name(source)
    if isinstance(source, gymnasium.Env):
        if source.spec is None:
            raise UserError(
                f"{type(source.unwrapped).__name__} is an object without a spec, so no second one can be made "
                "of it; give the function that makes it, e.g. its class"
            )
        return functools.partial(gymnasium.make, source.spec)
    if not callable(source):
        raise UserError(f"{source!r} is neither a function that makes an environment nor a Gymnasium id")
    return source


def _maker_of_name(name: str) -> Any:
    module_name, colon, function = name.partition(":")
    if colon:
        if is_name(name):  # else nothing would be imported
            consent().check("environment", name)
        look_in_working_folder()
        try:
            module = importlib.import_module(module_name)
        except Exception as error:  # a module may raise anything
            raise UserError(f"'{name}': module '{module_name}' cannot be imported ({describe(error)})") from error
        if callable(getattr(module, function, None)):
            return getattr(module, function)
        if function not in gymnasium.registry:
            makers = _own_callables(module)
            near = difflib.get_close_matches(function, [*makers, *gymnasium.registry], n=1)
            hint = f"; it defines {', '.join(makers[:5])}{' and more' if len(makers) > 5 else ''}" if makers else ""
            hint = f"; did you mean '{near[0]}'?" if near else hint
            raise UserError(f"'{module_name}' has no function '{function}' and registers no such id{hint}")
        name = function
    if name not in gymnasium.registry:
        import minigrid  # noqa: F401  (registers the MiniGrid and BabyAI levels)

        register_grid_envs()
    if name not in gymnasium.registry:
        near = difflib.get_close_matches(name, gymnasium.registry, n=1, cutoff=0.6)
        hint = f"did you mean '{near[0]}'?" if near else "`gymnasium.pprint_registry()` lists them."
        raise UserError(f"no environment '{name}' is registered; {hint} An own one is given as package.module:function")
    # The spec, not the id: worker processes may not have imported what registers it.
    return functools.partial(gymnasium.make, gymnasium.spec(name))


def _own_callables(module: types.ModuleType) -> list[str]:
    """Public functions and classes that the module or a part of it defines, not what it imports from elsewhere."""
    return [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and f"{getattr(value, '__module__', '')}.".startswith(f"{module.__name__}.")
    ]


def make_once(make_env: MakeEnv) -> gymnasium.Env[Any, Any]:
    """The environment, or what is wrong with `make_env`."""
    try:
        env = make_env()
    except UserError:
        raise
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise UserError(f"the environment needs a package that is not installed: {describe(error)}") from error
    except Exception as error:
        raise UserError(f"making the environment raised {describe(error)}") from error
    if not isinstance(env, gymnasium.Env):
        raise UserError(f"make_env returned a {type(env).__name__}, it must return a gymnasium.Env")
    return env


def _close(env: gymnasium.Env[Any, Any]) -> None:
    try:
        env.close()
    except Exception as error:
        raise UserError(f"close() of the environment raised {describe(error)}") from error


def recipe_of(
    make_env: MakeEnv,
    seed: int,
    method: Method,
    *,
    text_length: int = TEXT_LENGTH,
    tokenize: Tokenize | None = None,
    clone: Callable[[Any], Any] | None = None,
    restore: Callable[[Any, Any], None] | None = None,
    reseed: Callable[[Any, int], None] | None = None,
    place: Callable[[Any], Hashable] | None = None,
    success: Callable[[Any], bool] | None = None,
) -> Recipe:
    """What the wrapper needs to know; resets one environment with `seed` and takes three steps in it."""
    text_length = whole_number("text_length", text_length, at_least=1)
    if (clone is None) != (restore is None):
        raise UserError("clone and restore belong together: give both or neither")
    if method not in ("copy", "clone", "replay", "none"):
        raise UserError(f"fork is {method!r}; choose 'auto', 'copy', 'clone', 'replay' or 'none'")
    if method == "clone" and clone is None:
        raise UserError("fork='clone' needs the functions clone and restore")
    env = make_once(make_env)
    second = make_once(make_env)
    if second.unwrapped is env.unwrapped:
        raise UserError("make_env returned the same environment object twice; it must make a new one at every call")
    _close(second)
    actions, to_env = actions_of(env.action_space)
    try:
        first = reset_env(env, seed)
    except Exception as error:
        raise UserError(f"reset(seed={seed}) raised {describe(error)}") from error
    layout = layout_of(env.observation_space, first, text_length, tokenize)
    # An error of `step` is better named now than in the middle of a batch.
    rng = np.random.default_rng(seed)
    for _ in range(3):
        action = to_env(actions.random(rng))
        try:
            _, _, terminated, truncated, _ = env.step(action)
        except Exception as error:
            raise UserError(f"step({action}) raised {describe(error)}") from error
        if terminated or truncated:
            break
    recipe = Recipe(
        make_env=make_env,
        method=method,
        layout=layout,
        actions=actions,
        to_env=to_env,
        clone=clone,
        restore=restore,
        reseed=reseed,
        place=place,
        success=success,
    )
    _close(env)
    return recipe


def seeds_of(given: Iterable[int]) -> tuple[int, ...]:
    """Reset seeds, each checked."""
    try:
        seeds = tuple(given)
    except TypeError as error:
        raise UserError(f"seeds is {given!r}; give a list of reset seeds, one per configuration") from error
    wrong = [seed for seed in seeds if not isinstance(seed, numbers.Integral) or seed < 0]
    if wrong:
        raise UserError(f"seeds holds {wrong[0]!r}; every seed is an integer of 0 or more")
    if not seeds:
        raise UserError("seeds is empty; give at least one")
    return tuple(map(int, seeds))


def horizon_of(make_env: MakeEnv, horizon: int | None) -> int:
    """The horizon that was given, else the one that the environment announces."""
    if horizon is None:
        env = make_once(make_env)
        horizon = None if env.spec is None else env.spec.max_episode_steps
        world = getattr(env.unwrapped, "world", None)
        if horizon is None and isinstance(world, World):  # our own environments, which end by themselves
            horizon = world.horizon
        _close(env)
    if horizon is None:
        raise UserError("horizon is not given and the environment announces no max_episode_steps; give horizon")
    return whole_number("horizon", horizon, at_least=1)

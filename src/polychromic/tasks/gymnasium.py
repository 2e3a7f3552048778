"""Gymnasium environments as tasks: every registered id by its name, and your own with `task_from_gymnasium`."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from polychromic.envs.protocol import World
from polychromic.envs.registry import TaskSpec, make, register_family
from polychromic.trust import import_named, is_name

SEEDS = range(20)
ATTEMPTS = 16  # environments in Python are slow


def task_from_gymnasium(
    make_env: Any,
    *,
    name: str,
    seeds: Iterable[int] = SEEDS,
    demonstrations: Any = None,
    settings: Mapping[str, Any] | None = None,
    attempts: int = ATTEMPTS,
    about: str = "",
    **options: Any,
) -> TaskSpec:
    """A task of your Gymnasium environment, for every command: `package.module:variable` is its name.

    Args:
        make_env: makes one environment, or the id of a registered one.
        name: its own name, and that of the folder of its base policy, base-policies/NAME.
        seeds: reset seeds, one per configuration.
        demonstrations: what `polychromic pretrain` clones: a function, a model with `predict` or episodes, as
            `polychromic.clone` takes them; or a function without arguments that gives one of these. Not given: the base
            policy is an untrained `polychromic.policy_for`.
        settings: settings of fine-tuning that are good here.
        attempts: at each configuration in an evaluation.
        about: a line for people.
        options: further arguments of `polychromic.from_gymnasium`: place, success, horizon, fork, return_range, …

    Arguments of `make_env`, or of a registered environment (`is_slippery` of FrozenLake-v1), are options of the task.
    """
    kept = tuple(seeds)
    return TaskSpec(
        name=name,
        make=functools.partial(_make, make_env, kept, options),
        about=about,
        options=("horizon", *_arguments(make_env)),
        base_policy=f"base-policies/{name}/policy.safetensors",
        settings=dict(settings or {}),
        attempts=attempts,
        pretrain=_Pretraining(name, demonstrations),
    )


def _make(
    make_env: Any,
    own_seeds: tuple[int, ...],
    options: Mapping[str, Any],
    seeds: Iterable[int] | None = None,
    horizon: int | None = None,
    **arguments: Any,
) -> World:
    from polychromic.envs.gymnasium.world import from_gymnasium

    chosen = own_seeds if seeds is None else tuple(seeds)
    more = {} if horizon is None else {"horizon": horizon}
    return from_gymnasium(_with_arguments(make_env, arguments), chosen, **{**options, **more})


def _with_arguments(make_env: Any, arguments: Mapping[str, Any]) -> Any:
    """What makes the environment with these arguments."""
    if not arguments:
        return make_env
    if not isinstance(make_env, str):
        return functools.partial(make_env, **arguments)
    import gymnasium

    spec = copy.deepcopy(gymnasium.spec(make_env))
    spec.kwargs.update(arguments)
    return functools.partial(gymnasium.make, spec)


def _arguments(make_env: Any) -> tuple[str, ...]:
    """The names of the arguments of a function, a class or a registered environment; none if they cannot be known."""
    try:
        if isinstance(make_env, str):
            import gymnasium
            from gymnasium.envs.registration import load_env_creator

            entry = gymnasium.spec(make_env).entry_point
            make_env = load_env_creator(entry) if isinstance(entry, str) else entry
        parameters = inspect.signature(make_env).parameters.values()
    except Exception:  # whatever an environment's module raises, it raises again when a world is made
        return ()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(one.name for one in parameters if one.kind in named and one.name not in _NOT_OPTIONS)


_NOT_OPTIONS = ("seeds", "horizon", "render_mode")


class _Pretraining:
    """`polychromic pretrain`: clone the demonstrations and write the base policy."""

    def __init__(self, folder: str, demonstrations: Any) -> None:
        self._folder = folder
        self._demonstrations = demonstrations

    def __call__(
        self,
        task: str,
        *,
        out: Path,
        command: str = "",
        demonstrations: Path | None = None,
        episodes: int = 200,
        epochs: int = 50,
        patience: int = 5,
        learning_rate: float = 1e-3,
        entropy: float = 0.01,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> str:
        from polychromic.finetuning.default_policy import policy_for
        from polychromic.policies.files import save_policy
        from polychromic.pretrain.anywhere import clone

        world = make(task, **(options or {}))
        shown = self._demonstrations if demonstrations is None else _named(str(demonstrations))
        if shown is None:
            saved = policy_for(world, seed=seed)
        else:
            saved = clone(
                world,
                shown() if _takes_nothing(shown) else shown,
                episodes=episodes,
                epochs=epochs,
                patience=patience,
                learning_rate=learning_rate,
                entropy=entropy,
                seed=seed,
            )
        path = Path(out) / self._folder / "policy.safetensors"
        made = {**saved.info.made, "command": command}
        save_policy(path, replace(saved, info=replace(saved.info, made=made)))
        learnt = made.get("cloned")
        said = f"cloned {learnt['episodes']} episodes, loss {learnt['loss']:.3f}" if learnt else "untrained"
        return f"{task}: {said}; {path}"


def _named(demonstrations: str) -> Any:
    """A Minari data set by its name, or what `package.module:name` is."""
    if demonstrations.startswith("minari:") or not is_name(demonstrations):
        return demonstrations  # which `clone` reads, or refuses
    return import_named("demonstrations", demonstrations)


def _takes_nothing(thing: Any) -> bool:
    """Whether it is a function without arguments, which gives the demonstrations when they are needed."""
    if not inspect.isfunction(thing):
        return False
    return not inspect.signature(thing).parameters


def _registered(name: str) -> TaskSpec | None:
    """Any id that is registered with Gymnasium."""
    import gymnasium

    return task_from_gymnasium(name, name=name) if name in gymnasium.registry else None


register_family(_registered)

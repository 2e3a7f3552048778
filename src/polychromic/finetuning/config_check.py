"""Is a configuration one that can run? Every field by its declared type, then by its range, then with the others."""

from __future__ import annotations

import difflib
import functools
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from polychromic.errors import UserError
from polychromic.finetuning.functions import name_of

# Diversities by similarity and not by equality. They have no closed form, and some of many sets are drawn.
GRADED = ("jaccard", "vendi", "cosine")
# Fields that hold the name of a function: these, or a user's own as package.module:function.
NAMED_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "fork_rule": ("spaced", "most-uncertain", "worst-predicted"),
    "set_former": ("random", "disjoint"),
    "objective": ("polychromic", "mean-return", "best-of"),
    "diversity": ("distinct", *GRADED),
    "return_map": ("range", "clipped"),
}
# Objectives whose average over all sets needs no enumeration, with the diversities that this holds for (None: any).
CLOSED_FORMS: dict[str, tuple[str, ...] | None] = {"polychromic": ("distinct",), "mean-return": None, "best-of": None}

_AT_LEAST: dict[str, int] = {
    **dict.fromkeys(("iterations", "budget", "configurations_per_iteration", "epochs"), 1),
    "set_size": 2,
    **dict.fromkeys(("minibatch_size", "evaluation_rollouts", "checkpoint_every"), 1),
    **dict.fromkeys(
        ("seed", "rollouts_per_state", "forks_per_rollout", "num_sets", "evaluate_every", "kept_policies"), 0
    ),
    **dict.fromkeys(("ucb", "clip", "kl_coefficient", "value_coefficient", "entropy_coefficient"), 0),
    "window": -1,
}
_WHY_AT_LEAST = {"window": " (-1: all steps)", "set_size": ": a set of one has no diversity"}
_ABOVE_0 = ("actor_learning_rate", "critic_learning_rate", "max_grad_norm", "temperature")
_SHARES = ("discount", "gae_lambda", "polychromic_weight")
_LARGEST_SEED = 2**63 - 1


def functions_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that may name a function of a user's own."""
    return {name: settings[name] for name in NAMED_FUNCTIONS if name in settings}


def nearest(given: Any, right: Iterable[str]) -> str:
    """`did you mean 'x'? ` if a right name is close to what was given, else nothing."""
    near = difflib.get_close_matches(str(given), list(right), n=1)
    return f"did you mean '{near[0]}'? " if near else ""


def checked_values(config: Any) -> dict[str, Any]:
    """Every field in its declared type; one that is not of it is refused by name."""
    hints = _hints(type(config))  # type: ignore[arg-type]  # every class is hashable
    names = [field.name for field in fields(config)]
    return {name: _of_type(name, getattr(config, name), hints[name]) for name in names}


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)  # takes far longer than all checks together


def _of_type(name: str, value: Any, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        if not (isinstance(value, str) and value in get_args(hint)):
            raise UserError(
                f"{name} is {value!r}; {nearest(value, get_args(hint))}choose one of {_list(get_args(hint))}"
            )
        return value
    if hint is bool:
        if not isinstance(value, bool):
            raise UserError(f"{name} is {value!r}; it must be true or false")
        return value
    if hint is int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise UserError(f"{name} is {value!r}; it must be a whole number")
        return int(value)
    if hint is float:
        return _finite(name, value, value)
    if hint is str:
        if name in NAMED_FUNCTIONS and callable(value):
            return name_of(value)
        if not isinstance(value, str):
            or_function = " or a function" if name in NAMED_FUNCTIONS else ""
            raise UserError(f"{name} is {value!r}; it must be a string{or_function}")
        return value
    if not (isinstance(value, tuple | list) and len(value) == len(get_args(hint))):
        raise UserError(f"{name} is {value!r}; it must be {len(get_args(hint))} numbers")
    return tuple(_finite(name, part, value) for part in value)


def _finite(name: str, number: Any, shown: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, numbers.Real) or not math.isfinite(number):
        raise UserError(f"{name} is {shown!r}; it must be {'a finite number' if number is shown else 'finite numbers'}")
    return float(number)


def check_ranges(config: Any, methods: dict[str, dict[str, Any]]) -> None:
    """Refuse values that no run can have, each for itself."""
    if config.method not in methods:
        raise UserError(f"method is {config.method!r}; {nearest(config.method, methods)}choose one of {_list(methods)}")
    for name, least in _AT_LEAST.items():
        if getattr(config, name) < least:
            more = _WHY_AT_LEAST.get(name, "")
            raise UserError(f"{name} is {getattr(config, name)}; it must be at least {least}{more}")
    if config.seed > _LARGEST_SEED:
        raise UserError(f"seed is {config.seed}; it must be at most {_LARGEST_SEED}")
    for name in _ABOVE_0:
        if not getattr(config, name) > 0:
            raise UserError(f"{name} is {getattr(config, name)}; it must be above 0")
    for name in _SHARES:
        if not 0 <= getattr(config, name) <= 1:
            raise UserError(f"{name} is {getattr(config, name)}; it must lie between 0 and 1")
    if config.fork_rule == "none":
        raise UserError("fork_rule is 'none'; for rollouts without vines give forks_per_rollout = 0")
    for name, known in NAMED_FUNCTIONS.items():
        given = getattr(config, name)
        if given not in known and not all(given.partition(":")):
            raise UserError(
                f"{name} is {given!r}; {nearest(given, known)}choose one of {_list(known)}, or package.module:function"
            )
    if not config.return_range[0] < config.return_range[1]:
        raise UserError(f"return_range is {config.return_range}; its lowest must be below its highest")


def check_together(config: Any, methods: dict[str, dict[str, Any]]) -> None:
    """Refuse choices that contradict each other, or of which one would be ignored."""
    _check_budget(config)
    _check_method(config, methods[config.method])
    if not config.polychromic:
        if config.set_credit != "window":
            raise UserError(
                f"set_credit is {config.set_credit!r}, but polychromic is False: there is no credit from sets"
            )
        return
    size = config.group_size
    if config.set_size >= size:
        raise UserError(
            f"set_size is {config.set_size}, but a group has {size} rollouts; sets are compared with each other, "
            f"so set_size must be at most {size - 1}"
        )
    if config.forks_per_rollout == 0 and not config.initial_states_form_groups:
        raise UserError(
            "forks_per_rollout is 0 and initial_states_form_groups is False: no group is left for set advantages"
        )
    if config.num_sets == 0:
        _check_all_sets(config)
    elif config.set_former == "disjoint":
        parts = size // config.set_size
        if size % config.set_size or parts < 2:
            raise UserError(
                f"set_former is 'disjoint', but {size} rollouts do not split into several sets of set_size = "
                f"{config.set_size}; set_size must divide {size} and be at most {size // 2}"
            )
        if config.num_sets != parts:
            raise UserError(
                f"num_sets is {config.num_sets}, but set_former = 'disjoint' makes {size}/{config.set_size} = {parts} "
                f"sets; give num_sets = {parts}"
            )
    elif config.num_sets == 1:
        raise UserError("num_sets is 1; a set is compared with the others, so it must be at least 2, or 0 for all")
    _check_set_credit(config, size)


def _check_set_credit(config: Any, size: int) -> None:
    """What goes with each way of credit to the steps."""
    rule = config.set_credit
    if rule != "control-variate" and config.control_variate != "leave-one-out":
        raise UserError(f"control_variate is {config.control_variate!r}, but set_credit is {rule!r}; it has none")
    if rule == "window":
        return
    if config.credit != "sum" and config.num_sets:
        raise UserError(
            f"credit is {config.credit!r}, but set_credit = {rule!r} follows the set policy gradient, "
            "which adds up; give credit = 'sum'"
        )
    if config.normalise == "per-kind":
        raise UserError(
            f"normalise is 'per-kind', but set_credit = {rule!r} leaves one kind of steps; "
            "give 'joint', 'minibatch' or 'none', or set_credit = 'window'"
        )
    if rule == "trajectory":
        return
    if config.advantage not in ("gae", "return"):
        raise UserError(
            f"advantage is {config.advantage!r}, but set_credit = {rule!r} needs a critic; "
            "give advantage = 'gae' or 'return'"
        )
    if rule == "critic":
        _check_critic(config)
    elif config.control_variate == "leave-one-out":
        _check_leave_one_out(config, size)


def _check_critic(config: Any) -> None:
    """The critic is to predict one thing: credit that is paid once, at the end, and not discounted again."""
    needed = {
        "discount": (1.0, "returns in set credit are discounted already"),
        "time_limit": ("terminal", "set credit is paid in full at the last step, and nothing follows it"),
        "initial_states_form_groups": (True, "rollouts in no group have no credit for the critic to learn"),
    }
    for name, (value, reason) in needed.items():
        if getattr(config, name) != value:
            raise UserError(
                f"{name} is {getattr(config, name)!r}, but set_credit is 'critic': {reason}; give {name} = {value!r}, "
                "or set_credit = 'control-variate'"
            )


def _check_leave_one_out(config: Any, size: int) -> None:
    instead = "or control_variate = 'in-group'"
    if config.set_size > size - 2:
        raise UserError(
            f"set_size is {config.set_size}, but without one of its {size} rollouts a group has a single set; "
            f"give set_size ≤ {size - 2}, {instead}"
        )
    if config.set_former == "disjoint":
        raise UserError(
            "set_former is 'disjoint', but without one rollout the others of its set are in none; "
            f"give set_former = 'random', {instead}"
        )


def _check_all_sets(config: Any) -> None:
    for name, default in (("credit", "sum"), ("set_former", "random")):
        value = getattr(config, name)
        if value != default and (name, value) != ("credit", "mean"):  # over all sets 'mean' and 'sum' are the same
            raise UserError(
                f"{name} is {value!r}, but num_sets = 0 takes all sets: give num_sets, or {name} = {default!r}"
            )


def has_closed_form(config: Any) -> bool:
    """Whether the average over all sets of a group is known without enumerating them."""
    diversities = CLOSED_FORMS.get(config.objective, ())
    return config.num_sets == 0 and (diversities is None or config.diversity in diversities)


def _check_budget(config: Any) -> None:
    size, forks, budget = config.group_size, config.forks_per_rollout, config.budget
    if size < 1:
        raise UserError(f"budget is {budget}, too small for forks_per_rollout = {forks}: one rollout needs {1 + forks}")
    if config.trajectories <= budget:
        return
    needs = f"budget is {budget}, but rollouts_per_state = {size}"
    if size > budget:
        raise UserError(f"{needs} is more than that; rollouts_per_state must be at most {largest_group(budget, forks)}")
    most = (budget - size) // size**2
    raise UserError(
        f"{needs} with forks_per_rollout = {forks} needs N + N²p = {config.trajectories}; what fits is "
        f"forks_per_rollout ≤ {most} or rollouts_per_state ≤ {largest_group(budget, forks)}"
    )


def _check_method(config: Any, changes: dict[str, Any]) -> None:
    """A method's name must tell the truth about what it is known for; the rest of its values may be changed."""
    if config.polychromic and not changes.get("polychromic", True):
        raise UserError(
            f"method is {config.method!r} with polychromic = True; make_config({config.method!r}) sets what the method "
            "means, and poly-ppo is the one with set advantages"
        )
    wanted = changes.get("advantage")
    if wanted and config.advantage != wanted:
        raise UserError(
            f"method is {config.method!r} with advantage = {config.advantage!r}; it means advantage = {wanted!r}: "
            f"use make_config({config.method!r}), or method 'ppo' for another advantage"
        )
    if config.method.endswith("-ucb") and config.ucb == 0:
        raise UserError(f"method is {config.method!r} with ucb = 0; leave '-ucb' out, or give ucb above 0")


def largest_group(budget: int, forks: int) -> int:
    """The largest N with N + N²p ≤ B."""
    if forks == 0:
        return budget
    return int((math.isqrt(1 + 4 * forks * budget) - 1) // (2 * forks))


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)

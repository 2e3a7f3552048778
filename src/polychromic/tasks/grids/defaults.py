"""Good settings for the paper's grid tasks: those chosen by the search of docs/results-method.md.

The search ran on GoTo and FourRooms; the other BabyAI tasks use GoTo's settings, with learning rates and λ_UCB of their
own where others scored better.
Its largest gain came from playing 8 configurations per iteration instead of one, with the same number of trajectories.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

VINES = "poly-ppo with vines"


def _searched(rate: float, kl: float, ucb: float) -> dict[str, Any]:
    return {"actor_learning_rate": rate, "kl_coefficient": kl, "configurations_per_iteration": 8, "ucb": ucb}


# By task and method; "ucb" is that of the method with -ucb. Poly-PPO without vines was not searched for: it has PPO's
# settings with three times its learning rate on GoTo or FourRooms (docs/results-study.md).
_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "goto": {
        "ppo": _searched(3e-5, kl=0.01, ucb=0.01),
        "poly-ppo": _searched(9e-5, kl=0.01, ucb=0.01),
        VINES: _searched(9e-5, kl=0.1, ucb=0.01),
        "reinforce": {"actor_learning_rate": 2e-5, "configurations_per_iteration": 1, "ucb": 0.03},
    },
    "fourrooms": {
        "ppo": _searched(9e-5, kl=0.05, ucb=0.01),
        "poly-ppo": _searched(2.7e-4, kl=0.05, ucb=0.01),
        VINES: _searched(9e-5, kl=0.1, ucb=0.01),
        "reinforce": {"actor_learning_rate": 3e-5, "configurations_per_iteration": 1, "ucb": 0.01},
    },
}


class _Times(NamedTuple):
    """Factors of the settings of GoTo."""

    rate: float = 1.0
    ucb: float = 1.0


# Tasks that use GoTo's settings, and by method what they change.
_LIKE_GOTO: dict[str, dict[str, _Times]] = {
    "pickup": {"ppo": _Times(3.0), VINES: _Times(3.0), "reinforce": _Times(1 / 3)},
    "synthseq": {"reinforce": _Times(1 / 3, ucb=0.1)},
    "bosslevel": {"ppo": _Times(3.0), "reinforce": _Times(1 / 3, ucb=1 / 3)},
}
_LENGTHS = {"goto": 480, "fourrooms": 1280}  # of the comparison: iterations with one configuration each
_POINTS = 20  # points of a learning curve, and checkpoints
CRITIC = 10.0  # times the actor's learning rate, as in the paper


def grid_settings(task: str, method: str, preset: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a grid task: the paper's window, and but for the paper's preset the settings of the search."""
    return {"window": 5, **({} if preset == "paper" else tuned_settings(task, method, preset, changes))}


def tuned_settings(task: str, method: str, preset: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The default settings of a method on a task; empty if there was no search.

    changes: the user's own settings. Dependent settings follow: the same number of trajectories with another number of
    configurations, as many evaluations in a longer run, the critic's learning rate with the actor's. A change that is
    not a number is left to the checks of `Config`, which name it.
    """
    searched, plain = "goto" if task in _LIKE_GOTO else task, method.removesuffix("-ucb")
    row = VINES if (plain, preset) == ("poly-ppo", "vines") else plain
    if row not in _SETTINGS.get(searched, {}):
        return {}
    settings = dict(_SETTINGS[searched][row])
    times = _LIKE_GOTO.get(task, {}).get(row, _Times())
    settings["actor_learning_rate"] = _rounded(times.rate * settings["actor_learning_rate"])
    settings["ucb"] = _rounded(times.ucb * settings["ucb"])
    if plain == method:
        del settings["ucb"]
    configurations = _whole(changes, "configurations_per_iteration", settings["configurations_per_iteration"])
    iterations = max(1, _LENGTHS[searched] // configurations)
    every = max(1, _whole(changes, "iterations", iterations) // _POINTS)
    rate = changes.get("actor_learning_rate", settings["actor_learning_rate"])
    if not isinstance(rate, numbers.Real) or not math.isfinite(rate):
        rate = settings["actor_learning_rate"]
    return {
        **settings,
        "critic_learning_rate": _rounded(CRITIC * rate),
        "iterations": iterations,
        "evaluate_every": every,
        "checkpoint_every": every,
    }


def _rounded(product: float) -> float:
    """A product as one would write it: 9e-4, not 0.0009000000000000001."""
    return float(f"{product:.6g}")


def _whole(changes: Mapping[str, Any], name: str, otherwise: int) -> int:
    """A change that is a whole number above 0, or else `otherwise`."""
    value = changes.get(name, otherwise)
    return int(value) if isinstance(value, numbers.Integral) and int(value) > 0 else otherwise

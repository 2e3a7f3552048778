"""Which settings are good on the paper's grid tasks? Those that the search of docs/results.md chose.

The search ran on GoTo and FourRooms; the other BabyAI tasks take over what GoTo has. Its largest gain came from playing
8 configurations an iteration instead of one, at the same number of trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GOTO: dict[str, dict[str, Any]] = {
    "ppo": {"actor_learning_rate": 3e-5, "kl_coefficient": 0.01, "configurations_per_iteration": 8},
    "poly-ppo": {"actor_learning_rate": 9e-5, "kl_coefficient": 0.1, "configurations_per_iteration": 8},
    "reinforce": {"actor_learning_rate": 2e-5, "configurations_per_iteration": 1},
}
_FOURROOMS: dict[str, dict[str, Any]] = {
    "ppo": {"actor_learning_rate": 9e-5, "kl_coefficient": 0.05, "configurations_per_iteration": 8},
    "poly-ppo": {"actor_learning_rate": 9e-5, "kl_coefficient": 0.1, "configurations_per_iteration": 8},
    "reinforce": {"actor_learning_rate": 3e-5, "configurations_per_iteration": 1},
}
_TUNED = {"fourrooms": _FOURROOMS, **dict.fromkeys(("goto", "pickup", "synthseq", "bosslevel"), _GOTO)}
_UCB, _OTHER_UCB = 0.01, {"goto-reinforce": 0.03}
_LENGTHS = {"fourrooms": 1280, "goto": 480}  # of the comparison: iterations with one configuration each
CRITIC = 10.0  # times the actor's learning rate, as in the paper
_POINTS = 20  # of a learning curve, and as many checkpoints


def tuned_settings(method: str, task: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a method has on a task if nothing else is said; nothing where nothing was searched for.

    changes: what the user wants otherwise. What follows from it moves with it: the same number of trajectories with
    another number of configurations, as many evaluations in a longer run, the critic's learning rate with the actor's.
    """
    plain = method.removesuffix("-ucb")
    if plain not in _TUNED.get(task, {}):
        return {}
    own = _TUNED[task][plain]
    like = "fourrooms" if task == "fourrooms" else "goto"

    def given(name: str, otherwise: Any) -> Any:
        value = changes.get(name, otherwise)
        right = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        return value if right else otherwise  # a wrong one is refused later, by name

    iterations = max(
        1, _LENGTHS[like] // int(given("configurations_per_iteration", own["configurations_per_iteration"]))
    )
    every = max(1, int(given("iterations", iterations)) // _POINTS)
    return {
        **own,
        "critic_learning_rate": float(f"{CRITIC * given('actor_learning_rate', own['actor_learning_rate']):.6g}"),
        **({"ucb": _OTHER_UCB.get(f"{like}-{plain}", _UCB)} if plain != method else {}),
        "iterations": iterations,
        "evaluate_every": every,
        "checkpoint_every": every,
    }

"""Which settings are good on the tasks of the paper? Those that the search of docs/results.md chose.

The search ran on GoTo and FourRooms. Its largest gain, 8 configurations an iteration instead of one at the same number
of trajectories, held for PPO and Poly-PPO with three seeds on both. The other BabyAI tasks take over what GoTo has.
"""

from __future__ import annotations

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
TUNED = {"fourrooms": _FOURROOMS, **dict.fromkeys(("goto", "pickup", "synthseq", "bosslevel"), _GOTO)}
# λ_UCB is 0.01 but for one pair, and iterations are those of the comparison with one configuration each.
UCB, OTHER_UCB = 0.01, {("goto", "reinforce"): 0.03}
LENGTHS = {"fourrooms": 1280, "goto": 480}
CRITIC = 10.0  # times the actor's learning rate, as in the paper


def tuned_settings(method: str, task: str) -> dict[str, Any]:
    """What a method has on a task if nothing else is said; nothing where nothing was searched for."""
    plain = method.removesuffix("-ucb")
    if task not in TUNED or plain not in TUNED[task]:
        return {}
    own = TUNED[task][plain]
    like = "fourrooms" if task == "fourrooms" else "goto"
    iterations = LENGTHS[like] // own["configurations_per_iteration"]
    return {
        **own,
        "critic_learning_rate": float(f"{CRITIC * own['actor_learning_rate']:.6g}"),
        **({"ucb": OTHER_UCB.get((like, plain), UCB)} if plain != method else {}),
        "iterations": iterations,
        "evaluate_every": iterations // 20,
        "checkpoint_every": iterations // 20,
    }

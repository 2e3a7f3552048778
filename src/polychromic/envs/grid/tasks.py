"""Which levels there are, by short name or by Gymnasium id, and which of them the engine runs exactly."""

from __future__ import annotations

import difflib
import functools
from typing import Any

from polychromic.envs.grid.codes import (
    RULE_BABYAI,
    RULE_DONE_AT,
    RULE_FETCH,
    RULE_MEMORY,
    RULE_NONE,
    RULE_PICK_UP,
    RULE_PUT_NEAR,
    RULE_TWO_DOORS,
    RULE_UNLOCK,
)
from polychromic.errors import UserError

TASKS = {
    "fourrooms": "MiniGrid-FourRooms-v0",
    "goto": "BabyAI-GoTo-v0",
    "pickup": "BabyAI-Pickup-v0",
    "synthseq": "BabyAI-SynthSeq-v0",
    "bosslevel": "BabyAI-BossLevel-v0",
}

# The classes whose own `step` the kernels reproduce: name -> rule. A class with a `step` (or reward, or observation)
# of its own that is not listed here is refused, so a level that minigrid adds later is never run incorrectly.
STEP_RULES = {
    "RoomGridLevel": RULE_BABYAI,
    "UnlockPickupEnv": RULE_PICK_UP,
    "BlockedUnlockPickupEnv": RULE_PICK_UP,
    "KeyCorridorEnv": RULE_PICK_UP,
    "ObstructedMazeEnv": RULE_PICK_UP,
    "UnlockEnv": RULE_UNLOCK,
    "FetchEnv": RULE_FETCH,
    "GoToDoorEnv": RULE_DONE_AT,
    "GoToObjectEnv": RULE_DONE_AT,
    "MemoryEnv": RULE_MEMORY,
    "PutNearEnv": RULE_PUT_NEAR,
    "RedBlueDoorEnv": RULE_TWO_DOORS,
}

# Methods of MiniGridEnv that the kernels reproduce; a class that overrides one of them behaves differently.
_OWN_BEHAVIOUR = ("step", "_reward", "gen_obs", "gen_obs_grid", "get_view_exts", "front_pos", "dir_vec")


class NotCovered(UserError):
    """The engine cannot run this level exactly."""

    def __init__(self, level: str, reason: str) -> None:
        super().__init__(level, reason)  # both, so that it can be pickled

    def __str__(self) -> str:
        level, reason = self.args
        return (
            f"the grid engine does not cover {level}: {reason}. "
            "polychromic.from_gymnasium runs any Gymnasium environment, at the environment's own speed."
        )


@functools.cache
def registered_levels() -> tuple[str, ...]:
    """Every id that the installed minigrid registers with Gymnasium, in registration order."""
    import gymnasium
    import minigrid  # noqa: F401  (registers its levels)

    return tuple(name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("minigrid."))


def level_id(task: str) -> str:
    """The Gymnasium id of a task; an unknown name is refused with the nearest known one."""
    if not isinstance(task, str):
        raise UserError(f"task: expected a name, such as 'goto' or 'BabyAI-GoTo-v0', got {task!r}")
    if task in TASKS:
        return TASKS[task]
    known = registered_levels()
    if task in known:
        return task
    import gymnasium

    if task in gymnasium.registry:
        raise UserError(
            f"task: '{task}' is not a minigrid level; polychromic.from_gymnasium('{task}', ...) runs it, more slowly"
        )
    names = {name.lower(): name for name in (*TASKS, *known)}
    near = difflib.get_close_matches(task.lower(), names, n=1, cutoff=0.6)
    hint = f"did you mean '{names[near[0]]}'?" if near else f"choose from {', '.join(TASKS)} or a minigrid id."
    raise UserError(f"task: there is no level '{task}'; {hint}")


def step_rule(level: str, env: Any) -> int:
    """Which rule ends the episodes of this minigrid environment; refuses behaviour that the kernels do not support."""
    from minigrid.minigrid_env import MiniGridEnv

    rule = RULE_NONE
    if not isinstance(env, MiniGridEnv):
        raise NotCovered(level, f"{type(env).__name__} is not a MiniGridEnv")
    for cls in type(env).__mro__:
        if cls is MiniGridEnv:
            break
        overridden = [name for name in _OWN_BEHAVIOUR if name in vars(cls)]
        if overridden == ["step"] and cls.__name__ in STEP_RULES and cls.__module__.startswith("minigrid."):
            rule = STEP_RULES[cls.__name__]
        elif overridden:
            raise NotCovered(level, f"{cls.__name__} has its own {', '.join(overridden)}")
    if env.agent_view_size != 7:
        raise NotCovered(level, f"its view is {env.agent_view_size} cells wide, not 7")
    return rule

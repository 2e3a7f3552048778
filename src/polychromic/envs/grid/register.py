"""The grid engine's ids in Gymnasium's registry."""

from __future__ import annotations

import gymnasium

from polychromic.envs.grid.tasks import TASKS


def register_grid_envs() -> None:
    """Register `polychromic/goto-v0` and the like; ids that are already registered are left alone."""
    for task in (*TASKS, "grid"):
        name = f"polychromic/{task}-v0"
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                entry_point="polychromic.envs.grid.gym:GridEnv",
                vector_entry_point="polychromic.envs.grid.gym:GridVectorEnv",
                # "grid" is any level: gymnasium.make("polychromic/grid-v0", task="BabyAI-Open-v0").
                kwargs={"task": "" if task == "grid" else task},
            )

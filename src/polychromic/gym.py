"""Registers the grid engine with Gymnasium: `polychromic/goto-v0` and its kin, one at a time or as a vector.

`import polychromic` does this by itself where Gymnasium was imported before it; importing this module always does.
"""

from __future__ import annotations

import gymnasium

from polychromic.envs.grid.tasks import TASKS

for _task in (*TASKS, "grid"):
    _id = f"polychromic/{_task}-v0"
    if _id not in gymnasium.registry:
        gymnasium.register(
            _id,
            entry_point="polychromic.envs.grid.gym:GridEnv",
            vector_entry_point="polychromic.envs.grid.gym:GridVectorEnv",
            # "grid" is any level: gymnasium.make("polychromic/grid-v0", task="BabyAI-Open-v0").
            kwargs={} if _task == "grid" else {"task": _task},
        )

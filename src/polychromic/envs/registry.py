"""Worlds by name: grid levels and triangle discovery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polychromic.errors import UserError


def make(task: str, **options: Any) -> Any:
    """A world that can be forked, by name.

    `make("triangle", seeds=(0, 1, 2))` is triangle discovery on these graphs, see
    `polychromic.tasks.triangle.answers.triangle_world`. Every other name is a grid level: `fourrooms`, `goto`, `pickup`,
    `synthseq`, `bosslevel` or a minigrid id, with the options of `polychromic.envs.grid.world.make`: seeds, horizon,
    time_penalty, reward, observation, mission_length.
    """
    if task == "triangle":
        from polychromic.tasks.triangle.answers import triangle_world

        strange = sorted(set(options) - {"seeds"})
        if strange:
            raise UserError(
                f"{strange[0]} is given; triangle discovery has no options but seeds, the numbers of graphs"
            )
        return triangle_world(**options)
    from polychromic.envs.grid.world import make as make_grid

    return make_grid(task, **options)


def world_for(task: str, seeds: Sequence[int], *, observation: str = "", horizon: int = 0, **grid_options: Any) -> Any:
    """The world of a recorded task: what a policy file or a run says about it is all that is needed.

    seeds: its configurations. horizon: most steps (0: 100 on grid levels, 9 tokens for triangle discovery).
    grid_options: what means nothing to other worlds, such as time_penalty.
    """
    if task != "triangle":
        return make(task, seeds=seeds, horizon=horizon or 100, observation=observation or "partial", **grid_options)
    world = make(task, seeds=seeds)
    if horizon not in (0, world.horizon):
        raise UserError(f"horizon is {horizon}; answers of triangle discovery have at most {world.horizon} tokens")
    return world

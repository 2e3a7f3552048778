"""From names to a run: the world of a task and the policy to start from, as the command and sweeps ask for them."""

from __future__ import annotations

from typing import Any, NamedTuple

from polychromic.envs.grid.tasks import TASKS
from polychromic.envs.registry import world_for
from polychromic.errors import UserError
from polychromic.finetuning.config_check import nearest
from polychromic.policies.files import SavedPolicy, check_fits, load_policy


class Start(NamedTuple):
    """What `finetune` needs beside its configuration."""

    world: Any
    policy: SavedPolicy


def prepare(
    task: str, policy: str = "", *, observation: str = "", horizon: int = 0, time_penalty: float = 0.5
) -> Start:
    """The world of a task and the policy to fine-tune on it, checked to fit each other.

    policy: a shipped one by name, or a file ("": the shipped one of the task); it names the configurations.
    observation: "partial" or "full" ("": what the policy was trained on). horizon: H (0: that of the task).
    """
    known = (*TASKS, "triangle")
    if task not in known and "-" not in task:
        raise UserError(f"task is {task!r}; {nearest(task, known)}choose one of {', '.join(known)}")
    saved = load_policy(policy or task)
    seeds = saved.info.configurations
    if not seeds:
        raise UserError(f"policy: {saved.info.source} names no configurations to fine-tune on")
    shown = observation or saved.info.observation
    world = world_for(task, seeds, observation=shown, horizon=horizon, time_penalty=time_penalty)
    check_fits(saved, world)
    return Start(world, saved)

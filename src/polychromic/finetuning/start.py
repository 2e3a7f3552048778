"""From names to a run: the world of a task and the policy to start from, for the command and for sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from polychromic.envs.protocol import World
from polychromic.envs.registry import spec_of, world_for
from polychromic.errors import UserError
from polychromic.policies.files import SavedPolicy, available_policies, load_policy
from polychromic.policies.fit import check_fits


class Start(NamedTuple):
    """What `finetune` needs besides its configuration."""

    world: World
    policy: SavedPolicy


def prepare(
    task: str,
    policy: str = "",
    *,
    observation: str = "",
    horizon: int = 0,
    time_penalty: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> Start:
    """The world of a task and the policy to fine-tune on it, checked to fit each other.

    policy: a shipped policy by name, or a file ("": the task's base policy); it names the configurations.
    observation, horizon, time_penalty: for tasks that have them; empty, 0 and None take the policy's or the task's.
    options: any others that the task has.
    """
    saved = load_policy(policy or base_policy_of(task))
    seeds = saved.info.configurations
    if not seeds:
        raise UserError(f"policy: {saved.info.source} names no configurations to fine-tune on")
    shown = observation or saved.info.observation
    given = {"observation": shown, "horizon": horizon or None, "time_penalty": time_penalty, **(options or {})}
    world = world_for(task, seeds, **given)
    check_fits(saved, world)
    return Start(world, saved)


def base_policy_of(task: str) -> str:
    """The policy that fine-tuning on a task starts from, by name or as a file."""
    spec = spec_of(task)
    if not spec.base_policy:
        raise UserError(
            f"policy is missing: {spec.name} has no base policy; give --policy FILE, "
            f"or make one with polychromic pretrain {spec.name}"
        )
    shipped = spec.base_policy in available_policies()
    if not shipped and not Path(spec.base_policy).is_file():
        raise UserError(
            f"policy is missing: the base policy of {spec.name}, {spec.base_policy}, is not there; give --policy FILE, "
            f"or make it with polychromic pretrain {spec.name}"
        )
    return spec.base_policy if shipped else str(Path(spec.base_policy).resolve())

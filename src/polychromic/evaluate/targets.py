"""What a user points at: a run directory, a policy file, or a shipped base policy by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from polychromic.envs.protocol import World
from polychromic.envs.registry import find_spec, recorded_options, short_name, world_for
from polychromic.errors import UserError
from polychromic.files import Float, Int, checked, read_json
from polychromic.policies.files import SavedPolicy, available_policies, load_policy
from polychromic.policies.fit import check_fits
from polychromic.policies.tensors import parameters_hash

EVALUATION = "evaluation.json"


@dataclass(frozen=True)
class Target:
    """A policy to evaluate, and where it came from."""

    saved: SavedPolicy
    name: str
    folder: Path | None = None  # of the run, None for a policy that is not the end of one
    described: Mapping[str, Any] = field(default_factory=dict)  # the run's config.json

    @property
    def is_run(self) -> bool:
        """Whether this is a fine-tuning run."""
        return self.folder is not None


def find_target(target: str) -> Target:
    """A run directory, a policy file or the name of a shipped policy; anything else is refused in one line."""
    path = Path(target)
    if target in available_policies() and not path.exists():
        return Target(load_policy(target), target)
    if path.is_file():
        return Target(load_policy(path), path.stem if path.stem != "policy" else path.resolve().parent.name)
    if not path.is_dir():
        raise UserError(
            f"{target} is neither a run directory, nor a policy file, nor one of the shipped policies "
            f"({', '.join(available_policies()) or 'none'})"
        )
    if not (path / "config.json").is_file():
        raise UserError(f"{target} is not a run directory: it has no config.json")
    described = described_run(path)
    if not (path / "policy.safetensors").is_file():
        raise UserError(f"{target} is not complete: it has no policy.safetensors; polychromic finetune resumes it")
    return Target(load_policy(path / "policy.safetensors"), path.resolve().name, path, described)


class _Described(TypedDict):
    """What an evaluation and a report need to know of a run."""

    config: _Config
    task: str
    level_seeds: list[Int]
    horizon: Int
    policy: str
    num_configurations: NotRequired[Int]
    observation: NotRequired[str | None]
    time_penalty: NotRequired[Float]
    options: NotRequired[dict[str, Any]]


class _Config(TypedDict):
    method: str
    seed: NotRequired[Int]


def described_run(folder: Path) -> dict[str, Any]:
    """The config.json of a run, checked to be one."""
    described = read_json(folder / "config.json")
    return dict(checked(described, _Described, f"{folder} is not a run of polychromic finetune: config.json"))


def world_of(
    target: Target,
    *,
    configurations: int = 0,
    horizon: int = 0,
    time_penalty: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> World:
    """The world that a target is evaluated on: that of its run, or the configurations that its policy names.

    configurations: only the first so many (0: all). horizon: H (0: that of the run, or of the task).
    time_penalty: of grid levels (None: that of the run, or the task's). options: others that the task has.
    """
    info = target.saved.info
    task = target.described.get("task") or info.task
    seeds = target.described.get("level_seeds") or list(info.configurations)
    if not task or not seeds:
        raise UserError(f"{target.name}: the policy names no {'configurations' if task else 'task'} to evaluate it on")
    if configurations < 0 or configurations > len(seeds):
        raise UserError(f"configurations is {configurations}; {target.name} has {len(seeds)}")
    recorded = recorded_options(task, {"observation": info.observation, **target.described})
    given = {"horizon": horizon or None, "time_penalty": time_penalty}
    chosen = {**recorded, **{name: value for name, value in given.items() if value is not None}, **(options or {})}
    world = world_for(task, seeds[:configurations] if configurations else seeds, **chosen)
    check_fits(target.saved, world)
    return world


def pretrained_of(target: Target, given: str = "") -> SavedPolicy:
    """The policy that a run started from: the one given, or the shipped policy of the task if it is that one.

    A policy that is not the end of a run is its own.
    """
    if not target.is_run and not given:
        return target.saved
    task = short_name(target.described.get("task") or target.saved.info.task)
    spec = find_spec(task)
    policy = given or (spec.base_policy if spec else "")
    if not policy:
        raise UserError(f"pretrained is missing: {task} has no base policy; give the one that the run began with")
    saved = load_policy(policy)
    found, wanted = parameters_hash(saved.params), target.described.get("policy", "")
    if wanted and found != wanted:
        raise UserError(
            f"pretrained is {policy} with parameters {found}, but {target.name} began with {wanted}; "
            "give the policy that the run began with"
        )
    return saved

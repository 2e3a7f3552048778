"""The paper's five grid tasks and every other level of minigrid."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from polychromic.envs.grid.tasks import TASKS, registered_levels
from polychromic.envs.registry import Later, Metric, TaskSpec, register, register_family
from polychromic.tasks.grids.defaults import grid_settings

OPTIONS = ("horizon", "time_penalty", "reward", "observation", "mission_length")
# Base policies that see or remember more than the shipped one of a task; `polychromic pretrain` makes them.
VARIANTS = {"fourrooms-full": "fourrooms", "goto-full": "goto", "goto-memory": "goto"}

_EXACT = Metric(
    "exact",
    Later("polychromic.tasks.grids.exact:measure"),
    lambda exact: f"exactly: success {exact['success']:.4f}, from anywhere {exact['success_from_anywhere']:.4f}",
)


@functools.cache
def paper_results() -> dict[str, Any]:
    """The numbers of the paper's Tables 1 and 2."""
    text = (resources.files("polychromic.tasks.grids") / "paper_results.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def _paper(task: str) -> Mapping[str, Any]:
    methods = paper_results()["methods"]
    names = {"reward_success": "reward_and_success_percent", "perturbed": "perturbed_start_success_percent"}
    return {metric: dict(zip(methods, paper_results()[name][task], strict=True)) for metric, name in names.items()}


def _spec(name: str, level: str, **more: Any) -> TaskSpec:
    return TaskSpec(
        name=name,
        make=functools.partial(Later("polychromic.envs.grid.world:make"), level),
        file_name=level,
        options=OPTIONS,
        settings=functools.partial(grid_settings, name),
        demonstrate=Later("polychromic.tasks.grids.pretrain:demonstrate"),
        pretrain=Later("polychromic.tasks.grids.pretrain:make_base_policy"),
        **more,
    )


def _level(name: str) -> TaskSpec | None:
    """Any other level of minigrid, or one of our base policies that see or remember more."""
    if name in VARIANTS:
        return _spec(name, TASKS[VARIANTS[name]])
    return _spec(name, name) if name in registered_levels() else None


_ABOUT = {
    "fourrooms": "find the goal in one of four rooms",
    "goto": "go to an object, through nine rooms",
    "pickup": "pick up an object, through nine rooms",
    "synthseq": "sequences of missions, with locked doors",
    "bosslevel": "everything that BabyAI can ask for",
}
_TITLES = {
    "fourrooms": "FourRooms",
    "goto": "GoTo",
    "pickup": "Pickup",
    "synthseq": "SynthSeq",
    "bosslevel": "BossLevel",
}
for _name, _id in TASKS.items():
    register(
        _spec(
            _name,
            _id,
            about=_ABOUT[_name],
            title=_TITLES[_name],
            base_policy=_name,
            paper=_paper(_name),
            metrics=(_EXACT,) if _name == "fourrooms" else (),
        )
    )
register_family(_level, registered_levels)

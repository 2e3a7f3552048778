"""What is a task? A maker of worlds and all that goes with it, under a name that every command takes.

The tasks of this package register themselves in `polychromic.tasks`. Yours can too, in three ways:

- `polychromic.register(TaskSpec(...))` in a program;
- the entry point group `polychromic.tasks` of an installed package, each entry a `TaskSpec`;
- `package.module:name` of a `TaskSpec`, wherever a command or function takes the name of a task.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from polychromic.envs.protocol import World
from polychromic.errors import UserError, missing
from polychromic.trust import import_named

ENTRY_POINTS = "polychromic.tasks"


class Metric(NamedTuple):
    """Something that evaluations of a task measure beyond success, reward, pass@k and strategies."""

    name: str
    """Its key in the `result` of an evaluation."""
    measure: Callable[..., dict[str, Any] | None]
    """(world, evaluator, attempts, temperature) -> JSON, or None where it does not apply."""
    sentence: Callable[[Mapping[str, Any]], str]
    """What it says, in a line for people."""


class Section(NamedTuple):
    """What a report shows of a task beyond what all tasks have."""

    metric: str
    """The metric that it shows."""
    pool: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]]
    """Values of the metric, one of each run -> what the page draws of all of them, as JSON."""
    table: Callable[[Sequence[tuple[str, str, Mapping[str, Any]]]], Any]
    """(task, method, pooled values) of every method -> a table."""
    check: Callable[[Any, int, str], None]
    """(value of the metric from a file, number of configurations, beginning of a message): refuse what is damaged."""
    script: tuple[str, str]
    """Package and file of JavaScript that sets `taskSections[metric]`: functions from a comparison to elements, `good`
    and `diverse` for the sections of these names, and `hero` for the picture that a page opens with."""
    words: Mapping[str, str] = MappingProxyType({})
    """What the headline calls things here: `attempts`, `finds` and `solves` (verbs), `successes` (what is found,
    plural), `success` (what an attempt is then)."""


class Viewer(NamedTuple):
    """How a report shows episodes of a task whose world has no `scenery` of its own."""

    name: str
    """The viewer of the page that draws them, `viewers[name]`."""
    replay: Callable[..., list[dict[str, Any]]]
    """(world, configurations, actions [K, H], lengths) -> what the viewer needs of each episode, as JSON."""
    backdrop: Callable[[int], dict[str, Any]]
    """Level seed of a configuration -> what is drawn behind all its episodes, as JSON."""
    script: tuple[str, str]
    """Package and file of JavaScript that sets `viewers[name]`."""
    most: int
    """How many distinct strategies to keep of a configuration."""


@dataclass(frozen=True)
class TaskSpec:
    """A task: how its worlds are made, and what is good for it."""

    name: str
    """What commands call it."""
    make: Callable[..., World]
    """`make(seeds=…, **options)` gives a world with a configuration for each seed."""
    about: str = ""
    """A line for people."""
    title: str = ""
    """What headlines call it; empty: its name."""
    file_name: str = ""
    """What files call it; empty: its name."""
    options: tuple[str, ...] = ()
    """Which options `make` takes beside seeds, `--option NAME=VALUE` of commands; runs record those they were given."""
    base_policy: str = ""
    """The policy that fine-tuning begins with: the name of a shipped one, or a file."""
    settings: Mapping[str, Any] | Callable[[str, str, Mapping[str, Any]], Mapping[str, Any]] = field(
        default_factory=dict
    )
    """Settings of fine-tuning that are good here, or a function of (method, preset, the user's changes) to them."""
    attempts: int = 160
    """Attempts at each configuration in an evaluation."""
    metrics: tuple[Metric, ...] = ()
    """What evaluations measure here beyond what they measure everywhere."""
    section: Section | None = None
    """What reports show here beyond what they show everywhere."""
    viewer: Viewer | None = None
    """How reports show episodes; None: as the `scenery` of the world says, or as text."""
    demonstrate: Callable[..., str] | None = None
    """`demonstrate(task, out=…, **options)` records an expert's episodes into a file, and says so in a line."""
    pretrain: Callable[..., str] | None = None
    """`pretrain(task, out=…, command=…, **options)` writes OUT/TASK/policy.safetensors, and says so in a line."""
    paper: Mapping[str, Any] = field(default_factory=dict)
    """The paper's numbers for this task: `reward_success` and `perturbed`, by method."""

    @property
    def recorded_name(self) -> str:
        """What files call it."""
        return self.file_name or self.name

    def settings_for(self, method: str, preset: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """What is good here for a method under a preset, where a user has made these changes."""
        return dict(self.settings(method, preset, changes) if callable(self.settings) else self.settings)


Family = Callable[[str], TaskSpec | None]

_specs: dict[str, TaskSpec] = {}
_families: list[Family] = []
_further_names: list[Callable[[], Iterable[str]]] = []  # of families
_broken: dict[str, str] = {}  # what is wrong with entry points, by the names of their tasks


def register(spec: TaskSpec) -> TaskSpec:
    """Make a task known by its name, and by the name that files call it."""
    _load()
    for name in (spec.name, spec.recorded_name):
        known = _specs.get(name)
        if known is not None and known is not spec:
            raise UserError(f"task '{name}' is registered already; give another name")
    _specs[spec.name] = _specs[spec.recorded_name] = spec
    return spec


def register_family(family: Family, names: Callable[[], Iterable[str]] = tuple) -> None:
    """Make tasks known that are too many to list: `family(name)` gives a spec, or None for a name it does not know.

    names: those it knows, for hints.
    """
    _families.append(family)
    _further_names.append(names)


def find_spec(name: str) -> TaskSpec | None:
    """The task of a name, or None if there is none."""
    if not isinstance(name, str):
        raise UserError(f"task: expected a name, such as 'goto', got {name!r}")
    _load()
    if name in _specs:
        return _specs[name]
    if ":" in name:
        return _imported(name)
    return next((spec for family in _families if (spec := family(name)) is not None), None)


def spec_of(name: str) -> TaskSpec:
    """The task of a name; an unknown one is refused with the nearest known one."""
    spec = find_spec(name)
    if spec is None:
        if name in _broken:
            raise UserError(_broken[name])
        names = task_names()
        further = [one for known in _further_names for one in known()] if "-" in name else []
        known_as = {one.lower(): one for one in (*further, *names)}
        near = difflib.get_close_matches(name.lower(), known_as, n=1)
        hint = (
            f"did you mean '{known_as[near[0]]}'?"
            if near
            else f"choose from {', '.join(names)}, or package.module:name."
        )
        raise UserError(f"task: there is no task '{name}'; {hint}")
    return spec


def task_names() -> list[str]:
    """The names of all registered tasks, in the order in which they were registered."""
    _load()
    return list(dict.fromkeys(spec.name for spec in _specs.values()))


def short_name(name: str) -> str:
    """`goto` for what files call BabyAI-GoTo-v0; a name that is not known stays as it is."""
    _load()
    return _specs[name].name if name in _specs else name


def make(task: str, *, seeds: Iterable[int] | None = None, **options: Any) -> World:
    """The world of a task, by name.

    Args:
        task: `fourrooms`, `goto`, `pickup`, `synthseq`, `bosslevel`, `triangle`, a minigrid id, or a task of yours.
        seeds: what its configurations are made from; not given: what the task has by itself.
        options: of grid tasks horizon, time_penalty, reward, observation, mission_length, as
            `polychromic.envs.grid.world.make` takes them; others have their own.
    """
    spec = spec_of(task)
    for name in options:
        if name not in spec.options:
            has = f"it has {', '.join(spec.options)}" if spec.options else "it has no options"
            raise UserError(f"{name} is {options[name]!r}, which {spec.name} does not know; {has}")
    given = options if seeds is None else {"seeds": seeds, **options}
    world = spec.make(**given)
    if not isinstance(world, World):
        raise UserError(f"task '{spec.name}' makes a {type(world).__name__}; it must make a polychromic.World")
    world.task = spec.recorded_name
    world.spec = spec
    world.options = options
    return world


def world_for(task: str, seeds: Sequence[int], **options: Any) -> World:
    """The world of a recorded task. Options that are None or empty are left to the task; one it has not is refused."""
    given = {name: value for name, value in options.items() if value is not None and value != ""}
    return make(task, seeds=seeds, **given)


def recorded_options(task: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a world was made with, from its recorded description."""
    known = {**described.get("options", {}), **described}
    return {name: known[name] for name in spec_of(task).options if name in known}


class Later:
    """`package.module:function`, imported when it is first called, so that registering a task costs nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        module, _, function = self._name.partition(":")
        try:
            found: Callable[..., Any] = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            raise missing(f"{module}.{function}", error, "rl") from error
        return found

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the function."""
        return self.function(*args, **options)


_loading = False


def _load() -> None:
    """The tasks of this package and those of installed ones, once."""
    global _loading
    if _loading:
        return
    _loading = True
    importlib.import_module("polychromic.tasks")
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            register(_checked(entry.value, entry.load()))
        except Exception as error:  # one broken package must not stop every command
            _broken[entry.name] = f"task '{entry.name}' of {entry.value} cannot be used: {error}"


@functools.cache
def _imported(name: str) -> TaskSpec:
    # Files record the whole name, so that whoever reads them finds the task again.
    return replace(_checked(name, import_named("task", name)), name=name, file_name=name)


def _checked(name: str, spec: Any) -> TaskSpec:
    if not isinstance(spec, TaskSpec):
        raise UserError(f"task is '{name}', which is a {type(spec).__name__}; it must be a polychromic.TaskSpec")
    return spec

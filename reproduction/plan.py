"""The parts of a plan, and how it expands into cells. The plans themselves are in `plans`.

Lengths are iterations with one configuration each. With 8 configurations per iteration there are an eighth as many, so
all runs of one length have the same number of trajectories.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

from polychromic.errors import UserError
from polychromic.finetuning.config import PRESETS, make_config
from polychromic.sweep.cells import PRETRAINED, Cell, Evaluation

Settings = Mapping[str, Any]
Scored = Literal["in full", "greedily too", "briefly"]
# pair: those of the main pair; further: theirs beyond "all"; more: as many as the pair's, beyond them; apart: the one
# of searches, which no comparison uses.
Seeds = Literal["all", "pair", "further", "more", "two", "apart"]
APART = 100
# Settings that do not affect learning, only what is recorded.
WATCHING = ("evaluate_every", "evaluation_rollouts", "checkpoint_every", "kept_policies")
# Plans pin what used to be the default. Results from before it changed do not name it.
ONCE_DEFAULT = {"set_credit": "window", "polychromic_schedule": "constant"}
MUST_BE_CHOSEN = ("ppo", "poly-ppo")
CHECKPOINTS = 40  # per run: the averaged policies come from its last tenth


@dataclass(frozen=True)
class Task:
    """A task: its name on pages, the lengths of its runs by name, and where its settings come from."""

    title: str
    lengths: Mapping[str, int]  # runs of any other length are not planned
    settings_of: str = ""  # the task whose chosen settings it takes where it has no search of its own
    bases: tuple[str, ...] = ()  # further base policies, presets of `polychromic pretrain`


@dataclass(frozen=True)
class Runs:
    """Rows of a table: methods × seeds with one kind of settings. `expand` makes cells of them."""

    part: str  # of the plan, as `--only` names it
    methods: tuple[str, ...]
    length: str  # by name; tasks without it have none of these runs
    label: str = "{method}"  # of a row; may name {method}, {base}, {configurations} and {times}
    settings: Literal["chosen", "literal", "other configurations", "none"] = "chosen"
    changes: Settings = field(default_factory=dict)
    settings_of: str = ""  # the method whose chosen settings these take; "": their own
    rate: float = 1.0  # times the learning rates of actor and critic
    bonus: float | None = None  # λ_UCB as a multiple of the search's; None: the one that was found for the task
    as_searched: bool = False  # with all settings of the search on tasks that it did not have too
    seeds: Seeds = "all"
    points: float = 1.0  # of the learning curve, times the scale's number
    scored: Scored = "in full"
    along: int = 0  # policies before the end, evenly spaced, that are scored in full and from perturbed starts
    temperatures: tuple[float, ...] = ()  # scored only at these
    times_of: str = ""  # the length that {times} is a multiple of
    against: str = ""  # label of the row it is compared with; "": the reference of its method
    other_bases: bool = False  # from the further base policies of a task, not from the shipped one
    on_request: bool = False  # run only if `--only` names its part
    finalist: bool = False  # run only if the screening chose its label


@dataclass(frozen=True)
class Plan:
    """A question, as rows of runs."""

    name: str  # python -m reproduction NAME
    about: str
    length: str  # tasks with a length of this name are part of it
    runs: tuple[Runs, ...]
    readings: Mapping[str, Settings] = field(default_factory=dict)  # pinned settings, by prefix of the method's name
    results: str = "runs"  # the results file, without .json

    @property
    def has_finalists(self) -> bool:
        """Whether it needs the outcome of the screening."""
        return any(runs.finalist for runs in self.runs)

    @property
    def needs_rates(self) -> bool:
        """Whether tasks without their own search need learning rates first."""
        trained = [runs for runs in self.runs if runs.methods != (PRETRAINED,)]
        return any(runs.settings == "chosen" and not runs.as_searched for runs in trained)

    @property
    def needs_bonuses(self) -> bool:
        """Whether tasks without their own search need a λ_UCB first."""
        return any(
            runs.settings == "chosen" and runs.bonus is None and any(method.endswith("-ucb") for method in runs.methods)
            for runs in self.runs
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """All of its parts."""
        return tuple(dict.fromkeys(runs.part for runs in self.runs))

    def parts_on(self, task: Task) -> tuple[str, ...]:
        """The parts that a task has."""
        return tuple(dict.fromkeys(runs.part for runs in self.runs if runs.length in task.lengths))

    def tasks(self, scale: Scale) -> tuple[str, ...]:
        """The tasks that are part of it."""
        return tuple(name for name, task in scale.tasks.items() if self.length in task.lengths)


@dataclass(frozen=True)
class Scale:
    """How long runs are, how many there are, and how closely they are evaluated."""

    tasks: Mapping[str, Task]
    seeds: int
    pair_seeds: int  # of PPO and Poly-PPO in the main comparisons, the baseline of everything else
    attempts: int  # at each configuration, for every averaged policy
    rollouts: int  # at each configuration, for points of learning curves
    points: int  # of a learning curve, as a rule
    perturbed: bool = True
    kept: int = 4  # policies before the last that are averaged with it
    settings: Settings = field(default_factory=dict)  # for all runs

    def seeds_of(self, which: Seeds) -> range:
        """The seeds of some runs."""
        most = max(self.seeds, self.pair_seeds)
        known: dict[Seeds, range] = {
            "all": range(self.seeds),
            "pair": range(most),
            "further": range(self.seeds, most),
            "more": range(most, 2 * most),
            "two": range(min(2, self.seeds)),
            "apart": range(APART, APART + 1),
        }
        return known[which]


@dataclass(frozen=True)
class Chosen:
    """What the search chose: settings by task and method, and the best for each number of configurations."""

    settings: Mapping[str, Mapping[str, Settings]]
    by_configurations: Mapping[str, Mapping[str, Mapping[str, Settings]]] = field(default_factory=dict)
    tasks: Mapping[str, Task] = field(default_factory=dict)
    finalists: tuple[str, ...] = ()  # labels that the screening chose; none before it is finished
    own_settings: Mapping[str, Mapping[str, Settings]] = field(default_factory=dict)  # found where there was no search

    def of_task(self, task: str, *, as_searched: bool = False) -> dict[str, Settings]:
        """Settings by method; a task without its own search uses those of the task that it names.

        as_searched: without what was found for such a task.
        """
        like = self.tasks[task].settings_of if task in self.tasks else ""
        searched = {**self.settings.get(like, {}), **self.settings.get(task, {})}
        return searched if as_searched else {**searched, **self.own_settings.get(task, {})}

    def of(self, task: str, method: str, *, as_searched: bool = False) -> dict[str, Any]:
        """Settings of a method on a task, or an error that says what to do."""
        try:
            return dict(self.of_task(task, as_searched=as_searched)[method])
        except KeyError:
            raise UserError(
                f"no settings are chosen for {method} on {task} yet; "
                "run `python -m reproduction search` to its end first, or give the tasks it has finished with --tasks"
            ) from None

    def with_other_configurations(self, task: str, method: str) -> dict[str, Any]:
        """1 configuration per iteration if 8 were chosen, else 8, with the best known settings for that number."""
        own = self.of(task, method)
        other = 1 if own.get("configurations_per_iteration", 1) != 1 else 8
        best = self.by_configurations.get(task, {}).get(method, {}).get(str(other))
        return dict(best) if best else {**own, "configurations_per_iteration": other}


@dataclass(frozen=True)
class Planned:
    """A cell and the row that it belongs to."""

    part: str
    label: str
    cell: Cell
    against: str = ""
    temperatures: tuple[float, ...] = ()

    @property
    def line(self) -> str:
        """The key shared by runs that differ only in their seed."""
        return key_of(self.cell, seed=False)


def identity(cell: Cell) -> dict[str, Any]:
    """The identity of a result. A base policy is identified by its name, wherever its file is."""
    unsaid = (*WATCHING, *(name for name, value in ONCE_DEFAULT.items() if cell.settings.get(name) == value))
    settings = {name: value for name, value in cell.settings.items() if name not in unsaid}
    return {
        "task": cell.task,
        "method": cell.method,
        "base": base_name(cell.policy),
        "settings": dict(sorted(settings.items())),
        "seed": cell.seed,
    }


def key_of(about: Cell | Mapping[str, Any], *, seed: bool = True) -> str:
    """A short key for the identity of a cell or a result, with or without its seed."""
    values = identity(about) if isinstance(about, Cell) else about
    names = ("task", "method", "base", "settings", *(["seed"] if seed else []))
    text = json.dumps({name: values[name] for name in names}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def base_name(policy: str) -> str:
    """The preset of a base policy that `polychromic pretrain` wrote; empty for the shipped one."""
    return Path(policy).parent.name if policy else ""


def expand(
    plan: Plan,
    scale: Scale,
    chosen: Chosen,
    tasks: Sequence[str] = (),
    only: Sequence[str] = (),
    bases: Mapping[str, str] | None = None,
) -> list[Planned]:
    """The cells of a plan, rows in their order, all of the first seed first.

    tasks, only: the tasks and parts to run; empty: all that are not on request. bases: files of further base policies
    by name; rows from other base policies are skipped.

    Methods whose search is not finished are skipped, but PPO and Poly-PPO must be finished.
    """
    wanted = [runs for runs in plan.runs if (runs.part in only if only else not runs.on_request)]
    planned: list[Planned] = []
    for runs in wanted:
        own = [task for task in tasks or plan.tasks(scale) if runs.length in scale.tasks[task].lengths]
        seeds = range(1) if runs.methods == (PRETRAINED,) else scale.seeds_of(runs.seeds)
        for seed, task, method in product(seeds, own, runs.methods):
            for policy in _policies(runs, scale.tasks[task], bases or {}):
                planned += _planned(plan, runs, scale, chosen, task, method, seed, policy)
    return planned


def _policies(runs: Runs, task: Task, bases: Mapping[str, str]) -> list[str]:
    return [bases[name] for name in task.bases if name in bases] if runs.other_bases else [""]


def _planned(
    plan: Plan, runs: Runs, scale: Scale, chosen: Chosen, task: str, method: str, seed: int, policy: str
) -> Iterator[Planned]:
    settings: dict[str, Any] = {}
    if method != PRETRAINED:
        if runs.settings == "chosen" and method not in chosen.of_task(task) and method not in MUST_BE_CHOSEN:
            return
        settings = {**_settings(plan, runs, chosen, task, method), **runs.changes}
        settings = with_rate(settings, runs.rate)
        if runs.bonus is not None:
            settings["ucb"] = scaled(chosen.of(task, method, as_searched=True)["ucb"], runs.bonus)
    lengths = scale.tasks[task].lengths
    label = runs.label.format(
        method=method,
        base=base_name(policy),
        configurations=settings.get("configurations_per_iteration", 1),
        times=f"{lengths[runs.length] / lengths[runs.times_of]:g}" if runs.times_of else "",
    )
    if runs.finalist and label not in chosen.finalists:
        return
    cell = make_cell(
        task,
        method,
        seed,
        settings,
        lengths[runs.length],
        scale,
        readings=plan.readings,
        points=max(1, round(runs.points * scale.points)),
        scored="briefly" if runs.temperatures else runs.scored,
        policy=policy,
        along=runs.along,
    )
    yield Planned(runs.part, label, cell, runs.against.format(method=method), runs.temperatures)


def _settings(plan: Plan, runs: Runs, chosen: Chosen, task: str, method: str) -> dict[str, Any]:
    if runs.settings == "literal":
        return literal_settings(method, task, plan.readings)
    if runs.settings == "other configurations":
        return chosen.with_other_configurations(task, method)
    if runs.settings == "none":
        return {}
    return chosen.of(task, runs.settings_of or method, as_searched=runs.as_searched)


def make_cell(
    task: str,
    method: str,
    seed: int,
    settings: Settings,
    length: int,
    scale: Scale,
    *,
    readings: Mapping[str, Settings] | None = None,
    points: int = 0,
    scored: Scored = "in full",
    policy: str = "",
    along: int = 0,
) -> Cell:
    """A run of a given length, for any number of configurations per iteration, with evenly spaced evaluations.

    points: of its learning curve; 0: the scale's number. scored: in full, greedily too, or briefly, that is only by
    its learning curve. The pretrained policy is also scored at its best temperature. along: policies on the way that
    are scored too, instead of late ones to average.
    """
    brief, greedy = scored == "briefly", scored == "greedily too" or method == PRETRAINED
    full = Evaluation(
        scale.attempts, perturbed=scale.perturbed, recordings=False, greedy=greedy, along_the_way=along > 0
    )
    evaluation = Evaluation(0) if brief else full
    if method == PRETRAINED:
        return Cell(task, PRETRAINED, 0, policy=policy, evaluation=evaluation)
    own = {**_pinned(readings or {}, method), **scale.settings, **settings}
    iterations = max(1, length // own.get("configurations_per_iteration", 1))
    watched = {
        "evaluate_every": max(1, iterations // (points or scale.points)),
        "evaluation_rollouts": scale.rollouts,
        "checkpoint_every": max(1, iterations // (along + 1 if along else CHECKPOINTS)),
        "kept_policies": along or (0 if brief else scale.kept),
    }
    return Cell(task, method, seed, {**watched, **own, "iterations": iterations}, policy=policy, evaluation=evaluation)


def with_rate(settings: Settings, factor: float) -> dict[str, Any]:
    """Settings with the learning rates of actor and critic multiplied."""
    if factor == 1:
        return dict(settings)
    rates = ("actor_learning_rate", "critic_learning_rate")
    return {name: scaled(value, factor) if name in rates else value for name, value in settings.items()}


def scaled(value: float, factor: float) -> float:
    """A setting times a factor, without rounding noise."""
    return float(f"{value * factor:.6g}")


def literal_settings(method: str, task: str, readings: Mapping[str, Settings]) -> dict[str, Any]:
    """The paper's table of hyperparameters and its pseudocode, taken literally, with the pinned readings."""
    literal = asdict(make_config(method, task, preset="paper"))
    names = [*PRESETS["paper"], *_pinned(readings, method), "kl_coefficient"]
    names += ["set_former", "diversity"] if method.startswith("poly") else []
    return {name: literal[name] for name in dict.fromkeys(names)}


def _pinned(readings: Mapping[str, Settings], method: str) -> dict[str, Any]:
    own = [pinned for start, pinned in readings.items() if method.startswith(start)]
    return {name: value for pinned in own for name, value in pinned.items()}

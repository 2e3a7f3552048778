"""Which cells answer which question: the first comparison, and the study of what decides it. `search` is next door.

Lengths are iterations with one configuration each. With 8 configurations an iteration there are an eighth of them, so
that all runs of the comparison have the same number of trajectories, and all changes of the study.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.finetuning.config import PRESETS, make_config
from polychromic.sweep.cells import PRETRAINED, Cell, Evaluation

TASKS = ("goto", "fourrooms")
PLAIN = ("ppo", "poly-ppo", "reinforce")
UCB = tuple(f"{method}-ucb" for method in PLAIN)
POLY = "poly-ppo"
CHOSEN, PAPER = "chosen", "paper"
# Settings that are not about what is learned, but about what is seen of it.
WATCHING = ("evaluate_every", "evaluation_rollouts", "checkpoint_every", "kept_policies")
KEPT = 4  # policies before the last one that are averaged with it
CHECKPOINTS = 40  # of a run: the policies that are averaged come from its last tenth

# Readings are pinned, so that results keep their meaning when defaults change.
READINGS: dict[str, Any] = {"normalise": "joint"}
SET_READINGS: dict[str, Any] = {
    "set_size": 4,
    "num_sets": 4,
    "credit": "sum",
    "window": 5,
    "initial_states_form_groups": True,
    "objective": "polychromic",
    "fork_rule": "spaced",
    "forks_per_rollout": 2,
}

SET_ADVANTAGES = "set advantages"
NO_FORKS: dict[str, Any] = {"fork_rule": "none", "forks_per_rollout": 0, "num_sets": 0}
# The study: one change at a time to Poly-PPO with the settings that the search chose.
FACTORS: dict[str, dict[str, dict[str, Any]]] = {
    # What is left without any set: GAE at all steps, on the same seeds and forks.
    SET_ADVANTAGES: {"none: PPO on vines": {"polychromic": False}},
    "diversity": {"mean return alone": {"objective": "mean-return"}},
    "normalisation": {"each kind apart": {"normalise": "per-kind"}},
    "sets": {"all subsets": {"num_sets": 0}},
    "window": {"W = 0": {"window": 0}, "to the end": {"window": -1}},
    "initial state": {"no rollout state": {"initial_states_form_groups": False}},
    "forks": {
        "most uncertain": {"fork_rule": "most-uncertain"},
        "worst predicted": {"fork_rule": "worst-predicted"},
        "none, all subsets": NO_FORKS,
    },
    # One group of all rollouts, where the closed form makes large sets affordable.
    "set size": {
        "n = 32, no forks": {**NO_FORKS, "set_size": 32},
        "n = 32, no forks, to the end": {**NO_FORKS, "set_size": 32, "window": -1},
    },
}
# What differs from the reference in more than one thing is compared with what it differs from in one.
COMPARED_WITH = {
    "none, all subsets": "all subsets",
    "n = 32, no forks": "none, all subsets",
    "n = 32, no forks, to the end": "n = 32, no forks",
}
WITHOUT_VINES = [
    label for levels in FACTORS.values() for label, own in levels.items() if own.get("forks_per_rollout") == 0
]
CONFIGURATIONS, LENGTH, OBSERVATION, REFERENCE = "configurations", "length", "observation", "reference"
RATE, HIGH_RATE = "learning rate", {"actor_learning_rate": 3e-4, "critic_learning_rate": 3e-3}
AS_COMPARED = "as in the comparison"
PARTS = {
    "first": (CHOSEN, PAPER),
    "study": (REFERENCE, CONFIGURATIONS, LENGTH, RATE, *FACTORS, OBSERVATION),
}
# Base policies that see or remember more; `polychromic pretrain` makes them, and none of them is shipped. `goto-full`
# is not among them: it learned no more from demonstrations than how often each action occurs (docs/pretraining.md).
OTHER_BASES = {"goto": ("goto-memory",), "fourrooms": ("fourrooms-full",)}


@dataclass(frozen=True)
class Size:
    """How long runs are and how closely they are looked at."""

    search: Mapping[str, int]  # iterations by task
    length: Mapping[str, int]  # of the comparison
    study: Mapping[str, int]
    long: Mapping[str, int]
    seeds: int
    attempts: int  # at each configuration, of every policy that is averaged
    rollouts: int  # at each configuration, of the points of learning curves
    points: int  # of a learning curve
    study_points: int  # of a change of the study, which draws none
    search_points: int
    search_rollouts: int
    perturbed: bool = True
    more_seeds: Mapping[str, int] = field(default_factory=dict)  # of PPO and Poly-PPO at full length, by task
    kept: int = KEPT
    settings: Mapping[str, Any] | None = None  # for all runs

    def pair_seeds(self, task: str) -> int:
        """Of PPO and Poly-PPO at full length, which everything else is compared with."""
        return max(self.seeds, self.more_seeds.get(task, 0))


FULL = Size(
    search={"goto": 192, "fourrooms": 384},
    length={"goto": 480, "fourrooms": 1280},
    study={"goto": 240, "fourrooms": 640},
    long={"goto": 480, "fourrooms": 5120},
    seeds=3,
    more_seeds={"goto": 5, "fourrooms": 5},
    attempts=160,
    rollouts=32,
    points=20,
    study_points=5,
    search_points=6,
    search_rollouts=32,
)
QUICK = Size(
    search=dict.fromkeys(TASKS, 16),
    length=dict.fromkeys(TASKS, 24),
    study=dict.fromkeys(TASKS, 24),
    long=dict.fromkeys(TASKS, 48),
    seeds=1,
    attempts=32,
    rollouts=8,
    points=4,
    study_points=4,
    search_points=2,
    search_rollouts=8,
    perturbed=False,
)


@dataclass(frozen=True)
class Planned:
    """A cell and where its figures belong."""

    part: str
    label: str
    cell: Cell
    against: str = ""  # the label of what it is compared with; "": the reference of its method

    @property
    def line(self) -> str:
        """What runs that differ in their seed alone have in common."""
        return key_of(self.cell, seed=False)


def identity(cell: Cell) -> dict[str, Any]:
    """What a result is about. Base policies go by name: where they lie is nobody's business."""
    settings = {name: value for name, value in cell.settings.items() if name not in WATCHING}
    return {
        "task": cell.task,
        "method": cell.method,
        "base": base_name(cell.policy),
        "settings": dict(sorted(settings.items())),
        "seed": cell.seed,
    }


def key_of(about: Cell | Mapping[str, Any], *, seed: bool = True) -> str:
    """A short name for an identity, with or without its seed; of a cell or of a result."""
    values = identity(about) if isinstance(about, Cell) else about
    names = ("task", "method", "base", "settings", *(["seed"] if seed else []))
    text = json.dumps({name: values[name] for name in names}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def base_name(policy: str) -> str:
    """Of a base policy that `polychromic pretrain` wrote, its preset; nothing for the shipped one."""
    return Path(policy).parent.name if policy else ""


def run_cell_of(
    task: str,
    method: str,
    seed: int,
    settings: Mapping[str, Any],
    length: int,
    size: Size,
    *,
    points: int = 0,
    search: bool = False,
    greedy: bool = False,
    policy: str = "",
) -> Cell:
    """A run of so many trajectories, whatever its configurations per iteration, with its evaluations spread evenly.

    points: of its learning curve, if not as many as those of the comparison have. greedy: also evaluated greedily.
    """
    readings = {**READINGS, **(SET_READINGS if method.startswith("poly") else {}), **(size.settings or {})}
    own = {**readings, **settings}
    iterations = max(1, length // own.get("configurations_per_iteration", 1))
    own |= {
        "iterations": iterations,
        "evaluate_every": max(1, iterations // (size.search_points if search else points or size.points)),
        "evaluation_rollouts": size.search_rollouts if search else size.rollouts,
        "checkpoint_every": max(1, iterations // CHECKPOINTS),
        "kept_policies": 0 if search else size.kept,
    }
    scored = Evaluation(size.attempts, perturbed=size.perturbed, recordings=False, greedy=greedy)
    return Cell(task, method, seed, own, policy=policy, evaluation=Evaluation(0) if search else scored)


def base_cell(task: str, size: Size, policy: str = "") -> Cell:
    """The pretrained policy, also at its best temperature."""
    return Cell(
        task,
        PRETRAINED,
        0,
        policy=policy,
        evaluation=Evaluation(size.attempts, perturbed=size.perturbed, recordings=False, greedy=True),
    )


def paper_settings(method: str, task: str) -> dict[str, Any]:
    """The paper's table of hyperparameters and its pseudocode, taken literally."""
    literal = asdict(make_config(method, task, preset="paper"))
    names = [*PRESETS["paper"], *READINGS, "kl_coefficient"]
    names += [*SET_READINGS, "set_former", "diversity"] if method.startswith("poly") else []
    return {name: literal[name] for name in dict.fromkeys(names)}


Chosen = Mapping[str, Mapping[str, Mapping[str, Any]]]  # settings by task and method


def settings_of(chosen: Chosen, task: str, method: str) -> dict[str, Any]:
    """What the search chose, or a line that says what to do."""
    try:
        return dict(chosen[task][method])
    except KeyError:
        raise UserError(
            f"no settings are chosen for {method} on {task} yet; "
            "run `polychromic reproduce search` to its end first, or give the tasks it has finished with --tasks"
        ) from None


def first_plan(
    chosen: Chosen, size: Size, tasks: Sequence[str] = TASKS, parts: Sequence[str] = PARTS["first"]
) -> list[Planned]:
    """Every method with the chosen settings, those without UCB first; then these with the paper's own.

    The paper gives no λ_UCB, so there is nothing literal about UCB. Methods whose search is not through yet are left
    out, but PPO and Poly-PPO must be there.
    """
    plan = [Planned(part, PRETRAINED, base_cell(task, size)) for part in parts for task in tasks]
    if CHOSEN in parts:
        for task, method in product(tasks, ("ppo", POLY)):
            settings_of(chosen, task, method)
        for methods in (PLAIN, UCB):
            for seed, task, method in product(range(size.seeds), tasks, methods):
                if method in chosen[task]:
                    plan.append(_compared(CHOSEN, task, method, seed, settings_of(chosen, task, method), size))
    if PAPER in parts:
        for methods in (("ppo", POLY), ("reinforce",)):
            for seed, task, method in product(range(size.seeds), tasks, methods):
                plan.append(_compared(PAPER, task, method, seed, paper_settings(method, task), size))
    if CHOSEN in parts:
        for task in tasks:
            for seed, method in product(range(size.seeds, size.pair_seeds(task)), ("ppo", POLY)):
                plan.append(_compared(CHOSEN, task, method, seed, settings_of(chosen, task, method), size))
    return plan


def _compared(part: str, task: str, method: str, seed: int, own: Mapping[str, Any], size: Size) -> Planned:
    return Planned(part, method, run_cell_of(task, method, seed, own, size.length[task], size, greedy=True))


def study_plan(
    chosen: Chosen,
    by_configurations: Mapping[str, Any],
    size: Size,
    tasks: Sequence[str] = TASKS,
    bases: Mapping[str, str] | None = None,
) -> list[Planned]:
    """The reference runs, then one change after the other, each with all seeds; other base policies come last.

    by_configurations: the best settings by task, method and configurations per iteration, as far as they are known.
    bases: files of other base policies by name; those that are missing are left out.
    """
    plan = [Planned(REFERENCE, PRETRAINED, base_cell(task, size)) for task in tasks]
    for part in (_references, functools.partial(_configurations_of, by_configurations), _lengths, _rates, _changes):
        for task in tasks:
            plan += part(chosen, size, task)
    for task in tasks:
        for base in OTHER_BASES.get(task, ()):
            if base in (bases or {}):
                plan += _from_base(chosen, size, task, base, (bases or {})[base])
    return plan


def _references(chosen: Chosen, size: Size, task: str) -> Iterator[Planned]:
    """PPO and Poly-PPO with the chosen settings: as long as the changes, and those of the comparison."""
    for method, seed in product((POLY, "ppo"), range(size.seeds)):
        own = settings_of(chosen, task, method)
        length, points = size.study[task], size.study_points
        short = run_cell_of(task, method, seed, own, length, size, points=points, greedy=True)
        yield Planned(REFERENCE, method, short)
    for seed, method in product(range(size.pair_seeds(task)), (POLY, "ppo")):
        own = settings_of(chosen, task, method)
        whole = run_cell_of(task, method, seed, own, size.length[task], size, greedy=True)
        yield Planned(REFERENCE, f"{method}, {AS_COMPARED}", whole)


def _configurations_of(best: Mapping[str, Any], chosen: Chosen, size: Size, task: str) -> Iterator[Planned]:
    """The other number of configurations an iteration, with the best settings that the search found for it.

    It was the largest lever of the search, so these runs are as long as those of the comparison, and as many.
    """
    for seed, method in product(range(size.pair_seeds(task)), (POLY, "ppo")):
        own = settings_of(chosen, task, method)
        other = 1 if own.get("configurations_per_iteration", 1) != 1 else 8
        flipped = {**own, "configurations_per_iteration": other}
        changed = best.get(task, {}).get(method, {}).get(str(other), flipped)
        cell = run_cell_of(task, method, seed, changed, size.length[task], size, greedy=True)
        yield Planned(CONFIGURATIONS, f"{method}, {other} an iteration", cell, f"{method}, {AS_COMPARED}")


def _lengths(chosen: Chosen, size: Size, task: str) -> Iterator[Planned]:
    for method, seed in product(("ppo", POLY), range(size.seeds)):
        own = settings_of(chosen, task, method)
        label = f"{method}, {size.long[task] / size.study[task]:g} times as long"
        yield Planned(LENGTH, label, run_cell_of(task, method, seed, own, size.long[task], size, greedy=True))


def _rates(chosen: Chosen, size: Size, task: str) -> Iterator[Planned]:
    """Pushed hard with one learning rate: if PPO loses what it could do before, does Poly-PPO keep it?

    Each keeps its KL coefficient, so a difference may come from that as well.
    """
    for method, seed in product(("ppo", POLY), range(size.seeds)):
        own = {**settings_of(chosen, task, method), **HIGH_RATE}
        cell = run_cell_of(task, method, seed, own, size.study[task], size, points=size.study_points)
        yield Planned(RATE, f"{method}, {HIGH_RATE['actor_learning_rate']:g}", cell)


def _changes(chosen: Chosen, size: Size, task: str) -> Iterator[Planned]:
    own = settings_of(chosen, task, POLY)
    for factor, levels in FACTORS.items():
        for (label, change), seed in product(levels.items(), range(size.seeds)):
            length, points = size.study[task], size.study_points
            cell = run_cell_of(task, POLY, seed, {**own, **change}, length, size, points=points)
            yield Planned(factor, label, cell, COMPARED_WITH.get(label, ""))


def _from_base(chosen: Chosen, size: Size, task: str, base: str, policy: str) -> Iterator[Planned]:
    yield Planned(OBSERVATION, f"{base}, pretrained", base_cell(task, size, policy))
    for seed, method in product(range(size.seeds), (POLY, "ppo")):
        own = settings_of(chosen, task, method)
        length, points = size.study[task], size.study_points
        cell = run_cell_of(task, method, seed, own, length, size, points=points, policy=policy)
        yield Planned(OBSERVATION, f"{base}, {method}", cell)

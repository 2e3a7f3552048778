"""What a fine-tuning run can be asked for. A method is a difference from another one; a preset, from the defaults."""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from polychromic.errors import UserError

Schedule = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True)
class Config:
    """Every choice of a run. Defaults are the paper's values, or this project's readings where it gives none."""

    method: str = "poly-ppo"
    """reinforce, ppo, poly-ppo, grpo or rloo, each also with -ucb; sets the defaults of the fields below."""
    iterations: int = 500
    """Iterations of collecting and updating."""
    seed: int = 0
    """Seed of everything random."""

    # ---- collecting
    budget: int = 136
    """B: most trajectories per configuration and iteration."""
    configurations_per_iteration: int = 1
    """Configurations played in an iteration, each with its own budget; a shuffled cycle visits all equally often."""
    rollouts_per_state: int = 8
    """N: seed rollouts of a configuration, and vines from each fork. 0: as many as the budget allows."""
    forks_per_rollout: int = 2
    """p: rollout states along each seed rollout; N + N²p must fit into the budget. 0: no vines."""
    fork_rule: str = "spaced"
    """Where seeds are forked: spaced, most-uncertain, worst-predicted, or your own package.module:function."""
    initial_states_form_groups: bool = True
    """Whether the seed rollouts of a configuration are a group of their own."""
    places_include_prefix: bool = False
    """Whether a vine's places count from the initial state on, and not from its fork."""
    temperature: float = 1.0
    """Sampling temperature of the behaviour policy."""

    # ---- set advantages
    polychromic: bool = True
    """Whether groups get polychromic advantages at all; without them poly-ppo is ppo on vines."""
    set_size: int = 4
    """n: trajectories in a set."""
    num_sets: int = 4
    """M: random sets per group. 0: all subsets, exactly (in closed form for the default objective and diversity)."""
    set_former: str = "random"
    """random, disjoint (a partition of the group), or your own package.module:function."""
    credit: Literal["sum", "mean", "last"] = "sum"
    """What a trajectory gets of the scores of its sets."""
    objective: str = "polychromic"
    """polychromic, mean-return, best-of (pass@n), or your own package.module:function of (returns, diversity)."""
    diversity: str = "distinct"
    """distinct (share of distinct sets of places), or your own package.module:function of labels."""
    window: int = 5
    """W: the polychromic advantage covers steps t … t + W of a trajectory; -1: all of its steps."""
    polychromic_weight: float = 1.0
    """1: the polychromic advantage replaces GAE in its window; between 0 and 1: a mixture."""
    polychromic_schedule: Schedule = "constant"
    """How the weight moves from its value to 0 over the run: constant (it stays), linear, cosine."""
    return_range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest return of the task; returns are mapped to [0, 1] with it for the set objective."""

    # ---- advantages
    advantage: Literal["gae", "return", "grpo", "rloo"] = "gae"
    """Of steps outside the windows: GAE; return minus value (REINFORCE); group-normalised or leave-one-out returns."""
    discount: float = 1.0
    """γ."""
    gae_lambda: float = 0.95
    """λ of GAE."""
    time_limit: Literal["terminal", "bootstrap"] = "terminal"
    """Whether the time limit ends the task (its reward is defined up to H) or cuts it short (bootstrap from V)."""
    value_target: Literal["gae", "monte-carlo"] = "gae"
    """What the critic learns: GAE + V, or the return."""
    normalise: Literal["joint", "per-kind", "minibatch", "none"] = "joint"
    """Advantages to mean 0, deviation 1: over the batch; GAE and polychromic steps apart; per minibatch; not at all."""
    ucb: float = 0.0
    """λ_UCB: adds λ · min(1, N(s, a)^(−1/2)) to every advantage, with counts kept over training."""

    # ---- update
    epochs: int = 2
    """K: passes over the data of an iteration."""
    minibatch_size: int = 64
    """Steps per gradient step."""
    actor_learning_rate: float = 1e-5
    """Of the policy."""
    critic_learning_rate: float = 1e-4
    """Of the value function."""
    clip: float = 0.2
    """ε of PPO's clipped ratio; 0: the plain policy gradient −log π · A."""
    value_coefficient: float = 0.5
    """c_v."""
    kl_coefficient: float = 0.01
    """β_KL of the exact per-state KL(π_β ‖ π_θ); the paper sweeps 0.005, 0.01, 0.05, 0.1."""
    kl_schedule: Schedule = "constant"
    """How the KL coefficient moves from its value to 0 over the run."""
    entropy_coefficient: float = 0.0
    """Bonus for the policy's entropy; 0 in the paper."""
    max_grad_norm: float = 0.5
    """Gradients of actor and critic are clipped to this norm, each on its own."""

    # ---- watching
    evaluate_every: int = 50
    """Iterations between evaluations on all configurations; the last one is always evaluated. 0: only the last."""
    evaluation_rollouts: int = 32
    """Rollouts per configuration in those evaluations."""
    checkpoint_every: int = 50
    """Iterations between checkpoints."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def group_size(self) -> int:
        """N, with 0 read as all that the budget allows."""
        return self.rollouts_per_state or largest_group(self.budget, self.forks_per_rollout)

    @property
    def trajectories(self) -> int:
        """Trajectories per configuration and iteration, N + N²p."""
        return self.group_size + self.group_size**2 * self.forks_per_rollout


# What each method changes. PPO has no vines and no sets; Poly-PPO is PPO plus vines plus set advantages.
_NO_SETS: dict[str, Any] = {"polychromic": False, "rollouts_per_state": 0, "forks_per_rollout": 0}
METHODS: dict[str, dict[str, Any]] = {
    "ppo": _NO_SETS,
    "poly-ppo": {},
    "reinforce": {**_NO_SETS, "advantage": "return", "clip": 0.0, "epochs": 1, "kl_coefficient": 0.0},
    "grpo": {**_NO_SETS, "advantage": "grpo", "normalise": "none"},
    "rloo": {**_NO_SETS, "advantage": "rloo", "normalise": "none"},
}
METHODS |= {f"{name}-ucb": {**changes, "ucb": 0.1} for name, changes in list(METHODS.items())}

# Presets: 'paper' is the literal reading everywhere; tasks differ in the window alone.
TASK_PRESETS: dict[str, dict[str, Any]] = {"triangle": {"window": 0}}


def make_config(method: str = "poly-ppo", task: str = "", **changes: Any) -> Config:
    """The configuration of a method on a task, with your changes.

    Args:
        method: one of `METHODS`.
        task: a task with a preset of its own, or anything else for the common one.
        changes: any field of `Config`.
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(METHODS)}"
        raise UserError(f"method is {method!r}; {hint}")
    known = {field.name for field in fields(Config)}
    for name in changes:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UserError(f"{name} is not a setting" + (f"; did you mean '{near[0]}'?" if near else ""))
    return Config(**{**METHODS[method], **TASK_PRESETS.get(task, {}), **changes, "method": method})


def from_dict(saved: Mapping[str, Any]) -> Config:
    """The configuration that `asdict` wrote."""
    values = dict(saved)
    values["return_range"] = tuple(values["return_range"])
    return Config(**values)


def largest_group(budget: int, forks: int) -> int:
    """The largest N with N + N²p ≤ B."""
    if forks == 0:
        return budget
    return int((math.isqrt(1 + 4 * forks * budget) - 1) // (2 * forks))


def scheduled(value: float, schedule: Schedule, progress: float) -> float:
    """`value` at `progress` (0 … 1) of the run."""
    if schedule == "linear":
        return value * (1.0 - progress)
    if schedule == "cosine":
        return value * 0.5 * (1.0 + math.cos(math.pi * progress))
    return value


def load_callable(field: str, name: str, known: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """A function by its short name, or a user's by `package.module:function`."""
    if name in known:
        return known[name]
    module, _, function = name.partition(":")
    if not function:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise UserError(f"{field} is {name!r}; {hint}choose one of {', '.join(known)}, or package.module:function")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"{field} is {name!r}, which cannot be imported: {error}") from error
    if not callable(found):
        raise UserError(f"{field} is {name!r}, which is not a function")
    return found  # type: ignore[no-any-return]


def _check(config: Config) -> None:
    """Refuse what cannot work before anything starts."""
    whole = ("iterations", "budget", "configurations_per_iteration", "set_size", "epochs", "minibatch_size")
    for name in (*whole, "evaluation_rollouts", "checkpoint_every"):
        if getattr(config, name) < 1:
            raise UserError(f"{name} is {getattr(config, name)}; it must be at least 1")
    for name in (
        "rollouts_per_state",
        "forks_per_rollout",
        "num_sets",
        "evaluate_every",
        "ucb",
        "clip",
        "kl_coefficient",
    ):
        if getattr(config, name) < 0:
            raise UserError(f"{name} is {getattr(config, name)}; it must be at least 0")
    for name in ("actor_learning_rate", "critic_learning_rate", "max_grad_norm", "temperature"):
        if not getattr(config, name) > 0:
            raise UserError(f"{name} is {getattr(config, name)}; it must be above 0")
    for name in ("discount", "gae_lambda", "polychromic_weight"):
        if not 0 <= getattr(config, name) <= 1:
            raise UserError(f"{name} is {getattr(config, name)}; it must lie between 0 and 1")
    if config.window < -1:
        raise UserError(f"window is {config.window}; it must be a number of steps from 0 on, or -1 for all")
    if not config.return_range[0] < config.return_range[1]:
        raise UserError(f"return_range is {config.return_range}; its lowest must be below its highest")
    size, forks = config.group_size, config.forks_per_rollout
    if config.trajectories > config.budget:
        fitting = (config.budget - size) // size**2 if size <= config.budget else 0
        raise UserError(
            f"budget is {config.budget}, but rollouts_per_state = {size} with forks_per_rollout = {forks} needs "
            f"N + N²p = {config.trajectories}; what fits is forks_per_rollout ≤ {fitting} or "
            f"rollouts_per_state ≤ {largest_group(config.budget, forks)}"
        )
    if size < 1:
        raise UserError(f"budget is {config.budget}, too small for a single rollout with {forks} forks")
    if config.polychromic:
        if config.set_size >= size:
            raise UserError(
                f"set_size is {config.set_size}, but a group has {size} rollouts; sets are compared with each other, "
                f"so set_size must be at most {size - 1}"
            )
        if forks == 0 and not config.initial_states_form_groups:
            raise UserError(
                "forks_per_rollout is 0 and initial_states_form_groups is False: no group is left for set advantages"
            )


__all__ = ["METHODS", "Config", "asdict", "from_dict", "load_callable", "make_config", "replace", "scheduled"]

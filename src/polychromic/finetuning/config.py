"""What a fine-tuning run can be asked for. A method is a difference from another one; a preset, from the defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from polychromic.envs.registry import find_spec
from polychromic.errors import UserError
from polychromic.finetuning.config_check import (
    NAMED_FUNCTIONS,
    check_ranges,
    check_together,
    checked_values,
    largest_group,
    nearest,
)
from polychromic.finetuning.functions import named_function
from polychromic.trust import is_name

Schedule = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True)
class Config:
    """Every choice of a run.

    Defaults are the paper's values, or this project's readings where it gives none. `make_config` puts those of the
    method in their place, and on the tasks of the paper the settings that a search found to be better.
    """

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
    rollouts_per_state: int = 0
    """N: trunks of a configuration, and vines from each fork. 0: as many as the budget allows, 136 without
    forks, 8 with two."""
    forks_per_rollout: int = 2
    """p: rollout states along each trunk; N + N²p must fit into the budget. 0: no vines."""
    fork_rule: str = "spaced"
    """Where trunks fork: spaced, most-uncertain, worst-predicted, or your own package.module:function."""
    initial_states_form_groups: bool = True
    """Whether the trunks of a configuration are a group of their own."""
    places_include_prefix: bool = False
    """Whether a vine's places count from the initial state on, and not from its fork."""
    temperature: float = 1.0
    """Sampling temperature of the behaviour policy."""

    # ---- set advantages
    polychromic: bool = True
    """Whether groups get polychromic advantages at all; without them poly-ppo is ppo, on vines if there are forks."""
    set_size: int = 4
    """n: trajectories in a set."""
    num_sets: int = 4
    """M: random sets per group. 0: all subsets, exactly (in closed form for the default objective and diversity);
    without a closed form 2,000 are drawn where there are more."""
    set_former: str = "random"
    """random, disjoint (a partition of the group), or your own package.module:function."""
    credit: Literal["sum", "mean", "last"] = "sum"
    """What a trajectory gets of the scores of its sets."""
    set_credit: Literal["window", "trajectory", "critic", "control-variate"] = "window"
    """Where it goes: to W + 1 steps (the paper); to all; to the last, as its only reward; to all, beside α · GAE."""
    control_variate: Literal["leave-one-out", "in-group"] = "leave-one-out"
    """Whether its slope and mean return come from the other members of the group (unbiased), or from all of them."""
    objective: str = "polychromic"
    """polychromic, mean-return, best-of (pass@n), or your own package.module:function of (returns, diversity)."""
    diversity: str = "distinct"
    """distinct (share of distinct sets of places), jaccard (of these sets), vendi or cosine (of the world's features),
    or your own package.module:function of labels, places or features."""
    window: int = 5
    """W: the polychromic advantage covers steps t … t + W of a trajectory; -1: all of its steps."""
    polychromic_weight: float = 1.0
    """1: set credit replaces GAE wherever it goes; between 0 and 1: a mixture; 0: GAE alone."""
    polychromic_schedule: Schedule = "constant"
    """How the weight moves from its value to 0 over the run: constant (it stays), linear, cosine."""
    return_range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest return of the task; returns are mapped to [0, 1] with it for the set objective."""
    return_map: str = "range"
    """How returns are mapped to [0, 1]: range (by return_range), clipped (the same, and what leaves it counts as its
    ends), or your own package.module:function of returns."""

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
    """λ_UCB: adds λ · min(1, N(s, a)^(−1/2)) to every advantage."""
    ucb_counts: Literal["training", "iteration"] = "training"
    """Whether N(s, a) runs over training (and is kept in checkpoints), or begins again in every iteration."""

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
    kept_policies: int = 0
    """Policies kept before the end, each of one of the last checkpoints, for averages over late training."""

    def __post_init__(self) -> None:
        for name, value in checked_values(self).items():
            object.__setattr__(self, name, value)  # a list read from a file becomes a tuple, a 1 for a float 1.0
        check_ranges(self, METHODS)
        check_together(self, METHODS)

    @property
    def group_size(self) -> int:
        """N, with 0 read as all that the budget allows."""
        return self.rollouts_per_state or largest_group(self.budget, self.forks_per_rollout)

    @property
    def trajectories(self) -> int:
        """Trajectories per configuration and iteration, N + N²p."""
        return self.group_size + self.group_size**2 * self.forks_per_rollout


# What each method changes. PPO has no vines and no sets; Poly-PPO is PPO plus set credit. The way that sets reach the
# steps is what docs/results-study.md found to keep more strategies at PPO's success; the paper's is a preset.
_NO_SETS: dict[str, Any] = {"polychromic": False, "rollouts_per_state": 0, "forks_per_rollout": 0}
METHODS: dict[str, dict[str, Any]] = {
    "ppo": _NO_SETS,
    "poly-ppo": {
        "forks_per_rollout": 0,
        "num_sets": 0,
        "set_credit": "control-variate",
        "polychromic_schedule": "linear",
    },
    "reinforce": {**_NO_SETS, "advantage": "return", "clip": 0.0, "epochs": 1, "kl_coefficient": 0.0},
    "grpo": {**_NO_SETS, "advantage": "grpo", "normalise": "none"},
    "rloo": {**_NO_SETS, "advantage": "rloo", "normalise": "none"},
}
METHODS |= {f"{name}-ucb": {**changes, "ucb": 0.1} for name, changes in list(METHODS.items())}

# Presets of readings. 'vines' has the paper's vines and window, with the settings of this project elsewhere. 'paper'
# takes the table of hyperparameters and the pseudocode literally, whatever the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "vines": {},
    "paper": {
        "budget": 136,
        "configurations_per_iteration": 1,
        "discount": 1.0,
        "gae_lambda": 0.95,
        "normalise": "joint",
        "minibatch_size": 64,
        "actor_learning_rate": 1e-5,
        "critic_learning_rate": 1e-4,
        "value_coefficient": 0.5,
        "max_grad_norm": 0.5,
        "temperature": 1.0,
        "time_limit": "terminal",
        "value_target": "gae",
    },
}
# The same for sets and vines, which the other methods do not have.
VINES: dict[str, Any] = {
    "forks_per_rollout": 2,
    "num_sets": 4,
    "set_credit": "window",
    "polychromic_schedule": "constant",
}
# Literally only vines are filed under rollout states, and each set overwrites the advantages of its members.
_OF_SETS: dict[str, dict[str, Any]] = {
    "default": {},
    "vines": VINES,
    "paper": {
        **VINES,
        "rollouts_per_state": 8,
        "fork_rule": "spaced",
        "set_size": 4,
        "set_former": "random",
        "objective": "polychromic",
        "diversity": "distinct",
        "polychromic_weight": 1.0,
        "initial_states_form_groups": False,
        "places_include_prefix": False,
        "credit": "last",
    },
}


def make_config(method: str = "poly-ppo", task: str = "", *, preset: str = "default", **changes: Any) -> Config:
    """The configuration of a method on a task, with your changes.

    Args:
        method: one of `METHODS`.
        task: a task whose own settings to take (`TaskSpec.settings`); anything else has none.
        preset: 'default' (on the paper's grid tasks the settings of a search), 'vines' for the paper's vines and
            window with such settings, or 'paper' for the paper's values whatever the defaults are.
        changes: any field of `Config`.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise UserError(f"method is {method!r}; {nearest(method, METHODS)}choose one of {', '.join(METHODS)}")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise UserError(f"preset is {preset!r}; {nearest(preset, PRESETS)}choose one of {', '.join(PRESETS)}")
    known = {field.name for field in fields(Config)}
    for name in changes:
        if name not in known:
            raise UserError(f"{name} is not a setting; {nearest(name, known)}".rstrip("; "))
    readings = {**PRESETS[preset], **METHODS[method], **(_OF_SETS[preset] if method.startswith("poly") else {})}
    if changes.get("polychromic") is False:
        readings["set_credit"] = Config.set_credit  # without sets there is no other
    spec = find_spec(task) if task else None
    good_here = spec.settings_for(method, preset, changes) if spec else {}
    for name in good_here:
        if name not in known:
            raise UserError(
                f"the settings of task '{task}' have {name}, which is not a setting; {nearest(name, known)}"
            )
    config = Config(**{**readings, **good_here, **changes, "method": method})
    if config.set_credit != "window" and changes.get("window", -1) != -1:
        raise UserError(
            f"window is {config.window}, but set_credit is {config.set_credit!r}, which has none: leave it out, "
            "or give set_credit = 'window'"
        )
    if config.fork_rule != Config.fork_rule and config.forks_per_rollout == 0:
        raise UserError(
            f"fork_rule is {config.fork_rule!r}, but forks_per_rollout is 0: there are no forks; "
            "give forks_per_rollout = 2, or leave it out"
        )
    return config


def in_unit_range(config: Config) -> Callable[..., Any]:
    """What maps the returns of a group to [0, 1]."""
    low, high = config.return_range
    known: dict[str, Callable[..., Any]] = {
        "range": lambda returns: (returns - low) / (high - low),
        "clipped": lambda returns: np.clip((returns - low) / (high - low), 0.0, 1.0),
    }
    return load_callable("return_map", config.return_map, known)


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
    if not is_name(name):
        hint = nearest(name, known)
        raise UserError(f"{field} is {name!r}; {hint}choose one of {', '.join(known)}, or package.module:function")
    return named_function(field, name)


__all__ = [
    "METHODS",
    "NAMED_FUNCTIONS",
    "PRESETS",
    "Config",
    "in_unit_range",
    "largest_group",
    "load_callable",
    "make_config",
    "scheduled",
]

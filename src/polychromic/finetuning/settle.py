"""What a run needs to know of its world before it begins: whether there can be vines, and what returns there are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from polychromic.core.returns import discounted_return
from polychromic.envs.protocol import World
from polychromic.errors import Notice
from polychromic.files import Float, read_json_or
from polychromic.finetuning.collect import FORK_RULES, collect
from polychromic.finetuning.config import Config, load_callable
from polychromic.policies.files import SavedPolicy
from polychromic.policies.inference import Evaluator

MOST_CONFIGURATIONS = 8  # that are played to estimate the range of returns
FAINT = 0.05  # a polychromic signal below this share of GAE's is worth a word

ESTIMATED = "clipped"  # how returns are mapped whose range is only estimated


class _BegunConfig(TypedDict):
    return_range: tuple[Float, Float]
    return_map: str


class _Begun(TypedDict):
    config: _BegunConfig


def settle(world: World, saved: SavedPolicy, config: Config, out: Path | str | None = None) -> Config:
    """The configuration of a run in this world: without vines where there are no forks, with a range of returns.

    Whatever is changed is said in a `Notice`. Settling what is settled changes nothing, and a run that is in the folder
    `out` keeps the range that was estimated when it began.
    """
    if not world.can_fork and config.forks_per_rollout == Config.forks_per_rollout:
        config = replace(config, forks_per_rollout=0)
        warnings.warn("this world cannot be forked: the run has no vines (forks_per_rollout = 0)", Notice, stacklevel=3)
    if not config.polychromic or config.return_map != "range" or config.return_range != Config.return_range:
        return config
    if world.return_range is not None:
        return replace(config, return_range=world.return_range)
    before = read_json_or(Path(out) / "config.json", _Begun, None) if out is not None else None
    if before and before["config"]["return_map"] == ESTIMATED:
        return replace(config, return_range=before["config"]["return_range"], return_map=ESTIMATED)
    low, high = seen_returns(world, saved, config)
    if low >= 0 and high <= 1:
        return config
    # Room above for what fine-tuning adds: as much again as the pretrained policy's returns span.
    estimated = (low, high + max(high - low, 1e-3 * max(abs(high), 1.0)))
    warnings.warn(
        f"return_range is not given, and the pretrained policy's returns span {low:.4g} to {high:.4g}: taking "
        f"({estimated[0]:.4g}, {estimated[1]:.4g}), and what leaves it counts as its ends; give the lowest and the "
        "highest return of the task if you know them",
        Notice,
        stacklevel=3,
    )
    return replace(config, return_range=estimated, return_map=ESTIMATED)


def seen_returns(world: World, saved: SavedPolicy, config: Config) -> tuple[float, float]:
    """The lowest and the highest return in one iteration's rollouts of the pretrained policy, vines included.

    They do not depend on the seed of the run: runs that differ in it alone must have the same range.
    """
    rng = np.random.default_rng(0)
    if world.has_noise:
        world.reseed(0)
    spread = np.linspace(0, world.num_configurations - 1, min(world.num_configurations, MOST_CONFIGURATIONS))
    rollouts = collect(
        Evaluator(saved.policy, saved.params, world.tables(), remember=world.observations_repeat),
        world,
        spread.astype(np.int64),
        rng,
        rollouts_per_state=config.group_size,
        forks_per_rollout=config.forks_per_rollout,
        fork_rule=load_callable("fork_rule", config.fork_rule, FORK_RULES),
        temperature=config.temperature,
        discount=config.discount,
    )
    steps = discounted_return(rollouts.rewards, rollouts.offsets, discount=config.discount)
    returns = steps[rollouts.offsets[:-1]]
    return float(f"{returns.min():.6g}"), float(f"{returns.max():.6g}")


def faint_signal(metrics: Sequence[Mapping[str, Any]], config: Config) -> str:
    """What to do if the set advantages of a run were too small to count beside GAE; empty if they were not."""
    ratios = [line["polychromic_to_gae"] for line in metrics if "polychromic_to_gae" in line]
    apart = config.normalise == "joint" and config.set_credit == "window"
    if not ratios or not apart or (share := sum(ratios) / len(ratios)) >= FAINT:
        return ""
    return (
        f"polychromic advantages were {share:.2%} of the size of GAE's: normalised together they hardly count; "
        "normalise = per-kind gives both the same weight (and return_range should be no wider than the task's returns)"
    )


def lonely_strategies(metrics: Sequence[Mapping[str, Any]], config: Config) -> str:
    """What to do if no two rollouts of a run were of one strategy, so that diversity said nothing; empty otherwise."""
    counted = config.polychromic and config.objective == "polychromic" and config.diversity == "distinct"
    if not counted or not metrics or min(line["distinct_per_group"] for line in metrics) < config.group_size:
        return ""
    return (
        "no two rollouts of a group visited the same places: each is a strategy of its own, and diversity says "
        "nothing; give a place= that names fewer places"
    )

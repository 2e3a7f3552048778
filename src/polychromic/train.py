"""The loop: collect, estimate, update, log. A run that was stopped goes on exactly where its last checkpoint was."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.advantages import VisitCounts, estimate
from polychromic.collect import FORK_RULES, collect
from polychromic.config import Config, load_callable, make_config, scheduled
from polychromic.core.metrics import coverage, pass_at_k
from polychromic.errors import UserError
from polychromic.evaluate.attempts import play_tasks
from polychromic.policies.files import PolicyInfo, SavedPolicy, save_policy
from polychromic.policies.inference import Evaluator
from polychromic.policies.tensors import parameters_hash
from polychromic.runs import Checkpoint, Run, read_lines
from polychromic.types import Rollouts
from polychromic.update import Coefficients, Learner, all_finite, init_learner, update

Watcher = Callable[[int, Mapping[str, Any]], None]


@dataclass(frozen=True)
class Result:
    """What a run ends in."""

    policy: SavedPolicy
    metrics: list[dict[str, Any]]  # a dict per iteration
    evaluations: list[dict[str, Any]]  # a dict per evaluation


def finetune(
    world: Any,
    saved: SavedPolicy,
    config: Config | None = None,
    *,
    out: Path | str | None = None,
    watch: Watcher | None = None,
    **settings: Any,
) -> Result:
    """Fine-tune a policy on all configurations of a world.

    Args:
        world: any forkable world.
        saved: the policy to start from (`polychromic.load_policy`).
        config: the run's choices; or give `method` and any of their fields as further arguments.
        out: a folder for the run. The same call goes on with an interrupted run; a complete one is only read.
        watch: called after every iteration with its number and figures.
    """
    if config is not None and settings:
        raise UserError(f"config is given, and {', '.join(settings)} too; change the configuration instead")
    config = config or make_config(**settings)
    if config.configurations_per_iteration > world.num_tasks:
        raise UserError(
            f"configurations_per_iteration is {config.configurations_per_iteration}, the world has {world.num_tasks}"
        )
    if config.polychromic and not getattr(world, "has_places", True):
        raise UserError("the world names no places, so all rollouts would count as alike; give from_gymnasium(place=…)")
    learner = init_learner(saved.params, config)
    if out is None:
        return _without_folder(world, saved, config, learner, watch)
    with Run(Path(out), _description(world, saved, config)) as run:
        checkpoint = run.resume(learner)
        learner, visits = checkpoint.learner, VisitCounts(checkpoint.visits)
        if not run.done:
            for iteration in range(checkpoint.iteration, config.iterations):
                started = time.perf_counter()
                learner, figures, evaluation = iterate(world, saved, learner, config, iteration, visits)
                if not all_finite(learner):
                    raise UserError(_diverged(run, config, iteration))
                run.log("metrics.jsonl", iteration, figures)
                if evaluation:
                    run.log("evaluations.jsonl", iteration + 1, evaluation)
                seconds = time.perf_counter() - started
                run.log("timing.jsonl", iteration, {"seconds": seconds, "steps_per_second": figures["steps"] / seconds})
                if watch:
                    watch(iteration, {**figures, **evaluation, "seconds": seconds})
                if (iteration + 1) % config.checkpoint_every == 0 or iteration + 1 == config.iterations:
                    run.save(Checkpoint(iteration + 1, learner, visits.counts))
        final = _result_policy(saved, learner, config)
        if not run.done:
            save_policy(run.folder / "policy.safetensors", final.policy, final.params, final.info)
        evaluations = read_lines(run.folder / "evaluations.jsonl")
        if not run.done:
            run.finish({"iterations": config.iterations, **evaluations[-1]})
        return Result(final, read_lines(run.folder / "metrics.jsonl"), evaluations)


def iterate(
    world: Any, saved: SavedPolicy, learner: Learner, config: Config, iteration: int, visits: VisitCounts
) -> tuple[Learner, dict[str, Any], dict[str, Any]]:
    """One iteration: the new learner, its figures, and an evaluation if one is due.

    All randomness comes from (seed, iteration), so an iteration can be repeated on its own.
    """
    rng = np.random.default_rng([config.seed, iteration])
    progress = iteration / config.iterations
    tasks = configurations_of(iteration, config, world.num_tasks)
    if hasattr(world, "reseed"):  # a world with noise of its own
        world.reseed(int(rng.integers(2**31)))
    # On a grid few of the things that an iteration's rollouts see are distinct.
    grid = hasattr(world, "codes")
    evaluator = Evaluator(saved.policy, learner.params, getattr(world, "mission_tokens", None), remember=grid)
    rollouts = collect(
        evaluator,
        world,
        tasks,
        rng,
        rollouts_per_state=config.group_size,
        forks_per_rollout=config.forks_per_rollout,
        fork_rule=load_callable("fork_rule", config.fork_rule, FORK_RULES),
        initial_states_form_groups=config.initial_states_form_groups,
        places_include_prefix=config.places_include_prefix,
        temperature=config.temperature,
    )
    targets = estimate(rollouts, config, rng, progress=progress, visits=visits)
    coefficients = Coefficients(
        scheduled(config.kl_coefficient, config.kl_schedule, progress), config.entropy_coefficient
    )
    learner, stats = update(saved.policy, learner, rollouts, targets, config, coefficients, rng)
    figures = {**_rollout_figures(rollouts), **targets.stats, **stats}
    evaluation: dict[str, Any] = {}
    every = config.evaluate_every
    if iteration + 1 == config.iterations or (every and (iteration + 1) % every == 0):
        evaluation = evaluate_briefly(world, saved, learner, config, iteration)
    return learner, figures, evaluation


def configurations_of(iteration: int, config: Config, num_tasks: int) -> NDArray[np.int64]:
    """Which configurations an iteration plays: the next ones of an endless sequence of shuffled decks."""
    count = config.configurations_per_iteration
    first = iteration * count
    decks = range(first // num_tasks, (first + count - 1) // num_tasks + 1)
    cards = np.concatenate([np.random.default_rng([config.seed, 1, deck]).permutation(num_tasks) for deck in decks])
    start = first - decks[0] * num_tasks
    return cards[start : start + count]


def evaluate_briefly(
    world: Any, saved: SavedPolicy, learner: Learner, config: Config, iteration: int
) -> dict[str, Any]:
    """Success, reward, pass@k, coverage and distinct strategies over all configurations, at temperature 1."""
    rollouts_each = config.evaluation_rollouts
    evaluator = Evaluator(saved.policy, learner.params, getattr(world, "mission_tokens", None))
    rng = np.random.default_rng([config.seed, 2, iteration])
    attempts = play_tasks(evaluator, world, rng, attempts=rollouts_each)
    returns = attempts.rewards.reshape(world.num_tasks, rollouts_each)
    strategies = attempts.strategies.reshape(world.num_tasks, rollouts_each)
    successes = (returns > 0).sum(axis=1)
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= rollouts_each]
    passed = pass_at_k(rollouts_each, successes, ks).mean(axis=0)
    return {
        "success": float(successes.mean() / rollouts_each),
        "reward": float(returns.mean()),
        "coverage": coverage(successes),
        "entropy": float(attempts.entropies.mean()),
        "distinct_strategies": float(np.mean([len(np.unique(row)) for row in strategies])),
        **{f"pass@{k}": float(value) for k, value in zip(ks, passed, strict=True)},
    }


def _rollout_figures(rollouts: Rollouts) -> dict[str, Any]:
    seeds = rollouts.returns[: rollouts.num_seeds]
    return {
        "steps": rollouts.num_steps,
        "trajectories": rollouts.num_trajectories,
        "tasks": np.unique(rollouts.tasks).tolist(),
        "return": float(seeds.mean()),
        "successes": float((seeds > 0).mean()),
    }


def _without_folder(world: Any, saved: SavedPolicy, config: Config, learner: Learner, watch: Watcher | None) -> Result:
    visits, metrics, evaluations = VisitCounts(), [], []
    for iteration in range(config.iterations):
        learner, figures, evaluation = iterate(world, saved, learner, config, iteration, visits)
        if not all_finite(learner):
            raise UserError(f"iteration {iteration}: the parameters are no longer finite; try a lower learning rate")
        metrics.append({"iteration": iteration, **figures})
        if evaluation:
            evaluations.append({"iteration": iteration + 1, **evaluation})
        if watch:
            watch(iteration, {**figures, **evaluation})
    return Result(_result_policy(saved, learner, config), metrics, evaluations)


def _result_policy(saved: SavedPolicy, learner: Learner, config: Config) -> SavedPolicy:
    import jax

    params = jax.tree.map(np.asarray, learner.params)
    made = {"finetuned_from": saved.info.made, "config": asdict(config)}
    info = PolicyInfo(**{**saved.info.__dict__, "made": made, "source": "<memory>"})
    return SavedPolicy(saved.policy, params, info)


def _description(world: Any, saved: SavedPolicy, config: Config) -> dict[str, Any]:
    """What must agree for a run to go on."""
    return {
        "config": asdict(config),
        "task": getattr(world, "task", type(world).__name__),
        "num_tasks": world.num_tasks,
        "horizon": world.horizon,
        "level_seeds": list(getattr(world, "seeds", ())),
        "policy": parameters_hash(saved.params),
        "versions": {name: importlib.metadata.version(name) for name in ("polychromic", "jax", "numpy", "minigrid")},
    }


def _diverged(run: Run, config: Config, iteration: int) -> str:
    checkpoint = run.folder / "checkpoint.safetensors"
    kept = f"the last good checkpoint is {checkpoint}" if checkpoint.exists() else "no checkpoint had been written yet"
    return (
        f"iteration {iteration}: the parameters are no longer finite; {kept}. "
        f"Try a lower actor_learning_rate (now {config.actor_learning_rate}) or a smaller max_grad_norm"
    )

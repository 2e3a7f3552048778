"""The loop: collect, estimate, update, log. A run that was stopped goes on exactly where its last checkpoint was."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.core.metrics import coverage, pass_at_k
from polychromic.envs.describe import describe_world
from polychromic.errors import Diverged, UserError
from polychromic.evaluate.attempts import play_tasks
from polychromic.files import read_lines
from polychromic.finetuning.advantages import DIVERSITIES, OBJECTIVES, SET_FORMERS, VisitCounts, estimate
from polychromic.finetuning.collect import FORK_RULES, collect
from polychromic.finetuning.config import Config, in_unit_range, load_callable, make_config, scheduled
from polychromic.finetuning.rollouts import Rollouts, Targets
from polychromic.finetuning.run import Checkpoint, Run, check_folder, is_done, kept_policy_name
from polychromic.finetuning.update import Coefficients, Learner, all_finite, init_learner, update
from polychromic.policies.files import PolicyInfo, SavedPolicy, check_fits, load_policy, save_policy
from polychromic.policies.inference import Evaluator
from polychromic.policies.protocol import Params, Policy
from polychromic.policies.tensors import parameters_hash

Watcher = Callable[[int, Mapping[str, Any]], None]

# A stream of random numbers for each purpose, so that no two of them ever coincide.
COLLECTING, DEALING, EVALUATING = 1, 2, 3


@dataclass(frozen=True)
class Result:
    """What a run ends in."""

    policy: SavedPolicy
    metrics: list[dict[str, Any]]  # a dict per iteration
    evaluations: list[dict[str, Any]]  # a dict per evaluation


def finetune(
    world: Any,
    policy: SavedPolicy | tuple[Policy, Params],
    config: Config | None = None,
    *,
    out: Path | str | None = None,
    watch: Watcher | None = None,
    **settings: Any,
) -> Result:
    """Fine-tune a policy on all configurations of a world.

    Args:
        world: any forkable world.
        policy: the policy to start from (`polychromic.load_policy`), or your own network as (`Policy`, parameters).
        config: the run's choices; or give `method`, `task` (for the defaults that the command has there) and any of
            their fields as further arguments.
        out: a folder for the run. The same call goes on with an interrupted run; a complete one is only read.
        watch: called after every iteration with its number and figures.
    """
    if config is not None and settings:
        raise UserError(f"config is given, and {', '.join(settings)} too; change the configuration instead")
    config = config or make_config(**settings)
    saved = as_saved(policy)
    check_run(world, saved, config, out)
    if out is None:
        return _without_folder(world, saved, config, watch)
    folder = Path(out)
    if not is_done(folder):
        _run_in(folder, world, saved, config, watch)
    final = load_policy(folder / "policy.safetensors", saved.policy)
    return Result(final, read_lines(folder / "metrics.jsonl"), read_lines(folder / "evaluations.jsonl"))


def check_run(world: Any, policy: SavedPolicy, config: Config, out: Path | str | None = None) -> None:
    """Refuse what cannot run before anything is written: functions, world and folder must go with the settings."""
    load_callable("fork_rule", config.fork_rule, FORK_RULES)
    load_callable("set_former", config.set_former, SET_FORMERS)
    load_callable("objective", config.objective, OBJECTIVES)
    load_callable("diversity", config.diversity, DIVERSITIES)
    in_unit_range(config)
    if config.configurations_per_iteration > world.num_configurations:
        raise UserError(
            f"configurations_per_iteration is {config.configurations_per_iteration}, the world has {world.num_configurations}; "
            f"give {world.num_configurations} or fewer"
        )
    if config.polychromic and not getattr(world, "has_places", True):
        raise UserError(
            "the world names no places, so all rollouts would count as alike; "
            "give from_gymnasium(place=…), or token_world(place=… or label=…)"
        )
    if hasattr(world, "context"):  # worlds of tokens; what grids show is checked where they are made for a policy
        check_fits(policy, world, other_task=True)
    if out is not None:
        check_folder(Path(out), describe_run(world, policy, config))


def as_saved(policy: SavedPolicy | tuple[Policy, Params]) -> SavedPolicy:
    """A policy as it is loaded from a file, or a network with its parameters."""
    if isinstance(policy, SavedPolicy):
        return policy
    if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[0], Policy):
        return SavedPolicy(policy[0], policy[1], PolicyInfo())
    raise UserError(
        f"policy is a {type(policy).__name__}; give what polychromic.load_policy returns, or (Policy, parameters)"
    )


def _run_in(folder: Path, world: Any, saved: SavedPolicy, config: Config, watch: Watcher | None) -> None:
    """Begin or go on with a run, up to its end."""
    with Run(folder, describe_run(world, saved, config)) as run:
        checkpoint = run.resume(init_learner(saved.params, config))
        learner, visits, kept = checkpoint.learner, VisitCounts(checkpoint.visits), checkpoint.iteration
        for iteration in range(checkpoint.iteration, config.iterations):
            started, cpu_started = time.perf_counter(), time.process_time()
            try:
                learner, figures, evaluation = iterate(world, saved, learner, config, iteration, visits)
            except UserError as error:
                kind = Diverged if isinstance(error, Diverged) else UserError
                raise kind(f"iteration {iteration}: {error}; {_last_good(folder, kept)}") from error
            seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
            record(run, iteration, figures, evaluation, seconds, cpu_seconds)
            if watch:
                watch(iteration, {**figures, **evaluation, "seconds": seconds})
            if checkpoint_due(config, iteration):
                kept = iteration + 1
                keep_policy_if_due(run, saved, learner, config, iteration)
                run.save(Checkpoint(kept, learner, visits.counts))
        finish(run, saved, learner, config)


def record(
    run: Run,
    iteration: int,
    figures: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    seconds: float,
    cpu_seconds: float,
) -> None:
    """Write down an iteration. The processor's seconds do not count the time in which others had it."""
    run.log("metrics.jsonl", iteration, figures)
    if evaluation:
        run.log("evaluations.jsonl", iteration + 1, evaluation)
    timed = {"seconds": seconds, "cpu_seconds": cpu_seconds, "steps_per_second": figures["steps"] / seconds}
    run.log("timing.jsonl", iteration, timed)


def checkpoint_due(config: Config, iteration: int) -> bool:
    """After every `checkpoint_every` iterations and the last one."""
    return (iteration + 1) % config.checkpoint_every == 0 or iteration + 1 == config.iterations


def keep_policy_if_due(run: Run, saved: SavedPolicy, learner: Learner, config: Config, iteration: int) -> None:
    """Keep the policy of a checkpoint if it is one of the last `kept_policies` before the end."""
    done = iteration + 1
    last = (config.iterations - 1) // config.checkpoint_every  # the number of the last checkpoint before the end
    if done < config.iterations and done // config.checkpoint_every > last - config.kept_policies:
        kept = _result_policy(saved, learner, config)
        save_policy(run.folder / kept_policy_name(done), kept.policy, kept.params, kept.info)


def finish(run: Run, saved: SavedPolicy, learner: Learner, config: Config) -> None:
    """Write the policy and mark the run as complete."""
    final = _result_policy(saved, learner, config)
    save_policy(run.folder / "policy.safetensors", final.policy, final.params, final.info)
    run.finish({"iterations": config.iterations, **read_lines(run.folder / "evaluations.jsonl")[-1]})


def random_stream(seed: int, purpose: int, number: int) -> np.random.Generator:
    """The generator of a purpose and the number of its iteration or deck."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, number)))


def iterate(
    world: Any, saved: SavedPolicy, learner: Learner, config: Config, iteration: int, visits: VisitCounts
) -> tuple[Learner, dict[str, Any], dict[str, Any]]:
    """One iteration: the new learner, its figures, and an evaluation if one is due.

    All randomness comes from (seed, iteration), so an iteration can be repeated on its own.
    """
    got = experience(world, saved, learner, config, iteration, visits)
    learner, stats = update(saved.policy, learner, got.rollouts, got.targets, config, got.coefficients, got.rng)
    check_finite(learner, stats, config)
    figures = {**rollout_figures(got.rollouts), **got.targets.stats, **stats}
    return learner, figures, evaluation_if_due(world, saved, learner, config, iteration)


def check_finite(learner: Learner, stats: Mapping[str, float], config: Config) -> None:
    """Refuse to go on with losses or parameters that are no numbers."""
    _refuse_not_finite(
        "a loss or a parameter",
        np.array([*stats.values(), 0.0 if all_finite(learner) else np.nan]),
        f"try a lower actor_learning_rate (now {config.actor_learning_rate}) or a smaller max_grad_norm",
    )


class Experience(NamedTuple):
    """All that an update needs."""

    rollouts: Rollouts
    targets: Targets
    coefficients: Coefficients
    rng: np.random.Generator  # for the order of the minibatches


def experience(
    world: Any, saved: SavedPolicy, learner: Learner, config: Config, iteration: int, visits: VisitCounts
) -> Experience:
    """The first half of an iteration: collect and estimate."""
    rng = random_stream(config.seed, COLLECTING, iteration)
    progress = iteration / max(config.iterations - 1, 1)  # 1 in the last iteration: schedules reach their end
    tasks = configurations_of(iteration, config, world.num_configurations)
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
        discount=config.discount,
    )
    _refuse_not_finite("a reward", rollouts.rewards, "look at what the world pays")
    targets = estimate(rollouts, config, rng, progress=progress, visits=visits)
    coefficients = Coefficients(
        scheduled(config.kl_coefficient, config.kl_schedule, progress), config.entropy_coefficient
    )
    return Experience(rollouts, targets, coefficients, rng)


def evaluation_if_due(
    world: Any, saved: SavedPolicy, learner: Learner, config: Config, iteration: int
) -> dict[str, Any]:
    """A brief evaluation after every `evaluate_every` iterations and the last one, else nothing."""
    every = config.evaluate_every
    if iteration + 1 == config.iterations or (every and (iteration + 1) % every == 0):
        return evaluate_briefly(world, saved, learner, config, iteration)
    return {}


def configurations_of(iteration: int, config: Config, num_configurations: int) -> NDArray[np.int64]:
    """Which configurations an iteration plays: the next ones of an endless sequence of shuffled decks."""
    count = config.configurations_per_iteration
    first = iteration * count
    decks = range(first // num_configurations, (first + count - 1) // num_configurations + 1)
    cards = np.concatenate(
        [random_stream(config.seed, DEALING, deck).permutation(num_configurations) for deck in decks]
    )
    start = first - decks[0] * num_configurations
    return cards[start : start + count]


def evaluate_briefly(
    world: Any, saved: SavedPolicy, learner: Learner, config: Config, iteration: int
) -> dict[str, Any]:
    """Success, reward, pass@k, coverage and distinct strategies over all configurations, at temperature 1."""
    rollouts_each = config.evaluation_rollouts
    evaluator = Evaluator(saved.policy, learner.params, getattr(world, "mission_tokens", None))
    rng = random_stream(config.seed, EVALUATING, iteration)
    attempts = play_tasks(evaluator, world, rng, attempts=rollouts_each)
    returns = attempts.rewards.reshape(world.num_configurations, rollouts_each)
    strategies = attempts.strategies.reshape(world.num_configurations, rollouts_each)
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


def rollout_figures(rollouts: Rollouts) -> dict[str, Any]:
    seeds = rollouts.returns[: rollouts.num_seeds]
    return {
        "steps": rollouts.num_steps,
        "trajectories": rollouts.num_trajectories,
        "configurations": np.unique(rollouts.tasks).tolist(),
        "return": float(seeds.mean()),
        "successes": float((seeds > 0).mean()),
    }


def _refuse_not_finite(what: str, values: NDArray[Any], advice: str) -> None:
    if not np.isfinite(values).all():
        raise Diverged(f"{what} is no longer finite; {advice}")


def _last_good(folder: Path, iterations: int) -> str:
    if not iterations:
        return "no checkpoint had been written yet"
    return f"the last good checkpoint, after {iterations} iterations, is {folder / 'checkpoint.safetensors'}"


def _without_folder(world: Any, saved: SavedPolicy, config: Config, watch: Watcher | None) -> Result:
    learner, visits, metrics, evaluations = init_learner(saved.params, config), VisitCounts(), [], []
    for iteration in range(config.iterations):
        started = time.perf_counter()
        try:
            learner, figures, evaluation = iterate(world, saved, learner, config, iteration, visits)
        except UserError as error:
            kind = Diverged if isinstance(error, Diverged) else UserError
            raise kind(f"iteration {iteration}: {error}") from error
        metrics.append({"iteration": iteration, **figures})
        if evaluation:
            evaluations.append({"iteration": iteration + 1, **evaluation})
        if watch:
            watch(iteration, {**figures, **evaluation, "seconds": time.perf_counter() - started})
    return Result(_result_policy(saved, learner, config), metrics, evaluations)


def _result_policy(saved: SavedPolicy, learner: Learner, config: Config) -> SavedPolicy:
    import jax

    params = jax.tree.map(np.asarray, learner.params)
    made = {"finetuned_from": saved.info.made, "config": asdict(config)}
    info = PolicyInfo(**{**saved.info.__dict__, "made": made, "source": "<memory>"})
    return SavedPolicy(saved.policy, params, info)


def describe_run(world: Any, saved: SavedPolicy, config: Config) -> dict[str, Any]:
    """What must agree for a run to go on."""
    return {
        "config": asdict(config),
        **describe_world(world),
        "policy": parameters_hash(saved.params),
        "versions": {name: importlib.metadata.version(name) for name in ("polychromic", "jax", "numpy", "minigrid")},
    }

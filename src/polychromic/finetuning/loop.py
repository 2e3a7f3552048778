"""The loop: collect, estimate, update, log. A run that was stopped resumes exactly where its last checkpoint was."""

from __future__ import annotations

import importlib.metadata
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.core.metrics import coverage, pass_at_k
from polychromic.envs.protocol import World, check_is_world, description, task_name
from polychromic.errors import Diverged, Notice, UserError
from polychromic.files import read_lines
from polychromic.finetuning.advantages import OBJECTIVES, SET_FORMERS, VisitCounts, estimate
from polychromic.finetuning.attempts import attempt_all
from polychromic.finetuning.collect import FORK_RULES, collect
from polychromic.finetuning.config import Config, in_unit_range, load_callable, make_config, scheduled
from polychromic.finetuning.diversities import check_diversity, diversity_of
from polychromic.finetuning.functions import local_functions
from polychromic.finetuning.progress import Watcher, progress_bar
from polychromic.finetuning.rollouts import Rollouts, Targets
from polychromic.finetuning.run import Checkpoint, Run, Unsaved, check_folder, has_begun, is_done, kept_policy_name
from polychromic.finetuning.settle import faint_signal, lonely_strategies, settle
from polychromic.finetuning.update import Coefficients, Learner, all_finite, init_learner, update
from polychromic.policies.files import PolicyInfo, SavedPolicy, load_policy, save_policy
from polychromic.policies.fit import check_fits
from polychromic.policies.inference import Evaluator
from polychromic.policies.protocol import Params, Policy
from polychromic.policies.tensors import parameters_hash

# A stream of random numbers for each purpose, so that no two of them ever coincide.
COLLECTING, DEALING, EVALUATING = 1, 2, 3


@dataclass(frozen=True)
class Result:
    """What a run ends in."""

    policy: SavedPolicy
    metrics: list[dict[str, Any]]  # a dict per iteration
    evaluations: list[dict[str, Any]]  # a dict per evaluation


def finetune(
    world: World,
    policy: SavedPolicy | tuple[Policy, Params],
    config: Config | None = None,
    *,
    out: Path | str | None = None,
    watch: Watcher | None = None,
    progress: bool = True,
    **settings: Any,
) -> Result:
    """Fine-tune a policy on all configurations of a world.

    Args:
        world: any world.
        policy: the policy to start from (`polychromic.load_policy`), or your own network as (`Policy`, parameters).
        config: the run's choices; or give `method`, `task` (for the defaults that the command has there) and any of
            their fields as further arguments.
        out: a folder for the run. The same call resumes an interrupted run; a complete one is only read.
        watch: called after every iteration with its number and metrics.
        progress: whether to show a bar while the run is under way, if there is a terminal.
    """
    config = chosen_config(config, settings, world)
    saved = as_saved(policy)
    check_world(world, saved, config)
    config = settle(world, saved, config, out)
    check_run(world, saved, config, out)
    with progress_bar(config, task_name(world), shown=progress) as show:

        def watching(iteration: int, figures: Mapping[str, Any]) -> None:
            show(iteration, figures)
            if watch:
                watch(iteration, figures)

        result = _finetune(world, saved, config, None if out is None else Path(out), watching)
    for told in (faint_signal(result.metrics, config), lonely_strategies(result.metrics, config)):
        if told:
            warnings.warn(told, Notice, stacklevel=2)
    return result


def _finetune(world: World, saved: SavedPolicy, config: Config, folder: Path | None, watch: Watcher) -> Result:
    """A run whose choices are settled and checked."""
    if folder is None:
        unsaved = Unsaved()
        active = ActiveRun(config, unsaved, Checkpoint(0, init_learner(saved.params, config), {}))
        train(world, saved, [active], watch=watch)
        return Result(result_policy(saved, active.learner, config), unsaved.metrics, unsaved.evaluations)
    if not is_done(folder):
        with Run(folder, describe_run(world, saved, config)) as run:
            active = ActiveRun(config, run, run.resume(init_learner(saved.params, config)))
            train(world, saved, [active], watch=watch)
    return read_result(folder, saved)


def chosen_config(config: Config | None, settings: Mapping[str, Any], world: World) -> Config:
    """A configuration that was given, or the one of these settings, without vines where there are no forks."""
    if config is not None and settings:
        raise UserError(f"config is given, and {', '.join(settings)} too; change the configuration instead")
    return config or make_config(**{**({} if world.can_fork else {"forks_per_rollout": 0}), **settings})


def check_run(world: World, policy: SavedPolicy, config: Config, out: Path | str | None = None) -> None:
    """Refuse what cannot run before anything is written: functions, world and folder must go with the settings."""
    check_is_world(world)
    load_callable("fork_rule", config.fork_rule, FORK_RULES)
    load_callable("set_former", config.set_former, SET_FORMERS)
    load_callable("objective", config.objective, OBJECTIVES)
    diversity_of(config)
    in_unit_range(config)
    check_world(world, policy, config)
    if out is not None:
        check_folder(Path(out), describe_run(world, policy, config))
        _check_resumable(Path(out), config)


def _check_resumable(folder: Path, config: Config) -> None:
    """Refuse to resume a run whose functions cannot be imported: they may have changed since."""
    if has_begun(folder) and not is_done(folder):
        for field, name in local_functions(asdict(config)).items():
            raise UserError(
                f"out: {folder} holds an interrupted run with {field} = {name!r}, a function that cannot be imported "
                "by its name, so that it cannot be resumed; give another folder, and define the function at the top of "
                "a module if runs are to be resumed"
            )


def check_world(world: World, policy: SavedPolicy, config: Config) -> None:
    """Refuse a policy or settings that do not go with the world."""
    if config.configurations_per_iteration > world.num_configurations:
        raise UserError(
            f"configurations_per_iteration is {config.configurations_per_iteration}, the world has "
            f"{world.num_configurations}; give {world.num_configurations} or fewer"
        )
    check_diversity(world, config)
    if config.ucb > 0 and not world.actions.repeat:
        raise UserError(
            f"ucb is {config.ucb:g}, but the world's actions are {world.actions}; none is drawn twice, so counts "
            "say nothing: give ucb = 0, or a method without -ucb"
        )
    if config.forks_per_rollout not in (0, Config.forks_per_rollout) and not world.can_fork:
        raise UserError(
            f"forks_per_rollout is {config.forks_per_rollout}, but this world cannot be forked; "
            "give forks_per_rollout = 0: every method runs without vines"
        )
    check_fits(policy, world, other_task=True)


def as_saved(policy: SavedPolicy | tuple[Policy, Params]) -> SavedPolicy:
    """A policy as it is loaded from a file, or a network with its parameters."""
    if isinstance(policy, SavedPolicy):
        return policy
    if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[0], Policy):
        return SavedPolicy(policy[0], policy[1], PolicyInfo())
    raise UserError(
        f"policy is a {type(policy).__name__}; give what polychromic.load_policy returns, or (Policy, parameters)"
    )


class ActiveRun:
    """A run that is under way: its choices, where it writes, and what the next iteration needs."""

    def __init__(self, config: Config, run: Run | Unsaved, checkpoint: Checkpoint) -> None:
        self.config = config
        self.run = run
        self.learner: Learner = checkpoint.learner
        self.visits = VisitCounts(checkpoint.visits)
        self.iteration = checkpoint.iteration  # the next one


class Experience(NamedTuple):
    """All that an update needs."""

    rollouts: Rollouts
    targets: Targets
    coefficients: Coefficients
    rng: np.random.Generator  # for the order of the minibatches


# (policy, runs, their experiences) -> for each run the new learner and the statistics of its gradient steps
UpdateAll = Callable[[Policy, Sequence[ActiveRun], Sequence[Experience]], Sequence[tuple[Learner, Mapping[str, float]]]]


def update_one_by_one(
    policy: Policy, runs: Sequence[ActiveRun], experiences: Sequence[Experience]
) -> list[tuple[Learner, dict[str, float]]]:
    """`update` for each run on its own."""
    return [
        update(policy, active.learner, got.rollouts, got.targets, active.config, got.coefficients, got.rng)
        for active, got in zip(runs, experiences, strict=True)
    ]


def train(
    world: World,
    saved: SavedPolicy,
    runs: Sequence[ActiveRun],
    *,
    update_all: UpdateAll = update_one_by_one,
    watch: Watcher | None = None,
) -> None:
    """Take one run or several to their ends, an iteration at a time; those that are behind catch up first."""
    while behind := [active for active in runs if active.iteration < active.config.iterations]:
        first = min(active.iteration for active in behind)
        together = [active for active in behind if active.iteration == first]
        try:
            iterate(world, saved, together, update_all, watch)
        except UserError as error:
            raise type(error)(f"iteration {first}: {error}{together[0].run.last_good()}") from error
    for active in runs:
        finish(active, saved)


def iterate(
    world: World, saved: SavedPolicy, runs: Sequence[ActiveRun], update_all: UpdateAll, watch: Watcher | None
) -> None:
    """One iteration of these runs: collect, estimate, update, log.

    All randomness comes from (seed, iteration), so an iteration can be repeated on its own.
    """
    started, cpu_started = time.perf_counter(), time.process_time()
    experiences = [experience(world, saved, active) for active in runs]
    for active, got, (learner, stats) in zip(
        runs, experiences, update_all(saved.policy, runs, experiences), strict=True
    ):
        check_finite(learner, stats, active.config)
        active.learner = learner
        metrics = {**rollout_metrics(got.rollouts), **got.targets.stats, **stats}
        evaluation = evaluation_if_due(world, saved, active)
        seconds = (time.perf_counter() - started) / len(runs)
        record(active, metrics, evaluation, seconds, (time.process_time() - cpu_started) / len(runs))
        if watch:
            watch(active.iteration, {**metrics, **evaluation, "seconds": seconds})
        active.iteration += 1
        save_if_due(active, saved)


def experience(world: World, saved: SavedPolicy, active: ActiveRun) -> Experience:
    """The first half of an iteration: collect and estimate."""
    config, iteration = active.config, active.iteration
    rng = random_stream(config.seed, COLLECTING, iteration)
    progress = iteration / max(config.iterations - 1, 1)  # 1 in the last iteration: schedules reach their end
    configurations = configurations_of(iteration, config, world.num_configurations)
    if world.has_noise:
        world.reseed(int(rng.integers(2**31)))
    evaluator = Evaluator(saved.policy, active.learner.params, world.tables(), remember=world.observations_repeat)
    rollouts = collect(
        evaluator,
        world,
        configurations,
        rng,
        rollouts_per_state=config.group_size,
        forks_per_rollout=config.forks_per_rollout,
        fork_rule=load_callable("fork_rule", config.fork_rule, FORK_RULES),
        initial_states_form_groups=config.initial_states_form_groups,
        places_include_prefix=config.places_include_prefix,
        temperature=config.temperature,
        discount=config.discount,
        with_features=config.polychromic and diversity_of(config).reads == "features",
    )
    _refuse_not_finite("a reward", rollouts.rewards, "look at what the world pays")
    targets = estimate(rollouts, config, rng, progress=progress, visits=active.visits)
    coefficients = Coefficients(
        scheduled(config.kl_coefficient, config.kl_schedule, progress), config.entropy_coefficient
    )
    return Experience(rollouts, targets, coefficients, rng)


def random_stream(seed: int, purpose: int, number: int) -> np.random.Generator:
    """The generator of a purpose and the number of its iteration or deck."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose, number)))


def configurations_of(iteration: int, config: Config, num_configurations: int) -> NDArray[np.int64]:
    """Which configurations an iteration plays: the next ones of an endless sequence of shuffled decks."""
    count = config.configurations_per_iteration
    first = iteration * count
    decks = range(first // num_configurations, (first + count - 1) // num_configurations + 1)
    cards = [random_stream(config.seed, DEALING, deck).permutation(num_configurations) for deck in decks]
    start = first - decks[0] * num_configurations
    return np.concatenate(cards)[start : start + count]


def check_finite(learner: Learner, stats: Mapping[str, float], config: Config) -> None:
    """Stop a run whose losses or parameters are not finite numbers any more."""
    _refuse_not_finite(
        "a loss or a parameter",
        np.array([*stats.values(), 0.0 if all_finite(learner) else np.nan]),
        f"try a lower actor_learning_rate (now {config.actor_learning_rate}) or a smaller max_grad_norm",
    )


def _refuse_not_finite(what: str, values: NDArray[Any], advice: str) -> None:
    if not np.isfinite(values).all():
        raise Diverged(f"{what} is no longer finite; {advice}")


def rollout_metrics(rollouts: Rollouts) -> dict[str, Any]:
    """How much was played, and how well the trunks did."""
    trunks = slice(rollouts.num_trunks)
    return {
        "steps": rollouts.num_steps,
        "trajectories": rollouts.num_trajectories,
        "configurations": np.unique(rollouts.configurations).tolist(),
        "return": float(rollouts.returns[trunks].mean()),
        **({} if rollouts.success is None else {"successes": float(rollouts.success[trunks].mean())}),
    }


def evaluation_if_due(world: World, saved: SavedPolicy, active: ActiveRun) -> dict[str, Any]:
    """A brief evaluation after every `evaluate_every` iterations and the last one, else nothing."""
    every, done = active.config.evaluate_every, active.iteration + 1
    if done == active.config.iterations or (every and done % every == 0):
        return evaluate_briefly(world, saved, active)
    return {}


def evaluate_briefly(world: World, saved: SavedPolicy, active: ActiveRun) -> dict[str, Any]:
    """Return, strategies and, where it is known, success: of all configurations, at temperature 1."""
    each = active.config.evaluation_rollouts
    evaluator = Evaluator(saved.policy, active.learner.params, world.tables())
    rng = random_stream(active.config.seed, EVALUATING, active.iteration)
    attempts = attempt_all(evaluator, world, rng, attempts=each)
    strategies = attempts.strategies.reshape(world.num_configurations, each)
    mean_return = float(attempts.rewards.reshape(world.num_configurations, each).mean())
    found = {
        "return": mean_return,
        "reward": mean_return,  # its name in runs of earlier versions
        "entropy": float(attempts.entropies.mean()),
        "distinct_strategies": float(np.mean([len(np.unique(row)) for row in strategies])),
    }
    if attempts.success is None:
        return found
    solved = attempts.success.reshape(world.num_configurations, each)
    successes = solved.sum(axis=1)
    ks = [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= each]
    passed = pass_at_k(each, successes, ks).mean(axis=0)
    return {
        "success": float(successes.mean() / each),
        **found,
        "coverage": coverage(successes),
        "distinct_successful_strategies": float(
            np.mean([len(np.unique(row[won])) for row, won in zip(strategies, solved, strict=True)])
        ),
        **{f"pass@{k}": float(value) for k, value in zip(ks, passed, strict=True)},
    }


def record(
    active: ActiveRun,
    metrics: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    seconds: float,
    cpu_seconds: float,
) -> None:
    """Log an iteration. The processor's seconds do not count the time in which others had it."""
    active.run.log("metrics.jsonl", active.iteration, metrics)
    if evaluation:
        active.run.log("evaluations.jsonl", active.iteration + 1, evaluation)
    timed = {"seconds": seconds, "cpu_seconds": cpu_seconds, "steps_per_second": metrics["steps"] / seconds}
    active.run.log("timing.jsonl", active.iteration, timed)


def save_if_due(active: ActiveRun, saved: SavedPolicy) -> None:
    """A checkpoint after every `checkpoint_every` iterations and the last one, and the policy if it is to be kept."""
    config, done, folder = active.config, active.iteration, active.run.folder
    if folder is None or (done % config.checkpoint_every and done != config.iterations):
        return
    last = (config.iterations - 1) // config.checkpoint_every  # the number of the last checkpoint before the end
    if done < config.iterations and done // config.checkpoint_every > last - config.kept_policies:
        kept = result_policy(saved, active.learner, config)
        save_policy(folder / kept_policy_name(done), kept.policy, kept.params, kept.info)
    active.run.save(Checkpoint(done, active.learner, active.visits.counts))


def finish(active: ActiveRun, saved: SavedPolicy) -> None:
    """Write the policy and mark the run as complete."""
    folder = active.run.folder
    if folder is not None:
        final = result_policy(saved, active.learner, active.config)
        save_policy(folder / "policy.safetensors", final.policy, final.params, final.info)
        last = read_lines(folder / "evaluations.jsonl")[-1]
        active.run.finish({"iterations": active.config.iterations, **last})


def read_result(folder: Path, saved: SavedPolicy) -> Result:
    """What a complete run ended in."""
    final = load_policy(folder / "policy.safetensors", saved.policy)
    return Result(final, read_lines(folder / "metrics.jsonl"), read_lines(folder / "evaluations.jsonl"))


def result_policy(saved: SavedPolicy, learner: Learner, config: Config) -> SavedPolicy:
    """The policy of a learner, with what it was made from."""
    import jax

    params = jax.tree.map(np.asarray, learner.params)
    made = {"finetuned_from": saved.info.made, "config": asdict(config)}
    info = PolicyInfo(**{**saved.info.__dict__, "made": made, "source": "<memory>"})
    return SavedPolicy(saved.policy, params, info)


def describe_run(world: World, saved: SavedPolicy, config: Config) -> dict[str, Any]:
    """What must agree for a run to resume."""
    return {
        "config": asdict(config),
        **description(world),
        "policy": parameters_hash(saved.params),
        "versions": {name: importlib.metadata.version(name) for name in ("polychromic", "jax", "numpy", "minigrid")},
    }

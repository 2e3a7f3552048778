"""Where do rollouts branch? Seeds from the initial states, then vines from states along them.

A seed rollout is a vine from the initial state, so one function, `roll`, plays both. All live rollouts step together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.returns import discounted_return
from polychromic.errors import UserError
from polychromic.finetuning.rollouts import Rollouts
from polychromic.policies.inference import Evaluator, observe, sample_actions

# A fork rule gets the steps of one seed rollout and the number of forks, and returns the steps to fork at.
ForkRule = Callable[["SeedSteps", int], Sequence[int]]


@dataclass(frozen=True)
class SeedSteps:
    """What a fork rule may look at: one entry per step of one seed rollout of length T."""

    logits: NDArray[np.float32]  # of the policy that played, divided by its temperature, [T, A]
    values: NDArray[np.float32]  # V(s_t), [T]
    returns: NDArray[np.float64]  # what was collected from s_t on, discounted, [T]

    def __len__(self) -> int:
        return len(self.values)


def spaced(seed: SeedSteps, num_forks: int) -> list[int]:
    """T/(p+1), 2T/(p+1), …, pT/(p+1) (paper, appendix A.1.1), rounded down."""
    return [(index * len(seed)) // (num_forks + 1) for index in range(1, num_forks + 1)]


def most_uncertain(seed: SeedSteps, num_forks: int) -> list[int]:
    """The p states with the highest policy entropy."""
    shifted = seed.logits - seed.logits.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return _highest(-(np.exp(log_probs) * log_probs).sum(axis=-1), num_forks)


def worst_predicted(seed: SeedSteps, num_forks: int) -> list[int]:
    """The p states with the largest critic error (V(s_t) − what was collected from there on)²."""
    return _highest((seed.values - seed.returns) ** 2, num_forks)


FORK_RULES: dict[str, ForkRule] = {
    "spaced": spaced,
    "most-uncertain": most_uncertain,
    "worst-predicted": worst_predicted,
    "none": spaced,  # a configuration with this name has forks_per_rollout = 0, so that no rule is ever asked
}


def collect(
    evaluator: Evaluator,
    world: Any,
    tasks: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    rollouts_per_state: int,
    forks_per_rollout: int = 0,
    fork_rule: ForkRule = spaced,
    initial_states_form_groups: bool = True,
    places_include_prefix: bool = False,
    temperature: float = 1.0,
    discount: float = 1.0,
) -> Rollouts:
    """N seed rollouts of each task, then N vines from each of p states along every seed: N + N²p a task.

    Args:
        evaluator: the behaviour policy π_β.
        world: any forkable world.
        tasks: configurations to play, [C]; one named twice is played twice, in groups of its own.
        rng: the only source of randomness.
        rollouts_per_state: N, seeds a task and vines a fork.
        forks_per_rollout: p; with 0 there are no vines, and the seeds of a task are one group.
        fork_rule: which steps of a seed to fork at.
        initial_states_form_groups: whether the seeds of a task are a group of their own.
        places_include_prefix: whether a vine's places count from the initial state on, and not from its fork.
        temperature: of the behaviour policy.
        discount: γ of the returns that fork rules see.
    """
    tasks = np.asarray(tasks, np.int64)
    seed_tasks = np.repeat(tasks, rollouts_per_state)
    forking = forks_per_rollout > 0
    seeds = roll(evaluator, world, world.start(seed_tasks), rng, temperature=temperature, keep_states=forking)
    seed_groups = np.arange(len(seed_tasks)).reshape(len(tasks), rollouts_per_state)
    parts, part_tasks, groups = [seeds], [seed_tasks], [seed_groups]
    prefixes: list[tuple[int, int] | None] = [None] * len(seed_tasks)
    if forking:
        forks = _forks(seeds, fork_rule, forks_per_rollout, temperature, discount)
        state = world.concatenate([seeds.states[step][[seeds.row_at(step, seed)]] for seed, step in forks])
        memory = seeds.memory_at(forks)
        each = np.repeat(np.arange(len(forks)), rollouts_per_state)
        vines = roll(
            evaluator,
            world,
            state[each],
            rng,
            memory=None if memory is None else memory[each],
            temperature=temperature,
        )
        parts.append(vines)
        part_tasks.append(seed_tasks[np.array([seed for seed, _ in forks])][each])
        groups.append(len(seed_tasks) + np.arange(len(each)).reshape(len(forks), rollouts_per_state))
        prefixes += [forks[fork] for fork in each]
        if not initial_states_form_groups:
            groups = groups[1:]
    steps = _join(parts)
    all_tasks = np.concatenate(part_tasks)
    labels = _place_labels(steps, seeds, prefixes if places_include_prefix else None)
    obs, tables = _with_own_missions(steps.obs, world, tasks)
    return Rollouts(
        obs=obs,
        tables=tables,
        actions=steps.actions,
        log_probs=steps.log_probs,
        logits=steps.logits,
        values=steps.values,
        rewards=steps.rewards,
        offsets=steps.offsets,
        tasks=all_tasks,
        terminated=steps.terminated,
        final_values=steps.final_values,
        labels=labels,
        groups=np.concatenate(groups),
        num_seeds=len(seed_tasks),
        horizon=int(world.horizon),
    )


FLAT = ("actions", "log_probs", "logits", "values", "rewards", "places")


@dataclass(frozen=True)
class Steps:
    """Played trajectories, sorted by trajectory and then by time; flat arrays as in `Rollouts`."""

    obs: dict[str, NDArray[Any]]
    actions: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    logits: NDArray[np.float32]
    values: NDArray[np.float32]
    rewards: NDArray[np.float32]
    offsets: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    final_values: NDArray[np.float32]
    first_places: NDArray[np.int64]  # [K], before the first step
    places: NDArray[np.int64]  # [S], after each step
    states: list[Any]  # by time, the rows still live then; empty unless asked for
    live: list[NDArray[np.int64]]  # by time, the trajectory of each of those rows
    memories: list[NDArray[np.float32]]  # by time, what a policy with memory remembered

    def row_at(self, step: int, trajectory: int) -> int:
        """The row of a trajectory in `states[step]`."""
        return int(np.searchsorted(self.live[step], trajectory))

    def memory_at(self, forks: Sequence[tuple[int, int]]) -> NDArray[np.float32] | None:
        """The memory at each (trajectory, step), [F, memory_size]."""
        if not self.memories:
            return None
        return np.stack([self.memories[step][self.row_at(step, trajectory)] for trajectory, step in forks])


def roll(
    evaluator: Evaluator,
    world: Any,
    state: Any,
    rng: np.random.Generator,
    *,
    memory: NDArray[np.float32] | None = None,
    temperature: float = 1.0,
    keep_states: bool = False,
) -> Steps:
    """Play every row of `state` to its end under the policy, all live rows in one call a step."""
    num = len(state)
    live = np.arange(num)
    if memory is None:
        memory = evaluator.first_memory(observe(world, state))
    memory_is_seen = evaluator.policy.begin is None  # a cache is no observation
    columns: dict[str, list[NDArray[Any]]] = {}
    by_time: dict[str, Any] = {"states": [], "live": [], "memories": []}
    first_places = np.asarray(world.places(state))
    terminated, final_values = np.zeros(num, bool), np.zeros(num, np.float32)
    while len(live):
        obs = observe(world, state)
        outputs = evaluator(obs, memory)
        actions, log_probs = sample_actions(outputs.logits, rng, temperature)
        if keep_states:
            by_time["states"].append(state[np.arange(len(live))])
            by_time["live"].append(live)
            if memory is not None:
                by_time["memories"].append(memory)
        result = world.step(state, actions)
        row = {f"obs:{name}": value for name, value in obs.items()}
        if memory is not None and memory_is_seen:
            row["obs:memory"] = memory
        row |= {
            "trajectory": live,
            "actions": actions,
            "log_probs": log_probs,
            "logits": outputs.logits,
            "values": outputs.value,
            "rewards": result.reward,
            "places": np.asarray(world.places(state)),
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        ended = result.terminated | result.truncated
        memory = outputs.memory
        if ended.any():
            terminated[live[ended]] = result.terminated[ended]
            cut = result.truncated & ~result.terminated
            if cut.any():
                rest = None if memory is None else memory[cut]
                final_values[live[cut]] = evaluator(observe(world, state[cut]), rest).value
            going = ~ended
            live, state = live[going], state[going]
            memory = None if memory is None else memory[going]
    flat = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(flat["trajectory"], kind="stable")
    lengths = np.bincount(flat["trajectory"], minlength=num)
    flat = {name: value[order] for name, value in flat.items()}
    arrays: dict[str, Any] = {name: flat[name] for name in FLAT}
    return Steps(
        obs={name.removeprefix("obs:"): value for name, value in flat.items() if name.startswith("obs:")},
        **arrays,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        terminated=terminated,
        final_values=final_values,
        first_places=first_places,
        **by_time,
    )


def _forks(seeds: Steps, rule: ForkRule, num_forks: int, temperature: float, discount: float) -> list[tuple[int, int]]:
    """(seed, step) of every fork, in order."""
    forks = []
    returns = discounted_return(seeds.rewards, seeds.offsets, discount=discount)
    for seed, (start, end) in enumerate(zip(seeds.offsets[:-1], seeds.offsets[1:], strict=True)):
        shown = SeedSteps(seeds.logits[start:end] / temperature, seeds.values[start:end], returns[start:end])
        steps = [int(step) for step in rule(shown, num_forks)]
        if len(steps) != num_forks or any(not 0 <= step < end - start for step in steps):
            raise UserError(
                f"fork_rule returned {steps} for a rollout of {end - start} steps; "
                f"it must return {num_forks} steps from 0 to {end - start - 1}"
            )
        forks += [(seed, step) for step in steps]
    return forks


def _highest(scores: NDArray[Any], count: int) -> list[int]:
    """Indices of the highest scores in order of time; a rollout shorter than `count` repeats its steps."""
    ranked = np.argsort(-scores, kind="stable")
    return sorted(int(ranked[index % len(ranked)]) for index in range(count))


def _join(parts: Sequence[Steps]) -> Steps:
    """Seeds and vines one after another; states by time are no longer needed."""
    if len(parts) == 1:
        return parts[0]
    names = (*FLAT, "terminated", "final_values", "first_places")
    ends = np.cumsum([part.offsets[-1] for part in parts])
    offsets = [parts[0].offsets] + [part.offsets[1:] + end for part, end in zip(parts[1:], ends, strict=False)]
    return Steps(
        obs={name: np.concatenate([part.obs[name] for part in parts]) for name in parts[0].obs},
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names},
        offsets=np.concatenate(offsets),
        states=[],
        live=[],
        memories=[],
    )


def _place_labels(steps: Steps, seeds: Steps, prefixes: Sequence[tuple[int, int] | None] | None) -> NDArray[np.uint64]:
    """A number per trajectory for the set of places that it visited, its first and its last among them."""
    lengths = np.diff(steps.offsets)
    trajectory = [np.arange(len(lengths)), np.repeat(np.arange(len(lengths)), lengths)]
    place = [steps.first_places, steps.places]
    for index, prefix in enumerate(prefixes or ()):
        if prefix is not None:
            seed, step = prefix
            before = seeds.places[seeds.offsets[seed] : seeds.offsets[seed] + step]
            place += [before, seeds.first_places[[seed]]]
            trajectory.append(np.full(len(before) + 1, index))
    return label_visits(np.concatenate(trajectory), np.concatenate(place), len(lengths))


def label_visits(
    trajectories: NDArray[np.int64], places: NDArray[np.int64], num_trajectories: int
) -> NDArray[np.uint64]:
    """A number per trajectory for the set of places in its visits: trajectory `trajectories[i]` was at `places[i]`."""
    seen, which = np.unique(places, return_inverse=True)
    visited = np.zeros((num_trajectories, len(seen)), bool)
    visited[trajectories, which] = True
    # A sum of well-mixed numbers per place: equal sets have equal sums, different ones differ but for a chance of 2⁻⁶⁴.
    return np.asarray((visited * _mixed(seen)).sum(axis=1, dtype=np.uint64))


def _mixed(places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: well-mixed 64-bit numbers from any integers."""
    mixed = places.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _with_own_missions(
    obs: dict[str, NDArray[Any]], world: Any, tasks: NDArray[np.int64]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Let `mission` index a table of these tasks' missions alone, so that the update encodes no others."""
    if "mission" not in obs or not hasattr(world, "mission_tokens"):
        return obs, {}
    row_of_task = np.zeros(world.num_configurations, np.int32)
    row_of_task[tasks] = np.arange(len(tasks))
    return {**obs, "mission": row_of_task[obs["mission"]]}, {"missions": world.mission_tokens[tasks]}

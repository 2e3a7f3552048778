"""Where do rollouts branch? Trunks from the initial states, then vines from states along them.

A trunk is a vine from the initial state, so one function, `roll`, plays both. All live rollouts step together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.returns import discounted_return
from polychromic.envs.protocol import Episode, World
from polychromic.errors import UserError
from polychromic.finetuning.play import Successes, join_successes, play
from polychromic.finetuning.rollouts import Rollouts
from polychromic.policies.distributions import CATEGORICAL, Distribution
from polychromic.policies.inference import Evaluator

# A fork rule gets the steps of one trunk and the number of forks, and returns the steps to fork at.
ForkRule = Callable[["TrunkSteps", int], Sequence[int]]


@dataclass(frozen=True)
class TrunkSteps:
    """What a fork rule may look at: one entry per step of one trunk of length T."""

    logits: NDArray[np.float32]  # parameters of the distribution that actions were drawn from, [T, A]
    values: NDArray[np.float32]  # V(s_t), [T]
    returns: NDArray[np.float64]  # what was collected from s_t on, discounted, [T]
    distribution: Distribution = CATEGORICAL  # that the logits are the parameters of

    def __len__(self) -> int:
        return len(self.values)


def spaced(trunk: TrunkSteps, num_forks: int) -> list[int]:
    """T/(p+1), 2T/(p+1), …, pT/(p+1) (paper, appendix A.1.1), rounded down."""
    return [(index * len(trunk)) // (num_forks + 1) for index in range(1, num_forks + 1)]


def most_uncertain(trunk: TrunkSteps, num_forks: int) -> list[int]:
    """The p states with the highest policy entropy."""
    return _highest(trunk.distribution.entropies(trunk.logits), num_forks)


def worst_predicted(trunk: TrunkSteps, num_forks: int) -> list[int]:
    """The p states with the largest critic error (V(s_t) − what was collected from there on)²."""
    return _highest((trunk.values - trunk.returns) ** 2, num_forks)


FORK_RULES: dict[str, ForkRule] = {
    "spaced": spaced,
    "most-uncertain": most_uncertain,
    "worst-predicted": worst_predicted,
}


def collect(
    evaluator: Evaluator,
    world: World,
    configurations: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    rollouts_per_state: int,
    forks_per_rollout: int = 0,
    fork_rule: ForkRule = spaced,
    initial_states_form_groups: bool = True,
    places_include_prefix: bool = False,
    temperature: float = 1.0,
    discount: float = 1.0,
    with_features: bool = False,
) -> Rollouts:
    """N trunks of each configuration, then N vines from each of p states along every trunk: N + N²p for each.

    Args:
        evaluator: the behaviour policy π_β.
        world: any world that can fork.
        configurations: those to play, [C]; one named twice is played twice, in groups of its own.
        rng: the only source of randomness.
        rollouts_per_state: N, trunks of a configuration and vines of a fork.
        forks_per_rollout: p; with 0 there are no vines, and the trunks of a configuration are one group.
        fork_rule: which steps of a trunk to fork at.
        initial_states_form_groups: whether the trunks of a configuration are a group of their own.
        places_include_prefix: whether a vine's places and features count from the initial state on, and not from its
            fork.
        temperature: of the behaviour policy.
        discount: γ of the returns that fork rules see.
        with_features: whether to ask `world.feature` of every trajectory.
    """
    configurations = np.asarray(configurations, np.int64)
    trunk_configurations = np.repeat(configurations, rollouts_per_state)
    forking = forks_per_rollout > 0
    trunks = roll(
        evaluator,
        world,
        world.start(trunk_configurations),
        rng,
        temperature=temperature,
        keep_states=forking,
        keep_seen=with_features,
    )
    trunk_groups = np.arange(len(trunk_configurations)).reshape(len(configurations), rollouts_per_state)
    parts, part_configurations, groups = [trunks], [trunk_configurations], [trunk_groups]
    prefixes: list[tuple[int, int] | None] = [None] * len(trunk_configurations)
    if forking:
        distribution = evaluator.policy.distribution
        forks = _forks(trunks, fork_rule, forks_per_rollout, distribution, temperature, discount)
        state = world.concatenate([trunks.states[step][[trunks.row_at(step, trunk)]] for trunk, step in forks])
        memory = trunks.memory_at(forks)
        each = np.repeat(np.arange(len(forks)), rollouts_per_state)
        vines = roll(
            evaluator,
            world,
            state[each],
            rng,
            memory=None if memory is None else memory[each],
            temperature=temperature,
            keep_seen=with_features,
        )
        parts.append(vines)
        part_configurations.append(trunk_configurations[np.array([trunk for trunk, _ in forks])][each])
        groups.append(len(trunk_configurations) + np.arange(len(each)).reshape(len(forks), rollouts_per_state))
        prefixes += [forks[fork] for fork in each]
        if not initial_states_form_groups:
            groups = groups[1:]
    steps = _join(parts)
    all_configurations = np.concatenate(part_configurations)
    counted = prefixes if places_include_prefix else None
    labels, visited = _places_of(steps, trunks, counted)
    obs, tables = world.restricted(steps.obs, configurations)
    return Rollouts(
        obs=obs,
        tables=tables,
        actions=steps.actions,
        log_probs=steps.log_probs,
        logits=steps.logits,
        values=steps.values,
        rewards=steps.rewards,
        offsets=steps.offsets,
        configurations=all_configurations,
        terminated=steps.terminated,
        success=steps.success,
        final_values=steps.final_values,
        labels=labels,
        groups=np.concatenate(groups),
        num_trunks=len(trunk_configurations),
        horizon=int(world.horizon),
        state_inputs=_state_inputs(evaluator, world, obs),
        visited=visited,
        features=_features(world, steps, trunks, counted) if with_features else None,
    )


def _state_inputs(evaluator: Evaluator, world: World, obs: Iterable[str]) -> tuple[str, ...]:
    """What distinguishes states: neither rows of the world's tables, nor the memory that `roll` puts beside its inputs.

    Memory sums up how a state was reached, so that hardly one would be met twice.
    """
    ours = ("memory",) if evaluator.policy.memory_size and evaluator.policy.begin is None else ()
    return tuple(name for name in obs if name not in (*world.table_inputs, *ours))


FLAT = ("actions", "log_probs", "logits", "values", "rewards", "places")


@dataclass(frozen=True)
class Steps:
    """Played trajectories, sorted by trajectory and then by time; flat arrays as in `Rollouts`."""

    obs: dict[str, NDArray[Any]]
    actions: NDArray[Any]
    log_probs: NDArray[np.float32]
    logits: NDArray[np.float32]
    values: NDArray[np.float32]
    rewards: NDArray[np.float32]
    offsets: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    success: NDArray[np.bool_] | None
    final_values: NDArray[np.float32]
    first_places: NDArray[np.int64]  # [K], before the first step
    places: NDArray[np.int64]  # [S], after each step
    first_seen: dict[str, NDArray[Any]]  # [K, …], what the world showed before the first step; empty unless asked for
    seen: dict[str, NDArray[Any]]  # [S, …], the same after each step
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
    world: World,
    state: Any,
    rng: np.random.Generator,
    *,
    memory: NDArray[np.float32] | None = None,
    temperature: float = 1.0,
    keep_states: bool = False,
    keep_seen: bool = False,
) -> Steps:
    """Play every row of `state` to its end under the policy and keep every step."""
    num = len(state)
    memory_is_seen = evaluator.policy.begin is None  # a cache is not an observation
    columns: dict[str, list[NDArray[Any]]] = {}
    by_time: dict[str, Any] = {"states": [], "live": [], "memories": []}
    first_places = np.asarray(world.places(state))
    first_seen = {name: np.asarray(value) for name, value in world.observe(state).items()} if keep_seen else {}
    terminated, final_values = np.zeros(num, bool), np.zeros(num, np.float32)
    successes = Successes(world, state)
    moments = play(evaluator, world, state, rng, memory=memory, temperature=temperature, keep_states=keep_states)
    for moment in moments:
        live, result = moment.live, moment.result
        if keep_states:
            by_time["states"].append(moment.before)
            by_time["live"].append(live)
            if moment.memory is not None:
                by_time["memories"].append(moment.memory)
        row = {f"obs:{name}": value for name, value in moment.inputs.items()}
        if keep_seen:
            row |= {f"seen:{name}": np.asarray(value) for name, value in world.observe(moment.state).items()}
        if moment.memory is not None and memory_is_seen:
            row["obs:memory"] = moment.memory
        row |= {
            "trajectory": live,
            "actions": moment.actions,
            "log_probs": moment.log_probs,
            "logits": moment.outputs.logits,
            "values": moment.outputs.value,
            "rewards": result.reward,
            "places": np.asarray(world.places(moment.state)),
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        successes.note(moment)
        terminated[live] = result.terminated
        cut = result.truncated & ~result.terminated
        if cut.any():
            after = moment.outputs.memory
            inputs = world.inputs(moment.state[cut])
            final_values[live[cut]] = evaluator(inputs, None if after is None else after[cut]).value
    flat = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(flat["trajectory"], kind="stable")
    lengths = np.bincount(flat["trajectory"], minlength=num)
    flat = {name: value[order] for name, value in flat.items()}
    arrays: dict[str, Any] = {name: flat[name] for name in FLAT}
    return Steps(
        obs={name.removeprefix("obs:"): value for name, value in flat.items() if name.startswith("obs:")},
        seen={name.removeprefix("seen:"): value for name, value in flat.items() if name.startswith("seen:")},
        first_seen=first_seen,
        **arrays,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        terminated=terminated,
        success=successes.known,
        final_values=final_values,
        first_places=first_places,
        **by_time,
    )


def _forks(
    trunks: Steps, rule: ForkRule, num_forks: int, distribution: Distribution, temperature: float, discount: float
) -> list[tuple[int, int]]:
    """(trunk, step) of every fork, in order."""
    forks = []
    returns = discounted_return(trunks.rewards, trunks.offsets, discount=discount)
    for trunk, (start, end) in enumerate(zip(trunks.offsets[:-1], trunks.offsets[1:], strict=True)):
        logits = distribution.tempered(trunks.logits[start:end], temperature)
        shown = TrunkSteps(logits, trunks.values[start:end], returns[start:end], distribution)
        returned = rule(shown, num_forks)
        try:
            steps = [int(step) for step in returned]
        except (TypeError, ValueError):
            steps = []
        if len(steps) != num_forks or any(not 0 <= step < end - start for step in steps):
            raise UserError(
                f"fork_rule returned {returned} for a rollout of {end - start} steps; "
                f"it must return {num_forks} steps from 0 to {end - start - 1}"
            )
        forks += [(trunk, step) for step in steps]
    return forks


def _highest(scores: NDArray[Any], count: int) -> list[int]:
    """Indices of the highest scores in order of time; a rollout shorter than `count` repeats its steps."""
    ranked = np.argsort(-scores, kind="stable")
    return sorted(int(ranked[index % len(ranked)]) for index in range(count))


def _join(parts: Sequence[Steps]) -> Steps:
    """Trunks and vines one after another; states by time are no longer needed."""
    if len(parts) == 1:
        return parts[0]
    names = (*FLAT, "terminated", "final_values", "first_places")
    ends = np.cumsum([part.offsets[-1] for part in parts])
    offsets = [parts[0].offsets] + [part.offsets[1:] + end for part, end in zip(parts[1:], ends, strict=False)]
    return Steps(
        obs=_joined([part.obs for part in parts]),
        seen=_joined([part.seen for part in parts]),
        first_seen=_joined([part.first_seen for part in parts]),
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names},
        offsets=np.concatenate(offsets),
        success=join_successes([part.success for part in parts], [len(part.terminated) for part in parts]),
        states=[],
        live=[],
        memories=[],
    )


def _joined(parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


Prefixes = Sequence[tuple[int, int] | None]  # (trunk, step) that each trajectory was forked at; None for trunks


def _places_of(steps: Steps, trunks: Steps, prefixes: Prefixes | None) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """A number per trajectory for the set of places that it visited, its first and its last among them; and the set."""
    lengths = np.diff(steps.offsets)
    trajectory = [np.arange(len(lengths)), np.repeat(np.arange(len(lengths)), lengths)]
    place = [steps.first_places, steps.places]
    for index, prefix in enumerate(prefixes or ()):
        if prefix is not None:
            trunk, step = prefix
            before = trunks.places[trunks.offsets[trunk] : trunks.offsets[trunk] + step]
            place += [before, trunks.first_places[[trunk]]]
            trajectory.append(np.full(len(before) + 1, index))
    return _labels_and_sets(np.concatenate(trajectory), np.concatenate(place), len(lengths))


def _features(world: World, steps: Steps, trunks: Steps, prefixes: Prefixes | None) -> NDArray[np.float64]:
    """What the world's `feature` says of every trajectory, [K, D]."""
    vectors: list[NDArray[np.float64]] = []
    for index in range(len(steps.offsets) - 1):
        prefix = prefixes[index] if prefixes else None
        vectors.append(_vector(world, _episode(steps, index, trunks, prefix)))
        if vectors[-1].shape != vectors[0].shape:
            raise UserError(
                f"feature returned {len(vectors[0])} numbers for one episode and {len(vectors[-1])} for another; "
                "they must be equally many"
            )
    return np.stack(vectors)


def _episode(steps: Steps, index: int, trunks: Steps, prefix: tuple[int, int] | None) -> Episode:
    """One trajectory, from its trunk's beginning on if there is a prefix."""
    own = slice(steps.offsets[index], steps.offsets[index + 1])
    parts = [(steps, own)]
    first, at = steps, index
    if prefix is not None:
        trunk, step = prefix
        start = trunks.offsets[trunk]
        parts = [(trunks, slice(start, start + step)), *parts]
        first, at = trunks, trunk

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name)[where] for part, where in parts])

    shown = {
        name: np.concatenate([first.first_seen[name][[at]], *(part.seen[name][where] for part, where in parts)])
        for name in steps.seen
    }
    return Episode(
        observations=shown["observation"] if list(shown) == ["observation"] else shown,
        actions=joined("actions"),
        rewards=joined("rewards"),
        places=np.concatenate([first.first_places[[at]], joined("places")]),
    )


def _vector(world: World, episode: Episode) -> NDArray[np.float64]:
    assert world.feature is not None
    try:
        vector = np.asarray(world.feature(episode), np.float64)
    except Exception as error:
        raise UserError(f"feature raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    if vector.ndim != 1 or not len(vector) or not np.isfinite(vector).all():
        raise UserError(f"feature returned {vector!r}; it must be a vector of finite numbers")
    return vector


def label_visits(
    trajectories: NDArray[np.int64], places: NDArray[np.int64], num_trajectories: int
) -> NDArray[np.uint64]:
    """A number per trajectory for the set of places in its visits: trajectory `trajectories[i]` was at `places[i]`."""
    return _labels_and_sets(trajectories, places, num_trajectories)[0]


def _labels_and_sets(
    trajectories: NDArray[np.int64], places: NDArray[np.int64], num_trajectories: int
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """`label_visits`, and which of all places each trajectory visited, [K, P]."""
    seen, which = np.unique(places, return_inverse=True)
    visited = np.zeros((num_trajectories, len(seen)), bool)
    visited[trajectories, which] = True
    # A sum of well-mixed numbers per place: equal sets have equal sums, different ones differ but for a chance of 2⁻⁶⁴.
    return np.asarray((visited * _mixed(seen)).sum(axis=1, dtype=np.uint64)), visited


def _mixed(places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: well-mixed 64-bit numbers from any integers."""
    mixed = places.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))

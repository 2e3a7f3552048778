"""Behaviour cloning in any world: from a function, from a model with `predict`, or from recorded episodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from polychromic.envs.protocol import Arrays, World, task_name
from polychromic.errors import UserError
from polychromic.finetuning.default_policy import policy_for
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.fit import check_fits
from polychromic.policies.protocol import Params, Policy

MINARI = "minari:"  # before the name of a data set
HELD_OUT = 0.1  # of the episodes, to know when to stop


@dataclass(frozen=True)
class Episodes:
    """Demonstrated steps, one episode after another: episode k holds the steps offsets[k] … offsets[k + 1] − 1."""

    inputs: Arrays  # what a policy reads before each action, each [steps, …]
    actions: NDArray[Any]  # [steps, …]
    offsets: NDArray[np.int64]  # [episodes + 1]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def clone(
    world: World,
    demonstrations: Any,
    policy: SavedPolicy | tuple[Policy, Params] | None = None,
    *,
    episodes: int = 200,
    epochs: int = 50,
    patience: int = 5,
    learning_rate: float = 1e-3,
    entropy: float = 0.01,
    minibatch_size: int = 64,
    seed: int = 0,
) -> SavedPolicy:
    """A base policy that acts like the demonstrations: maximum likelihood with an entropy regulariser.

    Only the actor learns; the critic keeps its weights. Of ten episodes or more a tenth is held out, and the weights of
    the best loss on it are kept.

    Args:
        world: any world without tables; `polychromic.from_gymnasium` makes one of your environment.
        demonstrations: who or what shows what to do:
            a function from an observation to an action (an array, a number, or a dict of them, as the world shows it);
            a model with `predict(observation)`, as Stable-Baselines3 has them;
            episodes that were recorded, each a pair (observations, actions) or an object with these two attributes, as
            Minari gives them; a last observation without an action is left out;
            or "minari:DATASET", the name of a local Minari dataset.
        policy: the policy to train. Not given: `polychromic.policy_for(world)`.
        episodes: how many to play, in turn on all configurations, where demonstrations is a function or a model.
        epochs: passes over the steps, at most.
        patience: epochs without a better loss on what is held out, before stopping.
        learning_rate: of Adam.
        entropy: the policy's mean entropy, times this, is subtracted from the loss.
        minibatch_size: steps per gradient step.
        seed: of the weights, the world's noise and the order of the steps.
    """
    for name, value in (("episodes", episodes), ("epochs", epochs), ("minibatch_size", minibatch_size)):
        if value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1")
    if not learning_rate > 0:
        raise UserError(f"learning_rate is {learning_rate}; it must be above 0")
    start = policy_for(world, seed=seed) if policy is None else policy
    saved = start if isinstance(start, SavedPolicy) else SavedPolicy(*start, PolicyInfo())
    if saved.policy.memory_size:
        raise UserError(f"policy is '{saved.policy.name}', which has a memory; cloning anywhere needs one without")
    check_fits(saved, world, other_task=True)
    shown = demonstrated(world, demonstrations, episodes, seed)
    train, held_out = _split(shown, np.random.default_rng(seed))
    optimiser = optax.adam(learning_rate)
    learn, score = _epoch(saved.policy, optimiser, entropy), _loss_on(saved.policy)
    params = jax.tree.map(jnp.asarray, saved.params)
    state = optimiser.init(params["actor"])
    best, best_loss, waited = params, np.inf, 0
    inputs, actions = jax.device_put((shown.inputs, shown.actions))
    for epoch in range(epochs):
        rng = np.random.default_rng([seed, epoch])
        params, state = learn(params, state, inputs, actions, _minibatches(rng.permutation(train), minibatch_size))
        loss = float(score(params, inputs, actions, _minibatches(held_out, minibatch_size)))
        if not np.isfinite(loss):
            raise UserError(f"the loss became {loss} in epoch {epoch + 1}; lower learning_rate")
        best, best_loss, waited = (params, loss, 0) if loss < best_loss else (best, best_loss, waited + 1)
        if waited > patience:
            break
    made = {"cloned": {"episodes": len(shown), "steps": len(shown.actions), "loss": best_loss, "seed": seed}}
    info = replace(
        saved.info,
        task=saved.info.task or task_name(world),
        configurations=saved.info.configurations or tuple(world.level_seeds),
        made={**saved.info.made, **made},
        source="<memory>",
    )
    return SavedPolicy(saved.policy, jax.tree.map(np.asarray, best), info)


def demonstrated(world: World, demonstrations: Any, episodes: int, seed: int) -> Episodes:
    """The steps of demonstrations of any kind."""
    if isinstance(demonstrations, str):
        if not demonstrations.startswith(MINARI) or demonstrations == MINARI:
            raise UserError(f"demonstrations is {demonstrations!r}; the name of a data set is minari:DATASET")
        from polychromic.integrations.minari import recorded_episodes

        demonstrations = recorded_episodes(demonstrations.removeprefix(MINARI))
    predict = getattr(demonstrations, "predict", None)
    if callable(predict):
        return _played(world, lambda shown: predict(shown)[0], episodes, seed)
    if callable(demonstrations):
        return _played(world, demonstrations, episodes, seed)
    if not isinstance(demonstrations, Iterable):
        raise UserError(
            f"demonstrations is a {type(demonstrations).__name__}; give a function, a model with predict, or episodes "
            "(a list of them, or minari:DATASET)"
        )
    return _recorded(world, demonstrations)


def _played(world: World, act: Callable[[Any], Any], episodes: int, seed: int) -> Episodes:
    """Episodes of a player, all at once."""
    if world.has_noise:
        world.reseed(seed)
    live = np.arange(episodes)
    state = world.start(live % world.num_configurations)
    rows: list[NDArray[np.int64]] = []
    chosen: list[NDArray[Any]] = []
    parts: dict[str, list[NDArray[Any]]] = {}
    for _ in range(int(world.horizon)):
        shown = {name: np.asarray(value) for name, value in world.observe(state).items()}
        actions = np.array([_action(world, act, _row(shown, row)) for row in range(len(live))])
        for name, value in world.inputs(state).items():
            parts.setdefault(name, []).append(np.asarray(value))
        rows.append(live)
        chosen.append(actions)
        result = world.step(state, actions)
        going = ~(result.terminated | result.truncated)
        if not going.any():
            break
        live, state = live[going], state[going]
    order = np.argsort(np.concatenate(rows), kind="stable")
    lengths = np.bincount(np.concatenate(rows), minlength=episodes)
    return Episodes(
        {name: np.concatenate(values)[order] for name, values in parts.items()},
        np.concatenate(chosen)[order],
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def _row(shown: Mapping[str, NDArray[Any]], row: int) -> Any:
    """One observation as its environment gives it: a single array is not wrapped in a dict."""
    if list(shown) == ["observation"]:
        return shown["observation"][row]
    return {name: value[row] for name, value in shown.items()}


def _action(world: World, act: Callable[[Any], Any], shown: Any) -> Any:
    try:
        given = np.asarray(act(shown))
    except Exception as error:
        raise UserError(f"demonstrations raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    action = world.actions.one(given)
    if action is None:
        raise UserError(f"demonstrations gave the action {given!r}; actions are {world.actions}")
    return action


def _recorded(world: World, episodes: Iterable[Any]) -> Episodes:
    """Episodes that somebody wrote down."""
    wanted = {name: np.asarray(value) for name, value in world.observe(world.start(np.zeros(1, np.int64))).items()}
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in wanted}
    actions: list[NDArray[Any]] = []
    for number, episode in enumerate(episodes):
        pair = (getattr(episode, "observations", None), getattr(episode, "actions", None))
        if pair[0] is None or pair[1] is None:
            try:
                pair = tuple(episode)
                _observations, _actions = pair
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"demonstrations: episode {number} is a {type(episode).__name__}, not (observations, actions)"
                ) from error
        given = np.asarray(pair[1])
        taken = world.actions.rows(given)
        if taken is None or not len(taken):
            raise UserError(
                f"demonstrations: actions of episode {number} are {given.dtype} {given.shape}; "
                f"give {world.actions.form}"
            )
        if (wrong := world.actions.wrong(taken)).any():
            raise UserError(
                f"demonstrations: episode {number} has an action {taken[wrong][0]}; actions are {world.actions}"
            )
        seen = _by_key(pair[0])
        for name, example in wanted.items():
            if name not in seen:
                raise UserError(f"demonstrations: episode {number} has no '{name}', which the world shows")
            values = np.asarray(seen[name])
            if len(values) < len(taken) or values.shape[1:] != example.shape[1:]:
                raise UserError(
                    f"demonstrations: '{name}' of episode {number} has shape {values.shape}, expected "
                    f"{(len(taken), *example.shape[1:])} or one more"
                )
            parts[name].append(values[: len(taken)].astype(example.dtype))
        actions.append(taken)
    if not actions:
        raise UserError("demonstrations is empty; give at least one episode")
    lengths = [len(taken) for taken in actions]
    return Episodes(
        {name: np.concatenate(values) for name, values in parts.items()},
        np.concatenate(actions),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def _by_key(observations: Any, prefix: str = "") -> dict[str, Any]:
    """Recorded observations under the keys of the world: those of nested dicts and tuples are joined by dots."""
    if isinstance(observations, tuple):
        observations = {str(number): part for number, part in enumerate(observations)}
    if not isinstance(observations, Mapping):
        return {prefix or "observation": observations}
    parts = [_by_key(part, f"{prefix}.{name}" if prefix else str(name)) for name, part in observations.items()]
    return {name: value for part in parts for name, value in part.items()}


def _split(shown: Episodes, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps to learn from and steps to judge by: different episodes, or all for both where there are few."""
    steps = [np.arange(first, last) for first, last in zip(shown.offsets[:-1], shown.offsets[1:], strict=True)]
    if len(shown) < round(1 / HELD_OUT):
        return np.concatenate(steps), np.concatenate(steps)
    order = rng.permutation(len(shown))
    count = round(HELD_OUT * len(shown))
    return tuple(np.concatenate([steps[k] for k in part]) for part in (order[count:], order[:count]))  # type: ignore[return-value]


def _minibatches(steps: NDArray[np.int64], size: int) -> NDArray[np.int32]:
    """[minibatches, size], the last one filled up with −1."""
    table = np.full(-(-len(steps) // size) * size, -1, np.int32)
    table[: len(steps)] = steps
    return table.reshape(-1, size)


def _losses(policy: Policy, params: Params, inputs: Any, actions: Any, chosen: Any) -> tuple[Any, Any, Any]:
    """Sums over a minibatch of −log π(a) and the entropy, and how many steps it has."""
    rows = jnp.maximum(chosen, 0)
    shown = {name: value[rows] for name, value in inputs.items()}
    given = policy.distribution.at(policy.apply(params, shown)[0])
    weight = (chosen >= 0).astype(jnp.float32)
    return -(weight * given.log_prob(actions[rows])).sum(), (weight * given.entropy()).sum(), weight.sum()


def _epoch(policy: Policy, optimiser: optax.GradientTransformation, entropy: float) -> Any:
    """One pass over the minibatches, compiled."""

    def loss(actor: Params, critic: Params, inputs: Any, actions: Any, chosen: Any) -> Any:
        crossed, spread, count = _losses(policy, {"actor": actor, "critic": critic}, inputs, actions, chosen)
        return (crossed - entropy * spread) / count

    @jax.jit
    def run(params: Params, state: Any, inputs: Any, actions: Any, minibatches: Any) -> Any:
        def one(carry: Any, chosen: Any) -> Any:
            actor, state = carry
            grads = jax.grad(loss)(actor, params["critic"], inputs, actions, chosen)
            changes, state = optimiser.update(grads, state, actor)
            return (optax.apply_updates(actor, changes), state), None

        (actor, state), _ = jax.lax.scan(one, (params["actor"], state), minibatches)
        return {"actor": actor, "critic": params["critic"]}, state

    return run


def _loss_on(policy: Policy) -> Any:
    """The mean of −log π(a) over minibatches, compiled."""

    @jax.jit
    def run(params: Params, inputs: Any, actions: Any, minibatches: Any) -> Any:
        sums = jax.lax.map(functools.partial(_losses, policy, params, inputs, actions), minibatches)
        return sums[0].sum() / sums[2].sum()

    return run

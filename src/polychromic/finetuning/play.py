"""Playing episodes: every live row in one call of the policy and one of the world a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.protocol import StepResult, World
from polychromic.errors import UserError
from polychromic.policies.inference import Evaluator, Outputs


class Moment(NamedTuple):
    """One step of all rows that were still live, L of them."""

    live: NDArray[np.int64]  # which rows of the batch they are, [L], in order
    inputs: dict[str, NDArray[Any]]  # what the policy read, each [L, …]
    memory: NDArray[np.float32] | None  # what a policy with memory remembered, [L, memory_size]
    before: Any  # a copy of their states before the step; None unless asked for
    outputs: Outputs  # what the policy said
    actions: NDArray[Any]  # [L, …]
    log_probs: NDArray[np.float32]  # of the actions, [L]
    result: StepResult
    state: Any  # after the step; the next step changes it

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which of them ended with this step, [L]."""
        return np.asarray(self.result.terminated | self.result.truncated)


def play(
    evaluator: Evaluator,
    world: World,
    state: Any,
    rng: np.random.Generator,
    *,
    memory: NDArray[np.float32] | None = None,
    temperature: float = 1.0,
    keep_states: bool = False,
) -> Iterator[Moment]:
    """Every row of `state` to its end under the policy, step by step.

    Args:
        evaluator: the policy.
        world: any world; `state` is one of its states, and is changed.
        rng: draws the actions; as many numbers per live row and step as the policy's distribution takes.
        memory: what a policy with memory starts from; not given: as at the start of an episode.
        temperature: of the policy's distribution; 0 takes the most likely action.
        keep_states: whether moments hold a copy of the states before the step.
    """
    distribution = evaluator.policy.distribution
    live = np.arange(len(state))
    if memory is None and len(live):
        memory = evaluator.first_memory(world.inputs(state))
    step = 0
    while len(live):
        if step == world.horizon:
            raise UserError(f"world {world!r} did not end its episodes within its horizon of {step} steps")
        inputs = world.inputs(state)
        outputs = evaluator(inputs, memory)
        actions, log_probs = distribution.sample(outputs.logits, rng, temperature)
        before = state[np.arange(len(live))] if keep_states else None
        result = world.step(state, actions)
        moment = Moment(live, inputs, memory, before, outputs, actions, log_probs, result, state)
        yield moment
        going = ~moment.ended
        memory = outputs.memory
        if not going.all():
            live, state = live[going], state[going]
            memory = None if memory is None else memory[going]
        step += 1


class Successes:
    """Which of K rows have succeeded, by the world's own word."""

    def __init__(self, world: World, state: Any) -> None:
        self._world = world
        self._won = np.zeros(len(state), bool)
        self._told = world.succeeded(state) is not None

    def note(self, moment: Moment) -> None:
        """Ask about the rows that just ended."""
        ended = moment.ended
        if ended.any() and (told := self._world.succeeded(moment.state)) is not None:
            self._won[moment.live[ended]] = told[ended]
            self._told = True

    @property
    def known(self) -> NDArray[np.bool_] | None:
        """[K], or None if the world did not say."""
        return self._won if self._told else None


def join_successes(parts: Sequence[NDArray[np.bool_] | None], sizes: Sequence[int]) -> NDArray[np.bool_] | None:
    """Of several batches of these sizes; one that was told nothing beside others that were has had no success."""
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [np.zeros(size, bool) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    )

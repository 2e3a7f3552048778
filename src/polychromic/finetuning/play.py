"""Playing episodes: every live row in one call of the policy and one of the world a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.protocol import StepResult, World
from polychromic.errors import UserError
from polychromic.policies.inference import Evaluator, Outputs, sample_actions


class Moment(NamedTuple):
    """One step of all rows that were still live, L of them."""

    live: NDArray[np.int64]  # which rows of the batch they are, [L], in order
    inputs: dict[str, NDArray[Any]]  # what the policy read, each [L, …]
    memory: NDArray[np.float32] | None  # what a policy with memory remembered, [L, memory_size]
    before: Any  # a copy of their states before the step; None unless asked for
    outputs: Outputs  # what the policy said
    actions: NDArray[np.int64]  # [L]
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
        rng: draws the actions; one number per live row and step.
        memory: where a policy with memory goes on from; not given: as at the start of an episode.
        temperature: of the softmax; 0 takes the most likely action.
        keep_states: whether moments hold a copy of the states before the step.
    """
    live = np.arange(len(state))
    if memory is None and len(live):
        memory = evaluator.first_memory(world.inputs(state))
    step = 0
    while len(live):
        if step == world.horizon:
            raise UserError(f"world {world!r} did not end its episodes within its horizon of {step} steps")
        inputs = world.inputs(state)
        outputs = evaluator(inputs, memory)
        actions, log_probs = sample_actions(outputs.logits, rng, temperature)
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


def note_success(world: World, moment: Moment, success: NDArray[np.bool_], returns: NDArray[Any]) -> None:
    """Write into `success` [K] which of the rows that just ended have succeeded.

    Where the world does not say, a return above 0 counts; `returns` [K] holds what each row has collected.
    """
    ended = moment.ended
    if ended.any():
        rows = moment.live[ended]
        told = world.succeeded(moment.state)
        success[rows] = returns[rows] > 0 if told is None else told[ended]

"""Does a policy fit a world? By what its file says, then by tracing it on what the world shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from polychromic.errors import UserError
from polychromic.policies.files import SavedPolicy
from polychromic.policies.protocol import Policy

if TYPE_CHECKING:
    from polychromic.envs.protocol import World

ROWS = 5  # not the number of actions of a world that people have


def check_fits(saved: SavedPolicy, world: World, *, other_task: bool = False) -> None:
    """Refuse a world that a policy was not made for, in one line that names the policy and what differs.

    other_task: accept another task with the same observations and words that the policy has seen.
    """
    info = saved.info
    name = info.source if info.source != "<memory>" else f"policy '{saved.policy.name}'"
    if info.task and info.task != world.task and not other_task:
        raise UserError(f"{name}: task is {info.task}, the world runs {world.task}")
    header = {
        "architecture": saved.policy.architecture,
        "observation": info.observation,
        "vocabulary": info.vocabulary,
        "words_seen": info.words_seen,
    }
    why = world.misfit(header) or _untraceable(saved.policy, saved.params, world)
    if why:
        raise UserError(f"{name}: {why}")


def _untraceable(policy: Policy, params: Any, world: World) -> str:
    """Why a policy cannot be run on what a world shows; empty if it can. Shapes only: nothing is computed."""
    if not isinstance(params, Mapping) or set(params) != {"actor", "critic"}:
        groups = ", ".join(map(str, params)) if isinstance(params, Mapping) else type(params).__name__
        return f"its parameters are grouped as {groups}; they must have the two groups actor and critic"
    if policy.distribution.name != world.actions.distribution:
        return (
            f"its actions are drawn from a {policy.distribution.name} distribution; the world's actions are "
            f"{world.actions}, for which it must be {world.actions.distribution}"
        )
    inputs = world.inputs(world.start(np.zeros(ROWS, np.int64)))
    seen = {name: np.asarray(value) for name, value in inputs.items()}
    memory = (np.zeros((ROWS, policy.memory_size), np.float32),) if policy.memory_size else ()
    tables: Any = world.tables()
    try:
        if tables and policy.encode is not None:
            tables = jax.eval_shape(policy.encode, params, tables)
        outputs = jax.eval_shape(policy.apply, params, {**seen, **tables}, *memory)
    except Exception as error:  # a network can fail in as many ways as there are layers
        return f"its network cannot read what the world shows ({_shown(seen)}): {_first_line(error)}"
    wanted = 3 if policy.memory_size else 2
    if not isinstance(outputs, tuple | list) or len(outputs) != wanted:
        parts = "logits, value and memory" if policy.memory_size else "logits and value"
        count = len(outputs) if isinstance(outputs, tuple | list) else 1
        return f"apply returns {count} {'array' if count == 1 else 'arrays'}; it must return {parts}"
    expected = {"logits": (ROWS, world.actions.outputs), "value": (ROWS,), "memory": (ROWS, policy.memory_size)}
    for (part, shape), output in zip(expected.items(), outputs, strict=False):
        if tuple(output.shape) != shape:
            rows, *rest = output.shape or ("",)
            given = ", ".join(["B" if rows == ROWS else str(rows), *map(str, rest)])
            right = ", ".join(["B", *map(str, shape[1:])])
            more = f": {world.actions.explain_outputs()}" if part == "logits" else ""
            return f"apply returns {part} of shape [{given}]; it must be [{right}]{more}"
    return ""


def _shown(seen: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value.dtype} [{', '.join(['B', *map(str, value.shape[1:])])}]" for name, value in seen.items()
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 200 else text[:199] + "…"

"""The advantage estimator 'polychromic' of verl.

verl's estimators see rewards, masks and group ids, but no responses; so the trainers of
`polychromic.integrations.verl`, which do, leave them here for the length of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import torch
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, register_adv_est

from polychromic.core.checks import Floats, Ints
from polychromic.errors import UserError
from polychromic.integrations.answers import GroupLabels, rewards_of, right_answers
from polychromic.integrations.group_sets import group_advantages, group_metrics, scaled, silent_groups
from polychromic.integrations.verl_settings import NAME, VerlSettings


class Responses(NamedTuple):
    """What the trainer knows of the rows of a batch and the estimator does not.

    Attributes:
        completions: the response of each row, a `Completion` with its prompt, columns and messages.
        sessions: rows with the same session are outputs of one agent loop, of which the last counts.
        places: the position of a row within its session.
        padding: rows that verl has added to fill the batch.
        settings: of the run.
        draw: numbers that no other batch of the run has, for the random sets: the global step and, where a step has
            several batches, which of them.
        metrics: filled in by the estimator, for the logs.
        passed: the share of the run that has passed, for `anneal`; None: not known.
    """

    completions: Sequence[str]
    sessions: Sequence[str]
    places: Sequence[int]
    padding: Sequence[bool]
    settings: VerlSettings
    draw: tuple[int, ...]
    metrics: dict[str, float]
    passed: float | None = None


PER_ROW = ("completions", "sessions", "places", "padding")
_RESPONSES: ContextVar[Responses | None] = ContextVar("polychromic_responses", default=None)


@contextmanager
def responses_for_estimator(responses: Responses) -> Iterator[None]:
    """While open, the 'polychromic' estimator reads these responses."""
    token = _RESPONSES.set(responses)
    try:
        yield
    finally:
        _RESPONSES.reset(token)


@register_adv_est(NAME)
def polychromic_estimator(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray,
    config: Any = None,  # noqa: ARG001 - verl passes it
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The polychromic advantage of each row, at each of its tokens.

    Args:
        token_level_rewards: [rows, tokens]; their sum is the reward of a row.
        response_mask: [rows, tokens].
        index: the group of each row, [rows].

    Returns:
        advantages and returns, the same tensor [rows, tokens].
    """
    responses = _RESPONSES.get()
    if responses is None:
        raise UserError(
            f"algorithm.adv_estimator={NAME} was called by a trainer that does not hand it the responses; "
            f"set trainer.v1.trainer_mode={NAME} as well"
        )
    rewards = token_level_rewards.sum(dim=-1).detach().cpu().double().numpy()
    advantages = torch.as_tensor(advantages_of_rows(rewards, list(index), responses), dtype=torch.float32)
    spread = advantages.to(token_level_rewards.device)[:, None] * response_mask
    return spread, spread


def advantages_of_rows(rewards: Floats, uids: Sequence[Any], responses: Responses) -> Floats:
    """The advantage of each row: of its session's last output, among those of its group; 0 for padding."""
    settings = responses.settings
    _check_rows(rewards, uids, responses)
    weight = _set_weight(responses)
    last = _last_outputs(responses)
    sessions = list(last.values())
    groups, num_incomplete = _groups_by_size(sessions, uids, settings)
    raw, returns, advantages = np.zeros((3, len(rewards)))
    names = [f"a response of group {uids[row]}" for row in sessions]
    raw[sessions], returns[sessions] = rewards_of(
        rewards[sessions], len(sessions), settings.reward_range, "the reward function", names
    )
    generator = np.random.default_rng([settings.seed, *responses.draw])
    metrics: dict[str, list[float]] = defaultdict(list)
    weights: list[int] = []
    num_failed = 0
    for all_rows in groups:
        judged = _items(all_rows, responses)
        num_failed += sum(group.failed for group in judged)
        items = [group.labels for group in judged]
        kept = np.array([labels is not None for labels in items])
        if not kept.any():
            continue
        rows = all_rows[kept]
        right = right_answers(raw[rows], settings.success_threshold)
        likeness = settings.comparison.likeness([labels for labels in items if labels is not None])
        likeness = likeness.of_wrong(right, settings.wrong_answers)
        advantages[rows] = group_advantages(returns[rows], likeness, settings.sets, generator)
        found = group_metrics(returns[rows], likeness, settings.sets, right)
        weights.append(len(rows))
        for name, value in found.items():
            metrics[name].append(value)
    if num_failed and not weights:
        raise UserError("the judge gave no answer for any group of this step; on_failure=skip is for some")
    for name, values in metrics.items():
        responses.metrics[f"{NAME}/{name}"] = float(np.average(values, weights=weights))
    if groups:
        means = np.concatenate([raw[rows].mean(axis=1) for rows in groups])
        silent = np.concatenate([silent_groups(advantages[rows]) for rows in groups])
        responses.metrics[f"{NAME}/raw_reward"] = float(means.mean())
        responses.metrics[f"{NAME}/silent_groups"] = float(silent.mean())
    responses.metrics[f"{NAME}/incomplete_groups"] = float(num_incomplete)
    if settings.comparison.needs_whole_groups:
        responses.metrics[f"{NAME}/failed_groups"] = num_failed / max(sum(map(len, groups)), 1)
    responses.metrics[f"{NAME}/advantage_std"] = float(advantages[sessions].std()) if sessions else 0.0
    advantages[sessions] = scaled(advantages[sessions], settings.sets.scale)
    if settings.sets.anneal:
        responses.metrics[f"{NAME}/set_weight"] = weight
        grpo = _grpo_advantages(raw[sessions], [uids[row] for row in sessions])
        advantages[sessions] = weight * advantages[sessions] + (1 - weight) * grpo
    return np.array(
        [0.0 if padding else advantages[last[session]]
         for padding, session in zip(responses.padding, responses.sessions, strict=True)]
    )  # fmt: skip


def _check_rows(rewards: Floats, uids: Sequence[Any], responses: Responses) -> None:
    """Refuse a batch whose parts do not have the same rows."""
    parts = {"rewards": rewards, "group ids": uids, **{name: getattr(responses, name) for name in PER_ROW}}
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        raise UserError(
            f"the batch has {', '.join(f'{count} {name}' for name, count in lengths.items())}; a row has one of each"
        )


def _set_weight(responses: Responses) -> float:
    """The weight of the sets beside verl's GRPO advantages."""
    sets = responses.settings.sets
    if not sets.anneal:
        return 1.0
    if responses.passed is None:
        raise UserError(
            f"{NAME}.anneal is {sets.anneal:g}, but the trainer does not say how much of the run has passed; "
            f"set trainer.v1.trainer_mode={NAME}, or hand over Responses(passed=…)"
        )
    return sets.weight_after(responses.passed)


def _grpo_advantages(rewards: Floats, uids: Sequence[Any]) -> Floats:
    """What verl's GRPO makes of rewards [rows].

    In 64 bits: where all rewards of a group are equal, the rounding of their mean in verl's 32 bits, divided by its
    1e-6, can be an advantage of 0.1 and more, and is none here.
    """
    scores = torch.as_tensor(rewards)[:, None]
    advantages, _ = compute_grpo_outcome_advantage(
        scores, torch.ones_like(scores), np.array(uids, dtype=object), norm_adv_by_std_in_grpo=True
    )
    return np.asarray(advantages[:, 0].numpy())


def _last_outputs(responses: Responses) -> dict[str, int]:
    """The row of the last output of each session, padding left out."""
    last: dict[str, int] = {}
    for row, (session, place) in enumerate(zip(responses.sessions, responses.places, strict=True)):
        if not responses.padding[row] and (session not in last or place > responses.places[last[session]]):
            last[session] = row
    return last


def _groups_by_size(rows: list[int], uids: Sequence[Any], settings: VerlSettings) -> tuple[list[Ints], int]:
    """Rows [groups, size], one array per size, and how many groups are too small for any signal."""
    groups: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        groups[uids[row]].append(row)
    by_size: dict[int, list[list[int]]] = defaultdict(list)
    for uid, members in groups.items():
        if len(members) > settings.sets.set_size:
            by_size[len(members)].append(members)
        elif settings.incomplete_groups == "error":
            raise UserError(
                f"group {uid} has {len(members)} responses; sets of {settings.sets.set_size} need more than that. Say "
                f"{NAME}.incomplete_groups=skip to give such groups the advantage 0 and go on"
            )
    complete = [np.array(by_size[size], np.int64) for size in sorted(by_size)]
    return complete, len(groups) - sum(map(len, complete))


def _items(rows: Ints, responses: Responses) -> list[GroupLabels]:
    """What the responses of groups [groups, size] are compared by."""
    comparison = responses.settings.comparison
    groups = [[responses.completions[row] for row in group] for group in rows]
    if comparison.needs_whole_groups:
        prompts = [getattr(group[0], "prompt", None) for group in groups]
        return comparison.labels_of_groups(prompts, groups)
    flat = comparison.of_completions([completion for group in groups for completion in group])
    return [GroupLabels(flat[start : start + rows.shape[1]]) for start in range(0, len(flat), rows.shape[1])]

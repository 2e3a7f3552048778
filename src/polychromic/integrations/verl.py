"""Polychromic training with verl: an advantage estimator and a trainer, both named 'polychromic'.

verl loads this module by itself, through the entry point group `verl.plugins`. Its estimators see rewards, masks and
group ids, but no responses; so the trainer, which does, reads the responses and leaves them for the estimator. All else
is verl's own synchronous trainer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import torch
import transfer_queue as tq
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from polychromic.core.checks import Floats, Ints
from polychromic.errors import UserError
from polychromic.integrations.answers import rewards_of, right_answers
from polychromic.integrations.group_sets import group_advantages, group_figures
from polychromic.integrations.verl_settings import NAME, VerlSettings, settings_of


class Responses(NamedTuple):
    """What the trainer knows of the rows of a batch and the estimator does not.

    Attributes:
        texts: the response of each row.
        prompts: the prompt of each row, for a judge.
        sessions: rows with the same session are outputs of one agent loop, of which the last counts.
        places: the position of a row within its session.
        padding: rows that verl has added to fill the batch.
        settings: of the run.
        step: the global step.
        figures: filled in by the estimator, for the logs.
    """

    texts: Sequence[str]
    prompts: Sequence[Any]
    sessions: Sequence[str]
    places: Sequence[int]
    padding: Sequence[bool]
    settings: VerlSettings
    step: int
    figures: dict[str, float]


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
    last = _last_outputs(responses)
    groups, num_incomplete = _groups_by_size(list(last.values()), uids, settings)
    advantages = np.zeros(len(rewards))
    generator = np.random.default_rng([settings.seed, responses.step])
    figures: dict[str, list[float]] = defaultdict(list)
    for rows in groups:
        flat = rows.ravel().tolist()
        raw, returns = rewards_of(
            rewards[flat],
            len(flat),
            settings.reward_range,
            "the reward function",
            [f"a response of group {uids[row]}" for row in flat],
        )
        raw, returns = raw.reshape(rows.shape), returns.reshape(rows.shape)
        likeness = settings.comparison.likeness(_items(rows, responses))
        advantages[rows] = group_advantages(returns, likeness, settings.sets, generator)
        found = group_figures(returns, likeness, settings.sets, right_answers(raw, settings.success_threshold))
        for name, value in {"raw_reward": float(raw.mean()), **found}.items():
            figures[name].append(value)
    for name, values in figures.items():
        responses.figures[f"{NAME}/{name}"] = float(np.average(values, weights=[len(rows) for rows in groups]))
    responses.figures[f"{NAME}/incomplete_groups"] = float(num_incomplete)
    return np.array(
        [0.0 if padding else advantages[last[session]]
         for padding, session in zip(responses.padding, responses.sessions, strict=True)]
    )  # fmt: skip


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


def _items(rows: Ints, responses: Responses) -> list[Any]:
    """What the responses of groups [groups, size] are compared by."""
    comparison = responses.settings.comparison
    texts = [[responses.texts[row] for row in group] for group in rows]
    if comparison.needs_whole_groups:
        prompts = [responses.prompts[row] for row in rows[:, 0]]
        return [comparison.labels_of_group(*pair) for pair in zip(prompts, texts, strict=True)]
    flat = comparison.of_completions([text for group in texts for text in group])
    return [flat[start : start + rows.shape[1]] for start in range(0, len(flat), rows.shape[1])]


@register_trainer(NAME)
class PolychromicPPOTrainer(PPOTrainerSync):
    """verl's synchronous trainer, which also shows the responses to the estimator."""

    # verl picks the behaviour of its base class by this name; by any other than 'sync' it would be asynchronous.
    trainer_mode = property(lambda self: "sync", lambda self, mode: None)  # noqa: ARG005

    def __init__(self, config: Any) -> None:
        self.polychromic = settings_of(config)
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        responses = self._responses(batch)
        with responses_for_estimator(responses):
            result = super()._compute_advantage(batch, metrics)
        metrics.update(responses.figures)
        return result

    def _responses(self, batch: Any) -> Responses:
        judged = self.polychromic.comparison.needs_whole_groups
        fields = ["responses", "response_mask", *(["raw_prompt"] if judged else [])]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        # Of a response with tool calls, only what the model has written itself.
        written = [
            tokens[mask.bool()].tolist()
            for tokens, mask in zip(data["responses"].unbind(), data["response_mask"].unbind(), strict=True)
        ]
        names = [key.rsplit("_", 1) for key in batch.keys]  # {uid}_{session}_{place}
        return Responses(
            texts=[self.tokenizer.decode(tokens, skip_special_tokens=True) for tokens in written],
            prompts=list(data["raw_prompt"]) if judged else [None] * len(names),
            sessions=[session for session, _ in names],
            places=[int(place) for _, place in names],
            padding=[bool(tag.get("is_padding", False)) for tag in batch.tags],
            settings=self.polychromic,
            step=int(self.global_steps),
            figures={},
        )

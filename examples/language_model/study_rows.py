"""The rows of the language study: what is handed to the unmodified `GRPOTrainer` as rewards and settings."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from trl import GRPOConfig

from polychromic.core.closed_form import best_of_sets_with
from polychromic.integrations.trl import PolychromicReward, polychromic_grpo_config

# KL penalty of the rows that have one. Polychromic advantages are scaled to a spread of 1 over the batch, as stock
# GRPO's are over the group, so that the same number is the same pull towards the pretrained model.
BETA = 0.04
# Reward per nat of -log p(answer).
ENTROPY_BONUS = 0.02


@dataclass(frozen=True)
class Row:
    """One way to train.

    Attributes:
        objective: 'pretrained' (no training), 'grpo' (rewards scaled by the spread of their group, TRL's default),
            'grpo-batch' (by the spread of the batch), 'best-of' or 'polychromic'.
        set_size: completions of a set.
        group_size: completions of a prompt; larger than a set.
        beta: of the trainer's KL penalty.
        entropy_bonus: reward for each nat of -log p(answer).
        scale: of polychromic advantages.
        anneal: the share of training over which they give way to those of stock GRPO.
        rate_of: the row of the search whose learning rate is used.
    """

    objective: str
    set_size: int = 4
    group_size: int = 16
    beta: float = 0.0
    entropy_bonus: float = 0.0
    scale: float | str = "batch"
    anneal: float = 0.0
    rate_of: str = "stock"


SETS: dict[str, Any] = {"rate_of": "polychromic-4"}
ROWS = {
    "pretrained": Row("pretrained"),
    "stock": Row("grpo"),
    "polychromic-4": Row("polychromic", **SETS),
    "polychromic-4-annealed": Row("polychromic", anneal=0.75, rate_of="polychromic-4-annealed"),
    "stock-kl": Row("grpo", beta=BETA),
    "polychromic-4-kl": Row("polychromic", beta=BETA, **SETS),
    "polychromic-8": Row("polychromic", set_size=8, **SETS),
    "stock-entropy": Row("grpo", entropy_bonus=ENTROPY_BONUS),
    "best-of-4": Row("best-of", **SETS),
    "polychromic-16": Row("polychromic", set_size=16, group_size=32, **SETS),
    "polychromic-4-kl-unscaled": Row("polychromic", beta=BETA, scale=1.0, **SETS),
    # In a group with equal rewards the bonus is all that differs, and the group's spread scales it up; the batch's does
    # not, so that the bonus is worth the same everywhere.
    "stock-entropy-batch": Row("grpo-batch", entropy_bonus=ENTROPY_BONUS),
    "polychromic-8-kl": Row("polychromic", set_size=8, beta=BETA, **SETS),
    "polychromic-16-kl": Row("polychromic", set_size=16, group_size=32, beta=BETA, **SETS),
}
Answer = Callable[[str, str], Hashable | None]


def rewards_and_config(row: Row, answer: Answer, model: Any, tokenizer: Any, arguments: dict[str, Any]) -> Any:
    """`reward_funcs` and `args` for the trainer."""

    def is_right(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [float(answer(*pair) is not None) for pair in zip(prompts, completions, strict=True)]

    if row.objective == "polychromic":
        reward = PolychromicReward(
            is_right,
            key=lambda completion: answer(completion.prompt, completion),
            wrong_answers="never-different",
            homogeneous_zero=True,
            set_size=row.set_size,
            scale=row.scale,
            anneal=row.anneal,
        )
        return reward.funcs, polychromic_grpo_config(**arguments)
    if row.objective == "grpo" and not row.entropy_bonus:
        return [is_right], GRPOConfig(**arguments)
    if row.objective in ("grpo", "grpo-batch"):

        def right_and_surprising(prompts: list[str], completions: list[str], **columns: Any) -> list[float]:
            surprise = -log_probabilities(model, tokenizer, prompts, columns["completion_ids"])
            return (np.array(is_right(prompts, completions)) + row.entropy_bonus * surprise).tolist()

        scale = "batch" if row.objective == "grpo-batch" else "group"
        return [right_and_surprising], GRPOConfig(**arguments, scale_rewards=scale)

    def best_of(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        returns = np.array(is_right(prompts, completions)).reshape(-1, row.group_size)
        # The mean score of the sets that hold a completion; its mean over a group, which GRPO subtracts, is that of all
        # sets.
        return best_of_sets_with(returns, row.set_size).ravel().tolist()

    return [best_of], GRPOConfig(**arguments, scale_rewards="none")


@torch.no_grad()
def log_probabilities(model: Any, tokenizer: Any, prompts: list[str], completion_ids: list[list[int]]) -> np.ndarray:
    """log p(completion | prompt) of the current model."""
    heads = tokenizer(prompts, add_special_tokens=False).input_ids
    rows = [head + list(tail) for head, tail in zip(heads, completion_ids, strict=True)]
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), tokenizer.pad_token_id)
    mask = torch.zeros_like(ids)
    written = torch.zeros_like(ids, dtype=torch.bool)
    for index, (row, head) in enumerate(zip(rows, heads, strict=True)):
        ids[index, : len(row)] = torch.tensor(row)
        mask[index, : len(row)] = 1
        written[index, len(head) : len(row)] = True
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    log_probs = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    return (log_probs * written[:, 1:]).sum(dim=1).numpy()

"""Polychromic training with verl: its three trainers, which also show the responses to the estimator.

All else is verl's own. `polychromic.integrations.verl_plugin`, which verl loads by itself, imports this module when
verl's trainers are imported, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import transfer_queue as tq
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from polychromic.integrations.completions import Completion
from polychromic.integrations.verl_estimator import Responses, polychromic_estimator, responses_for_estimator
from polychromic.integrations.verl_settings import TRAINER_MODES, settings_of

__all__ = [
    "PolychromicPPOTrainer",
    "PolychromicPPOTrainerColocateAsync",
    "PolychromicPPOTrainerSeparateAsync",
    "Responses",
    "ShowsResponses",
    "polychromic_estimator",
    "responses_for_estimator",
]

POLYCHROMIC_MODES = {verl: ours for ours, verl in TRAINER_MODES.items()}


class ShowsResponses:
    """What a trainer of verl needs beside its own: it reads the responses and leaves them for the estimator."""

    # Named in verl's configuration by another name, which is the one by which verl picks behaviour.
    verl_mode = ""
    trainer_mode = property(lambda self: self.verl_mode, lambda self, mode: None)  # noqa: ARG005

    config: Any
    tokenizer: Any
    global_steps: int
    total_training_steps: int
    local_trigger_step: int

    def __init__(self, config: Any) -> None:
        self.polychromic = settings_of(config)
        super().__init__(config)  # type: ignore[call-arg]

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        responses = self._responses(batch)
        with responses_for_estimator(responses):
            result = super()._compute_advantage(batch, metrics)  # type: ignore[misc]
        metrics.update(responses.metrics)
        return result

    def _responses(self, batch: Any) -> Responses:
        columns = self.polychromic.columns
        fields = ["responses", "response_mask", "raw_prompt", *columns]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        present = [name for name in ("raw_prompt", *columns) if name in data.keys()]  # noqa: SIM118 - a TensorDict
        rows = {name: _listed(data[name]) for name in present}
        tokens = zip(data["responses"].unbind(), data["response_mask"].unbind(), strict=True)
        completions = [
            completion_of(
                self.tokenizer,
                response.tolist(),
                mask.bool().tolist(),
                rows["raw_prompt"][row] if "raw_prompt" in rows else None,
                {name: rows[name][row] for name in columns if name in rows},
            )
            for row, (response, mask) in enumerate(tokens)
        ]
        names = [key.rsplit("_", 1) for key in batch.keys]  # {uid}_{session}_{place}
        return Responses(
            completions=completions,
            sessions=[session for session, _ in names],
            places=[int(place) for _, place in names],
            padding=[bool(tag.get("is_padding", False)) for tag in batch.tags],
            settings=self.polychromic,
            draw=(int(self.global_steps), int(self.local_trigger_step)),
            metrics={},
            passed=(self.global_steps - 1) / self.total_training_steps,  # verl counts from 1
        )


def _listed(values: Any) -> list[Any]:
    """A field of a batch, one entry per row; what holds it depends on how it was put into the queue."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


def completion_of(
    tokenizer: Any, response: Sequence[int], written: Sequence[bool], prompt: Any, columns: dict[str, Any]
) -> Completion:
    """A response as verl stores it: one row of tokens, of which the model has written some and was shown the others.

    Its text is what the model wrote, a line for each turn, as TRL's adapter has it.
    """
    if all(written):
        return Completion(tokenizer.decode(response, skip_special_tokens=True), prompt, columns)
    messages = []
    start = 0
    for end in range(1, len(response) + 1):
        if end == len(response) or written[end] != written[start]:
            role = "assistant" if written[start] else "tool"
            content = tokenizer.decode(response[start:end], skip_special_tokens=True)
            messages.append({"role": role, "content": content})
            start = end
    return Completion.of(messages, prompt, columns)


@register_trainer(POLYCHROMIC_MODES["sync"])
class PolychromicPPOTrainer(ShowsResponses, PPOTrainerSync):
    """verl's synchronous trainer."""

    verl_mode = "sync"


@register_trainer(POLYCHROMIC_MODES["colocate_async"])
class PolychromicPPOTrainerColocateAsync(ShowsResponses, PPOTrainerColocateAsync):
    """verl's asynchronous trainer with training and generation on the same GPUs."""

    verl_mode = "colocate_async"


@register_trainer(POLYCHROMIC_MODES["separate_async"])
class PolychromicPPOTrainerSeparateAsync(ShowsResponses, PPOTrainerSeparateAsync):
    """verl's asynchronous trainer with training and generation on GPUs of their own."""

    verl_mode = "separate_async"

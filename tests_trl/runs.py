"""Real GRPO runs on a tiny model, with a record of the advantages that the trainer ends up with."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import torch
from datasets import Dataset
from tiny_llama import character_tokenizer, tiny_llama
from transformers import LlamaForCausalLM, TrainerCallback
from trl import GRPOTrainer

from polychromic.integrations.trl import PolychromicReward, check_grpo_trainer, polychromic_grpo_config

PROMPTS = ["1=", "2=", "3=", "2=", "5=", "7=", "7=", "8="]  # with repeats: equal prompts may be different groups


def digit_share(prompts, completions, **_):
    """A reward with many values, so that no two advantages are equal by chance."""
    return [
        len({c for c in text if c.isdigit()}) / 10 + 0.4 * text.startswith(prompt[0])
        for prompt, text in zip(prompts, completions, strict=True)
    ]


def first_two(completion):
    """The key of these tests: coarse enough for a random model to repeat itself."""
    return tuple(c.isdigit() for c in completion[:2])


def enumerated(rewards, labels, set_size, homogeneous_zero=True):
    """The advantages of one group by the definition, set by set; it shares no code with the package."""
    size = len(rewards)
    sets = list(combinations(range(size), set_size))
    scores = []
    for members in sets:
        distinct = len({labels[i] for i in members})
        diversity = 0.0 if homogeneous_zero and distinct == 1 else distinct / set_size
        scores.append(sum(rewards[i] for i in members) / set_size * diversity)
    mean = sum(scores) / len(scores)
    advantages = [0.0] * size
    for members, score in zip(sets, scores, strict=True):
        for i in members:
            advantages[i] += (score - mean) * size / (len(sets) * set_size)
    return advantages


def enumerated_batch(prompts, texts, size, set_size=4):
    """The same of a batch of groups, under the reward and the key of these tests."""
    rewards = digit_share(prompts, texts)
    labels = [first_two(text) if text.strip() else "empty" for text in texts]
    groups = [slice(start, start + size) for start in range(0, len(texts), size)]
    return np.array([value for group in groups for value in enumerated(rewards[group], labels[group], set_size)])


class Record(TrainerCallback):
    """Per optimizer step: prompts, completions, rewards by function, advantages, as the trainer keeps them."""

    def __init__(self):
        self.steps = []
        self.trainer = None

    def on_step_end(self, args, state, control, **_):  # noqa: ARG002
        logs = self.trainer._logs
        used = torch.cat([part["advantages"] for part in self.trainer._buffered_inputs])
        self.steps.append(
            {
                "step": state.global_step,
                "prompts": list(logs["prompt"]),
                "completions": list(logs["completion"]),
                "rewards": {name: list(values) for name, values in logs["rewards"].items()},
                "advantages": list(logs["advantages"]),
                "used_here": used.tolist(),
            }
        )


class SharedSampling(LlamaForCausalLM):
    """Samples row i of the global batch by random numbers of its own, however the rows are spread over processes."""

    generations = 0

    @torch.no_grad()
    def generate(self, input_ids, attention_mask, generation_config, **_):
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        rows = [
            np.random.default_rng([self.generations, rank * len(input_ids) + i]).random(64)
            for i in range(len(input_ids))
        ]
        self.generations += 1
        ended = torch.zeros(len(input_ids), dtype=torch.bool)
        for position in range(generation_config.max_new_tokens):
            logits = self(input_ids=input_ids, attention_mask=attention_mask).logits[:, -1].double()
            bounds = torch.softmax(logits, dim=-1).cumsum(dim=-1)
            draws = torch.tensor([row[position] for row in rows], dtype=torch.float64)
            token = (bounds < draws[:, None]).sum(dim=-1).clamp(max=bounds.shape[-1] - 1)
            token = torch.where(ended, self.config.pad_token_id, token)
            ended |= token == self.config.eos_token_id
            input_ids = torch.cat([input_ids, token[:, None]], dim=1)
            attention_mask = torch.cat([attention_mask, torch.ones_like(token[:, None])], dim=1)
        return input_ids


def arguments(folder, **changes):
    return {
        "output_dir": str(folder),
        "max_steps": 2,
        "per_device_train_batch_size": 16,
        "num_generations": 8,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "max_completion_length": 4,
        "beta": 0.0,
        "seed": 3,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "logging_steps": 1,
        "report_to": [],
        "disable_tqdm": True,
        **changes,
    }


def make_trainer(reward, folder, *, model=None, config=None, funcs=None, prompts=PROMPTS, tokenizer=None, **changes):
    """A GRPOTrainer with a record, not yet checked."""
    tokenizer = tokenizer or character_tokenizer()
    record = Record()
    record.trainer = GRPOTrainer(
        model=model or tiny_llama(tokenizer, 0),
        reward_funcs=reward.funcs if funcs is None else funcs,
        args=config or polychromic_grpo_config(**arguments(folder, **changes)),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        eval_dataset=Dataset.from_dict({"prompt": prompts[:4]}),
        processing_class=tokenizer,
        callbacks=[record],
    )
    return record


def run(folder, *, model=None, resume=None, prompts=PROMPTS, trainer_settings=None, **reward_settings):
    """Train with the real trainer; its record and its trainer."""
    reward_settings.setdefault("key", first_two)
    reward = PolychromicReward(digit_share, **reward_settings)
    record = make_trainer(reward, folder, model=model, prompts=prompts, **(trainer_settings or {}))
    check_grpo_trainer(record.trainer).train(resume_from_checkpoint=resume)
    return record, reward

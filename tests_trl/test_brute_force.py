"""Whole runs against a reference that shares no code with ours.

The reference is the stock trainer with the user's reward, whose advantages are then replaced by those of an enumeration
of sets, written out here. Both start from the same weights and random numbers, so they must end with the same weights.
"""

from itertools import combinations

import numpy as np
import pytest
import torch
import trl
from datasets import Dataset
from packaging.version import Version
from runs import PROMPTS, Record, arguments, digit_share, first_two
from tiny_llama import character_tokenizer, tiny_llama
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from polychromic.integrations.trl import (
    PolychromicReward,
    check_trainer,
    polychromic_grpo_config,
    polychromic_rloo_config,
)

NEW = Version(trl.__version__) >= Version("1.16")


def enumerated(rewards, labels, set_size, homogeneous_zero=True):
    """The advantages of one group, by the definition."""
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


class Enumerates:
    """Replaces the advantages of a stock trainer."""

    set_size = 4
    scale = 1.0

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        texts = self.processing_class.batch_decode(output["completion_ids"], skip_special_tokens=True)
        rewards = digit_share([row["prompt"] for row in inputs], texts)
        labels = [first_two(text) if text.strip() else "empty" for text in texts]
        size = self.num_generations if self.model.training else self.num_generations_eval
        found = []
        for start in range(0, len(texts), size):
            group = slice(start, start + size)
            found += enumerated(rewards[group], labels[group], self.set_size)
        if self.scale == "batch":
            found = np.array(found) / (np.std(found) + 1e-4)
        rest = self.beside(output["advantages"].numpy().reshape(-1, size), np.array(rewards).reshape(-1, size))
        output["advantages"] = torch.tensor(np.array(found) + rest, dtype=torch.float32)
        return output

    def beside(self, advantages, rewards):  # noqa: ARG002
        """What the stock trainer's advantages hold beside the rewards."""
        return 0.0


class EnumeratesGRPO(Enumerates, GRPOTrainer):
    pass


class EnumeratesRLOO(Enumerates, RLOOTrainer):
    def beside(self, advantages, rewards):
        """RLOO's KL term, which goes through the reward."""
        others = (rewards.sum(axis=1, keepdims=True) - rewards) / (rewards.shape[1] - 1)
        return (advantages - (rewards - others)).reshape(-1)


def trained(make, trainer_class, folder, reward_funcs, settings, *, lora=False, **attributes):
    """The weights at the end of a run, its record, and how far the weights have moved."""
    tokenizer = character_tokenizer()
    model = tiny_llama(tokenizer, 0)
    if settings.get("beta") and not lora:
        # TRL loads the reference model from where the model came from.
        model.save_pretrained(folder / "model")
        model = str(folder / "model")
    record = Record()
    options = {}
    if lora:
        from peft import LoraConfig

        torch.manual_seed(0)
        options["peft_config"] = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights="gaussian")
    trainer = record.trainer = trainer_class(
        model=model,
        reward_funcs=reward_funcs,
        args=make(**arguments(folder, **settings)),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS * 4}),
        processing_class=tokenizer,
        callbacks=[record],
        **options,
    )
    for name, value in attributes.items():
        setattr(trainer, name, value)
    if isinstance(reward_funcs, list):
        check_trainer(trainer)
    before = _weights(trainer.model)
    trainer.train()
    weights = _weights(trainer.model)
    return weights, record, max(float((weights[name] - before[name]).abs().max()) for name in weights)


def _weights(model):
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}


def compare(folder, settings, *, rloo=False, lora=False, **reward_settings):
    stock, ours = (RLOOTrainer, RLOOConfig) if rloo else (GRPOTrainer, GRPOConfig)
    ours_class, make = (RLOOTrainer, polychromic_rloo_config) if rloo else (GRPOTrainer, polychromic_grpo_config)
    reward = PolychromicReward(digit_share, key=first_two, **reward_settings)
    found, record, moved = trained(make, ours_class, folder / "ours", reward.funcs, settings, lora=lora)
    reference = EnumeratesRLOO if rloo else EnumeratesGRPO
    assert issubclass(reference, stock)
    plain = {"normalize_advantages": False} if rloo else {"scale_rewards": "none"}
    attributes = {"set_size": reward.sets.set_size, "scale": reward.sets.scale}
    expected, other, _ = trained(
        ours, reference, folder / "reference", digit_share, {**settings, **plain}, lora=lora, **attributes
    )
    assert moved > 1e-4, "nothing was learnt, so nothing was compared"
    for name, weights in expected.items():
        np.testing.assert_allclose(found[name], weights, rtol=0, atol=1e-5 * max(1, moved), err_msg=name)
    for step, same in zip(record.steps, other.steps, strict=True):
        np.testing.assert_allclose(np.sort(step["used_here"]), np.sort(same["used_here"]), rtol=0, atol=1e-6)
    return record


LOSSES = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", *(["vespo"] if NEW else [])]


@pytest.mark.parametrize("loss_type", LOSSES)
def test_every_loss(tmp_path, loss_type):
    settings = {"importance_sampling_level": "sequence"} if loss_type == "luspo" else {}
    # SGD: where gradients differ by a factor, weights do; Adam would hide it.
    compare(tmp_path, {"loss_type": loss_type, "optim": "sgd", "learning_rate": 5.0, "max_grad_norm": 0.0, **settings})


@pytest.mark.parametrize(("group", "set_size"), [(4, 2), (4, 3), (6, 5), (12, 4), (16, 3), (16, 8)])
def test_group_sizes(tmp_path, group, set_size):
    settings = {"num_generations": group, "per_device_train_batch_size": 2 * group, "loss_type": "dr_grpo"}
    compare(tmp_path, {**settings, "optim": "sgd", "learning_rate": 5.0, "max_grad_norm": 0.0}, set_size=set_size)


@pytest.mark.parametrize(
    "settings",
    [
        {"gradient_accumulation_steps": 2},
        {"gradient_accumulation_steps": 2, "steps_per_generation": 4},
        {"steps_per_generation": 2},
        {"num_iterations": 2},
        {"num_iterations": 2, "steps_per_generation": 2, "epsilon": 0.1, "epsilon_high": 0.3},
        {"beta": 0.04},
        {"importance_sampling_level": "sequence", "loss_type": "grpo"},  # GSPO
        {"importance_sampling_level": "sequence", "loss_type": "grpo", "num_iterations": 2, "beta": 0.04},
        {"mask_truncated_completions": True},
        {"temperature": 0.7},
        {"top_k": 4},
    ],
    ids=str,
)
def test_ways_to_train(tmp_path, settings):
    compare(tmp_path, {"max_steps": 4, **settings})


def test_lora(tmp_path):
    compare(tmp_path, {"beta": 0.04}, lora=True)


def test_scale_by_the_batch(tmp_path):
    record = compare(tmp_path, {}, scale="batch")
    for step in record.steps:
        assert np.std(step["advantages"]) == pytest.approx(1, abs=0.02)


def test_scale_by_a_number(tmp_path):
    compare(tmp_path / "plain", {"optim": "sgd", "learning_rate": 2.0, "max_grad_norm": 0.0})
    reward = PolychromicReward(digit_share, key=first_two, scale=16.0)
    settings = {"optim": "sgd", "max_grad_norm": 0.0}
    scaled, *_ = trained(
        polychromic_grpo_config, GRPOTrainer, tmp_path / "a", reward.funcs, {**settings, "learning_rate": 0.125}
    )
    plain = PolychromicReward(digit_share, key=first_two)
    other, *_ = trained(
        polychromic_grpo_config, GRPOTrainer, tmp_path / "b", plain.funcs, {**settings, "learning_rate": 2.0}
    )
    for name, weights in other.items():
        np.testing.assert_allclose(scaled[name], weights, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(("group", "beta"), [(8, 0.0), (6, 0.0), (8, 0.05)])
def test_rloo(tmp_path, group, beta):
    settings = {"num_generations": group, "per_device_train_batch_size": 2 * group, "beta": beta}
    compare(tmp_path, {**settings, "optim": "sgd", "learning_rate": 0.5, "max_grad_norm": 0.0}, rloo=True)

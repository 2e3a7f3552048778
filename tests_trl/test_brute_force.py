"""Whole runs against a reference that shares no code with ours.

The reference is the stock trainer with the user's reward, whose advantages are then replaced by those of an enumeration
of sets. Both start from the same weights and random numbers, so they must end with the same weights. What our reward
hands to the trainer must equal the enumeration to 1e-8; the trainer keeps 32-bit floats.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import trl
from datasets import Dataset
from packaging.version import Version
from runs import PROMPTS, Record, arguments, digit_share, enumerated_batch, first_two
from tiny_llama import character_tokenizer, tiny_llama
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from polychromic import UserError
from polychromic.integrations.trl import (
    PolychromicReward,
    check_trainer,
    polychromic_grpo_config,
    polychromic_rloo_config,
)

NEW = Version(trl.__version__) >= Version("1.16")
# Where gradients differ by a factor, weights do; Adam would hide it, and blow up rounding where a gradient is 0.
SGD = {"optim": "sgd", "learning_rate": 5.0, "max_grad_norm": 0.0}
EXACT = {"rtol": 0, "atol": 1e-8}
SINGLE = {"rtol": 2.5e-7, "atol": 1e-8}  # two roundings of a 32-bit float


def chat_share(prompts, completions, **_):
    """The reward on conversations."""
    return digit_share(list(map(question, prompts)), [completion[0]["content"] for completion in completions])


def question(prompt):
    return prompt if isinstance(prompt, str) else prompt[-1]["content"]


class Noted(PolychromicReward):
    """Keeps what it was given and what it handed over."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.notes = []

    def __call__(self, prompts, completions, **columns):
        handed_over = super().__call__(prompts, completions, **columns)
        texts = [text if isinstance(text, str) else text[0]["content"] for text in completions]
        self.notes.append((list(map(question, prompts)), texts, handed_over))
        return handed_over

    def check(self, sizes, factor=1.0):
        """Every batch, of groups of the size at its place, against the enumeration."""
        assert len(self.notes) == len(sizes)
        for (prompts, texts, handed_over), size in zip(self.notes, sizes, strict=True):
            expected = enumerated_batch(prompts, texts, size, self.sets.set_size)
            if self.sets.scale == "batch":
                expected = expected / (expected.std() + 1e-4)
            np.testing.assert_allclose(handed_over, expected / factor, **EXACT)
        assert np.abs(np.concatenate([note[2] for note in self.notes])).max() > 1e-3


class Enumerates:
    """Replaces the advantages of a stock trainer."""

    set_size = 4
    scale = 1.0

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        texts = self.processing_class.batch_decode(output["completion_ids"], skip_special_tokens=True)
        prompts = [question(row["prompt"]) for row in inputs]
        size = self.num_generations if self.model.training else self.num_generations_eval
        found = enumerated_batch(prompts, texts, size, self.set_size)
        if self.scale == "batch":
            found = found / (np.std(found) + 1e-4)
        rewards = digit_share(prompts, texts)
        rest = self.beside(output["advantages"].numpy().reshape(-1, size), np.array(rewards).reshape(-1, size))
        output["advantages"] = torch.tensor(found + rest, dtype=torch.float32)
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


def trained(make, trainer_class, folder, reward_funcs, settings, *, lora=False, chat=False, resume=None, **attributes):
    """The weights at the end of a run, its record, and how far the weights have moved."""
    tokenizer = character_tokenizer()
    prompts = PROMPTS * 4
    if chat:
        tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        prompts = [[{"role": "user", "content": prompt}] for prompt in prompts]
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
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        eval_dataset=Dataset.from_dict({"prompt": prompts[:4]}),
        processing_class=tokenizer,
        callbacks=[record],
        **options,
    )
    for name, value in attributes.items():
        setattr(trainer, name, value)
    if isinstance(reward_funcs, list):
        check_trainer(trainer)
    before = _weights(trainer.model)
    trainer.train(resume_from_checkpoint=resume)
    weights = _weights(trainer.model)
    return weights, record, max(float((weights[name] - before[name]).abs().max()) for name in weights)


def _weights(model):
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}


def ours(folder, settings, *, rloo=False, chat=False, reward_settings=None, **options):
    """A polychromic run; its weights, record, how far they moved, and its reward."""
    kind, make = (RLOOTrainer, polychromic_rloo_config) if rloo else (GRPOTrainer, polychromic_grpo_config)
    reward = Noted(chat_share if chat else digit_share, key=first_two, **(reward_settings or {}))
    return *trained(make, kind, folder, reward.funcs, settings, chat=chat, **options), reward


def reference(folder, settings, *, rloo=False, chat=False, set_size=4, scale=1.0, **options):
    """The enumerating run; its weights, record, and how far they moved."""
    kind, make = (EnumeratesRLOO, RLOOConfig) if rloo else (EnumeratesGRPO, GRPOConfig)
    plain = {"normalize_advantages": False} if rloo else {"scale_rewards": "none"}
    return trained(
        make, kind, folder, chat_share if chat else digit_share, {**settings, **plain},
        chat=chat, set_size=set_size, scale=scale, **options,
    )  # fmt: skip


def same_weights(found, expected, moved):
    assert moved > 1e-4, "nothing was learnt, so nothing was compared"
    assert found.keys() == expected.keys()
    for name, weights in expected.items():
        np.testing.assert_allclose(found[name], weights, rtol=0, atol=1e-5 * max(1, moved), err_msg=name)


def compare(folder, settings, *, rloo=False, lora=False, chat=False, **reward_settings):
    kinds = {"rloo": rloo, "lora": lora, "chat": chat}
    found, record, moved, reward = ours(folder / "ours", settings, reward_settings=reward_settings, **kinds)
    sets = {"set_size": reward.sets.set_size, "scale": reward.sets.scale}
    expected, other, _ = reference(folder / "reference", settings, **kinds, **sets)
    size = record.trainer.num_generations
    reward.check([size] * len(reward.notes), size / (size - 1) if rloo else 1.0)
    same_weights(found, expected, moved)
    assert len(record.steps) == record.trainer.state.global_step
    for step, same in zip(record.steps, other.steps, strict=True):
        # The reference takes RLOO's KL term from a difference of rewards, in 32 bits.
        tolerance = {"rtol": 0, "atol": 1e-7} if rloo else SINGLE
        np.testing.assert_allclose(np.sort(step["used_here"]), np.sort(same["used_here"]), **tolerance)
    return record


LOSSES = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", *(["vespo"] if NEW else [])]


@pytest.mark.parametrize("loss_type", LOSSES)
def test_every_loss(tmp_path, loss_type):
    settings = {"importance_sampling_level": "sequence"} if loss_type == "luspo" else {}
    compare(tmp_path, {"loss_type": loss_type, **SGD, **settings})


def test_every_loss_of_trl_is_among_them():
    source = Path(inspect.getfile(GRPOTrainer)).read_text()
    known = set(re.findall(r'"(\w+)"', " ".join(re.findall(r"loss_type (?:==|in|not in) (\[.*?\]|\".*?\")", source))))
    assert known == set(LOSSES)


SIZES = [(4, 2), (4, 3), (5, 4), (6, 5), (7, 3), (8, 4), (9, 2), (10, 4), (11, 5), (12, 4), (13, 4), (14, 6), (15, 4),
         (16, 3), (16, 8)]  # fmt: skip


@pytest.mark.parametrize(("group", "set_size"), SIZES)
def test_group_sizes(tmp_path, group, set_size):
    settings = {"num_generations": group, "per_device_train_batch_size": 2 * group, "loss_type": "dr_grpo"}
    settings["per_device_eval_batch_size"] = group
    compare(tmp_path, {**settings, **SGD}, set_size=set_size)


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
    compare(tmp_path, {"max_steps": 4, **SGD, "learning_rate": 1.0, **settings})


def test_adam(tmp_path):
    compare(tmp_path, {"adam_epsilon": 1e-4})


def test_lora(tmp_path):
    compare(tmp_path, {"beta": 0.04, **SGD}, lora=True)


def test_conversations(tmp_path):
    compare(tmp_path, {**SGD}, chat=True)


@pytest.mark.parametrize("size", [5, 6, 12])
def test_evaluation_in_groups_of_another_size(tmp_path, size):
    """Its losses too: they are the only thing that evaluation makes of advantages."""
    settings = {**SGD, "num_generations_eval": size, "per_device_eval_batch_size": 2 * size, "loss_type": "dr_grpo"}
    _, record, _, reward = ours(tmp_path / "ours", settings)
    _, other, _ = reference(tmp_path / "reference", settings)
    losses = []
    for trainer in (record.trainer, other.trainer):
        torch.manual_seed(7)
        losses.append(trainer.evaluate()["eval_loss"])
    reward.check([8, 8, size, size])
    assert abs(losses[0]) > 1e-6
    assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=1e-8)


def test_a_resumed_run_ends_like_a_whole_one(tmp_path):
    settings = {**SGD, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    _, _, _, first = ours(tmp_path / "ours", settings)
    found, record, moved, second = ours(
        tmp_path / "again", settings, resume=str(tmp_path / "ours" / "checkpoint-2")
    )  # fmt: skip
    expected, other, _ = reference(tmp_path / "reference", settings)
    first.check([8] * 4)
    second.check([8] * 2)
    assert [step["step"] for step in record.steps] == [3, 4]
    same_weights(found, expected, moved)
    for step, same in zip(record.steps, other.steps[2:], strict=True):
        np.testing.assert_allclose(np.sort(step["used_here"]), np.sort(same["used_here"]), **SINGLE)


def test_scale_by_the_batch(tmp_path):
    record = compare(tmp_path, {**SGD, "learning_rate": 0.5}, scale="batch")
    for step in record.steps:
        assert np.std(step["advantages"]) == pytest.approx(1, abs=0.02)


def test_scale_by_a_number(tmp_path):
    settings = {"optim": "sgd", "max_grad_norm": 0.0}
    scaled, *_ = ours(tmp_path / "a", {**settings, "learning_rate": 0.125}, reward_settings={"scale": 16.0})
    plain, _, moved, _ = ours(tmp_path / "b", {**settings, "learning_rate": 2.0})
    same_weights(scaled, plain, moved)


@pytest.mark.parametrize(("group", "beta"), [(8, 0.0), (6, 0.0), (8, 0.05)])
def test_rloo(tmp_path, group, beta):
    settings = {"num_generations": group, "per_device_train_batch_size": 2 * group, "beta": beta}
    settings["per_device_eval_batch_size"] = group
    compare(tmp_path, {**settings, **SGD, "learning_rate": 0.5}, rloo=True)


class Anneals(GRPOTrainer):
    """A stock trainer with its own scaling, whose advantages give way to the enumeration's, less and less so."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        texts = self.processing_class.batch_decode(output["completion_ids"], skip_special_tokens=True)
        sets = enumerated_batch([row["prompt"] for row in inputs], texts, self.num_generations)
        weight = self.weights[self.state.global_step]
        sets = torch.tensor(sets / (sets.std() + 1e-4), dtype=torch.float32)
        output["advantages"] = weight * sets + (1 - weight) * output["advantages"]
        return output


@pytest.mark.parametrize(("share", "weights"), [(1.0, [1.0, 0.75, 0.5, 0.25]), (0.5, [1.0, 0.5, 0.0, 0.0])])
def test_annealed_training_ends_as_stock_grpo(tmp_path, share, weights):
    settings = {"max_steps": 4, "loss_type": "dr_grpo", **SGD}
    chosen = {"anneal": share, "scale": "batch"}
    found, record, moved, _ = ours(tmp_path / "ours", settings, reward_settings=chosen)
    expected, other, _ = trained(GRPOConfig, Anneals, tmp_path / "reference", digit_share, settings, weights=weights)
    same_weights(found, expected, moved)
    for step, same in zip(record.steps, other.steps, strict=True):
        # Where all rewards of a group are equal, TRL divides the rounding of its 32-bit mean by 1e-4.
        np.testing.assert_allclose(np.sort(step["used_here"]), np.sort(same["used_here"]), rtol=1e-5, atol=1e-4)
    logged = [row["polychromic/set_weight"] for row in record.trainer.state.log_history if "loss" in row]
    assert logged == weights


def test_annealing_is_for_grpo(tmp_path):
    with pytest.raises(UserError, match="anneal is 1 with RLOOTrainer"):
        ours(tmp_path, {}, rloo=True, reward_settings={"anneal": 1.0, "scale": "batch"})

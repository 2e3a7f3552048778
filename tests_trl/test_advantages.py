"""The advantages that the unmodified trainer ends up with are ours."""

import numpy as np
import pytest
from runs import digit_share, first_two, make_trainer, run
from tiny_llama import character_tokenizer

from polychromic import (
    clusters_from_kernel,
    distinct_at_k,
    kernel_from_embeddings,
    mean_set_score,
    pass_at_k,
    polychromic_advantages,
    polychromic_kernel_advantages,
)
from polychromic.integrations.trl import PRESETS, PolychromicReward, check_grpo_trainer

CLOSE = {"rtol": 0, "atol": 1e-6}


def character_counts(completions):
    return [[1.0, *(text.count(c) for c in "0123456789")] for text in completions]


def groups_of(step, size=8):
    """Rewards [G, N] by the test's own count, and completions [G][N]."""
    rewards = np.array(digit_share(step["prompts"], step["completions"])).reshape(-1, size)
    texts = step["completions"]
    return rewards, [texts[i : i + size] for i in range(0, len(texts), size)]


def check(record, expected_of):
    assert [step["step"] for step in record.steps] == [1, 2]
    for step in record.steps:
        rewards, texts = groups_of(step)
        expected = expected_of(step["step"] - 1, rewards, texts).reshape(-1)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(step["advantages"], expected, **CLOSE)
        # The order in which the trainer uses them is shuffled.
        np.testing.assert_allclose(np.sort(step["used_here"]), np.sort(expected), **CLOSE)


def labels_of(texts):
    return [["empty" if not text.strip() else first_two(text) for text in group] for group in texts]


@pytest.mark.parametrize("settings", [{}, {"set_size": 3, "homogeneous_zero": False}, dict(PRESETS["poly-epo"])])
def test_all_sets(tmp_path, settings):
    record, _ = run(tmp_path, **settings)
    check(record, lambda _, rewards, texts: polychromic_advantages(
        rewards, labels_of(texts), **{"set_size": 4, **settings}))  # fmt: skip


@pytest.mark.parametrize("settings", [dict(PRESETS["paper"]), {"set_size": 3, "num_sets": 3}])
def test_random_sets(tmp_path, settings):
    record, _ = run(tmp_path, seed=5, **settings)
    check(record, lambda step, rewards, texts: polychromic_advantages(
        rewards, labels_of(texts), **settings, rng=np.random.default_rng([5, 1, step, 0])))  # fmt: skip


def test_vendi_diversity_of_embeddings(tmp_path):
    record, _ = run(tmp_path, key=None, embed=character_counts)
    check(record, lambda _, rewards, texts: polychromic_kernel_advantages(
        rewards, kernel_from_embeddings([character_counts(group) for group in texts]), set_size=4))  # fmt: skip


def test_threshold_clusters_of_embeddings(tmp_path):
    record, _ = run(tmp_path, key=None, embed=character_counts, similarity_threshold=0.6)

    def expected(_, rewards, texts):
        kernel = kernel_from_embeddings([character_counts(group) for group in texts])
        return polychromic_advantages(rewards, clusters_from_kernel(kernel, threshold=0.6), set_size=4)

    check(record, expected)


def test_judge_and_equivalence(tmp_path):
    def judge(_prompt, completions):
        return [first_two(text) for text in completions]

    def equivalent(_prompt, first, second):
        return first_two(first) == first_two(second)

    for settings in ({"judge": judge}, {"equivalent": equivalent}):
        record, _ = run(tmp_path, key=None, **settings)
        check(record, lambda _, rewards, texts: polychromic_advantages(rewards, labels_of(texts), set_size=4))


def test_large_groups_several_generations_a_step_and_reuse(tmp_path):
    # Two generations of 64 within each optimizer step: the random sets of both are drawn apart.
    settings = {"per_device_train_batch_size": 64, "num_generations": 64, "gradient_accumulation_steps": 2}
    record, _ = run(tmp_path, num_sets=16, trainer_settings={**settings, "steps_per_generation": 1})
    for step in record.steps:
        rewards, texts = groups_of(step, 64)
        expected = polychromic_advantages(
            rewards, labels_of(texts), set_size=4, num_sets=16, rng=np.random.default_rng([0, 1, step["step"] - 1, 1])
        )
        np.testing.assert_allclose(step["advantages"][-64:], expected[-1], **CLOSE)


def test_logs_hold_raw_rewards_and_the_figures_of_sets(tmp_path):
    record, _ = run(tmp_path, success_threshold=0.2)
    logs = [entry for entry in record.trainer.state.log_history if "polychromic/set_score" in entry]
    assert len(logs) == 2
    for entry, step in zip(logs, record.steps, strict=True):
        rewards, texts = groups_of(step)
        labels = labels_of(texts)
        right = rewards >= 0.2
        expected = {
            "rewards/digit_share/mean": rewards.mean(),
            "polychromic/raw_reward": rewards.mean(),
            "polychromic/diversity": mean_set_score(np.ones_like(rewards), labels, set_size=4).mean(),
            "polychromic/set_score": mean_set_score(rewards, labels, set_size=4).mean(),
            "polychromic/distinct_answers": np.mean([len(set(group)) for group in labels]),
            "polychromic/distinct_right_answers": distinct_at_k(labels, right, 8).mean(),
            "polychromic/pass@4": pass_at_k(8, right.sum(axis=-1), 4).mean(),
        }
        for name, value in expected.items():
            assert entry[name] == pytest.approx(value, abs=1e-5), name


def test_rescaled_rewards(tmp_path):
    record, _ = run(tmp_path, reward_range=(-1.0, 3.0))
    check(record, lambda _, rewards, texts: polychromic_advantages(
        (rewards + 1) / 4, labels_of(texts), set_size=4))  # fmt: skip


def test_conversations(tmp_path):
    seen = []

    def reward_fn(prompts, completions, **_):
        seen.append(([p[-1]["content"] for p in prompts], [c[0]["content"] for c in completions]))
        return digit_share(*seen[-1])

    reward = PolychromicReward(reward_fn, key=first_two)
    prompts = [[{"role": "user", "content": prompt}] for prompt in ("1=", "2=", "3=", "4=")]
    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    record = make_trainer(reward, tmp_path, prompts=prompts, tokenizer=tokenizer)
    check_grpo_trainer(record.trainer).train()
    for step, (questions, answers) in zip(record.steps, seen, strict=True):
        step |= {"prompts": questions, "completions": answers}
    check(record, lambda _, rewards, texts: polychromic_advantages(rewards, labels_of(texts), set_size=4))


def test_resumed_run_draws_the_same_sets(tmp_path):
    settings = {"num_sets": 4, "trainer_settings": {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}}
    whole, _ = run(tmp_path / "whole", **settings)
    again, _ = run(tmp_path / "again", resume=str(tmp_path / "whole" / "checkpoint-2"), **settings)
    assert [step["step"] for step in again.steps] == [3, 4]
    for step, resumed in zip(whole.steps[2:], again.steps, strict=True):
        assert step["completions"] == resumed["completions"]
        np.testing.assert_array_equal(step["advantages"], resumed["advantages"])
    assert whole.steps[1]["advantages"] != whole.steps[3]["advantages"]


def test_evaluation_groups_of_another_size(tmp_path):
    settings = {"num_generations_eval": 6, "per_device_eval_batch_size": 12}
    record, _ = run(tmp_path, num_sets=3, trainer_settings=settings)
    record.trainer.evaluate()
    logs = record.trainer._logs
    last = {name: list(logs[name])[-12:] for name in ("prompt", "completion", "advantages")}
    rewards = np.array(digit_share(last["prompt"], last["completion"])).reshape(2, 6)
    # Four prompts make two batches; the last is the second draw of sets at this step.
    rng = np.random.default_rng([0, 0, record.trainer.state.global_step, 1])
    labels = labels_of([last["completion"][:6], last["completion"][6:]])
    expected = polychromic_advantages(rewards, labels, set_size=4, num_sets=3, rng=rng).reshape(-1)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(last["advantages"], expected, **CLOSE)
    assert record.trainer.state.log_history[-1]["eval_polychromic/raw_reward"] > 0

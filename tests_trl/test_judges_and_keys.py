"""Keys, judges and rewards as people write them, inside the real trainer."""

import asyncio
import difflib
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trl
from datasets import Dataset
from packaging.version import Version
from runs import PROMPTS, arguments, digit_share, first_two, make_trainer, run
from test_advantages import CLOSE, check, groups_of, labels_of
from tiny_llama import character_tokenizer, tiny_llama

from polychromic import UserError, polychromic_advantages
from polychromic.integrations.trl import (
    Calls,
    Completion,
    PolychromicReward,
    check_trainer,
    combine,
    each_completion,
    polychromic_grpo_config,
)

ROOT = Path(__file__).parent.parent


def trained(folder, reward, **columns):
    """A run on a data set with columns."""
    tokenizer = character_tokenizer()
    trainer = trl.GRPOTrainer(
        model=tiny_llama(tokenizer, 0),
        reward_funcs=reward.funcs,
        args=polychromic_grpo_config(**arguments(folder)),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS, **columns}),
        processing_class=tokenizer,
    )
    check_trainer(trainer).train()
    return trainer


def test_keys_see_prompts_and_columns(tmp_path):
    seen = []

    def key(completion):
        seen.append((completion.prompt, completion.columns["level"], completion.messages[0]["content"] == completion))
        return first_two(completion)

    trained(tmp_path, PolychromicReward(digit_share, key=key), level=[f"of {prompt}" for prompt in PROMPTS])
    assert len(seen) > 20  # 32 completions, some of them empty
    assert all(level == f"of {prompt}" and same for prompt, level, same in seen)


def test_asynchronous_judges_and_rewards(tmp_path):
    async def judge(prompt, completions):
        await asyncio.sleep(0.001)
        assert all(completion.prompt == prompt for completion in completions)
        return [first_two(text) for text in completions]

    async def reward_fn(**given):
        await asyncio.sleep(0.001)
        return digit_share(**given)

    reward = PolychromicReward(reward_fn, judge=judge, calls=Calls(concurrency=2, timeout=60, cache_size=100))
    record = make_trainer(reward, tmp_path)
    check_trainer(record.trainer).train()
    assert "reward_fn" in record.steps[0]["rewards"]
    check(record, lambda _, rewards, texts: polychromic_advantages(rewards, labels_of(texts), set_size=4))


def test_a_judge_that_fails_for_some_groups(tmp_path):
    calls = []

    def judge(_prompt, completions):
        calls.append(1)
        if len(calls) % 2:
            raise ConnectionError("no route")
        return [first_two(text) for text in completions]

    record = make_trainer(PolychromicReward(digit_share, judge=judge, on_failure="skip"), tmp_path)
    check_trainer(record.trainer).train()
    for step in record.steps:
        rewards, texts = groups_of(step)
        expected = polychromic_advantages(rewards, labels_of(texts), set_size=4)
        expected[0] = 0
        np.testing.assert_allclose(step["advantages"], expected.reshape(-1), **CLOSE)
    logs = [entry["polychromic/failed_groups"] for entry in record.trainer.state.log_history[:2]]
    assert logs == [0.5, 0.5]


def test_a_judge_that_fails_for_all_groups_stops_the_run(tmp_path):
    def judge(*_):
        raise ConnectionError("no route")

    for on_failure, message in (("skip", "no answer for any group"), ("error", "judge raised ConnectionError")):
        record = make_trainer(PolychromicReward(digit_share, judge=judge, on_failure=on_failure), tmp_path)
        with pytest.raises(UserError, match=message):
            check_trainer(record.trainer).train()


def test_a_judge_that_fails_is_counted_and_warned_of_where_texts_take_its_place(tmp_path, caplog):
    def judge(*_):
        raise ConnectionError("no route")

    record = make_trainer(PolychromicReward(digit_share, judge=judge, on_failure="text"), tmp_path)
    check_trainer(record.trainer).train()
    words = lambda group: [tuple(text.split()) for text in group]  # noqa: E731
    check(record, lambda _, rewards, texts: polychromic_advantages(rewards, [words(g) for g in texts], set_size=4))
    assert record.trainer.state.log_history[0]["polychromic/failed_groups"] == 1.0
    assert "the judge failed for 2 of 2 groups, which are compared word by word" in caplog.text


def test_several_weighted_rewards(tmp_path):
    def starts_right(prompts, completions, **_):
        return [float(text.startswith(prompt[0])) for prompt, text in zip(prompts, completions, strict=True)]

    digits = each_completion(lambda completion: len({c for c in completion if c.isdigit()}) / 10)
    reward = PolychromicReward(combine(digits, starts_right, weights=[1.0, 0.4]), key=first_two, reward_range=(0, 1.4))
    record = make_trainer(reward, tmp_path)
    check_trainer(record.trainer).train()
    check(record, lambda _, rewards, texts: polychromic_advantages(rewards / 1.4, labels_of(texts), set_size=4))
    logged = record.trainer.state.log_history[0]
    if Version(trl.__version__) >= Version("1.0"):  # TRL 0.29 gives reward functions nothing to log with
        assert logged["polychromic/rewards/starts_right"] == pytest.approx(
            np.mean(starts_right(record.steps[0]["prompts"], record.steps[0]["completions"]))
        )


@pytest.mark.parametrize("wrong_answers", ["alike", "never-different"])
def test_wrong_answers_are_compared_as_said(tmp_path, wrong_answers):
    record, _ = run(tmp_path, wrong_answers=wrong_answers, success_threshold=0.2)

    def merged(group, rewards):
        right = [label for label, reward in zip(group, rewards, strict=True) if reward >= 0.2 - 1e-6]
        common = max(right, key=right.count) if right and wrong_answers == "never-different" else "wrong"
        return [label if reward >= 0.2 - 1e-6 else common for label, reward in zip(group, rewards, strict=True)]

    def expected(_, rewards, texts):
        labels = [merged(*pair) for pair in zip(labels_of(texts), rewards, strict=True)]
        return polychromic_advantages(rewards, labels, set_size=4, homogeneous_zero=wrong_answers == "alike")

    check(record, expected)


def test_a_group_with_one_kind_of_right_answer_teaches_something():
    """With the default; by the paper's rule, sets of answers that are all alike score 0, whatever is right in them."""

    def advantages(**settings):
        def key(_):
            return "the same"

        reward = PolychromicReward(digit_share, key=key, wrong_answers="never-different", **settings)
        completions = [Completion(text, "p") for text in "abcdefgh"]
        return reward.of_group(completions, [1.0] + [0.0] * 7, 0)

    found, metrics = advantages()
    assert found[0] > 0 > found[1]
    assert metrics["silent_groups"] == 0
    found, metrics = advantages(homogeneous_zero=True)
    assert not found.any()
    assert metrics["silent_groups"] == 1
    assert PolychromicReward(digit_share, embed=len, wrong_answers="never-different").sets.homogeneous_zero
    assert PolychromicReward(digit_share, key=len).sets.homogeneous_zero


@pytest.mark.parametrize("size", [1, 2, 4])
def test_evaluation_in_groups_too_small_for_a_set(tmp_path, size):
    settings = {"num_generations_eval": size, "per_device_eval_batch_size": 4}
    record, _ = run(tmp_path, trainer_settings=settings)
    record.trainer.evaluate()
    logged = record.trainer.state.log_history[-1]
    assert logged["eval_polychromic/raw_reward"] > 0
    assert 1 <= logged["eval_polychromic/distinct_answers"] <= size
    assert ("eval_polychromic/set_score" in logged) == (size >= 4)
    assert not np.any(list(record.trainer._logs["advantages"])[-4:])


def test_sets_of_large_groups_of_embeddings_are_drawn_and_that_is_said(tmp_path, caplog):
    def embed(completions):
        return [[1.0, *(text.count(c) for c in "0123456789")] for text in completions]

    settings = {"num_generations": 32, "per_device_train_batch_size": 32, "per_device_eval_batch_size": 32}
    with caplog.at_level(logging.WARNING, logger="polychromic"):
        record, _ = run(tmp_path, key=None, embed=embed, trainer_settings=settings)
    assert "2000 of the 35960 sets of a group are drawn" in caplog.text
    for step in record.steps:
        assert np.sum(step["advantages"]) == pytest.approx(0, abs=1e-5)
        assert np.abs(step["advantages"]).max() > 1e-3


# A stock script in at most 6 changed lines


def changed_lines():
    stock, polychromic = (
        (ROOT / "examples" / "trl" / f"{name}_grpo.py").read_text() for name in ("stock", "polychromic")
    )
    return [
        line
        for line in difflib.ndiff(stock.splitlines(), polychromic.splitlines())
        if line[:2] in ("+ ", "- ") and line[2:].strip()
    ]


def test_a_stock_script_needs_six_changed_lines_and_the_page_shows_them():
    lines = changed_lines()
    assert sum(line.startswith("+ ") for line in lines) <= 6
    for page in ("docs/trl.md", "README.md"):
        shown = (ROOT / page).read_text()
        for line in lines:
            assert f"\n{line[0]}{line[2:]}\n" in shown, (page, line)


@pytest.mark.parametrize("name", ["stock", "polychromic"])
def test_both_scripts_run(tmp_path, name):
    tokenizer = character_tokenizer()
    tokenizer.save_pretrained(tmp_path / "model")
    tiny_llama(tokenizer, 0).save_pretrained(tmp_path / "model")
    script = ROOT / "examples" / "trl" / f"{name}_grpo.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "model"), str(tmp_path / "out"), "2"],
        env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "out" / "model.safetensors").exists()


# Launchers


def test_accelerate_on_processors_starts_one_process_whatever_it_is_told(tmp_path):
    """Why the documentation says torchrun: `accelerate launch --cpu` hands `--num_processes` to mpirun alone."""
    script = tmp_path / "script.py"
    script.write_text(
        "from accelerate import PartialState\n"
        "from polychromic.integrations.trl import started_alone\n"
        "print(PartialState().num_processes, started_alone(PartialState().num_processes))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HF_HOME": str(tmp_path)}
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"]
    done = subprocess.run(
        [*launcher, str(script)], env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["1", "True"]

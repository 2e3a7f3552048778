"""TRL's experimental asynchronous GRPO: the process that generates and scores, without a GPU and the server it asks."""

import multiprocessing
import pickle

import numpy as np
import pytest
import trl
from accelerate import PartialState
from datasets import Dataset
from packaging.version import Version
from runs import digit_share, enumerated_batch, first_two
from tiny_llama import character_tokenizer

from polychromic import UserError, polychromic_advantages
from polychromic.integrations.endpoints import EndpointEmbeddings, EndpointJudge
from polychromic.integrations.trl import PolychromicReward, check_trainer, combine, each_completion

if Version(trl.__version__) < Version("1.16"):
    pytest.skip("this TRL has none", allow_module_level=True)

from trl.experimental.async_grpo import AsyncGRPOTrainer, async_rollout_worker
from trl.experimental.async_grpo.async_rollout_worker import RolloutGroup, TrainingSequence, _AsyncRolloutLoop

from polychromic.integrations.trl_async import PolychromicRolloutLoop

TEXTS = ["12", "1+", "+1", "++", "123", "45", "67", ""]


def chat_share(prompts, completions, **_):
    """The reward of these tests, for conversations, as a spawned process can import it."""
    return digit_share([p[-1]["content"] for p in prompts], [c[0]["content"] for c in completions])


def first_is_a_digit(completion):
    return float(completion[:1].isdigit())


def settings(reward_funcs, **changes):
    """What the trainer forwards to the loop."""
    tokenizer = character_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.response_template = {"fields": {}}  # nothing is parsed here
    return {
        "model_name": "tiny",
        "dataset": Dataset.from_dict({"prompt": [[{"role": "user", "content": "1="}]]}),
        "reward_funcs": reward_funcs,
        "processing_class": tokenizer,
        "eos_token_ids": [tokenizer.eos_token_id],
        "num_generations": 8,
        **changes,
    }


def scored_by(kind, reward_funcs, asked):
    """The samples that a loop of this kind makes of a group."""
    PartialState(cpu=True)  # as the process of the loop does first
    context = multiprocessing.get_context("spawn")
    loop = kind(
        **settings(reward_funcs),
        rollout_buffer=context.Queue(),
        model_version_value=context.Value("i", 0),
        heartbeat_value=context.Value("d", 0.0),
        failed_event=context.Event(),
        exception_info_queue=context.Queue(),
        metrics_queue=context.Queue(),
    )
    try:
        return loop._loop.run_until_complete(loop._score_group(asked))
    finally:
        loop._loop.run_until_complete(loop._loop.shutdown_default_executor())
        loop._loop.close()


def group(rows, **changes):
    """Eight completions of a prompt; each makes as many training rows as `rows` says."""
    fields = {
        "prompts": [[{"role": "user", "content": "1="}]] * 8,
        "reward_kwargs": {"level": list(range(8))},
        "completions": [[{"role": "assistant", "content": text}] for text in TEXTS],
        "completions_ids": [[1]] * 8,
        "completions_sequences": [
            [TrainingSequence([1, 2], [0, 1], [0.0, -1.0], (0, i))] * n for i, n in enumerate(rows)
        ],
        "tool_call_counts": [0] * 8,
        "tool_failure_counts": [0] * 8,
        "model_version": 0,
        "group_id": 5,
        "env_rewards": [None] * 8,
        "rollout_rewards": [None] * 8,
    }
    return RolloutGroup(**{**fields, **changes})


def scored(reward, rows=(1,) * 8, **changes):
    return scored_by(PolychromicRolloutLoop, reward.funcs, group(rows, **changes))


def test_samples_carry_the_enumerated_advantages():
    rows = [1, 2, 1, 3, 1, 1, 1, 1]
    reward = PolychromicReward(chat_share, key=first_two)
    samples = scored(reward, rows)
    expected = np.repeat(enumerated_batch(["1="] * 8, TEXTS, 8), rows)
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose([sample.advantage for sample in samples], expected, rtol=0, atol=1e-8)
    assert {sample.metrics["polychromic/distinct_answers"] for sample in samples} == {5.0}
    # All else is TRL's, which itself divides by the spread of the group.
    stock = scored_by(_AsyncRolloutLoop, [chat_share], group(rows))
    for ours, theirs in zip(samples, stock, strict=True):
        assert theirs.metrics.items() <= ours.metrics.items()
        np.testing.assert_array_equal(ours.input_ids, theirs.input_ids)
    once = scored_by(_AsyncRolloutLoop, [chat_share], group([1] * 8))
    assert np.std([sample.advantage for sample in once]) == pytest.approx(1, abs=1e-3)


def test_completions_that_train_nothing_are_left_out():
    samples = scored(PolychromicReward(chat_share, key=first_two), (1, 1, 0, 1, 1, 1, 0, 1))
    texts = [text for place, text in enumerate(TEXTS) if place not in (2, 6)]
    expected = enumerated_batch(["1="] * 6, texts, 6)
    np.testing.assert_allclose([sample.advantage for sample in samples], expected, rtol=0, atol=1e-8)


def test_judges_columns_random_sets_and_scale():
    seen = []

    def judge(prompt, completions):
        seen.append((prompt[0]["content"], [completion.columns["level"] for completion in completions]))
        return [first_two(text) for text in completions]

    found = [sample.advantage for sample in scored(PolychromicReward(chat_share, judge=judge, scale=16.0))]
    np.testing.assert_allclose(found, 16 * enumerated_batch(["1="] * 8, TEXTS, 8), rtol=0, atol=1e-7)
    assert seen == [("1=", list(range(7)))]  # the last is empty
    random = PolychromicReward(chat_share, key=first_two, num_sets=4, seed=3)
    labels = [first_two(text) if text else "empty" for text in TEXTS]
    expected = polychromic_advantages(
        digit_share(["1="] * 8, TEXTS), labels, set_size=4, num_sets=4, rng=np.random.default_rng([3, 1, 5])
    )
    np.testing.assert_allclose([sample.advantage for sample in scored(random)], expected, rtol=0, atol=1e-12)
    others = [sample.advantage for sample in scored(random, group_id=6)]
    assert not np.allclose(others, expected)


def failing_judge(prompt, completions):  # noqa: ARG001
    raise ConnectionError("no route")


def test_a_group_without_a_verdict_is_skipped():
    reward = PolychromicReward(chat_share, judge=failing_judge, on_failure="skip")
    samples = scored(reward, (1, 2, 1, 1, 0, 1, 1, 1))
    assert [sample.advantage for sample in samples] == [0.0] * 8
    logged = {name: value for name, value in samples[0].metrics.items() if name.startswith("polychromic/")}
    rewards = digit_share(["1="] * 8, TEXTS)
    mean = np.mean([reward for place, reward in enumerate(rewards) if place != 4])
    assert logged == {
        "polychromic/raw_reward": pytest.approx(mean),
        "polychromic/failed_groups": 1.0,
        "polychromic/advantage_std": 0.0,
        "polychromic/silent_groups": 1.0,
    }
    judged = scored(PolychromicReward(chat_share, judge=lambda _, texts: list(texts), on_failure="skip"))
    assert judged[0].metrics["polychromic/failed_groups"] == 0
    with pytest.raises(UserError, match="judge raised ConnectionError: no route"):
        scored(PolychromicReward(chat_share, judge=failing_judge))


def test_rewards_out_of_range_stop_the_loop():
    def reward_fn(completions, **_):
        return [2.0] * len(completions)

    with pytest.raises(UserError, match="returned 2 for completion 0"):
        scored(PolychromicReward(reward_fn, key=first_two))


# The trainer itself needs a GPU: what it hands to its worker, and the worker, are real.


@pytest.fixture
def trainer(monkeypatch):
    monkeypatch.setattr(async_rollout_worker, "is_vllm_available", lambda: True)
    monkeypatch.setattr(async_rollout_worker, "is_aiohttp_available", lambda: True)

    def make(reward_funcs, **changes):
        made = AsyncGRPOTrainer.__new__(AsyncGRPOTrainer)
        made.rollout_worker = async_rollout_worker.AsyncRolloutWorker(**settings(reward_funcs, **changes))
        return made

    return make


def test_a_checked_trainer_runs_our_loop(trainer):
    reward = PolychromicReward(chat_share, key=first_two)
    checked = check_trainer(trainer(reward.funcs))
    worker = checked.rollout_worker
    assert worker._loop_cls is PolychromicRolloutLoop
    # The way into the other process.
    copy = pickle.loads(pickle.dumps(worker._loop_kwargs))
    samples = scored(copy["reward_funcs"][0])
    expected = enumerated_batch(["1="] * 8, TEXTS, 8)
    np.testing.assert_allclose([sample.advantage for sample in samples], expected, rtol=0, atol=1e-8)


def test_our_own_helpers_find_the_way_into_the_other_process(trainer):
    both = combine(chat_share, each_completion(first_is_a_digit), weights=[0.5, 0.5])
    judge = EndpointJudge("http://127.0.0.1:9/v1", "m")
    embed = EndpointEmbeddings("http://127.0.0.1:9/v1", "m")
    for ways in ({"key": first_two}, {"judge": judge, "on_failure": "skip"}, {"embed": embed}):
        worker = check_trainer(trainer(PolychromicReward(both, **ways).funcs)).rollout_worker
        copy = pickle.loads(pickle.dumps(worker._loop_kwargs))["reward_funcs"][0]
        given = {"prompts": group([1] * 8).prompts, "completions": group([1] * 8).completions}
        np.testing.assert_allclose(copy.reward_fn(**given), both(**given), rtol=0, atol=0)
        if "key" in ways:
            here, there = (scored(reward) for reward in (PolychromicReward(both, **ways), copy))
            assert [sample.advantage for sample in there] == [sample.advantage for sample in here]
            assert len({sample.advantage for sample in here}) > 1


def test_trainers_that_would_change_the_objective_are_refused(trainer):
    reward = PolychromicReward(chat_share, key=first_two)
    by_batch = PolychromicReward(chat_share, key=first_two, scale="batch")
    for funcs, changes, message in (
        ([chat_share], {}, "holds 0 PolychromicReward"),
        ([*reward.funcs, chat_share], {}, "chat_share beside the polychromic reward"),
        (by_batch.funcs, {}, "scale is 'batch'"),
        (reward.funcs, {"num_generations": 4}, "num_generations is 4, the set_size"),
    ):
        with pytest.raises(UserError, match=message):
            check_trainer(trainer(funcs, **changes))
    other = trainer(reward.funcs)
    other.rollout_worker = object()
    with pytest.raises(UserError, match="rollout_worker is object, which scores by itself"):
        check_trainer(other)

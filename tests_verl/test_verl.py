"""The plug-in inside verl: its registries, its own advantage functions, its TransferQueue and its trainer class."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from polychromic import UserError, polychromic_advantages
from polychromic.cli import main as polychromic_command
from polychromic.integrations.answers import Comparison
from polychromic.integrations.completions import Completion
from polychromic.integrations.rewards import columns_of
from polychromic.integrations.verl import (
    PolychromicPPOTrainer,
    PolychromicPPOTrainerColocateAsync,
    PolychromicPPOTrainerSeparateAsync,
    Responses,
    completion_of,
    responses_for_estimator,
)
from polychromic.integrations.verl_check import check_by_verl, composed
from polychromic.integrations.verl_settings import section_settings, settings_of

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "examples" / "verl" / "polychromic.yaml"
CLOSE = {"rtol": 0, "atol": 1e-6}


def first_letter(text):
    return text[0]


def make_batch(groups=3, size=8, seed=0, tokens=5):
    """Shuffled rows: rewards at the last token, texts, group ids, session keys."""
    rng = np.random.default_rng(seed)
    count = groups * size
    lengths = rng.integers(1, tokens + 1, count)
    mask = torch.tensor(np.arange(tokens)[None, :] < lengths[:, None], dtype=torch.float32)
    rewards = rng.random(count)
    scores = torch.zeros(count, tokens)
    scores[torch.arange(count), torch.tensor(lengths) - 1] = torch.tensor(rewards, dtype=torch.float32)
    order = rng.permutation(count)
    uids = np.array([f"uid{i // size}" for i in range(count)], dtype=object)[order]
    keys = [f"{uid}_{i % size}_0" for uid, i in zip(uids, order, strict=True)]
    texts = ["".join(rng.choice(list("abc"), 3)) for _ in range(count)]
    return SimpleNamespace(mask=mask, scores=scores, uids=uids, keys=keys, texts=texts, rewards=rewards)


def responses_of(batch, section=None, **changes):
    fields = {
        "completions": batch.texts,
        "sessions": [key.rsplit("_", 1)[0] for key in batch.keys],
        "places": [0] * len(batch.texts),
        "padding": [False] * len(batch.texts),
        "settings": section_settings({"key": first_letter, **(section or {})}),
        "draw": (5, 0),
        "metrics": {},
    }
    return Responses(**{**fields, **changes})


def data_of(batch):
    tensors = {"token_level_rewards": batch.scores, "response_mask": batch.mask}
    return DataProto.from_dict(tensors=tensors, non_tensors={"uid": batch.uids})


def expected_of(batch, **settings):
    labels = [first_letter(text) for text in batch.texts]
    return polychromic_advantages(batch.rewards, labels, group_ids=batch.uids, **{"set_size": 4, **settings})


@pytest.mark.parametrize("function", ["compute_advantage", "compute_advantage_for_multi_trajectories"])
@pytest.mark.parametrize("section", [{}, {"set_size": 3}, {"preset": "poly-epo"}])
def test_verls_own_functions_end_up_with_our_advantages(function, section):
    batch = make_batch()
    responses = responses_of(batch, section)
    with responses_for_estimator(responses):
        if function == "compute_advantage":
            data = compute_advantage(data_of(batch), adv_estimator="polychromic", config=None)
        else:
            data = compute_advantage_for_multi_trajectories(
                data_of(batch), batch_keys=batch.keys, adv_estimator="polychromic", config=None
            )
    settings = {"set_size": 3} if section == {"set_size": 3} else {"homogeneous_zero": not section}
    expected = expected_of(batch, **settings)
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(data.batch["advantages"], expected[:, None] * batch.mask.numpy(), **CLOSE)
    np.testing.assert_array_equal(data.batch["advantages"], data.batch["returns"])
    assert responses.metrics["polychromic/raw_reward"] == pytest.approx(batch.rewards.mean(), abs=1e-6)
    assert responses.metrics["polychromic/incomplete_groups"] == 0


def test_stock_grpo_leaves_our_advantages_as_they_are():
    batch = make_batch()
    expected = expected_of(batch)
    scores = torch.zeros_like(batch.scores)
    scores[:, 0] = torch.tensor(expected, dtype=torch.float32)
    found, _ = core_algos.compute_grpo_outcome_advantage(scores, batch.mask, batch.uids, norm_adv_by_std_in_grpo=False)
    np.testing.assert_allclose(found, expected[:, None] * batch.mask.numpy(), **CLOSE)


def test_random_sets_are_those_of_the_step():
    batch = make_batch(groups=1)
    found = []
    for draw in ((5, 0), (5, 0), (6, 0), (5, 1)):
        with responses_for_estimator(responses_of(batch, {"preset": "paper"}, draw=draw)):
            found.append(compute_advantage(data_of(batch), adv_estimator="polychromic").batch["advantages"])
    assert torch.equal(found[0], found[1])
    # Neither another step nor another batch of the same step draws the same sets.
    assert not torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[3])
    expected = expected_of(batch, num_sets=4, rng=np.random.default_rng([0, 5, 0]))
    np.testing.assert_allclose(found[0], expected[:, None] * batch.mask.numpy(), **CLOSE)


def test_judges_see_prompts_and_whole_groups():
    batch = make_batch()
    seen = []

    def judge(prompt, texts):
        seen.append((prompt, len(texts)))
        return [first_letter(text) for text in texts]

    completions = [Completion(text, f"of {uid}") for text, uid in zip(batch.texts, batch.uids, strict=True)]
    responses = responses_of(batch, {"key": None, "judge": judge}, completions=completions)
    with responses_for_estimator(responses):
        data = compute_advantage(data_of(batch), adv_estimator="polychromic")
    assert sorted(seen) == [("of uid0", 8), ("of uid1", 8), ("of uid2", 8)]
    np.testing.assert_allclose(data.batch["advantages"], expected_of(batch)[:, None] * batch.mask.numpy(), **CLOSE)


def judged_but_for(uid, batch):
    """Settings with a judge that fails for the group `uid`."""
    lost = {id(text) for text, other in zip(batch.texts, batch.uids, strict=True) if other == uid}

    def judge(_prompt, texts):
        if id(texts[0]) in lost:
            raise ConnectionError("no route")
        return [first_letter(text) for text in texts]

    return {"key": None, "judge": judge, "on_failure": "skip", "calls": {"retries": 1, "wait": 0.001}}


def test_a_judge_that_fails_for_a_group_leaves_it_out():
    batch = make_batch()
    responses = responses_of(batch, judged_but_for("uid1", batch))
    with responses_for_estimator(responses):
        data = compute_advantage(data_of(batch), adv_estimator="polychromic")
    expected = np.where(batch.uids == "uid1", 0.0, expected_of(batch))
    np.testing.assert_allclose(data.batch["advantages"], expected[:, None] * batch.mask.numpy(), **CLOSE)
    assert responses.metrics["polychromic/failed_groups"] == pytest.approx(1 / 3)
    assert responses.metrics["polychromic/silent_groups"] == pytest.approx(1 / 3)
    assert responses.metrics["polychromic/raw_reward"] == pytest.approx(batch.rewards.mean())  # of all groups, as TRL


def test_a_group_compared_by_its_texts_counts_as_failed():
    batch = make_batch()
    responses = responses_of(batch, judged_but_for("uid1", batch) | {"on_failure": "text"})
    with responses_for_estimator(responses):
        compute_advantage(data_of(batch), adv_estimator="polychromic")
    assert responses.metrics["polychromic/failed_groups"] == pytest.approx(1 / 3)


def test_scale_is_one_number_for_the_batch():
    batch = make_batch()
    with responses_for_estimator(responses_of(batch, {"scale": "batch"})):
        data = compute_advantage(data_of(batch), adv_estimator="polychromic")
    plain = expected_of(batch)
    expected = plain / (plain.std() + 1e-4)
    np.testing.assert_allclose(data.batch["advantages"], expected[:, None] * batch.mask.numpy(), **CLOSE)


@pytest.mark.parametrize("wrong_answers", ["alike", "never-different"])
def test_wrong_answers_are_compared_as_said(wrong_answers):
    batch = make_batch()
    right = batch.rewards >= 0.5
    with responses_for_estimator(responses_of(batch, {"wrong_answers": wrong_answers, "success_threshold": 0.5})):
        data = compute_advantage(data_of(batch), adv_estimator="polychromic")
    common = dict.fromkeys(batch.uids, "wrong")
    if wrong_answers == "never-different":
        for uid in common:
            own = [first_letter(batch.texts[row]) for row in np.flatnonzero((batch.uids == uid) & right)]
            common[uid] = max(own, key=own.count, default="wrong")
    labels = [
        first_letter(text) if good else common[uid]
        for text, good, uid in zip(batch.texts, right, batch.uids, strict=True)
    ]
    rule = wrong_answers == "alike"
    expected = polychromic_advantages(batch.rewards, labels, group_ids=batch.uids, set_size=4, homogeneous_zero=rule)
    np.testing.assert_allclose(data.batch["advantages"], expected[:, None] * batch.mask.numpy(), **CLOSE)


def without_rows(batch, rows):
    keep = [row for row in range(len(batch.texts)) if row not in rows]
    return SimpleNamespace(
        mask=batch.mask[keep],
        scores=batch.scores[keep],
        uids=batch.uids[keep],
        rewards=batch.rewards[keep],
        keys=[batch.keys[row] for row in keep],
        texts=[batch.texts[row] for row in keep],
    )


def test_groups_may_lose_responses_down_to_the_set_size():
    batch = make_batch()
    fewer = without_rows(batch, np.flatnonzero(batch.uids == "uid1")[:3])
    with responses_for_estimator(responses_of(fewer)):
        data = compute_advantage(data_of(fewer), adv_estimator="polychromic")
    np.testing.assert_allclose(data.batch["advantages"], expected_of(fewer)[:, None] * fewer.mask.numpy(), **CLOSE)


def test_incomplete_groups_are_an_error_or_skipped():
    batch = make_batch()
    fewer = without_rows(batch, np.flatnonzero(batch.uids == "uid1")[:4])
    with responses_for_estimator(responses_of(fewer)), pytest.raises(UserError, match="group uid1 has 4 responses"):
        compute_advantage(data_of(fewer), adv_estimator="polychromic")
    responses = responses_of(fewer, {"incomplete_groups": "skip"})
    with responses_for_estimator(responses):
        data = compute_advantage(data_of(fewer), adv_estimator="polychromic")
    whole = without_rows(batch, np.flatnonzero(batch.uids == "uid1"))
    expected = np.zeros(len(fewer.texts))
    expected[fewer.uids != "uid1"] = expected_of(whole)
    np.testing.assert_allclose(data.batch["advantages"], expected[:, None] * fewer.mask.numpy(), **CLOSE)
    assert responses.metrics["polychromic/incomplete_groups"] == 1


@pytest.mark.parametrize(
    ("share", "passed", "weight"),
    [(1.0, 0.0, 1.0), (1.0, 0.25, 0.75), (0.5, 0.25, 0.5), (0.75, 0.5, 1 / 3), (0.5, 0.5, 0.0), (0.5, 0.9, 0.0)],
)
def test_sets_give_way_to_verls_own_grpo(share, passed, weight):
    """Of groups of 8, 6, 4 and 1 responses; the last two have no sets."""
    batch = make_batch(groups=4)
    lost = {"uid1": 2, "uid2": 4, "uid3": 7}
    batch = without_rows(batch, [row for uid in lost for row in np.flatnonzero(batch.uids == uid)[: lost[uid]]])
    section = {"scale": "batch", "anneal": share, "incomplete_groups": "skip"}
    responses = responses_of(batch, section, passed=passed)
    with responses_for_estimator(responses):
        data = compute_advantage(data_of(batch), adv_estimator="polychromic")
    small = np.isin(batch.uids, ["uid2", "uid3"])
    sets = np.zeros(len(batch.texts))
    sets[~small] = expected_of(without_rows(batch, np.flatnonzero(small)))
    sets = (sets / (sets.std() + 1e-4))[:, None] * batch.mask.numpy()
    grpo, _ = core_algos.compute_grpo_outcome_advantage(
        batch.scores, batch.mask, batch.uids, norm_adv_by_std_in_grpo=True
    )
    assert np.abs(sets - grpo.numpy()).max() > 0.1
    expected = weight * sets + (1 - weight) * grpo.numpy()
    # verl's own are those of 32-bit floats.
    np.testing.assert_allclose(data.batch["advantages"], expected, rtol=0, atol=5e-6)
    assert responses.metrics["polychromic/set_weight"] == pytest.approx(weight)


def test_groups_without_a_verdict_have_grpo_alone():
    batch = make_batch()
    section = {**judged_but_for("uid1", batch), "scale": "batch", "anneal": 1.0}
    responses = responses_of(batch, section, passed=0.25)
    with responses_for_estimator(responses):
        found = compute_advantage(data_of(batch), adv_estimator="polychromic").batch["advantages"]
    grpo, _ = core_algos.compute_grpo_outcome_advantage(batch.scores, batch.mask, batch.uids)
    lost = batch.uids == "uid1"
    np.testing.assert_allclose(found[lost], 0.25 * grpo[lost], rtol=0, atol=5e-6)


def test_annealing_needs_to_know_how_much_of_the_run_has_passed():
    batch = make_batch()
    responses = responses_of(batch, {"scale": "batch", "anneal": 0.5})
    with (
        responses_for_estimator(responses),
        pytest.raises(UserError, match=r"polychromic\.anneal is 0\.5, but .* passed"),
    ):
        compute_advantage(data_of(batch), adv_estimator="polychromic")


def test_rewards_out_of_range_and_their_rescaling():
    batch = make_batch()
    batch.scores *= 4
    with responses_for_estimator(responses_of(batch)), pytest.raises(UserError, match="reward_range") as error:
        compute_advantage(data_of(batch), adv_estimator="polychromic")
    wrong = {uid for uid, score in zip(batch.uids, batch.scores.sum(dim=1), strict=True) if score > 1 + 1e-6}
    assert any(f"for a response of group {uid};" in str(error.value) for uid in wrong)
    with responses_for_estimator(responses_of(batch, {"reward_range": [0, 4]})):
        data = compute_advantage(data_of(batch), adv_estimator="polychromic")
    np.testing.assert_allclose(data.batch["advantages"], expected_of(batch)[:, None] * batch.mask.numpy(), **CLOSE)


def test_other_trainers_cannot_use_the_estimator():
    with pytest.raises(UserError, match="trainer_mode=polychromic"):
        compute_advantage(data_of(make_batch()), adv_estimator="polychromic")


# The trainer


class Letters:
    """A tokenizer of letters: 1 is the end, 2 and on are a, b, …"""

    eos_token_id, pad_token_id = 1, 0

    def decode(self, ids, skip_special_tokens):
        assert skip_special_tokens
        return "".join(chr(95 + token) for token in ids if token > 1)


def jagged(rows):
    return torch.nested.as_nested_tensor([torch.as_tensor(row) for row in rows], layout=torch.jagged)


def trainer_for(section=(), cls=PolychromicPPOTrainer, **changes):
    overrides = [f"polychromic.{name}={value}" for name, value in changes.items()]
    config = composed(("polychromic.key=polychromic.integrations.keys:last_number", *section, *overrides), CONFIG)
    trainer = cls(config)
    trainer.tokenizer, trainer.global_steps, trainer.total_training_steps = Letters(), 5, 8
    return trainer


def test_the_trainer_is_synchronous():
    trainer = trainer_for()
    assert get_trainer_cls("polychromic") is PolychromicPPOTrainer
    assert trainer.config.trainer.v1.trainer_mode == "polychromic"
    assert trainer.trainer_mode == "sync"
    assert type(trainer.replay_buffer) is ReplayBuffer
    assert not trainer.use_critic


ASYNCHRONOUS = {
    "colocate_async": (PolychromicPPOTrainerColocateAsync, ()),
    "separate_async": (
        PolychromicPPOTrainerSeparateAsync,
        (
            "trainer.v1.separate_async.parameter_sync_step=4",
            "actor_rollout_ref.actor.ppo_mini_batch_size=32",
            "actor_rollout_ref.rollout.nnodes=1",
            "actor_rollout_ref.rollout.n_gpus_per_node=4",
            "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
        ),
    ),
}


def trainer_in(mode, **changes):
    if mode == "sync":
        return trainer_for(**changes)
    cls, settings = ASYNCHRONOUS[mode]
    return trainer_for((f"trainer.v1.trainer_mode=polychromic_{mode}", *settings), cls, **changes)


@pytest.mark.parametrize("mode", ASYNCHRONOUS)
def test_the_asynchronous_trainers_are_verls_with_our_advantages(mode):
    cls, _ = ASYNCHRONOUS[mode]
    trainer = trainer_in(mode)
    assert get_trainer_cls(f"polychromic_{mode}") is cls
    assert issubclass(cls, get_trainer_cls(mode))
    assert trainer.trainer_mode == mode
    assert type(trainer.replay_buffer) is ReplayBufferAsync
    assert trainer.parameter_sync_step == (4 if mode == "separate_async" else 1)


def test_responses_with_tools_are_conversations():
    tokens, mask = [2, 3, 9, 9, 4, 1], [True, True, False, False, True, True]
    completion = completion_of(Letters(), tokens, mask, "q", {"level": 1})
    assert completion == "ab\nc"
    assert completion.messages == [
        {"role": "assistant", "content": "ab"},
        {"role": "tool", "content": "hh"},
        {"role": "assistant", "content": "c"},
    ]
    assert (completion.prompt, completion.columns) == ("q", {"level": 1})
    assert completion_of(Letters(), [2, 1], [True, True], "q", {}).messages == [{"role": "assistant", "content": "a"}]


CALL = '<tool_call>\n{"name": "weather", "arguments": %s}\n</tool_call>'
TURNS = [  # what the model writes, what the tool answers, what the model writes then; "" for a call alone
    ("I look.", '{"city": "Paris", "unit": "C"}', "It is cold."),
    ("I look.", '{"city": "Oslo", "unit": "C"}', "It is cold."),
    ("I look.", '{"unit": "C", "city": "Paris"}', "It is cold."),
    ("", '{"city": "Paris", "unit": "C"}', "It is cold."),
    ("I look.", '{"city": "Paris", "unit": "C"}', "It is cold."),
]


class Codes:
    @staticmethod
    def decode(tokens, skip_special_tokens):
        return "".join(chr(token) for token in tokens if token or not skip_special_tokens)


def as_trl_has_it(said, arguments, answer):
    call = {"type": "function", "function": {"name": "weather", "arguments": json.loads(arguments)}}
    messages = [
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {"role": "tool", "name": "weather", "content": "12 degrees"},
        {"role": "assistant", "content": answer},
    ]
    [completion] = columns_of(["q"], [messages], {"level": [1]})
    return completion


def as_verl_has_it(said, arguments, answer):
    parts = [("\n".join(filter(None, [said, CALL % arguments])), True), ("12 degrees", False), (answer, True)]
    tokens = [ord(letter) for text, _ in parts for letter in text]
    return completion_of(Codes(), tokens, [own for text, own in parts for _ in text], "q", {"level": 1})


def test_keys_see_the_same_trajectories_as_with_trl():
    pairs = [(as_trl_has_it(*turns), as_verl_has_it(*turns)) for turns in TURNS]
    for trl, verl in pairs:
        assert trl.tool_calls == verl.tool_calls
        assert (trl.prompt, trl.columns) == (verl.prompt, verl.columns)
        roles = [[message["role"] for message in completion.messages] for completion in (trl, verl)]
        assert roles[0] == roles[1] == ["assistant", "tool", "assistant"]
    # Texts are the same too, but for the order in which the model wrote the arguments.
    assert [trl == verl for trl, verl in pairs] == [True, True, False, True, True]
    for key, labels in ((lambda c: c.tool_calls, [0, 1, 0, 0, 0]), (lambda c: c.tool_calls[0].name, [0] * 5)):
        for adapter in zip(*pairs, strict=True):
            comparison = Comparison(key=key)
            np.testing.assert_array_equal(comparison.likeness([comparison.of_completions(adapter)]).labels, [labels])


@pytest.fixture
def queued(transfer_queue):
    """Groups of 8, shuffled; some sessions with two outputs; a tool's tokens masked; a batch that verl has padded."""
    rng = np.random.default_rng(3)
    rows = []
    for group in range(3):
        for session in range(8):
            outputs = 2 if session % 3 == 0 else 1
            for place in range(outputs):
                text = rng.integers(2, 5, 3)
                mask = np.array([1, 1, 1, 0, 1])
                responses = np.array([*text, 9, 1])
                reward = float(np.float32(rng.random()))
                rows.append((f"uid-{group}", session, place, responses, mask, reward))
    order = rng.permutation(len(rows))
    rows = [rows[i] for i in order]
    keys = [f"{uid}_{session}_{place}" for uid, session, place, *_ in rows]
    fields = TensorDict(
        {
            "responses": jagged([row[3] for row in rows]),
            "response_mask": jagged([row[4] for row in rows]),
            "rm_scores": jagged([np.array([0, 0, 0, 0, row[5]], np.float32) for row in rows]),
            "prompts": jagged([np.array([2, 3]) for _ in rows]),
            "rollout_log_probs": jagged([np.zeros(5, np.float32) for _ in rows]),
            "old_log_probs": jagged([np.zeros(5, np.float32) for _ in rows]),
        },
        batch_size=len(rows),
    )
    fields["uid"] = [row[0] for row in rows]
    fields["raw_prompt"] = [[{"role": "user", "content": f"question of {row[0]}"}] for row in rows]
    fields["extra_info"] = [{"level": row[1]} for row in rows]
    tags = [{"seq_len": 7, "prompt_len": 2, "response_len": 5} for _ in rows]
    transfer_queue.kv_batch_put(keys=keys, partition_id="train", fields=fields, tags=tags)
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    batch = upsample_batch_to_divisible_size(batch, 7, eos_token_id=1)
    assert len(batch) % 7 == 0
    assert len(batch) > len(rows)
    yield rows, batch
    transfer_queue.kv_clear(keys=batch.keys, partition_id="train")


def stored_advantages(transfer_queue, batch):
    stored = transfer_queue.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages"])
    return [values.numpy() for values in stored["advantages"].unbind()]


@pytest.mark.parametrize("mode", ["sync", *ASYNCHRONOUS])
def test_the_trainers_with_verls_transfer_queue(transfer_queue, queued, monkeypatch, mode):
    rows, batch = queued
    trainer = trainer_in(mode, preset="poly-epo")
    seen = set()

    def first_letter_of(completion):
        seen.add((completion.prompt[0]["content"], completion.columns["extra_info"]["level"], len(completion.messages)))
        return completion[0]

    letters = section_settings({"key": first_letter_of, "preset": "poly-epo"})
    monkeypatch.setattr(trainer, "polychromic", letters)
    metrics = {}
    trainer._compute_advantage(batch, metrics)
    assert seen == {(f"question of uid-{group}", session, 3) for group in range(3) for session in range(8)}
    found = stored_advantages(transfer_queue, batch)

    final = {}
    for uid, session, place, responses, _, reward in rows:
        if (uid, session) not in final or place > final[uid, session][0]:
            final[uid, session] = (place, responses[0], reward)
    sessions = list(final)
    advantages = polychromic_advantages(
        [final[key][2] for key in sessions],
        [int(final[key][1]) for key in sessions],
        group_ids=[uid for uid, _ in sessions],
        set_size=4,
        homogeneous_zero=False,
    )
    expected = dict(zip(sessions, advantages, strict=True))
    assert max(map(abs, expected.values())) > 1e-2
    for row, (uid, session, *_rest) in enumerate(rows):
        np.testing.assert_allclose(found[row], expected[uid, session] * np.array([1, 1, 1, 0, 1]), **CLOSE)
    for padding in found[len(rows) :]:
        np.testing.assert_array_equal(padding, 0)
    assert metrics["polychromic/raw_reward"] == pytest.approx(np.mean([final[key][2] for key in sessions]), abs=1e-6)


def test_the_trainer_ends_as_verls_with_grpo(transfer_queue, queued, monkeypatch):
    rows, batch = queued
    grpo = ("algorithm.adv_estimator=grpo", "trainer.v1.trainer_mode=sync")
    PPOTrainerSync(composed(grpo, CONFIG))._compute_advantage(batch, {})
    stock = stored_advantages(transfer_queue, batch)
    trainer = trainer_for()
    annealed = section_settings({"key": first_letter, "scale": "batch", "anneal": 0.5})
    monkeypatch.setattr(trainer, "polychromic", annealed)
    found = {}
    for step, weight in ((1, 1.0), (3, 0.5), (5, 0.0), (8, 0.0)):
        trainer.global_steps = step
        metrics = {}
        trainer._compute_advantage(batch, metrics)
        assert metrics["polychromic/set_weight"] == weight
        found[step] = stored_advantages(transfer_queue, batch)
    for row in range(len(rows)):
        np.testing.assert_allclose(found[3][row], (found[1][row] + stock[row]) / 2, rtol=0, atol=5e-6)
        for step in (5, 8):
            np.testing.assert_allclose(found[step][row], stock[row], rtol=0, atol=5e-6)
    assert max(np.abs(found[1][row] - stock[row]).max() for row in range(len(rows))) > 0.1
    for padding in found[3][len(rows) :]:
        np.testing.assert_array_equal(padding, 0)


# Settings


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["algorithm.adv_estimator=grpo"], "algorithm.adv_estimator is 'grpo'"),
        (["trainer.v1.trainer_mode=sync"], "trainer.v1.trainer_mode is 'sync'; .* 'polychromic_colocate_async'"),
        (["+polychromic.scale=group"], "scale is 'group'"),
        (["+polychromic.anneal=1.5"], "anneal is 1.5; it must be between 0 and 1"),
        (["+polychromic.anneal=true"], "anneal is True; it must be a number between 0 and 1"),
        (["+polychromic.anneal=0.5"], "anneal is 0.5 with scale 1.0; scale must be 'batch'"),
        (
            ["+polychromic.anneal=0.5", "+polychromic.scale=batch", "algorithm.norm_adv_by_std_in_grpo=false"],
            "algorithm.norm_adv_by_std_in_grpo is False with polychromic.anneal 0.5; it must be True",
        ),
        (["+polychromic.calls.tries=2"], "polychromic.calls.tries is not a setting; choose from concurrency"),
        (["+polychromic.on_failure=skip"], "are for judge and equivalent"),
        (["trainer.use_v1=false"], "trainer.use_v1 is False"),
        (["algorithm.use_kl_in_reward=true"], "use_kl_loss=True instead"),
        (["algorithm.filter_groups.enable=true"], "filter_groups.enable is True"),
        (["actor_rollout_ref.rollout.n=4"], "actor_rollout_ref.rollout.n is 4, the set_size"),
        (["polychromic.key=null"], "none of key"),
        (["polychromic.key=nothing"], "package.module:function"),
        (["polychromic.key=no_such_module:f"], "cannot be loaded"),
        (["+polychromic.sets=4"], "polychromic.sets is not a setting"),
        (["polychromic.preset=papers"], "choose one of 'paper', 'poly-epo'"),
        (["+polychromic.num_sets=4"], "do not add up to zero"),
        (["polychromic.incomplete_groups=ignore"], "choose one of 'error', 'skip'"),
        (["~polychromic"], "there is no section polychromic"),
    ],
)
def test_configurations_that_would_not_do_what_they_say(overrides, message):
    with pytest.raises(UserError, match=message):
        settings_of(composed(tuple(overrides), CONFIG))


def test_everything_can_be_said_in_the_configuration():
    config = composed(("+polychromic.set_size=3", "+polychromic.reward_range=[-1,1]", "+polychromic.seed=7"), CONFIG)
    settings = settings_of(config)
    assert (settings.sets.set_size, settings.reward_range, settings.seed) == (3, (-1.0, 1.0), 7)
    assert settings.success_threshold == 1.0
    assert isinstance(OmegaConf.to_container(config), dict)


# The command


def test_verl_alone_loads_the_plugin():
    program = (
        "import verl\n"
        "from verl.trainer.ppo.core_algos import get_adv_estimator_fn\n"
        "from verl.trainer.ppo.v1 import get_trainer_cls\n"
        "print(get_adv_estimator_fn('polychromic').__module__, get_trainer_cls('polychromic').__module__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split() == ["polychromic.integrations.verl_estimator", "polychromic.integrations.verl"]


def test_verl_alone_is_not_slowed_down():
    program = (
        "import sys, verl\n"
        "loaded = [name for name in sys.modules if name.startswith('polychromic.integrations')]\n"
        "print(loaded, 'verl.trainer.ppo.v1' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    loaded = "['polychromic.integrations', 'polychromic.integrations.verl_plugin'] False"
    assert done.stdout.splitlines()[-1] == loaded


def test_a_plugin_that_fails_leaves_verl_alone():
    program = (
        "import sys\n"
        "sys.modules['polychromic.integrations.completions'] = None\n"
        "import verl.trainer.ppo.v1 as v1\n"
        "print(v1.get_trainer_cls('sync').__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "PPOTrainerSync"
    assert "polychromic's plug-in is not there" in done.stderr


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["actor_rollout_ref.rollout.name=???"], "actor_rollout_ref.rollout.name is missing"),
        (["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=null"], "verl refuses the configuration: .*ppo_micro"),
        (["actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=null"], "log_prob_micro_batch_size"),
        (["actor_rollout_ref.actor.ppo_mini_batch_size=256"], "verl refuses the configuration"),
    ],
)
def test_what_verl_refuses_is_refused_before_it_is_started(overrides, message, capsys):
    assert polychromic_command(["verl-check", *overrides, "--config", str(CONFIG)]) == 2
    with pytest.raises(UserError, match=message):
        check_by_verl(composed(tuple(overrides), CONFIG))
    assert "Traceback" not in capsys.readouterr().err


def test_check_of_a_configuration(capsys):
    assert polychromic_command(["verl-check", "--config", str(CONFIG)]) == 0
    output = capsys.readouterr().out
    assert "verl 0.9.1" in output
    assert "algorithm.adv_estimator=polychromic  registered" in output
    assert "trainer.v1.trainer_mode=polychromic  registered" in output
    assert "trainer.v1.trainer_mode=polychromic_separate_async  registered" in output
    assert "verl's own validation of the configuration  passed" in output
    assert "polychromic.key  polychromic.integrations.keys:calculations" in output
    assert "polychromic.credit  mean" in output


def test_check_of_annealing(capsys):
    command = ["verl-check", "--config", str(CONFIG), "+polychromic.anneal=0.75"]
    assert polychromic_command([*command, "+polychromic.scale=batch"]) == 0
    assert "polychromic.anneal  0.75" in capsys.readouterr().out
    assert polychromic_command(command) == 2
    assert "anneal is 0.75 with scale 1.0; scale must be 'batch'" in capsys.readouterr().err


def test_check_of_overrides(capsys):
    overrides = ["algorithm.adv_estimator=polychromic", "trainer.v1.trainer_mode=polychromic"]
    key = "+polychromic.key=polychromic.integrations.keys:last_number"
    sizes = [
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    ]
    assert polychromic_command(["verl-check", *overrides, *sizes, key, "actor_rollout_ref.rollout.n=8"]) == 0
    assert "polychromic.num_sets  auto" in capsys.readouterr().out
    assert polychromic_command(["verl-check", *overrides, "actor_rollout_ref.rollout.n=8"]) == 2
    assert "there is no section polychromic" in capsys.readouterr().err
    assert polychromic_command(["verl-check", "no.such.setting=1"]) == 2
    assert "cannot be put together" in capsys.readouterr().err
    assert polychromic_command(["verl-check", "--config", "nowhere.yaml"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_check_says_why_the_plugin_is_not_loaded(capsys, monkeypatch):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    assert polychromic_command(["verl-check"]) == 2
    assert "VERL_USE_EXTERNAL_PLUGINS is 'none'" in capsys.readouterr().err

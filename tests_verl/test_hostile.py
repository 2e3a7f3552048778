"""Rewards, labels and batches that are wrong, through verl's own advantage functions: one line, or the fallback."""

import numpy as np
import pytest
import torch
from test_verl import data_of, first_letter, make_batch, responses_of, without_rows
from verl.trainer.ppo.ray_trainer import compute_advantage

from polychromic import UserError
from polychromic.integrations.verl import responses_for_estimator
from polychromic.integrations.verl_settings import section_settings
from torture import hostile


def advantages(batch, section=None, **changes):
    with responses_for_estimator(responses_of(batch, section, **changes)):
        return compute_advantage(data_of(batch), adv_estimator="polychromic").batch["advantages"]


def refused(batch, section=None, **changes):
    with pytest.raises(UserError) as error:
        advantages(batch, section, **changes)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1.5, -0.5, 1e30])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_rewards(value, kind):
    batch = make_batch()
    batch.scores = batch.scores.to(kind)
    batch.scores[5, 0] = value
    batch.scores[5, 1:] = 0
    assert f"for a response of group {batch.uids[5]}" in refused(batch)


def test_a_reward_that_is_not_a_number_outside_of_the_mask_is_seen():
    batch = make_batch()
    batch.scores[7, -1] = float("nan")
    assert "NaN" in refused(batch)


def test_rewards_of_a_group_that_is_skipped_are_seen():
    batch = make_batch()
    few = np.flatnonzero(batch.uids == "uid1")
    batch = without_rows(batch, few[:5])
    batch.scores[np.flatnonzero(batch.uids == "uid1")[0], 0] = float("nan")
    assert "NaN for a response of group uid1" in refused(batch, {"incomplete_groups": "skip"})


def test_whole_numbers_and_truths_are_rewards():
    batch = make_batch()
    batch.scores = (batch.scores > 0.5).float()
    expected = advantages(batch)
    for kind in (torch.int64, torch.bool, torch.float64):
        batch.scores = batch.scores.to(kind)
        torch.testing.assert_close(advantages(batch), expected)


@pytest.mark.parametrize("name", hostile.KEYS)
def test_keys(name):
    refused(make_batch(), {"key": hostile.KEYS[name]})


@pytest.mark.parametrize("name", hostile.JUDGED)
def test_judges(name):
    def judge(_prompt, completions):
        return hostile.JUDGED[name](len(completions))

    batch = make_batch()
    assert "judge" in refused(batch, {"key": None, "judge": judge})
    assert "no answer for any group" in refused(batch, {"key": None, "judge": judge, "on_failure": "skip"})
    by_text = advantages(batch, {"key": None, "judge": judge, "on_failure": "text"})
    torch.testing.assert_close(by_text, advantages(batch, {"key": str}))


def test_a_judge_that_fails_for_one_group_costs_that_group():
    batch = make_batch()
    spoilt = next(text for text in batch.texts)

    def judge(_prompt, completions):
        if spoilt in completions:
            raise ValueError("no answer")
        return [first_letter(text) for text in completions]

    lost = {uid for uid, text in zip(batch.uids, batch.texts, strict=True) if text == spoilt}
    if len(lost) == 3:
        pytest.skip("it is in every group")
    found = advantages(batch, {"key": None, "judge": judge, "on_failure": "skip"}).numpy()
    expected = advantages(batch).numpy()
    for row, uid in enumerate(batch.uids):
        np.testing.assert_allclose(found[row], 0 if uid in lost else expected[row], atol=1e-6)


@pytest.mark.parametrize("name", hostile.COMPARED)
def test_comparisons(name):
    section = {"key": None, "equivalent": lambda *_: hostile.COMPARED[name]}
    assert "must return True or False" in refused(make_batch(), section)


@pytest.mark.parametrize("name", hostile.EMBEDDED)
def test_embeddings(name):
    section = {"key": None, "embed": lambda completions: hostile.EMBEDDED[name](len(completions))}
    assert "embed" in refused(make_batch(), section)


@pytest.mark.parametrize("name", hostile.RAISED)
def test_functions_that_raise(name):
    fails = hostile.raising(hostile.RAISED[name])
    for way in ("key", "embed", "judge", "equivalent"):
        said = refused(make_batch(), {"key": None, way: fails})
        assert f"{way} raised {type(hostile.RAISED[name]).__name__}" in said


@pytest.mark.parametrize("part", ["completions", "sessions", "places", "padding"])
def test_batches_whose_parts_do_not_fit(part):
    batch = make_batch()
    whole = getattr(responses_of(batch), part)
    for wrong in (whole[:-1], [*whole, whole[0]]):
        said = refused(batch, **{part: wrong})
        assert f"{len(wrong)} {part}" in said


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "0.5", 2.0])
def test_thresholds(threshold):
    with pytest.raises(UserError, match="success_threshold is"):
        section_settings({"key": first_letter, "success_threshold": threshold})

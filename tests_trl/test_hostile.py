"""Rewards, keys, judges and embeddings that are wrong, in a real trainer: one line, or the documented fallback."""

import numpy as np
import pytest
import torch
from runs import digit_share, first_two, make_trainer

from polychromic import UserError
from polychromic.integrations.answers import Comparison
from polychromic.integrations.trl import PolychromicReward, check_trainer
from torture import hostile

COMPLETIONS = ["12", "1+", "+1", "++", "123", "45", "67", "8"]
PROMPTS = ["1="] * len(COMPLETIONS)


@pytest.fixture(scope="module")
def attached(tmp_path_factory):
    """A reward in a trainer, whose functions each test replaces."""
    polychromic = PolychromicReward(digit_share, key=first_two)
    trainer = check_trainer(make_trainer(polychromic, tmp_path_factory.mktemp("run")).trainer)
    trainer.model.train()
    return polychromic, trainer  # the reward holds its trainer weakly


@pytest.fixture
def reward(attached):
    polychromic, _ = attached
    kept = dict(vars(polychromic))
    yield polychromic
    vars(polychromic).update(kept)


def refused(reward):
    with pytest.raises(UserError) as error:
        reward(PROMPTS, COMPLETIONS)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", hostile.REWARDS)
def test_rewards(reward, name):
    reward.reward_fn = lambda completions, **_: hostile.REWARDS[name](len(completions))
    assert "reward_fn 'digit_share' returned" in refused(reward)


@pytest.mark.parametrize("name", hostile.RAISED)
def test_functions_that_raise(reward, name):
    fails = hostile.raising(hostile.RAISED[name])
    kind = type(hostile.RAISED[name]).__name__
    for way in ("key", "embed", "judge", "equivalent"):
        reward.comparison = Comparison(**{way: fails})
        assert f"{way} raised {kind}" in refused(reward)
    reward.reward_fn = fails
    assert f"reward_fn 'digit_share' raised {kind}" in refused(reward)


async def _fails_later(**_):
    raise ValueError("later\nstill")


async def _wrong_later(**_):
    return [float("nan")] * len(COMPLETIONS)


@pytest.mark.parametrize(
    ("function", "message"), [(_fails_later, "raised ValueError: later still"), (_wrong_later, "NaN for completion 0")]
)
def test_asynchronous_rewards(reward, function, message):
    reward.reward_fn = function
    assert message in refused(reward)


@pytest.mark.parametrize("name", hostile.KEYS)
def test_keys(reward, name):
    reward.comparison = Comparison(key=hostile.KEYS[name])
    refused(reward)


@pytest.mark.parametrize("name", hostile.JUDGED)
def test_judges(reward, name):
    def judge(_prompt, completions):
        return hostile.JUDGED[name](len(completions))

    reward.comparison = Comparison(judge=judge)
    assert "judge" in refused(reward)
    reward.comparison = Comparison(judge=judge, on_failure="skip")
    assert "no answer for any group" in refused(reward)
    reward.comparison = Comparison(judge=judge, on_failure="text")
    by_text = reward(PROMPTS, COMPLETIONS)
    reward.comparison = Comparison(key=str)
    assert by_text == reward(PROMPTS, COMPLETIONS)


@pytest.mark.parametrize("name", hostile.COMPARED)
def test_comparisons(reward, name):
    reward.comparison = Comparison(equivalent=lambda *_: hostile.COMPARED[name])
    assert "must return True or False" in refused(reward)


@pytest.mark.parametrize("name", hostile.EMBEDDED)
def test_embeddings(reward, name):
    reward.comparison = Comparison(embed=lambda completions: hostile.EMBEDDED[name](len(completions)))
    assert "embed" in refused(reward)


def test_tensors_are_rewards(reward):
    expected = reward(PROMPTS, COMPLETIONS)
    for kind in (torch.float64, torch.float32):
        reward.reward_fn = lambda completions, kind=kind, **_: torch.tensor(
            digit_share(PROMPTS, completions), dtype=kind
        )
        np.testing.assert_allclose(reward(PROMPTS, COMPLETIONS), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["nan", "one too many", "a text of digits"])
def test_nothing_is_learnt_from_them(tmp_path, name):
    """Through the whole trainer: it stops before the first update."""
    polychromic = PolychromicReward(
        lambda completions, **_: hostile.REWARDS[name](len(completions)), key=first_two, success_threshold=0.5
    )
    trainer = check_trainer(make_trainer(polychromic, tmp_path).trainer)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    with pytest.raises(UserError, match="returned"):
        trainer.train()
    assert trainer.state.global_step == 0
    assert all(torch.equal(value, before[name]) for name, value in trainer.model.state_dict().items())


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "0.5", 2.0, None])
def test_thresholds(threshold):
    if threshold is None:
        assert PolychromicReward(digit_share, key=first_two).success_threshold == 1.0
        return
    with pytest.raises(UserError, match="success_threshold is"):
        PolychromicReward(digit_share, key=first_two, success_threshold=threshold)

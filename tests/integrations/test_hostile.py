"""Rewards, keys, judges, comparisons and embeddings that are wrong: one line says what is, never a wrong number."""

from __future__ import annotations

import numpy as np
import pytest

from polychromic import UserError
from polychromic.integrations.answers import Comparison, rewards_of
from polychromic.integrations.rewards import combine, each_completion
from torture import hostile

TEXTS = ["apple", "banana", "cherry", "apple", "banana", "date"]
PROMPTS = ["q"] * len(TEXTS)


def refused(call):
    """What is said, in one line."""
    with pytest.raises(UserError) as error:
        call()
    said = str(error.value)
    assert said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("name", hostile.REWARDS)
def test_rewards(name):
    count = len(TEXTS)

    def reward(**_):
        return hostile.REWARDS[name](count)

    assert "the rewards" in refused(lambda: rewards_of(reward(), count, (0.0, 1.0), "the rewards"))
    ranges = ("above the range", "below the range", "one None", "all None")  # which a sum may have
    if name not in ranges:
        assert "reward" in refused(lambda: combine(reward)(PROMPTS, TEXTS))


@pytest.mark.parametrize("name", hostile.RAISED)
def test_functions_that_raise(name):
    fails = hostile.raising(hostile.RAISED[name])
    kind = type(hostile.RAISED[name]).__name__
    assert f"fail raised {kind}" in refused(lambda: combine(fails)(PROMPTS, TEXTS))
    assert f"fail raised {kind}" in refused(lambda: each_completion(fails)(PROMPTS, TEXTS))
    assert f"key raised {kind}" in refused(lambda: Comparison(key=fails).of_completions(TEXTS))
    assert f"embed raised {kind}" in refused(lambda: Comparison(embed=fails).of_completions(TEXTS))
    for way in ("judge", "equivalent"):
        assert f"{way} raised {kind}" in refused(lambda way=way: groups(**{way: fails}))
        # The fallbacks that the documentation names.
        assert groups(**{way: fails}, on_failure="skip") == [None]
        assert groups(**{way: fails}, on_failure="text") == [TEXTS]
    assert each_completion(fails, fallback=0.25)(PROMPTS, TEXTS) == [0.25] * len(TEXTS)


def groups(**way):
    return [group.labels for group in Comparison(**way).labels_of_groups(["q"], [TEXTS])]


@pytest.mark.parametrize("name", hostile.SOUND_REWARDS)
def test_sound_rewards_are_taken_as_they_are(name):
    values = [0.0, 0.25, 0.5, 0.5, 0.75, 1.0]
    raw, returns = rewards_of(hostile.SOUND_REWARDS[name](values), 6, (0.0, 1.0), "the rewards")
    assert raw.tolist() == returns.tolist() == values

    def given(**_):
        return hostile.SOUND_REWARDS[name](values)

    assert combine(given)(PROMPTS, TEXTS) == values


def test_rewards_of_one_completion():
    for value in ("0.5", "nan", float("nan"), float("inf"), None, [0.5], 0.5j, np.complex64(0.5), 10**400, object()):
        said = refused(lambda value=value: each_completion(lambda _: value)(PROMPTS, TEXTS))
        assert "it must be a finite number" in said
        assert each_completion(lambda _, value=value: value, fallback=0.0)(PROMPTS, TEXTS) == [0.0] * len(TEXTS)
    for fallback in ("x", float("nan"), float("inf"), [0.0]):
        assert "fallback" in refused(lambda fallback=fallback: each_completion(len, fallback=fallback))


def test_infinite_parts_of_a_sum_do_not_cancel_out():
    """Infinity times a weight of 0, or minus itself, is NaN, which used to count as nothing."""

    def endless(**_):
        return [float("inf")] * len(TEXTS)

    def half(**_):
        return [0.5] * len(TEXTS)

    said = refused(lambda: combine(half, endless, weights=[1.0, 0.0])(PROMPTS, TEXTS))
    assert said.startswith("endless returned inf for completion 0")


@pytest.mark.parametrize("name", hostile.KEYS)
def test_keys(name):
    def labels():
        comparison = Comparison(key=hostile.KEYS[name])
        return comparison.likeness([comparison.of_completions(TEXTS)])

    refused(labels)


@pytest.mark.parametrize("name", hostile.SOUND_KEYS)
def test_sound_keys_group_what_is_equal(name):
    key = hostile.SOUND_KEYS[name]
    comparison = Comparison(key=key)
    (labels,) = comparison.likeness([comparison.of_completions(TEXTS)]).labels
    found = [key(text) for text in TEXTS]
    np.testing.assert_array_equal(
        labels[:, None] == labels[None, :], [[one == other for other in found] for one in found]
    )


@pytest.mark.parametrize("name", hostile.JUDGED)
def test_judges(name):
    def judge(_prompt, completions):
        return hostile.JUDGED[name](len(completions))

    assert "judge" in refused(lambda: groups(judge=judge))
    assert groups(judge=judge, on_failure="skip") == [None]
    assert groups(judge=judge, on_failure="text") == [TEXTS]


@pytest.mark.parametrize("name", hostile.COMPARED)
def test_comparisons(name):
    def equivalent(*_):
        return hostile.COMPARED[name]

    assert "must return True or False" in refused(lambda: groups(equivalent=equivalent))
    assert groups(equivalent=equivalent, on_failure="skip") == [None]
    assert groups(equivalent=lambda *_: np.bool_(True)) == [[0] * len(TEXTS)]


@pytest.mark.parametrize("name", hostile.EMBEDDED)
def test_embeddings(name):
    def embed(completions):
        return hostile.EMBEDDED[name](len(completions))

    def labels():
        comparison = Comparison(embed=embed)
        return comparison.likeness([comparison.of_completions(TEXTS)])

    assert "embed" in refused(labels)

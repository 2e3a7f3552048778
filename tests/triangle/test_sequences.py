"""Masked cross-entropy on sequences: what is learned, and that a stopped run ends in the same weights."""

import jax
import numpy as np
import pytest

import polychromic as poly
from polychromic.errors import UserError
from polychromic.pretrain.sequences import Corpus, SequenceCloning, learn_sequences, sequence_losses
from polychromic.tasks.triangle.pretrain import corpora_of

SETTINGS = SequenceCloning(steps=120, batch=8, steps_per_call=20, learning_rate=1e-2)


@pytest.fixture(scope="module")
def policy():
    return poly.transformer_policy(num_tokens=9, context=5, width=16, heads=2, layers=1, critic_width=8)


@pytest.fixture(scope="module")
def corpora():
    """After prompt 1 come 3 4 5 (the second prompt token is noise), after prompt 2 comes 6."""
    noise = np.random.default_rng(0).integers(0, 9, (40, 1))
    three = np.concatenate([np.full((40, 1), 1), noise, np.tile([3, 4, 5], (40, 1))], axis=1)
    one = np.tile([2, 6], (20, 1))
    return [Corpus(three.astype(np.int32), 2), Corpus(one.astype(np.int32), 1)]


@pytest.mark.slow
def test_what_follows_the_prompt_is_learned_and_the_critic_is_left_alone(policy, corpora):
    params, losses = learn_sequences(policy, corpora, SETTINGS)
    assert len(losses) == 6
    assert losses[-1] < 0.1 < losses[0]
    shown = sequence_losses(policy, params, corpora[0].tokens, 2)
    assert shown.shape == (40, 3)
    assert shown.max() < 0.3
    first = policy.init(jax.random.key(SETTINGS.seed))
    for before, after in zip(jax.tree.leaves(first["critic"]), jax.tree.leaves(params["critic"]), strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_run_that_was_stopped_ends_in_the_same_weights(policy, corpora, tmp_path):
    whole, losses = learn_sequences(policy, corpora, SETTINGS)

    def stop(steps, _):
        if steps == 60:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(KeyboardInterrupt):
        learn_sequences(policy, corpora, SETTINGS, checkpoint=path, on_call=stop)
    resumed, again = learn_sequences(policy, corpora, SETTINGS, checkpoint=path)
    np.testing.assert_array_equal(losses, again)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(one, other)
    other_settings = SequenceCloning(steps=120, batch=8, steps_per_call=20, learning_rate=1e-2, seed=1)
    with pytest.raises(UserError, match="seed = 0"):
        learn_sequences(policy, corpora, other_settings, checkpoint=path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 30}, "multiple of steps_per_call"),
        ({"batch": 1}, "batch: expected 2 or more"),
        ({"learning_rate": 0.0}, "learning_rate"),
    ],
)
def test_settings_that_cannot_work_are_refused(policy, corpora, changes, message):
    with pytest.raises(UserError, match=message):
        learn_sequences(policy, corpora, SequenceCloning(**{"steps": 20, "steps_per_call": 20, **changes}))


def test_the_sequences_of_the_graphs():
    triangles, edges = corpora_of((0, 1))
    assert triangles.tokens.shape[1] == 11
    assert edges.tokens.shape[1] == 8
    assert len(triangles.tokens) + len(edges.tokens) == 30_000
    world = poly.make("triangle", seeds=(0, 1))
    for task in range(2):
        prompt = world.observe(world.start([task]))["tokens"][0, :2]
        own = triangles.tokens[(triangles.tokens[:, :2] == prompt).all(axis=1)][:50]
        state = world.start([task] * len(own))
        paid = sum(world.step(state, column).reward for column in own[:, 2:].T)
        assert (paid == 1).all()


@pytest.mark.parametrize(
    ("tokens", "prompt", "message"),
    [
        (np.zeros((3, 4), np.int32), 0, "a prompt of 1 … 3 tokens, got 0"),
        (np.zeros((3, 4), np.int32), 4, "a prompt of 1 … 3 tokens, got 4"),
        (np.full((3, 4), 999, np.int32), 1, "got 999 … 999"),
        (np.zeros((3, 99), np.int32), 1, r"got shape \(3, 99\)"),
        (np.zeros(4, np.int32), 1, r"got shape \(4,\)"),
    ],
)
def test_sequences_that_the_policy_cannot_read_are_refused(policy, tokens, prompt, message):
    with pytest.raises(UserError, match=message):
        learn_sequences(policy, [Corpus(tokens, prompt)], SETTINGS)

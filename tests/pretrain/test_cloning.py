"""Batches, the loss, early stopping, and a resume that ends in the same weights."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.envs.grid.missions import WORDS
from polychromic.errors import UserError
from polychromic.policies.networks import cnn_policy, mlp_policy
from polychromic.policies.protocol import Policy
from polychromic.policies.tensors import named_arrays, read_tensors, write_tensors
from polychromic.pretrain.batches import Batches, device_steps, epoch_batches, gather
from polychromic.pretrain.cloning import (
    CHECKPOINT,
    Cloning,
    Epoch,
    clone,
    cloning_loss,
    finished,
    kept_epoch,
    validate,
)
from polychromic.pretrain.demonstrations import take

TRIPLES = CODE_TRIPLES.tolist()
MLP = mlp_policy(cells=49, code_triples=TRIPLES, hidden=(16,))
RECURRENT = cnn_policy(
    width=7,
    height=7,
    code_triples=TRIPLES,
    num_words=len(WORDS),
    channels=(2, 2, 4),
    word_units=2,
    mission_units=3,
    head_units=4,
    pools=(0,),
    memory_units=3,
)


def recurrent_policy() -> Policy:
    """A policy with memory in a few lines: memory ← tanh(cells · input + memory · recurrent)."""

    def init(key):
        keys = jax.random.split(key, 4)
        actor = {"input": jax.random.normal(keys[0], (49, 3)) / 7, "recurrent": jax.random.normal(keys[1], (3, 3))}
        return {"actor": {**actor, "head": jax.random.normal(keys[2], (3, 7))}, "critic": jnp.zeros(3)}

    def apply(params, obs, memory):
        actor = params["actor"]
        memory = jnp.tanh(obs["codes"] / 50 @ actor["input"] + memory @ actor["recurrent"])
        return memory @ actor["head"], memory @ params["critic"], memory

    return Policy("small memory", init, apply, {"kind": "small memory"}, memory_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 5),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
)
def test_an_epoch_holds_every_step_once_in_pieces_of_one_episode(lengths, pieces, piece_steps, shuffled, in_order):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rng = np.random.default_rng(0) if shuffled else None
    batches = epoch_batches(offsets, pieces, piece_steps, rng, in_order=in_order)
    assert batches.steps.shape[1:] == (pieces, piece_steps)
    real = np.arange(piece_steps) < batches.lengths[..., None]
    np.testing.assert_array_equal(np.sort(batches.steps[real]), np.arange(offsets[-1]))
    episode_of = np.repeat(np.arange(len(lengths)), lengths)
    wanted = np.broadcast_to(batches.episodes[..., None], real.shape)[real]
    np.testing.assert_array_equal(episode_of[batches.steps[real]], wanted)
    if in_order or not shuffled:
        together = real[..., 1:]
        assert (np.diff(batches.steps, axis=-1)[together] == 1).all()


def test_epochs_are_shuffled_differently_and_repeatably():
    offsets = np.arange(0, 101, 10)
    one, again, other = (epoch_batches(offsets, 4, 5, np.random.default_rng(seed)).steps for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_the_loss_is_cross_entropy_minus_entropy(fourrooms):
    demos = take(fourrooms, range(5))
    steps = device_steps(demos)
    params = jax.tree.map(lambda leaf: leaf + 0.05, MLP.init(jax.random.key(0)))
    batch = epoch_batches(demos.offsets, 7, 4, None)
    first = Batches(*(part[0] for part in batch))
    minibatch = gather(steps, first)
    loss, cross_entropy = cloning_loss(MLP, Cloning(entropy=0.3), params["actor"], params["critic"], minibatch)
    chosen = first.steps[np.arange(4) < first.lengths[:, None]]
    obs = {"codes": demos.codes[chosen], "direction": demos.directions[chosen]}
    logs = log_softmax(np.asarray(MLP.apply(params, obs)[0], np.float64), axis=1)
    expected = -logs[np.arange(len(chosen)), demos.actions[chosen]].mean()
    entropy = -(np.exp(logs) * logs).sum(axis=1).mean()
    np.testing.assert_allclose(cross_entropy, expected, rtol=1e-5)
    np.testing.assert_allclose(loss, expected - 0.3 * entropy, rtol=1e-5)


def test_a_recurrent_policy_is_trained_as_it_is_played(fourrooms):
    demos = take(fourrooms, range(3))
    params = jax.tree.map(lambda leaf: leaf + 0.05, RECURRENT.init(jax.random.key(0)))
    steps = device_steps(demos)
    batches = epoch_batches(demos.offsets, 2, int(demos.lengths.max()), None, in_order=True)
    loss, accuracy, _ = validate(RECURRENT, params, steps, batches)
    play = jax.jit(RECURRENT.apply)
    losses, right = [], []
    for k in range(3):
        memory = jnp.zeros((1, RECURRENT.memory_size))
        for step in range(demos.offsets[k], demos.offsets[k + 1]):
            obs = {
                "codes": demos.codes[step : step + 1],
                "direction": demos.directions[step : step + 1],
                "mission": np.zeros(1, np.int32),
                "missions": steps.missions[k : k + 1],
            }
            logits, _, memory = play(params, obs, memory)
            losses.append(-log_softmax(np.asarray(logits[0], np.float64))[demos.actions[step]])
            right.append(np.argmax(logits[0]) == demos.actions[step])
    np.testing.assert_allclose(loss, np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(accuracy, np.mean(right), rtol=1e-6)


def test_cloning_learns_and_leaves_the_critic_alone(fourrooms):
    train, test = take(fourrooms, range(48)), take(fourrooms, range(48, 60))
    plan = Cloning(epochs=12, patience=0, pieces=32, piece_steps=1, learning_rate=3e-3)
    params, epochs = clone(MLP, train, test, plan)
    assert len(epochs) == 12
    assert epochs[-1].validation_loss < 0.75 * epochs[0].validation_loss
    assert epochs[-1].validation_accuracy > 0.75
    fresh = MLP.init(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, params["critic"], fresh["critic"])
    flat, _ = clone(MLP, train, test, dataclasses.replace(plan, entropy=10.0))
    batches = epoch_batches(test.offsets, 8, 4, None)
    assert validate(MLP, flat, device_steps(test), batches)[2] > 0.95 * np.log(7)


@pytest.mark.parametrize("policy", [MLP, recurrent_policy()], ids=["mlp", "recurrent"])
def test_an_interrupted_run_resumes_to_the_same_weights(policy, fourrooms, tmp_path):
    train, test = take(fourrooms, range(20)), take(fourrooms, range(20, 26))
    plan = Cloning(epochs=4, patience=3, pieces=8, piece_steps=2)
    expected, epochs = clone(policy, train, test, plan)

    class Killed(BaseException):
        pass

    def kill(epoch):
        if epoch.epoch == 2:
            raise Killed

    checkpoint = tmp_path / "checkpoint.safetensors"
    with pytest.raises(Killed):
        clone(policy, train, test, plan, checkpoint=checkpoint, on_epoch=kill)
    seen = []
    resumed, again = clone(policy, train, test, plan, checkpoint=checkpoint, on_epoch=seen.append)
    assert again == epochs == tuple(seen)
    for name, array in named_arrays(expected).items():
        np.testing.assert_array_equal(named_arrays(resumed)[name], array)
    with pytest.raises(UserError, match=r"checkpoint.safetensors: the checkpoint has entropy = 0.01, this run has 0.5"):
        clone(policy, train, test, dataclasses.replace(plan, entropy=0.5), checkpoint=checkpoint)
    with pytest.raises(UserError, match=r"checkpoint.safetensors: the checkpoint has train"):
        clone(policy, take(train, range(19)), test, plan, checkpoint=checkpoint)


def epochs_of(*losses):
    return tuple(Epoch(number + 1, 0.0, loss, 0.5 + number / 100, 0.0) for number, loss in enumerate(losses))


@pytest.fixture(scope="module")
def finished_run(fourrooms, tmp_path_factory):
    """A checkpoint of three epochs, with a function that goes on from it under other settings."""
    train, test = take(fourrooms, range(20)), take(fourrooms, range(20, 26))
    path = tmp_path_factory.mktemp("run") / "checkpoint.safetensors"
    plan = Cloning(epochs=3, patience=0, pieces=8, piece_steps=2)

    def go_on(**changes):
        return clone(MLP, train, test, dataclasses.replace(plan, **changes), checkpoint=path)

    go_on()
    return path, go_on


def test_a_checkpoint_that_keeps_other_weights_is_refused(finished_run):
    path, go_on = finished_run
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"checkpoint.safetensors: .*keeps = 'the last .*this run has 'the best"):
        go_on(patience=2)
    assert path.read_bytes() == before


def test_a_checkpoint_past_the_end_of_the_run_is_refused(finished_run, tmp_path, fourrooms):
    _, go_on = finished_run
    with pytest.raises(UserError, match=r"checkpoint.safetensors: .* has 3 epochs, a run with epochs = 2 ends after 2"):
        go_on(epochs=2)
    assert len(go_on(epochs=3)[1]) == 3
    # Nothing to learn from: every epoch is worse than the first, so a patience of 1 would have ended it after two.
    train, test = take(fourrooms, range(20)), take(fourrooms, range(20, 26))
    test = dataclasses.replace(test, actions=np.full_like(test.actions, 6))
    plan = Cloning(epochs=4, patience=9, pieces=8, piece_steps=2)
    _, epochs = clone(MLP, train, test, plan, checkpoint=tmp_path / "c.safetensors")
    assert kept_epoch(epochs, plan).epoch == 1
    with pytest.raises(UserError, match=r"c.safetensors: .* has 4 epochs, a run with patience = 1 ends after 2"):
        clone(MLP, train, test, dataclasses.replace(plan, patience=1), checkpoint=tmp_path / "c.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: [1], "header is a list, expected a JSON object"),
        (lambda header: {**header, "identity": None}, "'identity' is None"),
        (lambda header: {**header, "epochs": 3}, "'epochs' is 3"),
        (
            lambda header: {**header, "epochs": [[1, 2.0]]},
            r"row 1 of 'epochs' is \[1, 2.0\], expected epoch, train_loss",
        ),
        (lambda header: {**header, "epochs": header["epochs"][1:]}, "row 1 of 'epochs'"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(finished_run, change, message):
    path, go_on = finished_run
    whole = path.read_bytes()
    tensors, metadata = read_tensors(path, CHECKPOINT)
    try:
        write_tensors(path, tensors, {**metadata, "header": json.dumps(change(json.loads(metadata["header"])))})
        with pytest.raises(UserError, match=f"checkpoint.safetensors: .*{message}"):
            go_on()
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(UserError, match=r"checkpoint.safetensors: not a complete safetensors file"):
            go_on()
    finally:
        path.write_bytes(whole)


def test_the_kept_epoch_is_the_one_whose_weights_are_returned(fourrooms):
    epochs = epochs_of(3.0, 2.0, 2.5, 2.0)
    assert kept_epoch(epochs, Cloning(patience=2)).epoch == 2
    assert kept_epoch(epochs, Cloning(patience=0)).epoch == 4
    train, test = take(fourrooms, range(20)), take(fourrooms, range(20, 26))
    batches = epoch_batches(test.offsets, 8, 2, None)
    for patience, rate in ((0, 1e-3), (5, 0.5)):  # the large rate makes the losses go up and down
        plan = Cloning(epochs=4, patience=patience, pieces=8, piece_steps=2, learning_rate=rate)
        params, epochs = clone(MLP, train, test, plan)
        kept = kept_epoch(epochs, plan)
        loss, accuracy, _ = validate(MLP, params, device_steps(test), batches)
        assert (loss, accuracy) == (kept.validation_loss, kept.validation_accuracy)


def test_stopping_early():
    epochs = epochs_of
    plan = Cloning(epochs=9, patience=2)
    assert not finished((), plan)
    assert not finished(epochs(3.0, 2.0, 2.5), plan)
    assert finished(epochs(3.0, 2.0, 2.5, 2.1), plan)
    assert not finished(epochs(3.0, 2.0, 2.5, 2.1, 2.2), dataclasses.replace(plan, patience=0))
    assert finished(epochs(*[1.0] * 9), dataclasses.replace(plan, patience=0))


@pytest.mark.parametrize("change", [{"epochs": 0}, {"learning_rate": 0.0}, {"entropy": -1.0}, {"pieces": 0}])
def test_wrong_settings_are_refused(fourrooms, change):
    (name,) = change
    with pytest.raises(UserError, match=name):
        clone(MLP, fourrooms, fourrooms, Cloning(**change))

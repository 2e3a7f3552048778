"""The networks against independent arithmetic, and the promises of the policy protocol."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.errors import UserError
from polychromic.policies import layers
from polychromic.policies.networks import build_policy, cnn_policy, feature_table, mlp_policy

TRIPLES = CODE_TRIPLES.tolist()
SMALL = {"channels": (4, 4, 8), "word_units": 4, "mission_units": 6, "head_units": 8, "num_words": 20}


def cnn(**options):
    return cnn_policy(**{"width": 7, "height": 7, "code_triples": TRIPLES, **SMALL, **options})


def observation(batch, cells=49, num_missions=3, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "codes": rng.integers(0, len(TRIPLES), (batch, cells)).astype(np.uint8),
        "direction": rng.integers(0, 4, batch).astype(np.int32),
        "mission": rng.integers(0, num_missions, batch).astype(np.int32),
        "missions": rng.integers(1, 20, (num_missions, 5)).astype(np.int32),
    }


def test_2x2_convolution_is_the_general_convolution():
    x = jax.random.normal(jax.random.key(0), (6, 5, 3, 4))
    weights = layers.draw(jax.random.key(1), layers.dense_shape(16, 7))
    expected = jax.lax.conv_general_dilated(
        x, weights["kernel"].reshape(2, 2, 4, 7), (1, 1), "VALID", dimension_numbers=("HWNC", "HWIO", "HWNC")
    )
    np.testing.assert_allclose(layers.conv2x2(weights, x), expected, atol=1e-5)


def test_the_gradient_of_patches_is_the_automatic_one():
    x = jax.random.normal(jax.random.key(0), (4, 3, 2, 5))

    def plain(x):
        return jnp.concatenate([x[:-1, :-1], x[:-1, 1:], x[1:, :-1], x[1:, 1:]], axis=-1)

    np.testing.assert_allclose(gradient(layers.patches2x2, x), gradient(plain, x), rtol=1e-6)


def gradient(function, *arguments):
    """Of the sum of squares of the outputs, by the first argument."""
    return jax.grad(lambda first: (function(first, *arguments[1:]) ** 2).sum())(arguments[0])


def test_a_convolution_of_codes_by_lookup_is_that_of_their_features():
    rng = np.random.default_rng(0)
    features, kernel = rng.normal(size=(9, 3)).astype(np.float32), rng.normal(size=(12, 5)).astype(np.float32)
    codes = rng.integers(0, 9, (6, 5, 4))

    def by_lookup(kernel):
        return layers.lookup_conv2x2(jnp.asarray(features), kernel, codes)

    def by_patches(kernel):
        return layers.conv2x2({"kernel": kernel, "bias": np.zeros(5, np.float32)}, jnp.asarray(features)[codes])

    np.testing.assert_allclose(by_lookup(kernel), by_patches(kernel), atol=1e-5)
    np.testing.assert_allclose(gradient(by_lookup, kernel), gradient(by_patches, kernel), rtol=1e-4, atol=1e-4)


def test_the_gradient_of_a_gru_over_sentences_is_the_automatic_one():
    weights = layers.draw(jax.random.key(0), {"gru": layers.gru_shape(3, 4), "words": layers.Normal((9, 3), 1.0)})
    tokens = np.array([[3, 1, 4, 0, 0, 0], [1, 5, 8, 2, 6, 0], [0, 0, 0, 0, 0, 0]])

    def plain(weights):
        state = jnp.zeros((3, 4))
        for column in tokens.T:
            inputs = layers.gru_inputs(weights["gru"], weights["words"][column])
            state = jnp.where((column != 0)[:, None], layers.gru_step(weights["gru"], inputs, state), state)
        return state

    def ours(weights):
        return layers.gru_sentence(weights["gru"], weights["words"], tokens)

    np.testing.assert_allclose(ours(weights), plain(weights), atol=1e-6)
    jax.tree.map(
        lambda got, wanted: np.testing.assert_allclose(got, wanted, atol=1e-5),
        gradient(ours, weights),
        gradient(plain, weights),
    )


def test_tied_maxima_share_the_gradient_and_dropped_edges_get_none():
    x = np.array([[1, 1, 7], [1, 0, 8], [9, 9, 9]], np.float32)[:, :, None, None]
    got = jax.grad(lambda x: 6 * layers.max_pool2(x).sum())(x)[:, :, 0, 0]
    np.testing.assert_allclose(got, [[2, 2, 0], [2, 0, 0], [0, 0, 0]])


def test_max_pool_takes_the_maxima_of_blocks_and_drops_an_odd_edge():
    x = np.arange(2 * 5 * 4 * 3, dtype=np.float32).reshape(2, 5, 4, 3)
    expected = np.array(
        [
            [[x[b, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :].max((0, 1)) for j in range(2)] for i in range(2)]
            for b in range(2)
        ]
    )
    got = layers.max_pool2(jnp.asarray(x.transpose(1, 2, 0, 3)))
    np.testing.assert_array_equal(got, expected.transpose(1, 2, 0, 3))


def test_gru_step_is_the_textbook_cell():
    rng = np.random.default_rng(0)
    weights = {
        "kernel": rng.normal(size=(3, 12)),
        "recurrent": rng.normal(size=(4, 12)),
        "bias": rng.normal(size=12),
        "recurrent_bias": rng.normal(size=12),
    }
    x, h = rng.normal(size=(2, 3)), rng.normal(size=(2, 4))

    def sigmoid(value):
        return 1 / (1 + np.exp(-value))

    gates_x, gates_h = x @ weights["kernel"] + weights["bias"], h @ weights["recurrent"] + weights["recurrent_bias"]
    reset = sigmoid(gates_x[:, :4] + gates_h[:, :4])
    update = sigmoid(gates_x[:, 4:8] + gates_h[:, 4:8])
    new = np.tanh(gates_x[:, 8:] + reset * gates_h[:, 8:])
    weights = jax.tree.map(jnp.asarray, weights)
    found = layers.gru_step(weights, layers.gru_inputs(weights, jnp.asarray(x)), jnp.asarray(h))
    np.testing.assert_allclose(found, (1 - update) * new + update * h, atol=1e-5)


def test_features_of_codes():
    image = feature_table(TRIPLES, "image")
    np.testing.assert_allclose(image * 10, CODE_TRIPLES, atol=1e-5)
    one_hot = feature_table(TRIPLES, "one-hot")
    assert (one_hot.sum(axis=1) == 3).all()
    assert len(np.unique(one_hot, axis=0)) == len(TRIPLES)
    with pytest.raises(UserError, match=r"cell_features.*'pixels'"):
        feature_table(TRIPLES, "pixels")


# One network with everything in it, compiled once for all the tests below.
POLICY = cnn(fusion="film", memory_units=5)
PARAMS = jax.tree.map(lambda leaf: leaf + 0.01, POLICY.init(jax.random.key(0)))
MEMORY = np.random.default_rng(1).normal(size=(6, POLICY.memory_size)).astype(np.float32)
apply = jax.jit(POLICY.apply)


def test_padding_and_place_of_a_mission_change_nothing():
    obs = observation(6)
    logits, value, memory = apply(PARAMS, obs, MEMORY)
    assert logits.shape == (6, 7)
    assert value.shape == (6,)
    assert memory.shape == MEMORY.shape
    longer = {**obs, "missions": np.pad(obs["missions"][obs["mission"]], ((0, 0), (0, 3))), "mission": np.arange(6)}
    np.testing.assert_allclose(apply(PARAMS, longer, MEMORY)[0], logits, atol=1e-6)
    encoded = {name: part for name, part in obs.items() if name != "missions"}
    encoded |= jax.jit(POLICY.encode)(PARAMS, {"missions": obs["missions"]})
    np.testing.assert_allclose(apply(PARAMS, encoded, MEMORY)[1], value, atol=1e-6)


def test_every_input_matters():
    obs = observation(6)
    logits, value, _ = apply(PARAMS, obs, MEMORY)
    changed = {
        "codes": np.where(obs["codes"] == 0, 1, 0).astype(np.uint8),
        "direction": (obs["direction"] + 1) % 4,
        "missions": obs["missions"] % 19 + 1,
    }
    for name, part in changed.items():
        other_logits, other_value, _ = apply(PARAMS, {**obs, name: part}, MEMORY)
        assert not np.allclose(other_logits, logits, atol=1e-7), name
        assert not np.allclose(other_value, value, atol=1e-7), name
    assert not np.allclose(apply(PARAMS, obs, 0 * MEMORY)[0], logits, atol=1e-7)


def test_every_weight_matters_to_its_own_output_and_to_no_other():
    obs = observation(6)

    @jax.jit
    def gradients(params):
        def loss(params, output):
            return (POLICY.apply(params, obs, MEMORY)[output] ** 2).sum()

        return jax.grad(loss)(params, 0), jax.grad(loss)(params, 1)

    for gradient, own, other in zip(gradients(PARAMS), ("actor", "critic"), ("critic", "actor"), strict=True):
        for path, leaf in jax.tree_util.tree_leaves_with_path(gradient[own]):
            assert np.abs(leaf).max() > 0, path
        assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(gradient[other]))


def test_memory_of_a_row_is_all_that_a_fork_needs():
    first, second = observation(6, seed=1), observation(6, seed=2)
    second["missions"] = first["missions"]
    _, _, memory = apply(PARAMS, first, 0 * MEMORY)
    logits, value, after = apply(PARAMS, second, memory)
    rows = np.array([2, 2, 0, 5, 5, 5])
    forked = {name: part if name == "missions" else part[rows] for name, part in second.items()}
    fork_logits, fork_value, fork_after = apply(PARAMS, forked, memory[rows])
    np.testing.assert_allclose(fork_logits, logits[rows], atol=1e-6)
    np.testing.assert_allclose(fork_value, value[rows], atol=1e-6)
    np.testing.assert_allclose(fork_after, after[rows], atol=1e-6)


def test_architectures_rebuild_their_policy():
    for policy in (
        mlp_policy(cells=49, code_triples=TRIPLES, hidden=(8, 8)),
        cnn(fusion="film", memory_units=3),
        cnn(width=22, height=22, pools=(0, 1)),
    ):
        again = build_policy(policy.architecture)
        assert jax.eval_shape(again.init, jax.random.key(3)) == jax.eval_shape(policy.init, jax.random.key(3))
        assert again.architecture == policy.architecture
        assert again.memory_size == policy.memory_size
        assert build_policy(dict(policy.architecture)) is again


def test_wrong_architectures_are_refused():
    with pytest.raises(UserError, match="network is 'perceptron'"):
        build_policy({"network": "perceptron"})
    with pytest.raises(UserError, match=r"'mlp' refuses.*layers"):
        build_policy({"network": "mlp", "layers": 3})
    with pytest.raises(UserError, match="nothing is left of the image"):
        cnn(width=3, height=3)
    with pytest.raises(UserError, match="fusion"):
        cnn(fusion="sum")

"""Host-side calls: padding and evaluating distinct rows change nothing, and actions follow the softmax."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import chisquare

import polychromic
from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.envs.grid.missions import WORDS
from polychromic.errors import UserError
from polychromic.policies.distributions import CATEGORICAL
from polychromic.policies.inference import Evaluator, row_hashes
from polychromic.policies.networks import cnn_policy, mlp_policy
from polychromic.policies.protocol import Policy

OPTIONS = {"channels": (4, 4, 8), "word_units": 4, "mission_units": 6, "head_units": 8, "num_words": len(WORDS)}


@pytest.fixture(scope="module")
def world():
    return polychromic.make("goto", seeds=range(3))


@pytest.mark.parametrize("network", ["mlp", "cnn with memory"])
def test_padding_and_remembering_change_nothing(world, network):
    if network == "mlp":
        policy = mlp_policy(cells=49, code_triples=CODE_TRIPLES.tolist(), hidden=(8,))
    else:
        policy = cnn_policy(width=7, height=7, code_triples=CODE_TRIPLES.tolist(), memory_units=4, **OPTIONS)
    params = policy.init(jax.random.key(0))
    state = world.start(np.arange(20) % 3)
    rng = np.random.default_rng(0)
    for _ in range(4):
        world.step(state, rng.integers(0, 3, 20))
    obs = world.inputs(state)
    memory = rng.normal(size=(20, policy.memory_size)).astype(np.float32) if policy.memory_size else None
    extra = () if memory is None else (memory,)
    expected = jax.jit(policy.apply)(params, {**obs, "missions": world.mission_tokens}, *extra)
    for remember in (True, False):
        evaluate = Evaluator(policy, params, world.tables(), remember=remember, sizes=(8,))
        for _ in range(2):
            found = evaluate(obs, memory)
            np.testing.assert_allclose(found.logits, expected[0], atol=1e-5)
            np.testing.assert_allclose(found.value, expected[1], atol=1e-5)
            if memory is not None:
                np.testing.assert_allclose(found.memory, expected[2], atol=1e-5)
    first = evaluate({name: rows[:1] for name, rows in obs.items()})
    assert first.logits.shape == (1, 7)


def test_only_rows_that_are_new_reach_the_network(world):
    reached = []

    def apply(params, obs):
        jax.debug.callback(lambda codes: reached.append(len(np.unique(codes, axis=0))), obs["codes"])
        return params["actor"]["w"] * obs["codes"][:, :7].astype(np.float32), obs["direction"].astype(np.float32)

    policy = Policy("own", lambda _: {"actor": {"w": np.float32(2)}, "critic": {}}, apply)
    evaluate = Evaluator(policy, policy.init(None), remember=True, sizes=(4, 64))
    state = world.start(np.arange(60) % 3)
    for _ in range(3):
        obs = world.inputs(state)
        for _ in range(2):
            outputs = evaluate(obs)
            np.testing.assert_array_equal(outputs.logits, 2.0 * obs["codes"][:, :7])
            np.testing.assert_array_equal(outputs.value, obs["direction"])
        world.step(state, np.zeros(60, int))
    jax.effects_barrier()
    assert len(reached) == 3  # once a step, for the three starts; the same observation again is looked up
    assert max(reached) <= 4


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=40))
def test_distinct_rows_are_those_of_numpy(rows):
    table = np.array(rows)
    arrays = {"codes": table[:, :2].astype(np.uint8), "direction": table[:, 2].astype(np.int32)}
    _, first, which = np.unique(row_hashes(arrays), return_index=True, return_inverse=True)
    assert len(first) == len(np.unique(table, axis=0))
    np.testing.assert_array_equal(table[first][which], table)


def test_one_changed_cell_changes_the_hash(world):
    codes = np.repeat(world.codes(world.start([0])), 1 + 49 * 50, axis=0)
    for cell in range(49):
        others = [code for code in range(51) if code != codes[0, cell]]
        codes[1 + cell * 50 : 1 + (cell + 1) * 50, cell] = others
    assert len(np.unique(row_hashes({"codes": codes}))) == len(codes)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_actions_follow_the_softmax(temperature):
    logits = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    expected = softmax(logits.astype(np.float64) / temperature)
    actions, logs = CATEGORICAL.sample(np.tile(logits, (40_000, 1)), np.random.default_rng(0), temperature)
    assert chisquare(np.bincount(actions, minlength=4), 40_000 * expected).pvalue > 1e-3
    np.testing.assert_allclose(logs, np.log(expected)[actions], atol=1e-5)


def test_extreme_logits_and_temperatures():
    rng = np.random.default_rng(0)
    logits = np.array([[1e4, -1e4, 0.0], [-np.inf, -np.inf, 2.0]], np.float32)
    actions, logs = CATEGORICAL.sample(logits, rng)
    np.testing.assert_array_equal(actions, [0, 2])
    np.testing.assert_allclose(logs, 0, atol=1e-6)
    np.testing.assert_array_equal(CATEGORICAL.sample(np.array([[0.0, 0.1]]), rng, temperature=0.0)[0], [1])
    with pytest.raises(UserError, match="temperature"):
        CATEGORICAL.sample(logits, rng, -1.0)

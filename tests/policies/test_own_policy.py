"""The recipes of the documentation for a network of one's own: short, and their files come back as they were."""

import jax
import numpy as np
import pytest

import polychromic
from polychromic.policies.files import load_policy, save_policy
from test_docs import ROOT, python_blocks

RECIPES = [block for block in python_blocks(ROOT / "docs" / "policies.md") if "poly.Policy(" in block]
WORLD = polychromic.make("fourrooms", seeds=[0, 1])


def test_a_network_of_ones_own_takes_less_than_twenty_lines():
    assert len(RECIPES) == 2
    assert "equinox" in RECIPES[1]
    for block in RECIPES:
        assert len(block.splitlines()) < 20


@pytest.mark.parametrize("name", ["linear", "mine"])
def test_a_network_of_ones_own_comes_back_from_its_file(name, tmp_path):
    state = WORLD.start([0, 1, 1])
    names = {"poly": polychromic, "world": WORLD, "state": state}
    for block in RECIPES:
        exec(compile(block, "policies.md", "exec"), names)
    policy = names[name]
    params = policy.init(jax.random.key(1))
    seen = WORLD.inputs(state)
    outputs = polychromic.Evaluator(policy, params)(seen)
    assert outputs.logits.shape == (3, 7)
    assert outputs.value.shape == (3,)
    save_policy(tmp_path / "own.safetensors", policy, params)
    again = load_policy(tmp_path / "own.safetensors", policy)
    np.testing.assert_array_equal(polychromic.Evaluator(policy, again.params)(seen).logits, outputs.logits)

"""The Equinox recipe of the documentation, run where Equinox is installed."""

import re
from pathlib import Path

import jax
import pytest

import polychromic
from polychromic.policies.files import load_policy, save_policy
from polychromic.policies.inference import observe

PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def test_the_equinox_recipe_works_and_is_short(tmp_path):
    (block,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) < 20
    pytest.importorskip("equinox")
    names = {}
    exec(compile(block, PAGE.name, "exec"), names)
    policy = names["mine"]
    params = policy.init(jax.random.key(1))
    world = polychromic.make("fourrooms", seeds=[0, 1])
    outputs = polychromic.Evaluator(policy, params)(observe(world, world.start([0, 1, 1])))
    assert outputs.logits.shape == (3, 7)
    assert outputs.value.shape == (3,)
    save_policy(tmp_path / "own.safetensors", policy, params)
    again = load_policy(tmp_path / "own.safetensors", policy)
    found = polychromic.Evaluator(policy, again.params)(observe(world, world.start([0, 1, 1])))
    assert (found.logits == outputs.logits).all()

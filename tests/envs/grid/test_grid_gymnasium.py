"""The engine as Gymnasium environments, judged by Gymnasium's own checkers and its own vector environment."""

import subprocess
import sys
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import polychromic.gym
from polychromic.envs.grid.gym import GridEnv, GridVectorEnv
from polychromic.envs.grid.tasks import TASKS
from polychromic.errors import UserError


@pytest.mark.parametrize("task", TASKS)
def test_gymnasiums_checker_passes(task):
    env = gymnasium.make(f"polychromic/{task}-v0", seeds=range(3), render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


def test_any_level_by_its_id():
    env = gymnasium.make("polychromic/grid-v0", task="BabyAI-OpenRedDoor-v0", observation="full", seeds=range(2))
    seen, info = env.reset(options={"configuration": 1})
    assert seen["image"].shape == (9, 5, 3)
    assert info == {"mission": "open the red door", "configuration": 1}
    with pytest.raises(UserError, match="render_mode"):
        GridEnv("goto", seeds=[0], render_mode="human")


def test_the_vector_form_equals_a_vector_of_single_environments():
    options = {"num_envs": 4, "seeds": range(5), "horizon": 30}
    fast = gymnasium.make_vec("polychromic/goto-v0", vectorization_mode="vector_entry_point", **options)
    slow = gymnasium.make_vec("polychromic/goto-v0", vectorization_mode="sync", **options)
    assert fast.single_observation_space == slow.single_observation_space
    assert fast.metadata["autoreset_mode"] == slow.metadata["autoreset_mode"]
    seen, expected = fast.reset(seed=11)[0], slow.reset(seed=11)[0]
    fast.action_space.seed(1)
    ends = 0
    for _ in range(100):
        for name in expected:
            assert np.array_equal(seen[name], expected[name])
        actions = fast.action_space.sample()
        seen, *outcome, info = fast.step(actions)
        expected, *wanted, _ = slow.step(actions)
        for got, want in zip(outcome, wanted, strict=True):
            assert got.dtype == want.dtype
            assert np.array_equal(got, want)
        ends += int((outcome[1] | outcome[2]).sum())
        assert info["configuration"].shape == (4,)
    assert ends >= 8
    fast.close()
    slow.close()


@pytest.mark.parametrize(
    "order", ["gymnasium, polychromic", "gymnasium, polychromic.gym", "polychromic.gym, gymnasium"]
)
def test_importing_the_package_registers_its_environments(order):
    code = f"import {order}; print('polychromic/goto-v0' in gymnasium.registry)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "True"


def test_an_id_with_its_module_needs_no_other_import():
    make = "gymnasium.make('polychromic.gym:polychromic/goto-v0', seeds=range(1))"
    code = f"import polychromic, gymnasium; print('image' in {make}.observation_space.spaces)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"options": {"configuration": 9}}, r"options\['configuration'\] is 9; it must be between 0 and 1"),
        ({"options": {"configuration": 1.7}}, r"options\['configuration'\] is 1\.7"),
        ({"options": {"configuration": [0, 1]}}, r"options\['configuration'\] is \[0, 1\]"),
        ({"options": {"tsk": 1}}, "the only option is 'configuration'"),
        ({"options": 3}, "options is 3"),
        ({"seed": -3}, "seed is -3"),
        ({"seed": "a"}, "seed is 'a'"),
    ],
)
def test_wrong_resets_are_named_and_change_nothing(given, words):
    for env in (GridEnv("goto", seeds=range(2)), GridVectorEnv(3, "goto", seeds=range(2))):
        env.reset(seed=np.int64(5), options={"configuration": 1})
        env.step(0 if isinstance(env, GridEnv) else [0, 0, 0])
        before = env.state.bytes.copy()
        with pytest.raises(UserError, match=words):
            env.reset(**given)
        assert np.array_equal(env.state.bytes, before)


def test_wrong_vectors_and_actions_are_named():
    env = GridVectorEnv(3, "goto", seeds=range(2))
    with pytest.raises(UserError, match="expected 3 seeds, got 2"):
        env.reset(seed=[0, 1])
    for given, words in (({"num_envs": 0}, "num_envs is 0"), ({"num_envs": 1, "render_mode": "human"}, "render_mode")):
        with pytest.raises(UserError, match=words):
            GridVectorEnv(task="goto", seeds=[0], **given)
    single = GridEnv("goto", seeds=range(2))
    for action in ([1, 2], None, 9):
        with pytest.raises(UserError, match="actions"):
            single.step(action)


def test_from_gymnasium_knows_the_ids_and_finds_the_horizon():
    world = polychromic.from_gymnasium("polychromic/goto-v0", range(2), fork="copy")
    assert world.horizon == 100
    make_env = partial(gymnasium.make, "polychromic/goto-v0", seeds=range(2), horizon=30)
    assert polychromic.from_gymnasium(make_env, [0], fork="copy").horizon == 30


def test_the_module_that_registers_has_run():
    assert polychromic.gym.__doc__
    assert "polychromic/grid-v0" in gymnasium.registry

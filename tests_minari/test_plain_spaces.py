"""Base policies from Minari data sets of ordinary environments: Box, Discrete and Dict observations."""

import functools
import warnings

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

import polychromic as poly
from polychromic.cli import main


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def record(env, act, name, episodes):
    """A data set of what a player does."""
    buffers = []
    for seed in range(episodes):
        seen, _ = env.reset(seed=seed)
        buffer = EpisodeBuffer(id=seed, seed=seed, observations=seen)
        over = False
        while not over:
            action = act(seen)
            seen, reward, terminated, truncated, info = env.step(action)
            step = {"observation": seen, "action": action, "reward": reward, "info": info}
            buffer = buffer.add_step_data({**step, "terminated": terminated, "truncated": truncated})
            over = terminated or truncated
        buffers.append(buffer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that no author and no code_permalink are given
        return minari.create_dataset_from_buffers(name, buffers, env=env, algorithm_name="by hand")


def balance(seen):
    return int(seen[2] + 0.3 * seen[3] > 0)


class Seen(gymnasium.ObservationWrapper):
    """CartPole in a nested dict."""

    def __init__(self, env):
        super().__init__(env)
        box = env.observation_space
        self.observation_space = gymnasium.spaces.Dict(
            {"cart": gymnasium.spaces.Dict({"all": box}), "side": gymnasium.spaces.Discrete(2)}
        )

    def observation(self, seen):
        return {"cart": {"all": seen}, "side": int(seen[0] > 0)}


def test_box_observations_by_name_and_as_a_data_set():
    dataset = record(gymnasium.make("CartPole-v1", max_episode_steps=40), balance, "cart/expert-v0", 12)
    world = poly.from_gymnasium("CartPole-v1", range(4), horizon=40)
    by_name = poly.clone(world, "minari:cart/expert-v0", epochs=15)
    by_hand = poly.clone(world, [(one.observations, one.actions) for one in dataset.iterate_episodes()], epochs=15)
    itself = poly.clone(world, dataset, epochs=15)
    assert by_name.info.made["cloned"]["episodes"] == 12
    assert by_name.info.made == by_hand.info.made == itself.info.made
    earned = [
        poly.evaluate_policy(world, one, attempts=8)["result"]["return"]["mean"]
        for one in (by_name, poly.policy_for(world))
    ]
    assert earned[0] > 35 > earned[1]


def test_discrete_observations_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    dry = functools.partial(gymnasium.make, "FrozenLake-v1", is_slippery=False)
    path = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2}  # down, down, right, down, right, right
    record(dry(), lambda seen: path[int(seen)], "lake/path-v0", 4)
    option = ["--option", "is_slippery=false"]
    shown = ["--demonstrations", "minari:lake/path-v0"]
    assert main(["pretrain", "FrozenLake-v1", *option, *shown, "--epochs", "40", "--learning-rate", "0.01"]) == 0
    assert "cloned 4 episodes" in capsys.readouterr().out
    saved = poly.load_policy("base-policies/FrozenLake-v1/policy.safetensors")
    world = poly.make("FrozenLake-v1", seeds=[0], is_slippery=False)
    assert poly.evaluate_policy(world, saved, attempts=32)["result"]["return"]["mean"] > 0.8
    assert main(["pretrain", "FrozenLake-v1", "--demonstrations", "minari:lake/none-v0"]) == 2
    assert "lake/none-v0: Minari cannot load this dataset" in capsys.readouterr().err


def test_nested_observations_have_the_keys_of_the_world():
    make = functools.partial(lambda: Seen(gymnasium.make("CartPole-v1", max_episode_steps=10)))
    record(make(), lambda seen: balance(seen["cart"]["all"]), "nested/expert-v0", 4)
    world = poly.from_gymnasium(make, range(2), horizon=10)
    saved = poly.clone(world, "minari:nested/expert-v0", epochs=2)
    assert {entry["name"] for entry in saved.policy.architecture["inputs"]} == {"cart.all", "side"}
    with pytest.raises(poly.UserError, match="has no 'observation', which the world shows"):
        poly.clone(poly.from_gymnasium("CartPole-v1", [0], horizon=5), "minari:nested/expert-v0")
    assert np.isfinite(saved.info.made["cloned"]["loss"])

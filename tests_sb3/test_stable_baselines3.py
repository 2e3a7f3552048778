"""A model of the real Stable-Baselines3 as demonstrator."""

import stable_baselines3

import polychromic as poly


def test_a_model_is_cloned():
    model = stable_baselines3.PPO("MlpPolicy", "CartPole-v1", n_steps=256, learning_rate=3e-3, seed=0).learn(6000)
    world = poly.from_gymnasium("CartPole-v1", range(4), horizon=60)
    base = poly.clone(world, model, episodes=20, epochs=15)
    untrained = poly.policy_for(world)
    earned = [poly.evaluate_policy(world, one, attempts=8)["result"]["return"] for one in (base, untrained)]
    assert earned[0]["low"] > earned[1]["high"]

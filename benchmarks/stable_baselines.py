"""Stable-Baselines3's PPO on minigrid, with a network of the same sizes as ours."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import minigrid  # noqa: F401  (registers its levels)
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv

from polychromic.envs.grid.missions import WORDS, tokenize

MISSION_LENGTH = 64


class Tokens(gymnasium.ObservationWrapper):
    """Missions as padded token ids, images as they are."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "image": gymnasium.spaces.Box(0, 255, (147,), np.float32),
                "direction": gymnasium.spaces.Discrete(4),
                "mission": gymnasium.spaces.Box(0, len(WORDS), (MISSION_LENGTH,), np.float32),
            }
        )

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        """Flatten, and turn words into numbers."""
        tokens = np.zeros(MISSION_LENGTH, np.float32)
        words = tokenize(observation["mission"])[:MISSION_LENGTH]
        tokens[: len(words)] = words
        return {
            "image": observation["image"].reshape(-1).astype(np.float32) / 10,
            "direction": observation["direction"],
            "mission": tokens,
        }


class Network(BaseFeaturesExtractor):
    """CNN 16-32-64 with 2 × 2 kernels, an embedding of the direction, a GRU of 128 over the mission."""

    def __init__(self, space: gymnasium.spaces.Dict) -> None:
        super().__init__(space, features_dim=64 + 8 + 128)
        self.cnn = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 2),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(16, 32, 2),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 2),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
        )
        self.words = torch.nn.Embedding(len(WORDS), 32)
        self.gru = torch.nn.GRU(32, 128, batch_first=True)
        self.direction = torch.nn.Linear(4, 8)

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Features [B, 200]."""
        image = observations["image"].reshape(-1, 7, 7, 3).permute(0, 3, 1, 2)
        tokens = observations["mission"].long()
        longest = max(1, int((tokens > 0).sum(dim=1).max()))
        _, hidden = self.gru(self.words(tokens[:, :longest]))
        return torch.cat([self.cnn(image), self.direction(observations["direction"].reshape(-1, 4)), hidden[0]], dim=1)


def ppo_seconds(level: str, num_steps: int) -> float:
    """Seconds for `num_steps` transitions through collection and update, after a first round to warm up."""
    torch.set_num_threads(1)
    envs = DummyVecEnv([lambda: Tokens(gymnasium.make(level, max_steps=100)) for _ in range(8)])
    model = PPO(
        "MultiInputPolicy",
        envs,
        n_steps=num_steps // 8,
        batch_size=64,
        n_epochs=2,
        policy_kwargs={"features_extractor_class": Network, "net_arch": [64], "share_features_extractor": False},
        device="cpu",
    )
    model.learn(num_steps)
    began = time.perf_counter()
    model.learn(num_steps)
    return time.perf_counter() - began

"""NeMo-RL: an estimator with the interface of its own, which is given the whole batch.

NeMo-RL picks estimators by name in one function, `nemo_rl.algorithms.grpo._create_advantage_estimator`; it is replaced.
`grpo.num_generations_per_prompt: 8`, `grpo.use_dynamic_sampling: false`. Import this module before `grpo_train`.
"""

import torch
from nemo_rl.algorithms import grpo

from polychromic import polychromic_advantages
from polychromic.integrations.keys import calculations as key  # yours


class PolychromicAdvantageEstimator:
    """All sets of the responses to a prompt."""

    def __init__(self, set_size: int = 4) -> None:
        self.set_size = set_size

    def compute_advantage(self, prompt_ids, rewards, mask, repeated_batch, **_):
        texts = [
            "\n".join(message["content"] for message in log if message["role"] == "assistant")
            for log in repeated_batch["message_log"]
        ]
        _, groups = torch.unique(prompt_ids, dim=0, return_inverse=True)
        advantages = polychromic_advantages(
            rewards.double().cpu().numpy(),
            [key(text) for text in texts],
            group_ids=groups.tolist(),
            set_size=self.set_size,
        )
        return torch.as_tensor(advantages, dtype=rewards.dtype, device=rewards.device)[:, None].expand(mask.shape)


grpo._create_advantage_estimator = lambda _config: PolychromicAdvantageEstimator()

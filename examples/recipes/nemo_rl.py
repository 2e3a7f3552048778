"""NeMo-RL: an estimator with the interface of its own, which is given the whole batch.

NeMo-RL picks estimators by name in one function, `nemo_rl.algorithms.grpo._create_advantage_estimator`; it is replaced.
`grpo.num_generations_per_prompt: 8`, `grpo.use_dynamic_sampling: false`. Import this module before `grpo_train`.

It is for `grpo_train` and `async_grpo_train`, which show their estimator the responses. The other two trainers,
`grpo_train_sync` (`data_plane.enabled: true`) and the single controller, show it numbers only; there it stops.
"""

import torch
from nemo_rl.algorithms import grpo

from polychromic import polychromic_advantages
from polychromic.integrations.keys import calculations as key  # yours


class PolychromicAdvantageEstimator:
    """All sets of the responses to a prompt. NeMo-RL lays these out one after another.

    Groups go by place: of a prompt that is in a batch twice, each occurrence has its own, where NeMo-RL's estimators
    put all responses to equal prompts together.
    """

    def __init__(self, group_size: int, set_size: int = 4) -> None:
        if group_size <= set_size:
            raise ValueError(f"num_generations_per_prompt is {group_size}; sets of {set_size} need more")
        self.group_size, self.set_size = group_size, set_size

    def compute_advantage(self, prompt_ids, rewards, mask, repeated_batch, valid_mask=None, **_):
        """Rows that `valid_mask` has as 0 are in no set, and their advantage is 0.

        So is that of all rows of a group that has too few others left for two sets.
        """
        if "message_log" not in repeated_batch:
            raise ValueError("this trainer of NeMo-RL does not show responses to its estimator; use grpo_train")
        valid = torch.ones(len(rewards)) if valid_mask is None else valid_mask.cpu()
        groups = self._groups(prompt_ids.cpu())
        left = torch.bincount(groups, weights=valid.bool().double())
        rows = (valid.bool() & (left[groups] > self.set_size)).nonzero()[:, 0].tolist()
        advantages = torch.zeros(len(rewards), dtype=torch.float64)
        if rows:
            found = polychromic_advantages(
                rewards.double().cpu().numpy()[rows],  # in [0, 1]
                [key(_written(repeated_batch["message_log"][row])) for row in rows],
                group_ids=groups[rows].tolist(),
                set_size=self.set_size,
            )
            advantages[rows] = torch.as_tensor(found)
        return advantages.to(rewards)[:, None].expand(mask.shape)

    def _groups(self, prompt_ids):
        """The number of the group of each row, if rows lie as they should."""
        if len(prompt_ids) % self.group_size:
            raise ValueError(f"{len(prompt_ids)} responses do not make whole groups of {self.group_size}")
        blocks = prompt_ids.unflatten(0, (-1, self.group_size))
        if (blocks != blocks[:, :1]).any():
            raise ValueError(f"{self.group_size} responses in a row answer different prompts; they should be one group")
        return torch.arange(len(prompt_ids)) // self.group_size


def _written(log):
    return "\n".join(message["content"] for message in log if message["role"] == "assistant")


grpo._create_advantage_estimator = lambda config: PolychromicAdvantageEstimator(config.grpo.num_generations_per_prompt)

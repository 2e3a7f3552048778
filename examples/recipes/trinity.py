"""Trinity-RFT: a group advantage. Put this file into a folder and run `trinity run --config … --plugin-dir <folder>`.

`algorithm: {advantage_fn: polychromic}` with GRPO's other settings, and `repeat_times: 8`.
"""

import torch
from trinity.algorithm.advantage_fn import ADVANTAGE_FN, GroupAdvantage
from trinity.common.experience import group_by

from polychromic import polychromic_advantages
from polychromic.integrations.keys import calculations as key  # yours


@ADVANTAGE_FN.register_module("polychromic")
class PolychromicGroupAdvantage(GroupAdvantage):
    """All sets of the experiences of a task."""

    def __init__(self, set_size: int = 4) -> None:
        self.set_size = set_size

    def group_experiences(self, exps):
        return group_by(exps, id_type="task")

    def calculate_group_advantage(self, group_id, exps):  # noqa: ARG002
        rewards = [float(exp.reward) for exp in exps]  # in [0, 1]
        answers = [key(exp.response_text) for exp in exps]
        advantages = polychromic_advantages(rewards, answers, set_size=self.set_size)
        for exp, advantage in zip(exps, torch.as_tensor(advantages, dtype=torch.float32), strict=True):
            exp.advantages = advantage * exp.action_mask
            exp.returns = exp.advantages.clone()
        return exps, {"reward_mean": sum(rewards) / len(rewards), "distinct_answers": len(set(answers))}

    @classmethod
    def default_args(cls):
        return {"set_size": 4}

"""SkyRL: an advantage estimator, and a trainer that shows it the responses.

`trainer.algorithm.advantage_estimator=polychromic`, `trainer.algorithm.advantage_batch_normalize=false`,
`generator.n_samples_per_prompt=8`. Step-wise trajectories (`generator.step_wise_trajectories`) are not for it.
"""

from contextvars import ContextVar

import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry

from polychromic import polychromic_advantages
from polychromic.integrations.keys import calculations as key  # yours

ANSWERS: ContextVar[list] = ContextVar("answers")


def polychromic(token_level_rewards, response_mask, index, **_):
    """The polychromic advantage of each response, at each of its tokens."""
    rewards = token_level_rewards.sum(dim=-1).double().cpu().numpy()  # in [0, 1]
    advantages = polychromic_advantages(rewards, ANSWERS.get(), group_ids=list(index), set_size=4)
    spread = torch.as_tensor(advantages, dtype=torch.float32)[:, None].to(response_mask.device) * response_mask
    return spread, spread


AdvantageEstimatorRegistry.register("polychromic", polychromic)


class ShowsResponses:
    """Put before SkyRL's trainer: `class Trainer(ShowsResponses, RayPPOTrainer): pass`."""

    def compute_advantages_and_returns(self, data):
        length = data["response_mask"].shape[1]
        rows = zip(data["sequences"][:, -length:], data["response_mask"].bool(), strict=True)
        texts = [self.tokenizer.decode(tokens[mask], skip_special_tokens=True) for tokens, mask in rows]
        token = ANSWERS.set([key(text) for text in texts])
        try:
            return super().compute_advantages_and_returns(data)
        finally:
            ANSWERS.reset(token)

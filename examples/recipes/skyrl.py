"""SkyRL: an advantage estimator, a trainer that shows it the responses, and an entry point with this trainer.

Save it under a name of its own where Python finds it on every machine, `polychromic_skyrl.py` say, and tell SkyRL's
entry point this name. It must be imported: what is in a script itself, Ray cannot send to other processes.

    python -m skyrl.train.entrypoints.main_base trainer.override_entrypoint=polychromic_skyrl \
        trainer.algorithm.advantage_estimator=polychromic trainer.algorithm.advantage_batch_normalize=false \
        generator.n_samples_per_prompt=8 …

Step-wise trajectories (`generator.step_wise_trajectories`) are not for it.
"""

import sys
from contextvars import ContextVar

import numpy as np
import ray
import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry
from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.trainer import RayPPOTrainer
from skyrl.train.utils import initialize_ray, validate_cfg

from polychromic import polychromic_advantages
from polychromic.integrations.keys import calculations as key  # yours

ANSWERS: ContextVar[list] = ContextVar("answers")


def polychromic(token_level_rewards, response_mask, index, **_):
    """The polychromic advantage of each response, at each of its tokens; 0 for rows that only fill up the batch."""
    rewards = token_level_rewards.sum(dim=-1).double().cpu().numpy()  # in [0, 1]
    answers = ANSWERS.get()
    real = slice(len(answers))
    advantages = np.zeros(len(rewards))
    advantages[real] = polychromic_advantages(rewards[real], answers, group_ids=list(index[real]), set_size=4)
    spread = torch.as_tensor(advantages, dtype=torch.float32)[:, None].to(response_mask.device) * response_mask
    return spread, spread


AdvantageEstimatorRegistry.register("polychromic", polychromic)


class ShowsResponses:
    """What a trainer of SkyRL needs beside its own: it leaves the answers for the estimator."""

    def compute_advantages_and_returns(self, data):
        length = data["response_mask"].shape[1]
        rows = zip(data["sequences"][:, -length:], data["response_mask"].bool(), strict=True)
        texts = [self.tokenizer.decode(tokens[mask], skip_special_tokens=True) for tokens, mask in rows]
        filled = data.metadata.get("pad_size", 0)  # copies at the end, of no group
        token = ANSWERS.set([key(text) for text in texts[: len(texts) - filled]])
        try:
            return super().compute_advantages_and_returns(data)
        finally:
            ANSWERS.reset(token)


class PolychromicTrainer(ShowsResponses, RayPPOTrainer):
    """SkyRL's synchronous trainer."""


class PolychromicExp(BasePPOExp):
    """SkyRL's experiment with this trainer."""

    def get_trainer(self, *args, **settings):
        return PolychromicTrainer(*args, **settings)


@ray.remote(num_cpus=1)
def run(cfg):
    PolychromicExp(cfg).run()


def main():
    """What SkyRL's own `main` does, which calls this one for `trainer.override_entrypoint`, no setting of its own."""
    settings = [setting for setting in sys.argv[1:] if not setting.startswith("trainer.override_entrypoint=")]
    cfg = SkyRLTrainConfig.from_cli_overrides(settings)
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(run.remote(cfg))

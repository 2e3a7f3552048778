"""OpenRLHF: rewards are replaced by polychromic advantages, which `dr_grpo` leaves as they are.

`--algo.advantage.estimator dr_grpo` (it subtracts the mean of a group, here 0), `--rollout.n_samples_per_prompt 8`,
no KL in the reward (`--algo.kl.init_coef 0`, or `--algo.kl.use_loss`), no length penalties. Import this module before
the trainer is built: OpenRLHF has no registry for this, so the method is replaced.
"""

import itertools

import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from polychromic import polychromic_advantages
from polychromic.integrations.keys import calculations as key  # yours

SET_SIZE = 4
stock = RemoteExperienceMaker.compute_advantages_and_returns


def compute_advantages_and_returns(self, experiences):
    """With rewards that are advantages already."""
    size = self.args.rollout.n_samples_per_prompt
    places = torch.tensor(list(itertools.chain.from_iterable(experience.index for experience in experiences)))
    rewards = torch.cat([experience.rewards for experience in experiences])  # in [0, 1]
    answers = [key(text) for experience in experiences for text in _texts(self.tokenizer, experience)]
    groups = (places // size).tolist()
    advantages = polychromic_advantages(rewards.double().numpy(), answers, group_ids=groups, set_size=SET_SIZE)
    parts = torch.as_tensor(advantages, dtype=rewards.dtype).split([len(exp.index) for exp in experiences])
    for experience, part in zip(experiences, parts, strict=True):
        experience.rewards = part
    return stock(self, experiences)


def _texts(tokenizer, experience):
    # An action mask is one shorter than its sequence: entry t is about token t + 1.
    for tokens, mask in zip(experience.sequences[:, 1:], experience.action_mask.bool(), strict=True):
        yield tokenizer.decode(tokens[-mask.shape[0] :][mask], skip_special_tokens=True)


RemoteExperienceMaker.compute_advantages_and_returns = compute_advantages_and_returns

"""One iteration from collecting to the update, against numbers that were written down once.

    python tests/finetuning/test_golden.py

writes them anew; do so only when an iteration is meant to change, and say why in the commit.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_worlds import cross, table_policy

from polychromic.finetuning.advantages import VisitCounts, estimate
from polychromic.finetuning.collect import collect
from polychromic.finetuning.config import make_config
from polychromic.finetuning.update import Coefficients, init_learner, update
from polychromic.policies.inference import Evaluator

GOLDEN = Path(__file__).with_name("golden.json")
CASES = {
    "control variate": {"method": "poly-ppo", "budget": 12, "set_size": 3},
    "poly-ppo": {"preset": "vines", "budget": 21, "set_size": 2},
    "poly-ppo-ucb": {"preset": "vines", "budget": 21, "set_size": 2, "num_sets": 0, "normalise": "per-kind"},
    "ppo": {"budget": 12},
    "reinforce": {"budget": 12},
}


def one_iteration(name):
    world = cross()
    logits = np.random.default_rng(5).normal(size=(13, 4)).astype(np.float32)
    saved = table_policy(world, logits)
    settings = {"method": name, "actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2, **CASES[name]}
    config = make_config(**settings)
    rng = np.random.default_rng(7)
    rollouts = collect(
        Evaluator(saved.policy, saved.params), world, np.array([0]), rng,
        rollouts_per_state=config.group_size, forks_per_rollout=config.forks_per_rollout,
    )  # fmt: skip
    targets = estimate(rollouts, config, rng, visits=VisitCounts())
    learner = init_learner(saved.params, config)
    learner, stats = update(
        saved.policy, learner, rollouts, targets, config, Coefficients(config.kl_coefficient, 0.0), rng
    )
    return {
        "offsets": rollouts.offsets.tolist(),
        "groups": rollouts.groups.tolist(),
        "actions": rollouts.actions.tolist(),
        "cells": rollouts.obs["cell"].tolist(),
        "advantages": np.round(targets.advantages, 6).tolist(),
        "value_targets": np.round(targets.value_targets, 6).tolist(),
        "actor": np.round(np.asarray(learner.params["actor"]["table"]), 6).tolist(),
        "critic": np.round(np.asarray(learner.params["critic"]["table"]), 6).tolist(),
        "policy_loss": round(stats["policy_loss"], 6),
    }


@pytest.mark.parametrize("case", CASES)
def test_an_iteration_gives_what_it_always_gave(case):
    expected, found = json.loads(GOLDEN.read_text())[case], one_iteration(case)
    for name in ("offsets", "groups", "actions", "cells"):
        assert found[name] == expected[name], name
    for name in ("advantages", "value_targets", "actor", "critic", "policy_loss"):
        # Adam divides small gradients by their size, so that other processors may differ by more than rounding.
        np.testing.assert_allclose(found[name], expected[name], atol=2e-4, rtol=1e-4, err_msg=name)


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({case: one_iteration(case) for case in CASES}, indent=None) + "\n")

"""The shipped policies score what they claim, and are like the paper's."""

import numpy as np
import pytest

import polychromic
from polychromic.finetuning.attempts import attempt_all
from polychromic.policies.files import available_policies, policy_path
from polychromic.policies.fit import check_fits
from polychromic.policies.inference import Evaluator
from polychromic.tasks.grids import paper_results
from polychromic.tasks.grids.presets import BASE

PAPER = paper_results()["reward_and_success_percent"]


def test_all_five_are_shipped_and_small():
    assert set(BASE) <= set(available_policies())
    for name in available_policies():
        assert policy_path(name).stat().st_size < (3_000_000 if name == "triangle" else 600_000)


@pytest.mark.parametrize("name", BASE)
def test_a_base_policy_scores_what_it_claims(name):
    saved = polychromic.load_policy(name)
    claim = saved.info.made["scores"]
    assert claim["rollouts"] >= 100
    assert claim["horizon"] == 100
    assert claim["temperature"] == 1.0
    assert len(set(saved.info.configurations)) == claim["configurations"] == 50
    assert abs(claim["success"] - PAPER[name][0][1] / 100) <= 0.05
    world = polychromic.make(saved.info.task, seeds=saved.info.configurations, observation=saved.info.observation)
    check_fits(saved, world)
    evaluator = Evaluator(saved.policy, saved.params, world.tables(), sizes=(512,))  # one shape to compile
    attempts = attempt_all(evaluator, world, np.random.default_rng(1), attempts=16)
    # 800 rollouts on the same configurations: a standard error of at most 0.018, of the claim 0.007.
    assert abs(attempts.success.mean() - claim["success"]) < 0.07
    assert abs(attempts.rewards.mean() - claim["reward"]) < 0.07


def test_a_header_says_how_it_was_made():
    for name in BASE:
        made = polychromic.load_policy(name).info.made
        assert made["command"].startswith("polychromic pretrain")
        assert len(made["demonstrations"]["sha256"]) == 64
        assert {"polychromic", "jax", "numpy", "minigrid", "python"} <= set(made["versions"])
        assert "/" not in made["command"]
        last = made["cloning"]["patience"] == 0
        assert made["epoch_kept"] == made["epochs_run"] if last else made["epoch_kept"] <= made["epochs_run"]

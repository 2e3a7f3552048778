"""Whole runs on problems small enough to finish in seconds."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from small_worlds import bandit, cross, table_policy

from polychromic import UserError
from polychromic.config import make_config
from polychromic.train import configurations_of, finetune

BANDIT, CROSS = bandit(num_arms=20, num_right=5), cross()
UNEVEN = np.zeros((21, 20), np.float32)
UNEVEN[0] = np.random.default_rng(0).normal(size=20)
POLICIES = {"bandit": (BANDIT, table_policy(BANDIT, UNEVEN)), "cross": (CROSS, table_policy(CROSS))}


def goals_kept(world, saved, params):
    """The effective number of goals that a policy reaches (the exponential of their entropy), and its success."""
    from polychromic.collect import roll
    from polychromic.policies.inference import Evaluator

    steps = roll(Evaluator(saved.policy, params), world, world.start(np.zeros(2000, int)), np.random.default_rng(9))
    last = steps.places[steps.offsets[1:] - 1]
    reached = last[world.pays[last] > 0]
    share = np.unique(reached, return_counts=True)[1] / len(reached)
    return float(np.exp(-(share * np.log(share)).sum())), len(reached) / 2000


@pytest.mark.parametrize(("name", "num_goals"), [("bandit", 5), ("cross", 4)])
def test_ordinary_rl_ends_on_few_goals_and_polychromic_ppo_keeps_most(name, num_goals):
    world, saved = POLICIES[name]
    common = {"iterations": 200, "actor_learning_rate": 5e-2, "critic_learning_rate": 3e-2, "evaluate_every": 0}
    assert goals_kept(world, saved, saved.params)[0] > 0.9 * num_goals
    for method in ("reinforce", "ppo", "poly-ppo"):
        changes = {"num_sets": 0, "window": -1} if method == "poly-ppo" else {}
        results = [
            goals_kept(
                world, saved, finetune(world, saved, method=method, seed=seed, **common, **changes).policy.params
            )
            for seed in range(3)
        ]
        kept, success = np.mean(results, axis=0)
        if method == "poly-ppo":
            assert kept > 0.8 * num_goals
            assert success > 0.7
        else:
            assert kept < 0.55 * num_goals
            assert success > 0.95


def test_every_configuration_is_visited_equally_often():
    config = make_config("ppo", configurations_per_iteration=3)
    dealt = np.concatenate([configurations_of(i, config, 7) for i in range(14)])
    _, counts = np.unique(dealt, return_counts=True)
    assert counts.tolist() == [6] * 7
    assert not np.array_equal(dealt[:7], dealt[7:14])
    for deck in dealt.reshape(-1, 7):
        assert len(set(deck.tolist())) == 7


SETTINGS = {
    "method": "poly-ppo-ucb", "iterations": 12, "checkpoint_every": 4, "evaluate_every": 5,
    "evaluation_rollouts": 8, "actor_learning_rate": 1e-2, "seed": 3,
}  # fmt: skip
COMPARED = (
    "config.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "policy.safetensors",
    "checkpoint.safetensors",
    "done.json",
)


def content(folder):
    return {name: (folder / name).read_bytes() for name in COMPARED}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "whole"
    finetune(*POLICIES["cross"], out=folder, **SETTINGS)
    return folder


class Stop(Exception):
    pass


@pytest.mark.parametrize("moments", [(0,), (3,), (4, 6), (11,), (1, 2, 5, 9)])
def test_an_interrupted_run_ends_in_the_same_bytes(undisturbed, tmp_path, moments):
    out = tmp_path / "run"
    for moment in moments:

        def stop(iteration, _figures, moment=moment):
            if iteration == moment:
                raise Stop

        with pytest.raises(Stop):
            finetune(*POLICIES["cross"], out=out, watch=stop, **SETTINGS)
    finetune(*POLICIES["cross"], out=out, **SETTINGS)
    assert content(out) == content(undisturbed)


def test_a_complete_run_is_only_read(undisturbed):
    before = content(undisturbed)
    called = []
    result = finetune(*POLICIES["cross"], out=undisturbed, watch=lambda *_: called.append(1), **SETTINGS)
    assert not called
    assert content(undisturbed) == before
    assert [line["iteration"] for line in result.metrics] == list(range(12))
    assert [line["iteration"] for line in result.evaluations] == [5, 10, 12]


def test_runs_without_a_folder_give_the_same(undisturbed):
    world, saved = POLICIES["cross"]
    in_memory = finetune(world, saved, **SETTINGS)
    on_disk = finetune(world, saved, out=undisturbed, **SETTINGS)
    jax.tree.map(np.testing.assert_array_equal, in_memory.policy.params, on_disk.policy.params)
    assert in_memory.metrics == on_disk.metrics


def test_a_killed_process_loses_no_more_than_the_last_checkpoint(undisturbed, tmp_path):
    out = tmp_path / "run"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_train import *; "
        "finetune(*POLICIES['cross'], out=sys.argv[2], watch=lambda *_: time.sleep(0.05), **SETTINGS)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(out)]
    rng = np.random.default_rng(0)
    for _ in range(2):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        log = out / "metrics.jsonl"
        already = log.stat().st_size if log.exists() else 0
        while process.poll() is None and (not log.exists() or log.stat().st_size in (0, already)):
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0, 0.4)))
        process.send_signal(signal.SIGKILL)
        process.wait()
    finetune(*POLICIES["cross"], out=out, **SETTINGS)
    assert content(out) == content(undisturbed)


def test_another_run_in_the_same_folder_is_refused(undisturbed):
    with pytest.raises(UserError, match=r"config.seed = 3, now it is 4"):
        finetune(*POLICIES["cross"], out=undisturbed, **{**SETTINGS, "seed": 4})


def test_two_processes_cannot_share_a_folder(tmp_path):
    world, saved = POLICIES["cross"]

    def second(*_):
        finetune(world, saved, out=tmp_path / "run", **SETTINGS)

    with pytest.raises(UserError, match="another process is writing"):
        finetune(world, saved, out=tmp_path / "run", watch=second, **SETTINGS)


def test_divergence_names_the_last_good_checkpoint(tmp_path):
    world, saved = POLICIES["cross"]
    settings = {**SETTINGS, "method": "ppo", "checkpoint_every": 1}

    def poison(iteration, _):
        if iteration == 2:
            world.pays = world.pays * np.nan

    pays = world.pays
    try:
        with pytest.raises((UserError, ValueError), match=r"finite"):
            finetune(world, saved, out=tmp_path / "run", watch=poison, **settings)
    finally:
        world.pays = pays
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == 3
    assert all(np.isfinite(json.loads(line)["policy_loss"]) for line in lines)
    finetune(world, saved, out=tmp_path / "run", **settings)


def test_exploding_parameters_stop_the_run(tmp_path):
    world, saved = POLICIES["cross"]
    settings = {**SETTINGS, "method": "ppo", "actor_learning_rate": 1e38, "checkpoint_every": 1}
    with pytest.raises(UserError, match=r"iteration \d+: the parameters are no longer finite.*checkpoint"):
        finetune(world, saved, out=tmp_path / "run", **settings)


def test_tensorboard_events_are_written(undisturbed):
    assert any(file.stat().st_size > 1000 for file in (undisturbed / "tensorboard").iterdir())


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out: cannot write to"):
        finetune(*POLICIES["cross"], out=tmp_path / "file" / "run", **SETTINGS)


def test_settings_and_a_config_together_are_refused():
    with pytest.raises(UserError, match="config is given, and seed too"):
        finetune(*POLICIES["cross"], make_config(), seed=1)

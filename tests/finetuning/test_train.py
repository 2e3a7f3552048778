"""Whole runs on problems small enough to finish in seconds."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from small_worlds import bandit, cross, table_policy

import polychromic
from polychromic import UserError
from polychromic.envs.protocol import description
from polychromic.finetuning import advantages
from polychromic.finetuning.config import make_config
from polychromic.finetuning.loop import (
    COLLECTING,
    DEALING,
    EVALUATING,
    configurations_of,
    describe_run,
    finetune,
    random_stream,
)
from polychromic.finetuning.run import Run, check_folder
from polychromic.finetuning.update import init_learner
from polychromic.policies.files import SavedPolicy
from polychromic.policies.protocol import Policy

BANDIT, CROSS = bandit(num_arms=20, num_right=5), cross()
UNEVEN = np.zeros((21, 20), np.float32)
UNEVEN[0] = np.random.default_rng(0).normal(size=20)
POLICIES = {"bandit": (BANDIT, table_policy(BANDIT, UNEVEN)), "cross": (CROSS, table_policy(CROSS))}


def goals_kept(world, saved, params):
    """The effective number of goals that a policy reaches (the exponential of their entropy), and its success."""
    from polychromic.finetuning.collect import roll
    from polychromic.policies.inference import Evaluator

    steps = roll(Evaluator(saved.policy, params), world, world.start(np.zeros(2000, int)), np.random.default_rng(9))
    last = steps.places[steps.offsets[1:] - 1]
    reached = last[world.pays[last] > 0]
    share = np.unique(reached, return_counts=True)[1] / len(reached)
    return float(np.exp(-(share * np.log(share)).sum())), len(reached) / 2000


# The last one has the paper's four random sets and window, which is 5 steps of at most 8.
METHODS_COMPARED = {
    "reinforce": {},
    "ppo": {},
    "poly-ppo": {},
    "poly-ppo, constant weight": {"polychromic_schedule": "constant"},
    "poly-ppo, vines, all sets": {"preset": "vines", "num_sets": 0, "window": -1},
    "poly-ppo, paper's sets": {"preset": "vines"},
}


@pytest.mark.parametrize("label", METHODS_COMPARED)
@pytest.mark.parametrize(("name", "num_goals"), [("bandit", 5), ("cross", 4)])
def test_ordinary_rl_ends_on_few_goals_and_polychromic_ppo_keeps_most(name, num_goals, label):
    world, saved = POLICIES[name]
    common = {"iterations": 200, "actor_learning_rate": 5e-2, "critic_learning_rate": 3e-2, "evaluate_every": 0}
    assert goals_kept(world, saved, saved.params)[0] > 0.9 * num_goals
    method = label.partition(",")[0]
    results = np.array(
        [
            goals_kept(
                world,
                saved,
                finetune(world, saved, method=method, seed=seed, **common, **METHODS_COMPARED[label]).policy.params,
            )
            for seed in range(3)
        ]
    )
    kept, success = results.T
    if method == "poly-ppo":
        assert (kept > 0.7 * num_goals).all()
        assert (success > 0.6).all()
    else:
        assert (kept < 0.7 * num_goals).all()
        assert (success > 0.95).all()


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


def test_rewards_that_are_no_numbers_name_the_last_good_checkpoint(tmp_path):
    world, saved = POLICIES["cross"]
    settings = {**SETTINGS, "method": "ppo", "checkpoint_every": 2}

    def poison(iteration, _):
        if iteration == 4:
            world.pays = world.pays * np.nan

    pays, out = world.pays, tmp_path / "run"
    message = (
        f"iteration 5: a reward is no longer finite; look at what the world pays; "
        f"the last good checkpoint, after 4 iterations, is {out / 'checkpoint.safetensors'}"
    )
    try:
        with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
            finetune(world, saved, out=out, watch=poison, **settings)
    finally:
        world.pays = pays
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 5
    assert all(np.isfinite(line["policy_loss"]) for line in lines)
    finetune(world, saved, out=out, **settings)


@pytest.mark.parametrize("broken", ["actor", "critic"])
def test_losses_and_parameters_that_are_no_numbers_name_the_last_good_checkpoint(tmp_path, broken):
    """A network whose actor or critic has a gradient that is no number once its table has moved far enough."""
    world, saved = POLICIES["cross"]

    def apply(params, obs):
        logits, value = saved.policy.apply(params, obs)
        moved = jax.numpy.abs(params["critic"]["table"]).max() > 0.15
        poison = jax.numpy.where(moved, jax.numpy.nan, 0.0) * params[broken]["table"].sum()
        # Forward it is a 0: only the gradient, and then the parameters, are no numbers.
        poison = poison - jax.lax.stop_gradient(poison)
        poison = jax.numpy.where(jax.numpy.isnan(jax.lax.stop_gradient(poison)), 0.0 * poison, poison)
        return (logits + poison, value) if broken == "actor" else (logits, value + poison)

    sick = SavedPolicy(Policy("sick", saved.policy.init, apply, {"network": "sick"}), saved.params, saved.info)
    settings = {**SETTINGS, "method": "ppo", "checkpoint_every": 1, "critic_learning_rate": 1e-2}
    with pytest.raises(UserError, match=r"iteration (\d+): a loss or a parameter is no longer finite") as raised:
        finetune(world, sick, out=tmp_path / "run", **settings)
    iteration = int(re.match(r"iteration (\d+)", str(raised.value))[1])
    if iteration:
        path = tmp_path / "run" / "checkpoint.safetensors"
        assert f"the last good checkpoint, after {iteration} iterations, is {path}" in str(raised.value)


def test_exploding_parameters_stop_the_run(tmp_path):
    world, saved = POLICIES["cross"]
    settings = {**SETTINGS, "method": "ppo", "actor_learning_rate": 1e38, "checkpoint_every": 1}
    with pytest.raises(UserError, match=r"iteration \d+: a loss or a parameter is no longer finite.*checkpoint"):
        finetune(world, saved, out=tmp_path / "run", **settings)


def test_streams_of_different_purposes_never_coincide():
    drawn = {
        tuple(random_stream(seed, purpose, number).integers(2**62, size=2).tolist())
        for seed in (0, 1, 2**32, 2**32 + 1)
        for purpose in (COLLECTING, DEALING, EVALUATING)
        for number in range(4)
    }
    assert len(drawn) == 4 * 3 * 4


def test_schedules_reach_their_end_in_the_last_iteration():
    world, saved = POLICIES["cross"]
    settings = {**SETTINGS, "iterations": 3, "method": "poly-ppo", "polychromic_schedule": "linear"}
    weights = []

    def spy(weight, _schedule, progress):
        weights.append(progress)
        return weight

    original, advantages.scheduled = advantages.scheduled, spy
    try:
        finetune(world, saved, **settings)
    finally:
        advantages.scheduled = original
    assert weights == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("changes", "name", "before", "now"),
    [
        ({"time_penalty": 0.9}, "time_penalty", "0.5", "0.9"),
        ({"observation": "full"}, "observation", "'partial'", "'full'"),
        ({"horizon": 50}, "horizon", "100", "50"),
        ({"seeds": [2, 1]}, "level_seeds", r"\[1, 2\]", r"\[2, 1\]"),
    ],
)
def test_a_run_does_not_go_on_in_another_grid_world(tmp_path, changes, name, before, now):
    world = {"seeds": [1, 2], "horizon": 100, "time_penalty": 0.5}
    saved, config = POLICIES["cross"][1], make_config()
    first = describe_run(polychromic.make("fourrooms", **world), saved, config)
    with Run(tmp_path / "run", first) as run:
        run.resume(init_learner(saved.params, config))
        run.log("metrics.jsonl", 0, {"x": 1})
    second = describe_run(polychromic.make("fourrooms", **(world | changes)), saved, config)
    with pytest.raises(UserError, match=f"holds a run with {name} = {before}, now it is {now}"):
        check_folder(tmp_path / "run", second)
    check_folder(tmp_path / "run", first)


def test_gymnasium_worlds_are_told_apart():
    def described(name, **changes):
        given = {"seeds": range(2), "place": lambda env: int(env.unwrapped.state[0])} | changes
        return description(polychromic.from_gymnasium(name, **given))

    cart, other = described("CartPole-v1"), described("CartPole-v0")
    assert cart["task"] == "CartPole-v1"
    assert cart != other
    assert cart != described("CartPole-v1", fork="replay")
    assert cart != described("CartPole-v1", horizon=20)
    assert cart == described("CartPole-v1")
    assert json.loads(json.dumps(cart)) == cart


def test_a_world_may_describe_itself():
    world = cross()
    world.describe = lambda: {"wind": 3}
    assert description(world)["wind"] == 3


def test_foreign_folders_are_left_alone(tmp_path):
    world, saved = POLICIES["cross"]
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"is not empty \(notes.txt, …\) and holds no run"):
        finetune(world, saved, out=tmp_path, **SETTINGS)
    (tmp_path / "config.json").write_text('{"model": "bert"}')
    with pytest.raises(UserError, match=r"config.json was not written by polychromic finetune"):
        finetune(world, saved, out=tmp_path, **SETTINGS)
    assert {file.name for file in tmp_path.iterdir()} == {"notes.txt", "config.json"}


def test_what_cannot_run_is_refused_before_anything_is_written(tmp_path):
    world, saved = POLICIES["cross"]
    for changes in ({"objective": "nowhere:f"}, {"fork_rule": "json:nothing"}, {"configurations_per_iteration": 2}):
        with pytest.raises(UserError):
            finetune(world, saved, out=tmp_path / "run", **(SETTINGS | changes))
    assert not (tmp_path / "run").exists()


def test_a_folder_in_which_nothing_has_happened_may_get_other_settings(tmp_path):
    world, saved = POLICIES["cross"]
    with Run(tmp_path / "run", describe_run(world, saved, make_config(**SETTINGS))):
        pass
    finetune(world, saved, out=tmp_path / "run", **{**SETTINGS, "seed": 9, "iterations": 1})
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["seed"] == 9


def test_a_log_that_lost_lines_is_not_filled_up(tmp_path, undisturbed):
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out)
    (out / "done.json").unlink()
    (out / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(UserError, match=r"metrics.jsonl is shorter than at the last checkpoint"):
        finetune(*POLICIES["cross"], out=out, **SETTINGS)
    assert (out / "metrics.jsonl").read_bytes() == b""


def test_a_complete_run_is_read_where_nothing_can_be_written(undisturbed):
    files = [undisturbed, *undisturbed.iterdir()]
    before = {file.name: file.stat().st_mtime_ns for file in files}
    finetune(*POLICIES["cross"], out=undisturbed, **SETTINGS)
    assert {file.name: file.stat().st_mtime_ns for file in files} == before


def test_a_network_with_its_parameters_is_a_policy_too():
    world, saved = POLICIES["cross"]
    settings = {**SETTINGS, "iterations": 2}
    pair = finetune(world, (saved.policy, saved.params), **settings)
    assert pair.metrics == finetune(world, saved, **settings).metrics
    with pytest.raises(UserError, match=r"policy is a Policy; give what polychromic.load_policy returns, or"):
        finetune(world, saved.policy, **settings)


def test_tensorboard_events_are_written(undisturbed):
    assert any(file.stat().st_size > 1000 for file in (undisturbed / "tensorboard").iterdir())


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="out: cannot write to"):
        finetune(*POLICIES["cross"], out=tmp_path / "file" / "run", **SETTINGS)


def test_settings_and_a_config_together_are_refused():
    with pytest.raises(UserError, match="config is given, and seed too"):
        finetune(*POLICIES["cross"], make_config(), seed=1)

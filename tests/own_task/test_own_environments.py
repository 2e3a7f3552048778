"""Ordinary Gymnasium environments from pretraining to watching, by name and with nothing but the public interface."""

import json
import shutil
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import polychromic as poly
from polychromic.cli import main
from polychromic.errors import Notice

SMALL = ["--iterations", "2", "--budget", "12", "--evaluation-rollouts", "2"]
SETS = ["--set-size", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copy(Path(__file__).with_name("own_envs.py"), tmp_path / "own_envs.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own_envs", None)


def command(*args):
    assert main([*args, "--trust"]) == 0


@pytest.mark.parametrize(
    "name",
    [
        "cartpole",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("lake", "taxi", "rooms", "picture", "push")),
    ],
)
def test_every_kind_goes_through_every_command(folder, name, capsys):
    task, base = f"own_envs:{name}", f"base-policies/{name}/policy.safetensors"
    command("pretrain", task, "--episodes", "12", "--epochs", "4")
    command("finetune", task, "--method", "ppo", *SMALL, "--out", "runs/ppo")
    command("finetune", task, "--method", "poly-ppo", *SMALL, *SETS, "--out", "runs/poly")
    for target in (base, "runs/ppo", "runs/poly"):
        command("evaluate", target, *(["--temperatures", "1", "0.5"] if target == base else []))
    written = f"evaluations/{name}.json"
    capsys.readouterr()
    command("report", "runs/ppo", "runs/poly", written, "--out", "report.html", "--markdown", "report.md")
    told = capsys.readouterr()
    assert "left out" not in told.err
    assert "control is missing" not in told.err
    table = (folder / "report.md").read_text()
    title, first = table.split("## ")[1].split("\n", 1)
    assert title.startswith(f"{task}: ")
    rows = [line.split("|")[1].strip() for line in first.splitlines() if line.startswith("| ")][2:]
    assert [row.partition(",")[0] for row in rows] == ["pretrained", "pretrained", "PPO", "Poly-PPO"]
    tells = name in ("lake", "rooms", "push")
    assert ("success %" in table) == tells
    assert "| return |" in table
    command("watch", "runs/poly")
    assert ("solved after" if tells else "return ") in capsys.readouterr().out
    evaluation = json.loads((folder / "runs/poly/evaluation.json").read_text())
    assert ("success" in evaluation["result"]) == tells
    assert ("pass_at_k" in evaluation["result"]) == tells
    last = json.loads((folder / "runs/poly/evaluations.jsonl").read_text().splitlines()[-1])
    assert ("success" in last) == tells


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_registered_continuous_environments_go_through_every_command(folder, name, capsys):
    command("pretrain", name)
    base = f"base-policies/{name}/policy.safetensors"
    command("finetune", name, "--method", "ppo", *SMALL, "--out", "runs/ppo", "--policy", base)
    assert main(["finetune", name, "--method", "poly-ppo", *SMALL, *SETS, "--policy", base]) == 2
    assert "the world names no places" in capsys.readouterr().err
    command("evaluate", base)
    command("evaluate", "runs/ppo")
    command("report", "runs/ppo", f"evaluations/{name}.json", "--out", "report.html", "--markdown", "report.md")
    assert "| return |" in (folder / "report.md").read_text()
    capsys.readouterr()
    command("watch", "runs/ppo")
    assert "return " in capsys.readouterr().out
    command(
        *("sweep", "--tasks", name, "--methods", "pretrained", "ppo", "--seeds", "0", "--attempts", "2"),
        *("--set", "iterations=1", "--set", "budget=4", "--set", "evaluation_rollouts=1", "--workers", "1"),
    )
    assert len(list((folder / "sweep").glob("*/figures.json"))) == 2


@pytest.mark.slow
def test_continuous_demonstrations_are_learnt_from_functions_and_from_episodes(folder):
    world = poly.make("own_envs:push")
    from own_envs import Push, onward

    saved = poly.clone(world, onward, episodes=20, epochs=40, learning_rate=1e-2)
    assert poly.evaluate_policy(world, saved, attempts=8)["result"]["success"]["mean"] > 0.95
    poly.save_policy(folder / "p.safetensors", saved)
    loaded = poly.load_policy(folder / "p.safetensors")
    inputs = {"observation": np.array([[-1.0, -0.3], [1.0, 0.3]], np.float32)}
    ours, theirs = (poly.Evaluator(one.policy, one.params)(inputs).logits for one in (saved, loaded))
    np.testing.assert_array_equal(ours, theirs)
    means, spreads = np.split(ours, 2, axis=1)
    np.testing.assert_allclose(means[:, 0], [-2.0, 2.0], atol=0.5)
    assert (np.exp(spreads) < 1.2).all()  # it was 2, half the range

    env = Push()
    episodes = []
    for seed in range(4):
        seen, actions, over = [env.reset(seed=seed)[0]], [], False
        while not over:
            actions.append(onward(seen[-1]))
            one, _, over, _, _ = env.step(actions[-1])
            seen.append(one)
        episodes.append((np.array(seen), np.array(actions)))
    recorded = poly.clone(world, episodes, epochs=2)
    assert recorded.info.made["cloned"]["episodes"] == 4
    for wrong, told in (
        ([(np.zeros((3, 2)), np.zeros((3, 2)))], r"float64 \(3, 2\); give numbers, 1 per row"),
        ([(np.zeros((3, 2)), [[0.0], [np.inf], [0.0]])], r"has an action \[inf\]; actions are a finite number each"),
        (lambda _: "left", "demonstrations gave the action .*; actions are a finite number each"),
    ):
        with pytest.raises(poly.UserError, match=told):
            poly.clone(world, wrong, episodes=2)


def test_a_good_policy_of_cartpole_ranks_above_a_random_one(tmp_path):
    world = poly.make("CartPole-v1", seeds=range(3), horizon=60)
    good = poly.clone(world, lambda seen: int(seen[2] + 0.3 * seen[3] > 0), episodes=12, epochs=10)
    results = {}
    for name, policy in (("random", poly.policy_for(world)), ("good", good)):
        results[name] = poly.evaluate_policy(world, policy, attempts=6, out=tmp_path / f"{name}.json")["result"]
    assert results["good"]["return"]["low"] > results["random"]["return"]["high"]
    assert "success" not in results["good"]
    assert results["good"]["return"]["mean"] <= 60  # the environment's own: 1 a step
    poly.write_report(
        [tmp_path / "random.json", tmp_path / "good.json"], tmp_path / "r.html", markdown=tmp_path / "r.md"
    )
    assert "no success rate is claimed" in (tmp_path / "r.md").read_text()


def test_policies_for_spaces_are_saved_and_loaded_without_code(folder):
    world = poly.make("own_envs:rooms")
    policy = poly.policy_for(world, hidden=(16,))
    kinds = {entry["name"]: entry["kind"] for entry in policy.policy.architecture["inputs"]}
    assert kinds == {"cell": "classes", "flags": "numbers", "kinds": "classes", "speed": "numbers"}
    speed = policy.policy.architecture["inputs"][-1]
    assert speed["centre"][1] == pytest.approx(100)  # unbounded: from what was seen
    poly.save_policy(folder / "p.safetensors", policy)
    loaded = poly.load_policy(folder / "p.safetensors")
    inputs = world.inputs(world.start([0, 1, 2]))
    ours, theirs = (poly.Evaluator(one.policy, one.params)(inputs) for one in (policy, loaded))
    np.testing.assert_array_equal(ours.logits, theirs.logits)
    assert loaded.info.configurations == (0, 1, 2)


@pytest.mark.usefixtures("folder")
def test_demonstrations_are_learnt():
    world = poly.make("own_envs:rooms")
    from own_envs import Model

    saved = poly.clone(world, Model(), episodes=20, epochs=30)
    found = poly.evaluate_policy(world, saved, attempts=8)["result"]
    assert found["success"]["mean"] > 0.95
    assert saved.info.made["cloned"]["episodes"] == 20


@pytest.mark.parametrize(
    ("demonstrations", "told"),
    [
        (lambda _: 7, "actions are 0 to 1"),
        (lambda _: 1 / 0, "demonstrations raised ZeroDivisionError"),
        ([], "demonstrations is empty"),
        ([(np.zeros((3, 4)), [0, 1, 5])], "has an action 5; actions are 0 to 1"),
        ([(np.zeros((3, 5)), [0, 1, 1])], r"has shape \(3, 5\), expected \(3, 4\) or one more"),
        ([3], "episode 0 is a int"),
        (3, "give a function, a model with predict, or episodes"),
    ],
)
def test_demonstrations_that_cannot_be_used_are_named(demonstrations, told):
    world = poly.make("CartPole-v1", seeds=[0], horizon=5)
    with pytest.raises(poly.UserError, match=told):
        poly.clone(world, demonstrations, episodes=2)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_world_that_cannot_be_forked_says_so_and_hands_rows_on():
    from own_envs import Picture

    with pytest.warns(Notice, match="cannot be forked faithfully"):
        world = poly.from_gymnasium(Picture, range(2), horizon=8)
    assert not world.can_fork
    state = world.start([0, 0, 1])
    world.step(state, [0, 1, 0])
    with pytest.raises(poly.UserError, match="cannot be continued twice"):
        state[[0, 0]]
    rest = state[[2, 0]]
    assert world.observe(rest)["observation"].shape == (2, 12, 12, 3)
    world.step(rest, [1, 1])
    with pytest.raises(poly.UserError, match="another state continues"):
        world.step(state, [0, 0, 0])
    places = poly.from_gymnasium(Picture, range(2), horizon=8, fork="none", place=lambda env: env.unwrapped.place)
    policy = poly.policy_for(places, hidden=(8,))
    with pytest.warns(Notice, match=r"returns span .* taking"):
        result = poly.finetune(
            places, policy, preset="vines", iterations=1, budget=6, set_size=2, evaluation_rollouts=1
        )
    assert result.policy.info.made["config"]["forks_per_rollout"] == 0
    with pytest.raises(poly.UserError, match="forks_per_rollout is 1, but this world cannot be forked"):
        poly.finetune(places, policy, iterations=1, budget=24, set_size=2, forks_per_rollout=1)


def halves(labels):
    """A diversity that can be imported."""
    return np.full(labels.shape[:-1], 0.5)


class Bare(gymnasium.Env):
    """One step, which pays 1 or 0."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(1)

    def reset(self, seed=None, **_options):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.last = int(action)
        return 0, float(action), True, False, {}


@pytest.fixture
def bare():
    world = poly.from_gymnasium(Bare, [0, 1], horizon=2, place=lambda env: getattr(env, "last", -1))
    return world, poly.policy_for(world, hidden=(4,))


RUN = {"iterations": 2, "budget": 12, "forks_per_rollout": 0, "set_size": 2, "num_sets": 4, "evaluation_rollouts": 1}


def test_functions_are_given_as_they_are(bare, tmp_path):
    world, policy = bare
    seen = []

    def watched(labels):
        seen.append(labels.shape)
        return halves(labels)

    result = poly.finetune(world, policy, **RUN, diversity=watched, checkpoint_every=1)
    assert seen
    assert result.policy.info.made["config"]["diversity"] == f"{__name__}:<watched>"
    named = poly.finetune(world, policy, **RUN, diversity=halves, out=tmp_path / "named")
    assert json.loads((tmp_path / "named/config.json").read_text())["config"]["diversity"] == f"{__name__}:halves"
    assert named.metrics == [{**line} for line in result.metrics]
    with pytest.raises(poly.UserError, match="diversity is 3; it must be a string or a function"):
        poly.make_config(diversity=3)


def test_a_run_with_a_function_without_a_name_is_not_resumed(bare, tmp_path):
    world, policy = bare
    calls = []

    def stops(iteration, _figures):
        calls.append(iteration)
        raise KeyboardInterrupt

    def local(labels):
        return halves(labels)

    settings = {**RUN, "diversity": local, "checkpoint_every": 1, "out": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        poly.finetune(world, policy, **settings, watch=stops)
    with pytest.raises(
        poly.UserError, match=r"interrupted run with diversity = '.*<local>', a function that cannot be"
    ):
        poly.finetune(world, policy, **settings)
    done = {**settings, "out": tmp_path / "done"}
    assert poly.finetune(world, policy, **done).metrics == poly.finetune(world, policy, **done).metrics


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--iteration", "3"], "no option '--iteration'; did you mean '--iterations'?"),
        (["--method", "ppo", "--set-size", "500"], "--set-size is 500, but ppo has no sets to use it for"),
        (["--set-size", "0"], "set_size is 0; it must be at least 2"),
        (["--set-size", "1"], "set_size is 1; it must be at least 2"),
    ],
)
def test_options_that_would_do_nothing_are_refused(args, told, capsys):
    assert main(["finetune", "fourrooms", *args]) == 2
    assert told in capsys.readouterr().err


def test_a_faint_signal_is_told_from_python():
    world = poly.make("CartPole-v1", seeds=[0, 1], horizon=30)
    places = poly.from_gymnasium(
        "CartPole-v1", [0, 1], horizon=30, place=lambda env: int(env.unwrapped.state[0] > 0), return_range=(0, 30)
    )
    policy = poly.policy_for(world, hidden=(8,))
    with pytest.warns(Notice, match=r"advantages were .* hardly count; normalise = per-kind"):
        result = poly.finetune(places, policy, **RUN, preset="vines")
    assert result.policy.info.made["config"]["return_range"] == (0.0, 30.0)
    poly.finetune(places, policy, **RUN, preset="vines", normalise="per-kind")
    poly.finetune(places, policy, **RUN)

"""The measurements are run by hand; here the smallest piece of each runs, on worlds and policies as small as can be.

stable_baselines and trl_overhead need environments of their own.
"""

import itertools
import json

import jax
import numpy as np
import pytest
from benchmarks import closed_form, costs, iteration, kills, policies, sweeps, triangle
from benchmarks.worlds.__main__ import RESULTS
from benchmarks.worlds.contenders import CONTENDERS, first_call
from benchmarks.worlds.report import table

import polychromic
from polychromic.finetuning.command import parse
from polychromic.finetuning.config import make_config
from polychromic.finetuning.loop import finetune
from polychromic.policies.files import SavedPolicy
from polychromic.sweep.command import _cells, _given
from walkers import walker

SMALL = {"iterations": 10**6, "evaluate_every": 0, "budget": 21, "set_size": 2, "epochs": 1}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rooms():
    world = polychromic.make("fourrooms", seeds=range(2), horizon=32)
    return world, walker(world)


def test_enumeration_gives_what_the_closed_form_gives():
    rng = np.random.default_rng(0)
    returns, labels = rng.random(7), rng.integers(0, 3, 7)
    for way in (closed_form.enumerated, closed_form.enumerated_tuned):
        np.testing.assert_allclose(
            way(returns, labels, 3), polychromic.polychromic_advantages(returns, labels, set_size=3)
        )
    calls = itertools.count()
    assert closed_form.best_time(lambda: next(calls), repeats=2, at_least=1e-4) > 0
    assert next(calls) > 2


def test_costs_of_iterations(rooms):
    found = costs.iterations(*rooms, make_config("ppo-ucb", **SMALL), count=2)
    assert found["iteration_seconds"] > 0
    assert found["compiling_seconds"] > 0
    assert costs.BYTES_OF_A_VISIT < found["bytes_per_iteration"] <= costs.BYTES_OF_A_VISIT * 21 * 32
    assert costs.timed(lambda: sum(range(100_000))) > 0


def test_an_iteration_its_parts_and_a_naive_gradient_step(rooms):
    world, saved = rooms
    config = make_config("poly-ppo", **SMALL)
    seconds, steps = next(iteration.iteration_seconds(world, saved, config))
    assert seconds > 0
    assert 21 <= steps <= 21 * 32
    parts = iteration.bare_parts(world, saved, 1, make_config("poly-ppo", **{**SMALL, "budget": 136}))
    assert set(parts) == {"bare_world", "bare_forward", "bare_advantages", "bare_update"}
    assert all(value > 0 for value in parts.values())
    rows = iteration.CONFIG.minibatch_size
    seen = {name: np.repeat(value, rows, axis=0) for name, value in world.inputs(world.start([0])).items()}
    samples = {
        **seen,
        "tokens": np.zeros((rows, 1), np.int32),
        "actions": np.zeros(rows, np.int64),
        "log_probs": np.full(rows, -2.0, np.float32),
        "logits": np.zeros((rows, world.num_actions), np.float32),
        "advantages": np.ones(rows, np.float32),
        "value_targets": np.ones(rows, np.float32),
    }
    step, optimiser = iteration.naive_gradient_step(saved)
    learned, _ = step(saved.params, optimiser.init(saved.params), samples)
    moved = jax.tree.map(lambda new, old: float(np.abs(new - old).max()), learned, saved.params)
    assert max(jax.tree.leaves(moved["actor"])) > 0
    assert max(jax.tree.leaves(moved["critic"])) > 0


def test_remembered_rows_say_what_all_rows_say(rooms):
    world, saved = rooms
    seen = list(policies._vines(saved, world))
    assert [len(obs["codes"]) for obs in seen[:32]] == [8] * 32
    assert len(seen[32]["codes"]) <= 2 * 64
    together = {name: np.concatenate([obs[name] for obs in seen]) for name in seen[0]}
    assert policies._distinct(together) < len(together["codes"])
    plain, remembered = (policies._evaluate_all(saved, world, seen[:3], remember) for remember in (False, True))
    for one, other in zip(plain, remembered, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    codes = np.zeros((2, 49), np.uint8)
    assert {call(codes).shape for call in policies._mlps().values()} == {(2, 7)}
    assert set(policies.in_turns({"a": lambda: 0, "b": lambda: 1}, rounds=1)) == {"a", "b"}


def test_triangle_sampling_and_iteration(monkeypatch):
    monkeypatch.setattr(triangle, "SEQUENCES", {"cached": 6, "uncached": 6})
    world = polychromic.make("triangle")
    policy = polychromic.transformer_policy(num_tokens=1017, context=11, width=8, layers=1, heads=1, critic_width=8)
    saved = SavedPolicy(policy, policy.init(jax.random.key(0)), polychromic.policies.files.PolicyInfo())
    rates = triangle.sampling(saved, world, 1)
    assert rates["seconds_for_10000"] == pytest.approx(10_000 / rates["cached_per_second"])
    config = make_config("poly-ppo", "triangle", **{**SMALL, "configurations_per_iteration": 3})
    found = triangle.iteration(saved, world, config, 1)
    assert found["trajectories"] == 3 * config.trajectories
    assert all(found[name] > 0 for name in ("seconds", "collect", "advantages", "update"))


def test_what_a_killed_run_left_is_examined(rooms, tmp_path):
    settings = {**SMALL, "iterations": 7, "budget": 2, "evaluation_rollouts": 1}

    def stop(number, _):
        if number == 6:
            raise KeyboardInterrupt

    assert kills.examine(tmp_path / "nothing", 0) == (0, 0)
    with pytest.raises(KeyboardInterrupt):
        finetune(
            *rooms, method="ppo", out=tmp_path / "run", watch=stop, checkpoint_every=kills.CHECKPOINT_EVERY, **settings
        )
    assert kills.examine(tmp_path / "run", 0) == (5, 7)
    with pytest.raises(AssertionError, match="went back from 6 to 5"):
        kills.examine(tmp_path / "run", 6)


def test_sweeps_compare_the_same_cells_as_runs(tmp_path):
    _, config = parse(sweeps.run_arguments("fourrooms", 40, tmp_path, 3))
    cells = _cells(*_given(sweeps.sweep_arguments("fourrooms", 40, tmp_path, 2)))
    assert [(cell.task, cell.method, cell.seed) for cell in cells] == [
        ("fourrooms", "poly-ppo", seed) for seed in range(sweeps.CELLS)
    ]
    assert make_config("poly-ppo", "fourrooms", **cells[3].settings, seed=3) == config


@pytest.mark.parametrize("name", ["polychromic", "polychromic, codes", "polychromic, fork", "minigrid, fork"])
def test_worlds_are_counted(name):
    measured = CONTENDERS[name]("fourrooms", 3)
    count, seconds = next(measured)
    assert 0 < count <= 3 * 100
    assert seconds >= 0


def test_worlds_first_call_and_table():
    assert first_call() >= 0
    results = json.loads(RESULTS.read_text())
    shown = table(results)
    rates = {(row["contender"], row["task"], row["worlds"]): row["per_second"] for row in results["rates"]}
    assert f"{rates['polychromic', 'goto', 136]:,}" in shown

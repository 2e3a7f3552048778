"""The gallery's continuous world: its doors, its demonstrator, and the way through the library."""

import sys
from pathlib import Path

import numpy as np
import pytest

import polychromic as poly

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "gallery"))
from several_ways import DOORS, HORIZON, SeveralWays, demonstrator, place

sys.path.pop(0)


def left_through(env, play, episodes):
    """The door of each episode, −1 for none, and the returns."""
    doors, returns = [], []
    for seed in range(episodes):
        seen, over, earned = env.reset(seed=seed % 3)[0], False, 0.0
        while not over:
            seen, reward, terminated, truncated, info = env.step(play(seen))
            earned, over = earned + reward, terminated or truncated
        assert info["is_success"] == (env.door >= 0) == (place(env) > 0)
        doors.append(env.door)
        returns.append(earned)
    return np.array(doors), np.array(returns)


def test_the_demonstrator_uses_every_door_and_a_locked_one_is_a_wall():
    doors, returns = left_through(SeveralWays(), demonstrator(), 120)
    assert set(doors) >= set(range(DOORS))
    assert 0.4 < (doors >= 0).mean() < 0.95  # room to improve
    assert (returns[doors >= 0] > 0.5).all()
    assert not returns[doors < 0].any()
    locked, _ = left_through(SeveralWays(locked=(1, 3)), demonstrator(), 120)
    assert set(locked) == {-1, 0, 2, 4}
    assert SeveralWays(render_mode="rgb_array").render().shape == (192, 192, 3)


def test_it_can_be_forked_cloned_and_finetuned_with_vines():
    assert poly.check_fork(SeveralWays, seeds=[0]).ok
    world = poly.from_gymnasium(SeveralWays, seeds=range(2), place=place, horizon=HORIZON, return_range=(0, 1))
    base = poly.clone(world, demonstrator(), episodes=30, epochs=6, learning_rate=3e-3)
    result = poly.finetune(
        world, base, method="poly-ppo", iterations=1, configurations_per_iteration=2, rollouts_per_state=4, set_size=2,
        forks_per_rollout=1, evaluation_rollouts=2,
    )  # fmt: skip
    assert result.metrics[0]["trajectories"] == 2 * (4 + 16)
    assert result.evaluations[-1]["entropy"] == pytest.approx(result.metrics[0]["entropy"], abs=0.1)

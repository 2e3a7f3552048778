from dataclasses import asdict

import pytest

from polychromic import UserError
from polychromic.config import METHODS, Config, from_dict, largest_group, make_config, scheduled


def test_defaults_are_the_papers():
    config = make_config("poly-ppo")
    assert (config.rollouts_per_state, config.set_size, config.num_sets, config.forks_per_rollout) == (8, 4, 4, 2)
    assert config.trajectories == config.budget == 136
    assert (config.epochs, config.minibatch_size, config.clip, config.window) == (2, 64, 0.2, 5)
    assert (config.actor_learning_rate, config.critic_learning_rate) == (1e-5, 1e-4)
    assert make_config("poly-ppo", "triangle").window == 0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_same_budget(method):
    assert make_config(method).trajectories == 136
    assert (make_config(method).ucb > 0) == method.endswith("-ucb")


def test_settings_survive_a_file():
    config = make_config("ppo", return_range=(-1.0, 2.0))
    assert from_dict({**asdict(config), "return_range": [-1.0, 2.0]}) == config


@pytest.mark.parametrize(("budget", "forks", "size"), [(136, 2, 8), (135, 2, 7), (72, 1, 8), (50, 0, 50), (10, 3, 1)])
def test_largest_group(budget, forks, size):
    assert largest_group(budget, forks) == size
    assert size + size**2 * forks <= budget < (size + 1) + (size + 1) ** 2 * forks or forks == 0


def test_schedules():
    assert scheduled(2.0, "constant", 0.7) == 2.0
    assert scheduled(2.0, "linear", 0.25) == 1.5
    assert scheduled(2.0, "cosine", 0.5) == pytest.approx(1.0)
    assert scheduled(2.0, "cosine", 1.0) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "polyppo"}, "did you mean 'poly-ppo'"),
        ({"method": "xyz"}, "choose one of"),
        ({"set_sise": 4}, "set_sise is not a setting; did you mean 'set_size'"),
        ({"set_size": 8}, "set_size is 8, but a group has 8 rollouts.*at most 7"),
        ({"budget": 100}, r"needs N \+ N²p = 136; what fits is forks_per_rollout ≤ 1 or rollouts_per_state ≤ 6"),
        ({"forks_per_rollout": 0, "initial_states_form_groups": False}, "no group is left"),
        ({"iterations": 0}, "iterations is 0"),
        ({"discount": 1.5}, "discount is 1.5"),
        ({"actor_learning_rate": 0.0}, "actor_learning_rate is 0.0; it must be above 0"),
        ({"window": -2}, "window is -2"),
        ({"return_range": (1.0, 1.0)}, "return_range"),
        ({"num_sets": -1}, "num_sets is -1"),
    ],
)
def test_what_cannot_work_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        make_config(**changes)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(AttributeError):
        Config().iterations = 3

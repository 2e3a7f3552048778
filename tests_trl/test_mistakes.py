"""Settings and data that would silently change the objective are refused, in words."""

import numpy as np
import pytest
from runs import PROMPTS, arguments, digit_share, first_two, make_trainer
from trl import GRPOConfig, GRPOTrainer

from polychromic import UserError, polychromic_advantages
from polychromic.integrations.group_sets import SetSettings
from polychromic.integrations.trl import PolychromicReward, check_grpo_trainer, polychromic_grpo_config


def reward(**settings):
    return PolychromicReward(settings.pop("reward_fn", digit_share), **{"key": first_two, **settings})


def checked(tmp_path, polychromic, **settings):
    return check_grpo_trainer(make_trainer(polychromic, tmp_path, **settings).trainer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_rewards": "group"}, "scale_rewards is 'group'; it must be 'none'"),
        ({"scale_rewards": "batch"}, "scale_rewards is 'batch'"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation is 'normalize_then_sum'"),
        ({"reward_weights": [0.5, 0.0]}, "reward_weights"),
    ],
)
def test_settings_that_change_the_objective_are_refused_twice(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        polychromic_grpo_config(**arguments(tmp_path, **changes))
    sound = {"scale_rewards": "none", "reward_weights": [1.0, 0.0]}
    config = GRPOConfig(**{**arguments(tmp_path), **sound, **changes})
    with pytest.raises(UserError, match=message):
        checked(tmp_path, reward(), config=config)


def test_weights_of_other_rewards(tmp_path):
    config = GRPOConfig(**arguments(tmp_path), scale_rewards="none")
    with pytest.raises(UserError, match=r"reward_weights\[1\] \(digit_share\) is 1; it must be 0"):
        checked(tmp_path, reward(), config=config)
    polychromic = reward()
    config = polychromic_grpo_config(**arguments(tmp_path), num_monitors=2)
    checked(tmp_path, polychromic, funcs=[*polychromic.funcs, digit_share], config=config)


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"set_size": 8}, {}, "num_generations is 8, the set_size"),
        ({"set_size": 9}, {}, "num_generations is 8; sets of 9"),
        (
            {"key": None, "embed": len, "set_size": 8, "num_sets": "all"},
            {"num_generations": 64, "per_device_train_batch_size": 64, "per_device_eval_batch_size": 64},
            "no closed form",
        ),
    ],
)
def test_group_sizes(tmp_path, settings, changes, message):
    with pytest.raises(UserError, match=message):
        checked(tmp_path, reward(**settings), **changes)


def test_exactly_one_polychromic_reward(tmp_path):
    config = polychromic_grpo_config(**arguments(tmp_path))
    for funcs, count in (([digit_share, digit_share], 0), ([reward(), reward()], 2)):
        with pytest.raises(UserError, match=f"holds {count} PolychromicReward"):
            checked(tmp_path, reward(), funcs=funcs, config=config)


def test_only_grpo_trainers():
    with pytest.raises(UserError, match="made for trl"):
        check_grpo_trainer(object())


def test_trainers_with_advantages_of_their_own_are_refused(tmp_path):
    class Other(GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            return super()._generate_and_score_completions(inputs)

    class Harmless(GRPOTrainer):
        pass

    record = make_trainer(reward(), tmp_path)
    record.trainer.__class__ = Harmless
    check_grpo_trainer(record.trainer)
    record.trainer.__class__ = Other
    with pytest.raises(UserError, match="trainer is Other, which overrides"):
        check_grpo_trainer(record.trainer)


def test_a_reward_that_is_attached_again_counts_generations_anew(attached):
    polychromic, trainer = attached
    polychromic.sets = SetSettings(4, 2, "sum", True)
    completions = ["12", "1+", "+1", "++", "123", "45", "67", "8"]
    first, second = (polychromic(["1="] * 8, completions) for _ in range(2))
    assert first != second
    check_grpo_trainer(trainer)
    assert polychromic(["1="] * 8, completions) == first


def test_a_reward_that_rounding_made_smaller_is_still_right(attached):
    polychromic, trainer = attached
    polychromic.reward_fn = lambda completions, **_: [1 - 1e-7] * len(completions)
    polychromic(["1="] * 8, ["12"] * 8)
    assert trainer._metrics["train"]["polychromic/pass@4"] == [1]


def test_an_unchecked_trainer_does_not_train(tmp_path):
    record = make_trainer(reward(), tmp_path)
    with pytest.raises(UserError, match="call check_trainer"):
        record.trainer.train()


def test_raw_reward_before_the_polychromic_one(tmp_path):
    polychromic = reward()
    config = GRPOConfig(**arguments(tmp_path), scale_rewards="none", reward_weights=[0.0, 1.0])
    trainer = checked(tmp_path, polychromic, funcs=[polychromic.raw, polychromic], config=config)
    with pytest.raises(UserError, match="raw reward was asked first"):
        trainer.train()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": lambda text: text.split()[7]}, "key raised IndexError"),
        ({"key": list}, "key returned list"),
        ({"reward_fn": lambda completions, **_: [2.0] * len(completions)}, "returned 2 for completion 0"),
        (
            {"reward_fn": lambda completions, **_: [None] * len(completions)},
            "returned None or NaN .* return a number for each, 0 for one",
        ),
        ({"reward_fn": lambda **_: [1.0]}, "1 rewards for 16 completions"),
    ],
)
def test_mistakes_of_users_functions_stop_training_before_an_update(tmp_path, settings, message):
    trainer = checked(tmp_path, reward(**settings))
    before = trainer.model.model.embed_tokens.weight.clone()
    with pytest.raises(UserError, match=message):
        trainer.train()
    assert trainer.state.global_step == 0
    np.testing.assert_array_equal(before.detach(), trainer.model.model.embed_tokens.weight.detach())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reward_fn": "a-model"}, "reward_fn is str"),
        ({"reward_range": (1, 0)}, "lowest < highest"),
        ({"credit": "mean", "num_sets": 4}, "do not add up to zero"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_mistakes_in_the_reward_itself(settings, message):
    with pytest.raises(UserError, match=message):
        reward(**settings)


def test_reward_models_are_refused():
    import torch

    with pytest.raises(UserError, match="reward_fn is Linear"):
        reward(reward_fn=torch.nn.Linear(1, 1))


def test_unknown_preset():
    with pytest.raises(UserError, match="choose one of 'paper', 'poly-epo'"):
        polychromic_grpo_config(preset="papers")


def test_presets_set_the_trainer_and_give_way(tmp_path):
    config = polychromic_grpo_config(preset="poly-epo", output_dir=str(tmp_path), use_cpu=True, bf16=False)
    assert (config.num_generations, config.epsilon, config.epsilon_high) == (8, 0.2, 0.28)
    assert (config.beta, config.learning_rate, config.scale_rewards) == (0.0, 1e-6, "none")
    assert config.reward_weights == [1.0, 0.0]
    other = polychromic_grpo_config(
        preset="poly-epo", epsilon_high=0.3, output_dir=str(tmp_path), use_cpu=True, bf16=False
    )
    assert other.epsilon_high == 0.3


# What reaches the reward function outside of the trainer's own loop.


@pytest.fixture
def attached(tmp_path):
    polychromic = reward()
    trainer = checked(tmp_path, polychromic)
    trainer.model.train()
    return polychromic, trainer  # the reward holds its trainer weakly


def test_incomplete_groups(attached):
    with pytest.raises(UserError, match="15 completions do not make whole groups of num_generations = 8"):
        attached[0](["1="] * 15, ["23"] * 15)


def test_mixed_groups(attached):
    prompts = ["1="] * 7 + ["2="] * 9
    with pytest.raises(UserError, match="completions 0 to 7 answer different prompts"):
        attached[0](prompts, ["23"] * 16)


def test_evaluation_uses_its_own_group_size(attached):
    polychromic, trainer = attached
    trainer.num_generations_eval = 5
    trainer.model.eval()
    assert len(polychromic(["1="] * 10, ["23"] * 10)) == 10
    with pytest.raises(UserError, match="num_generations_eval = 5"):
        polychromic(["1="] * 16, ["23"] * 16)


def test_empty_completions_are_one_answer(attached):
    completions = ["", " ", "12", "1+", "", "+1", "34", "++"]
    found = attached[0](["1="] * 8, completions)
    rewards = digit_share(["1="] * 8, completions)
    labels = ["empty" if not text.strip() else first_two(text) for text in completions]
    np.testing.assert_allclose(found, polychromic_advantages(rewards, labels, set_size=4), atol=1e-12)
    assert attached[0](["1="] * 8, [""] * 8) == [0.0] * 8


def test_equal_prompts_may_be_different_groups(attached):
    completions = ["12", "1+", "+1", "++", "123", "45", "67", "8"]
    twice = attached[0](["1="] * 16, completions * 2)
    assert twice[:8] == twice[8:] == attached[0](["1="] * 8, completions)


def test_the_dataset_of_these_tests_repeats_prompts():
    assert len(set(PROMPTS)) < len(PROMPTS)


def test_annealing_needs_advantages_of_one_size():
    with pytest.raises(UserError, match=r"anneal is 0\.5 with scale 1\.0; scale must be 'batch'"):
        reward(anneal=0.5)
    with pytest.raises(UserError, match="anneal is 2"):
        reward(anneal=2.0, scale="batch")

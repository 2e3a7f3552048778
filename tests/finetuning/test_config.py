import json
from dataclasses import asdict
from pathlib import Path

import pytest
from reproduction.lines import Stored
from reproduction.plan import WATCHING, expand
from reproduction.plans import CREDIT, FULL, PLAIN, TABLES, UCB

from polychromic import UserError
from polychromic.finetuning.advantages import OBJECTIVES, SET_FORMERS
from polychromic.finetuning.collect import FORK_RULES
from polychromic.finetuning.config import METHODS, Config, largest_group, make_config, scheduled
from polychromic.finetuning.config_check import NAMED_FUNCTIONS
from polychromic.finetuning.diversities import DIVERSITIES

ROOT = Path(__file__).parents[2]


def test_defaults_are_the_papers_but_for_set_credit():
    usual = make_config("poly-ppo")
    assert (usual.set_credit, usual.polychromic_schedule, usual.set_size) == ("control-variate", "linear", 4)
    assert (usual.group_size, usual.num_sets, usual.forks_per_rollout) == (136, 0, 0)
    config = make_config("poly-ppo", preset="vines")
    assert (config.set_credit, config.polychromic_schedule) == ("window", "constant")
    changed = {"set_credit", "polychromic_schedule", "num_sets", "forks_per_rollout"}
    assert {name for name, value in asdict(usual).items() if asdict(config)[name] != value} == changed
    assert make_config("ppo", "goto", preset="vines") == make_config("ppo", "goto")
    assert (config.group_size, config.set_size, config.num_sets, config.forks_per_rollout) == (8, 4, 4, 2)
    assert config.trajectories == config.budget == 136
    assert (config.epochs, config.minibatch_size, config.clip, config.window) == (2, 64, 0.2, 5)
    assert (config.actor_learning_rate, config.critic_learning_rate) == (1e-5, 1e-4)
    triangle = make_config("poly-ppo", "triangle")
    assert (triangle.window, triangle.set_credit, triangle.forks_per_rollout) == (0, "window", 2)
    assert make_config("ppo", "triangle").forks_per_rollout == 0


def test_the_papers_grid_tasks_have_the_settings_that_the_search_chose():
    searched = Stored(ROOT / "results", FULL).chosen
    for task in TABLES.tasks(FULL):
        methods = searched.of_task(task)
        assert methods.keys() >= {*PLAIN, *UCB}
        for method, chosen in methods.items():
            config = asdict(make_config(method, task, preset="vines"))
            assert {name: config[name] for name in chosen} == chosen
            assert config["iterations"] * config["configurations_per_iteration"] == FULL.tasks[task].lengths["tables"]
    goto, synthseq = make_config("ppo-ucb", "goto"), make_config("ppo-ucb", "synthseq")
    assert goto == synthseq != make_config("ppo-ucb")
    assert make_config("grpo", "goto") == make_config("grpo")
    # Set credit without vines: the setting of the study, on all tasks that are like GoTo.
    for task in ("goto", "synthseq", "bosslevel"):
        planned = expand(CREDIT, FULL, Stored(ROOT / "results", FULL).chosen_for(CREDIT), (task,))
        [studied] = {one.line: one.cell for one in planned if one.label.startswith("control-variate")}.values()
        study, default = asdict(studied.config()), asdict(make_config("poly-ppo", task))
        assert {name for name in study if study[name] != default[name]} <= {*WATCHING, "seed", "window"}
    paper = make_config("ppo", "goto", preset="paper")
    assert (paper.configurations_per_iteration, paper.actor_learning_rate, paper.iterations) == (1, 1e-5, 500)


def test_what_follows_from_a_setting_moves_with_it():
    one = make_config("poly-ppo", "goto", configurations_per_iteration=1)
    assert (one.iterations, one.evaluate_every, one.checkpoint_every) == (480, 24, 24)
    longer = make_config("poly-ppo", "goto", iterations=200)
    assert (longer.configurations_per_iteration, longer.evaluate_every) == (8, 10)
    slow = make_config("poly-ppo", "goto", actor_learning_rate=2e-6)
    assert slow.critic_learning_rate == 2e-5
    with pytest.raises(UserError, match="configurations_per_iteration"):
        make_config("poly-ppo", "goto", configurations_per_iteration=0)


WRONG = ["many", float("inf"), 0, True, None]


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in ("iterations", "configurations_per_iteration") for value in [*WRONG, 0.5]]
    + [("actor_learning_rate", value) for value in WRONG],
)
def test_a_wrong_setting_is_refused_by_name_where_others_follow_from_it(name, value):
    with pytest.raises(UserError, match=f"^{name} is {value!r}"):
        make_config("poly-ppo", "goto", **{name: value})


def test_the_paper_preset_is_the_pseudocode_taken_literally():
    paper = make_config("poly-ppo", "fourrooms", preset="paper")
    assert (paper.rollouts_per_state, paper.set_size, paper.num_sets, paper.forks_per_rollout) == (8, 4, 4, 2)
    assert (paper.credit, paper.initial_states_form_groups, paper.window) == ("last", False, 5)
    assert make_config("poly-ppo", "triangle", preset="paper").window == 0
    ppo = make_config("ppo", preset="paper")
    assert (ppo.polychromic, ppo.trajectories, ppo.actor_learning_rate) == (False, 136, 1e-5)


def test_without_forks_the_whole_budget_is_one_group():
    config = make_config("poly-ppo")
    assert (config.group_size, config.trajectories) == (136, 136)


def test_names_of_functions_are_those_that_exist():
    assert {
        "fork_rule": tuple(FORK_RULES),
        "set_former": tuple(SET_FORMERS),
        "objective": tuple(OBJECTIVES),
        "diversity": tuple(DIVERSITIES),
        "return_map": ("range", "clipped"),
    } == NAMED_FUNCTIONS


def test_values_take_the_declared_type():
    config = make_config(return_range=[0, 2], discount=1)
    assert config.return_range == (0.0, 2.0)
    assert isinstance(config.discount, float)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_same_budget(method):
    assert make_config(method).trajectories == 136
    assert (make_config(method).ucb > 0) == method.endswith("-ucb")


def test_settings_survive_a_file():
    config = make_config("ppo", return_range=(-1.0, 2.0))
    assert Config(**json.loads(json.dumps(asdict(config)))) == config


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
        ({"set_size": 8, "preset": "vines"}, "set_size is 8, but a group has 8 rollouts.*at most 7"),
        (
            {"budget": 100, "rollouts_per_state": 8, "preset": "vines"},
            r"needs N \+ N²p = 136; what fits is forks_per_rollout ≤ 1 or rollouts_per_state ≤ 6",
        ),
        ({"forks_per_rollout": 0, "initial_states_form_groups": False}, "no group is left"),
        ({"iterations": 0}, "iterations is 0"),
        ({"discount": 1.5}, "discount is 1.5"),
        ({"actor_learning_rate": 0.0}, "actor_learning_rate is 0.0; it must be above 0"),
        ({"window": -2}, "window is -2"),
        ({"return_range": (1.0, 1.0)}, "return_range"),
        ({"num_sets": -1}, "num_sets is -1"),
        # fields by their type
        ({"normalise": "joit"}, "normalise is 'joit'; did you mean 'joint'.*choose one of joint, per-kind"),
        ({"time_limit": "never"}, "time_limit is 'never'; choose one of terminal, bootstrap"),
        ({"value_target": 3}, "value_target is 3; choose one of"),
        ({"advantage": "gea"}, "advantage is 'gea'; did you mean 'gae'"),
        ({"kl_schedule": "lin"}, "kl_schedule is 'lin'"),
        ({"credit": "summ"}, "credit is 'summ'; did you mean 'sum'"),
        (
            {"fork_rule": "most-uncertain"},
            "fork_rule is 'most-uncertain', but forks_per_rollout is 0.*give forks_per_rollout = 2",
        ),
        ({"window": 5}, "window is 5, but set_credit is 'control-variate', which has none.*set_credit = 'window'"),
        ({"fork_rule": "space"}, "fork_rule is 'space'; did you mean 'spaced'.*package.module:function"),
        ({"fork_rule": "none"}, "^fork_rule is 'none'; for rollouts without vines give forks_per_rollout = 0$"),
        ({"objective": "bestof"}, "objective is 'bestof'; did you mean 'best-of'"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"epochs": 1.5}, "epochs is 1.5; it must be a whole number"),
        ({"iterations": True}, "iterations is True; it must be a whole number"),
        ({"iterations": "ten"}, "iterations is 'ten'; it must be a whole number"),
        ({"set_size": "4"}, "set_size is '4'; it must be a whole number"),
        ({"polychromic": "no"}, "polychromic is 'no'; it must be true or false"),
        ({"ucb": float("nan")}, "ucb is nan; it must be a finite number"),
        ({"clip": float("inf")}, "clip is inf; it must be a finite number"),
        ({"value_coefficient": -1.0}, "value_coefficient is -1.0; it must be at least 0"),
        ({"entropy_coefficient": -0.1}, "entropy_coefficient is -0.1"),
        ({"return_range": (0, float("inf"))}, r"return_range is \(0, inf\); it must be finite numbers"),
        ({"return_range": 3}, "return_range is 3; it must be 2 numbers"),
        ({"preset": "papre"}, "preset is 'papre'; did you mean 'paper'"),
        # fields that contradict each other, or of which one would be ignored
        ({"credit": "last", "num_sets": 0}, "credit is 'last', but num_sets = 0 takes all sets"),
        ({"set_former": "disjoint", "num_sets": 0}, "set_former is 'disjoint', but num_sets = 0"),
        (
            {"set_former": "disjoint", "preset": "vines"},
            "num_sets is 4, but set_former = 'disjoint' makes 8/4 = 2 sets",
        ),
        ({"set_former": "disjoint", "set_size": 5, "preset": "vines"}, "do not split into several sets"),
        ({"set_size": 1}, "set_size is 1; it must be at least 2: a set of one has no diversity"),
        ({"num_sets": 1}, "num_sets is 1; a set is compared with the others"),
        (
            {"rollouts_per_state": 200, "forks_per_rollout": 0},
            "rollouts_per_state = 200 is more than that.*at most 136",
        ),
        ({"budget": 2, "preset": "vines"}, "budget is 2, too small for forks_per_rollout = 2: one rollout needs 3"),
        ({"method": "ppo-ucb", "ucb": 0}, "method is 'ppo-ucb' with ucb = 0"),
        ({"method": "grpo", "advantage": "gae"}, "method is 'grpo' with advantage = 'gae'"),
    ],
)
def test_what_cannot_work_is_refused(changes, message):
    with pytest.raises(UserError, match=message):
        make_config(**changes)


def test_a_method_cannot_be_another_one_in_disguise():
    with pytest.raises(UserError, match=r"method is 'ppo' with polychromic = True; make_config\('ppo'\)"):
        Config(method="ppo")
    with pytest.raises(UserError, match="method is 'xx'; choose one of"):
        Config(method="xx")


def test_a_configuration_cannot_be_changed():
    with pytest.raises(AttributeError):
        Config().iterations = 3

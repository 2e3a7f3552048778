import re

import gymnasium
import numpy as np
import pytest
from small_worlds import bandit, cross, table_policy

import polychromic
from polychromic import UserError
from polychromic.finetuning.advantages import VisitCounts
from polychromic.finetuning.collect import TrunkSteps, collect, most_uncertain, roll, spaced, worst_predicted
from polychromic.policies.inference import Evaluator


def collected(world, **given):
    saved = table_policy(world)
    options = {"rollouts_per_state": 4, "forks_per_rollout": 2} | given
    return collect(Evaluator(saved.policy, saved.params), world, np.array([0]), np.random.default_rng(0), **options)


def test_trunks_and_vines_fill_the_budget_and_form_groups():
    rollouts = collected(cross())
    assert rollouts.num_trajectories == 4 + 4 * 4 * 2
    assert rollouts.groups.shape == (1 + 8, 4)
    np.testing.assert_array_equal(np.sort(rollouts.groups.ravel()), np.arange(36))
    assert rollouts.offsets[-1] == rollouts.num_steps == len(rollouts.rewards)
    assert rollouts.num_trunks == 4


def test_without_vines_the_rollouts_of_a_configuration_are_one_group():
    rollouts = collected(cross(), rollouts_per_state=9, forks_per_rollout=0)
    np.testing.assert_array_equal(rollouts.groups, [np.arange(9)])


def test_initial_states_need_not_form_groups():
    assert collected(cross(), initial_states_form_groups=False).groups.min() == 4


def test_a_vine_starts_in_the_state_of_its_trunk_at_the_fork():
    rollouts = collected(cross())
    first_cells = rollouts.obs["cell"][rollouts.offsets[:-1]]
    for trunk in range(4):
        start, end = rollouts.offsets[trunk : trunk + 2]
        cells = rollouts.obs["cell"][start:end]
        for fork, step in enumerate(spaced(TrunkSteps(cells, cells, cells), 2)):
            vines = rollouts.groups[1 + 2 * trunk + fork]
            assert (first_cells[vines] == cells[step]).all()


def test_a_vine_has_what_is_left_of_the_horizon():
    world = cross()
    rollouts = collected(world)
    lengths = np.diff(rollouts.offsets)
    for trunk in range(4):
        for fork, step in enumerate([lengths[trunk] // 3, 2 * lengths[trunk] // 3]):
            assert (lengths[rollouts.groups[1 + 2 * trunk + fork]] <= world.horizon - step).all()


def test_steps_of_a_trajectory_follow_each_other():
    world = cross()
    rollouts = collected(world)
    cells, actions = rollouts.obs["cell"], rollouts.actions
    ends = set(rollouts.offsets[1:] - 1)
    for step in range(rollouts.num_steps - 1):
        if step not in ends:
            assert cells[step + 1] == world.moves[cells[step], actions[step]]


def test_log_probs_are_those_of_the_behaviour_policy():
    rollouts = collected(cross())
    np.testing.assert_allclose(rollouts.log_probs, np.log(0.25), rtol=1e-6)


def test_labels_are_equal_exactly_for_equal_sets_of_places_and_count_the_last_one():
    world = cross()
    saved = table_policy(world)
    steps = roll(
        Evaluator(saved.policy, saved.params), world, world.start(np.zeros(200, int)), np.random.default_rng(1)
    )
    rollouts = collected(world, rollouts_per_state=200, forks_per_rollout=0)
    sets = []
    for start, end in zip(rollouts.offsets[:-1], rollouts.offsets[1:], strict=True):
        cells = rollouts.obs["cell"][start:end]
        sets.append(frozenset([*cells.tolist(), int(world.moves[cells[-1], rollouts.actions[end - 1]])]))
    by_set = {}
    for label, visited in zip(rollouts.labels.tolist(), sets, strict=True):
        assert by_set.setdefault(visited, label) == label
    assert len(set(by_set.values())) == len(by_set) > 10
    assert steps.places.shape == steps.actions.shape


def test_the_prefix_may_count_for_labels():
    without, with_prefix = collected(cross()), collected(cross(), places_include_prefix=True)
    np.testing.assert_array_equal(without.actions, with_prefix.actions)
    np.testing.assert_array_equal(without.labels[:4], with_prefix.labels[:4])
    assert (without.labels[4:] != with_prefix.labels[4:]).any()


def test_fork_rules():
    assert spaced(TrunkSteps(None, np.zeros(9), None), 2) == [3, 6]
    assert spaced(TrunkSteps(None, np.zeros(1), None), 2) == [0, 0]
    logits = np.array([[9.0, 0.0], [0.0, 0.0], [5.0, 0.0], [1.0, 0.0]])
    assert most_uncertain(TrunkSteps(logits, np.zeros(4), np.zeros(4)), 2) == [1, 3]
    trunk = TrunkSteps(logits, np.array([0.0, 1.0, 0.2, 0.9]), np.array([1.0, 1.0, 1.0, 1.0]))
    assert worst_predicted(trunk, 2) == [0, 2]
    assert worst_predicted(TrunkSteps(logits[:1], np.zeros(1), np.zeros(1)), 2) == [0, 0]


@pytest.mark.parametrize("steps", [[0], [0, 99], [-1, 0], None, 3, ["a", "b"], [None, None]])
def test_a_users_fork_rule_is_checked(steps):
    right = r"for a rollout of \d steps; it must return 2 steps from 0 to \d$"
    with pytest.raises(UserError, match=f"^fork_rule returned {re.escape(str(steps))} {right}"):
        collected(cross(), fork_rule=lambda _trunk, _forks: steps)


def test_fork_rules_see_the_policy_that_played_and_discounted_returns():
    seen = []

    def look(trunk, num_forks):
        seen.append(trunk)
        return spaced(trunk, num_forks)

    world = cross()
    logits = np.random.default_rng(0).normal(size=(13, 4)).astype(np.float32)
    saved = table_policy(world, logits)
    rollouts = collect(
        Evaluator(saved.policy, saved.params), world, np.array([0]), np.random.default_rng(0),
        rollouts_per_state=4, forks_per_rollout=2, fork_rule=look, temperature=2.0, discount=0.5,
    )  # fmt: skip
    for index, trunk in enumerate(seen):
        start, end = rollouts.offsets[index : index + 2]
        np.testing.assert_allclose(trunk.logits, logits[rollouts.obs["cell"][start:end]] / 2)
        last = rollouts.rewards[end - 1]
        np.testing.assert_allclose(trunk.returns, last * 0.5 ** np.arange(end - start)[::-1])


def test_truncated_ends_have_a_value_and_terminal_ones_do_not():
    world = cross()
    saved = table_policy(world)
    params = {"actor": saved.params["actor"], "critic": {"table": np.arange(13, dtype=np.float32)}}
    steps = roll(Evaluator(saved.policy, params), world, world.start(np.zeros(64, int)), np.random.default_rng(0))
    assert steps.terminated.any()
    assert not steps.terminated.all()
    last = steps.offsets[1:] - 1
    after = world.moves[steps.obs["cell"][last], steps.actions[last]]
    np.testing.assert_array_equal(steps.final_values, np.where(steps.terminated, 0, after))


def test_a_bandit_is_a_world_too():
    rollouts = collected(bandit(), rollouts_per_state=3, forks_per_rollout=1)
    assert (np.diff(rollouts.offsets) == 1).all()
    assert rollouts.num_trajectories == 3 + 9


class Named(gymnasium.Env):
    """Three steps; what distinguishes states happens to be called `memory` and `mission`."""

    action_space = gymnasium.spaces.Discrete(1)
    observation_space = gymnasium.spaces.Dict(
        {"memory": gymnasium.spaces.Discrete(4), "mission": gymnasium.spaces.Discrete(4)}
    )

    def reset(self, seed=None, **_options):
        super().reset(seed=seed)
        self.time = 0
        return {"memory": 0, "mission": 0}, {}

    def step(self, _action):
        self.time += 1
        return {"memory": self.time, "mission": 3 - self.time}, 0.0, self.time == 3, False, {}


def test_states_are_told_apart_by_all_inputs_but_rows_of_tables_and_the_memory_of_a_policy():
    world = polychromic.from_gymnasium(Named, [0], horizon=3, fork="copy")
    saved = polychromic.policy_for(world, hidden=(4,))
    evaluator = Evaluator(saved.policy, saved.params)
    rollouts = collect(evaluator, world, np.array([0]), np.random.default_rng(0), rollouts_per_state=2)
    assert set(rollouts.state_inputs) == {"memory", "mission"}
    np.testing.assert_array_equal(VisitCounts().add(rollouts), np.full(6, 2.0))  # three states, each seen twice
    world.table_inputs = ("mission", "memory")
    rollouts = collect(evaluator, world, np.array([0]), np.random.default_rng(0), rollouts_per_state=2)
    assert rollouts.state_inputs == ()
    grid = polychromic.make("goto", seeds=[0])
    assert grid.table_inputs == ("mission",)


def test_tables_of_few_configurations_are_cut_to_their_longest_mission():
    world = polychromic.make("bosslevel")
    missions = world.tables()["missions"]
    lengths = (missions != 0).sum(axis=1)
    chosen = np.argsort(lengths)[:2]
    obs, tables = world.restricted({"mission": chosen[[1, 0, 1]]}, chosen)
    width = tables["missions"].shape[1]
    assert lengths[chosen].max() <= width < missions.shape[1]
    assert width % 8 == 0
    np.testing.assert_array_equal(obs["mission"], [1, 0, 1])
    np.testing.assert_array_equal(tables["missions"], missions[chosen, :width])

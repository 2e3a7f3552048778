"""How set credit reaches the steps, proved by enumerating every group of rollouts of a small MDP."""

from collections import Counter
from itertools import combinations, combinations_with_replacement, product
from math import factorial, prod

import numpy as np
import pytest
from small_worlds import cross, table_policy

import polychromic
from polychromic import UserError, gae
from polychromic.core.control_variate import credit_without_each, others, slopes
from polychromic.core.credit import set_advantages
from polychromic.core.sets import all_sets
from polychromic.finetuning.advantages import estimate, group_advantages, step_advantages
from polychromic.finetuning.collect import collect
from polychromic.finetuning.config import make_config
from polychromic.finetuning.rollouts import Rollouts
from polychromic.policies.inference import Evaluator

REACHING = ("trajectory", "critic", "control-variate")

# Two steps with two actions each: cell 0, then cell 1 or 2. The first step pays too, and two ways count as the same.
LOGITS = np.array([[0.4, -0.3], [0.1, 0.8], [-0.5, 0.2]])
POLICY = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
VALUES = (0.375, 0.75, 0.125)  # of a critic that knows little
FIRST_PAYS = (0.25, 0.0)
THEN_PAYS = {(0, 0): 0.75, (0, 1): 0.0, (1, 0): 0.25, (1, 1): 0.625}
LABELS = {(0, 0): 0, (0, 1): 1, (1, 0): 1, (1, 1): 2}


def ways(start):
    """Every trajectory from a cell as [(cell, action, reward)], with its chance."""
    firsts = range(2) if start == 0 else [start - 1]
    found = []
    for first, then in product(firsts, range(2)):
        steps = [(0, first, FIRST_PAYS[first]), (1 + first, then, THEN_PAYS[first, then])]
        steps = steps if start == 0 else steps[1:]
        chance = np.prod([POLICY[cell, action] for cell, action, _ in steps])
        found.append((steps, chance, LABELS[first, then]))
    return found


def slope_of(cell, action):
    """∇ log π(action | cell), [3, 2]."""
    gradient = np.zeros((3, 2))
    gradient[cell] = np.eye(2)[action] - POLICY[cell]
    return gradient


def rollouts_of(*group_lists, value=VALUES):
    """All trajectories of all groups, one after another; each group is a list of ways."""
    trajectories = [way for groups in group_lists for group in groups for way in group]
    steps = [step for way, _, _ in trajectories for step in way]
    cells, actions, rewards = (np.array(column) for column in zip(*steps, strict=True))
    count, size = len(trajectories), len(group_lists[0][0])
    return Rollouts(
        obs={"cell": cells},
        tables={},
        actions=actions,
        log_probs=np.log(POLICY[cells, actions]).astype(np.float32),
        logits=LOGITS[cells].astype(np.float32),
        values=np.array(value, np.float32)[cells],
        rewards=rewards.astype(np.float32),
        offsets=np.concatenate([[0], np.cumsum([len(way) for way, _, _ in trajectories])]),
        configurations=np.zeros(count, np.int64),
        terminated=np.ones(count, bool),
        success=np.ones(count, bool),
        final_values=np.zeros(count, np.float32),
        labels=np.array([label for _, _, label in trajectories], np.uint64),
        groups=np.arange(count).reshape(-1, size),
        num_trunks=count,
    )


def every_group(start, size):
    return list(product(ways(start), repeat=size))


def chance_of(group):
    """Of these trajectories in this order."""
    return np.prod([chance for _, chance, _ in group])


def expected_update(rollouts, chances, advantages, first_group=0):
    """E[(1/N) Σ_i Σ_t A_t ∇ log π(a_t | s_t)] over groups with these chances, [3, 2]."""
    rows = rollouts.groups[first_group : first_group + len(chances)]
    of_trajectory = np.zeros(rollouts.num_trajectories)
    of_trajectory[rows] = np.array(chances)[:, None] / rows.shape[1]
    weight = np.repeat(of_trajectory, np.diff(rollouts.offsets)) * advantages
    total, cells = np.zeros((3, 2)), rollouts.obs["cell"]
    np.add.at(total, cells, weight[:, None] * (np.eye(2)[rollouts.actions] - POLICY[cells]))
    return total


def score(objective, members):
    """f of a set of ways."""
    returns = [sum(reward for _, _, reward in steps) for steps, _, _ in members]
    distinct = len({label for _, _, label in members})
    diversity = 0.0 if distinct == 1 else distinct / len(members)
    return {"mean-return": np.mean(returns), "best-of": max(returns), "polychromic": np.mean(returns) * diversity}[
        objective
    ]


def set_gradient(objective, start, set_size):
    """∇ E[f] over sets of rollouts from a cell, by enumeration of all of them, [3, 2]."""
    total = np.zeros((3, 2))
    for members in product(ways(start), repeat=set_size):
        chance = np.prod([chance for _, chance, _ in members])
        slopes_ = sum(slope_of(cell, action) for steps, _, _ in members for cell, action, _ in steps)
        total += chance * score(objective, members) * slopes_
    return total


def settings(set_credit="control-variate", **changes):
    """λ = 1 and nothing normalised: what the proofs are about."""
    given = {"num_sets": 0, "set_size": 2, "rollouts_per_state": 4, "forks_per_rollout": 0, "normalise": "none"}
    return make_config("poly-ppo", set_credit=set_credit, **{**given, "gae_lambda": 1.0, **changes})


def advantages_of(rollouts, config, **more):
    return step_advantages(rollouts, config, np.random.default_rng(0), **more).advantages


@pytest.mark.parametrize("objective", ["polychromic", "best-of", "mean-return", "polychromic.core.objectives:best_of"])
@pytest.mark.parametrize("set_credit", REACHING)
@pytest.mark.parametrize(("size", "set_size"), [(4, 2), (5, 2), (5, 3)])
def test_the_expected_update_is_the_gradient_of_the_set_objective(set_credit, objective, size, set_size):
    groups = every_group(0, size)
    rollouts = rollouts_of(groups)
    config = settings(set_credit, objective=objective, rollouts_per_state=size, set_size=set_size)
    found = expected_update(rollouts, list(map(chance_of, groups)), advantages_of(rollouts, config))
    true = set_gradient("best-of" if ":" in objective else objective, 0, set_size)
    assert np.abs(true).max() > 0.01
    np.testing.assert_allclose(found, (1 - set_size / size) * true, atol=1e-10)


@pytest.mark.parametrize("set_credit", REACHING)
def test_with_vines_it_is_the_gradient_at_every_rollout_state(set_credit):
    """Groups from the start and from both forks in one batch; each has the gradient of sets from its own state."""
    groups = {start: every_group(start, 4) for start in (0, 1, 2)}
    rollouts = rollouts_of(*groups.values())
    advantages = advantages_of(rollouts, settings(set_credit))
    first = 0
    for start, own in groups.items():
        found = expected_update(rollouts, list(map(chance_of, own)), advantages, first)
        np.testing.assert_allclose(found, 0.5 * set_gradient("polychromic", start, 2), atol=1e-10)
        assert np.abs(found).max() > 0.005
        first += len(own)


NUM_RANDOM = 3
TRIPLES = np.array(list(product(combinations(range(4), 2), repeat=NUM_RANDOM)))  # every draw of three sets, [216, 3, 2]


def every_draw(num_rollouts, set_size, num_sets, num_groups, rng):
    """A set former for copies of all groups, one for every draw of sets."""
    del rng
    assert (num_rollouts, set_size, num_sets) == (4, 2, NUM_RANDOM)
    return np.repeat(TRIPLES, num_groups // len(TRIPLES), axis=0)


@pytest.mark.parametrize("set_credit", REACHING)
def test_random_sets_shrink_it_by_one_over_their_number(set_credit):
    """E over every draw of M sets: (1 − 1/M) (1 − n/N) ∇E[f]."""
    groups = every_group(1, 4)
    copies = groups * len(TRIPLES)
    rollouts = rollouts_of(copies)
    config = settings(set_credit, num_sets=NUM_RANDOM, set_former="test_set_credit:every_draw")
    found = expected_update(rollouts, list(map(chance_of, copies)), advantages_of(rollouts, config)) / len(TRIPLES)
    true = set_gradient("polychromic", 1, 2)
    np.testing.assert_allclose(found, (1 - 1 / NUM_RANDOM) * 0.5 * true, atol=1e-10)


def errors(size, set_size, objective, set_credit="control-variate", **changes):
    """How far the expected update is off (1 − n/N) ∇E[f], relatively, as it is and with its best scale.

    The order within a group does not matter, so one of each kind stands for all.
    """
    all_ways = ways(0)
    kinds = list(combinations_with_replacement(range(len(all_ways)), size))
    orders = [factorial(size) // prod(map(factorial, Counter(kind).values())) for kind in kinds]
    groups = [[all_ways[way] for way in kind] for kind in kinds]
    chances = [times * chance_of(group) for times, group in zip(orders, groups, strict=True)]
    rollouts = rollouts_of(groups)
    config = settings(set_credit, objective=objective, rollouts_per_state=size, set_size=set_size, **changes)
    found = expected_update(rollouts, chances, advantages_of(rollouts, config))
    true = (1 - set_size / size) * set_gradient(objective, 0, set_size)
    scaled = found * (found * true).sum() / (found**2).sum()
    return [float(np.linalg.norm(one - true) / np.linalg.norm(true)) for one in (found, scaled)]


MEASURED = {  # (N, n, objective) -> error of the in-group slope, as it is and with its best scale; the same of W = 0
    (8, 4, "polychromic"): ((0.3483, 0.0926), (1.4829, 0.1753)),
    (16, 4, "polychromic"): ((0.1741, 0.0502), (0.6737, 0.1677)),
    (8, 4, "best-of"): ((0.5064, 0.1146), (0.6109, 0.2155)),
    (16, 4, "best-of"): ((0.2418, 0.0615), (0.2076, 0.2006)),
}


@pytest.mark.parametrize("given", MEASURED, ids=str)
def test_what_the_in_group_slope_and_the_window_are_off_by(given):
    """The bias of the in-group slope halves as groups double. The window's direction is off in groups of any size."""
    in_group, window = MEASURED[given]
    assert errors(*given) == pytest.approx([0, 0], abs=1e-10)
    assert errors(*given, control_variate="in-group") == pytest.approx(in_group, abs=1e-4)
    assert errors(*given, "window", window=0) == pytest.approx(window, abs=1e-4)


def some_rollouts(groups=5, size=6, seed=0):
    rng = np.random.default_rng(seed)
    all_ways = ways(0)
    return rollouts_of([[all_ways[i] for i in rng.integers(0, 4, size)] for _ in range(groups)])


def with_values(rollouts, seed=1):
    values = np.random.default_rng(seed).random(rollouts.num_steps).astype(np.float32)
    return Rollouts(**{**rollouts.__dict__, "values": values})


def gae_of(rollouts, gae_lambda=0.95):
    return gae(rollouts.rewards, rollouts.values, rollouts.offsets, gae_lambda=gae_lambda)


@pytest.mark.parametrize("set_size", [2, 3, 4])
@pytest.mark.parametrize(("how", "factor"), [("in-group", 1 / 5), ("leave-one-out", 1 / 6)])
def test_for_the_mean_return_it_is_ppo(how, factor, set_size):
    """(N − n)/(N − 1) · GAE, or (N − n)/N with the leave-one-out slope, whatever λ and the critic are."""
    rollouts = with_values(some_rollouts())
    config = settings(
        objective="mean-return", control_variate=how, set_size=set_size, rollouts_per_state=6, gae_lambda=0.95
    )
    found = step_advantages(rollouts, config, np.random.default_rng(0))
    # Where all others earned the same there is no slope, and the whole credit goes to the trajectory.
    returns = rollouts.returns[rollouts.groups]
    varies = np.array([[np.ptp(np.delete(row, i)) > 0 for i in range(6)] for row in returns])
    assert varies.mean() > 0.9
    steps = np.repeat(varies.ravel(), np.diff(rollouts.offsets))
    np.testing.assert_allclose(
        found.advantages[steps], (6 - set_size) * factor * gae_of(rollouts)[steps], rtol=1e-9, atol=1e-9
    )
    assert found.stats["polychromic_to_gae"] < 1e-9 or not varies.all()
    credit = set_size * group_advantages(rollouts, config, np.random.default_rng(0))[0]
    np.testing.assert_allclose(credit, (6 - set_size) / 5 * (returns - returns.mean(axis=1, keepdims=True)), atol=1e-12)


def test_for_right_or_wrong_pass_at_n_is_ppo_that_weighs_groups():
    """u is a function of R = 0 or 1, so an in-group slope leaves nothing over: α · GAE, more where few succeed."""
    rollouts = with_values(some_rollouts(groups=6, size=8))
    rewards = np.zeros(rollouts.num_steps, np.float32)
    right = np.array([[i < count for i in range(8)] for count in (0, 1, 2, 4, 6, 8)])
    rewards[rollouts.offsets[1:] - 1] = right.ravel()
    rollouts = Rollouts(**{**rollouts.__dict__, "rewards": rewards})
    config = settings(objective="best-of", control_variate="in-group", set_size=3, rollouts_per_state=8)
    found = advantages_of(rollouts, config).reshape(6, -1)
    base = gae_of(rollouts, 1.0).reshape(6, -1)
    alpha = (found / base)[:, 0]
    np.testing.assert_allclose(found, alpha[:, None] * base, atol=1e-12)
    assert alpha[[0, -1]] == pytest.approx([0, 0], abs=1e-12)  # nothing varies
    assert (np.diff(alpha[1:5]) < 0).all()


@pytest.mark.parametrize("set_credit", REACHING)
@pytest.mark.parametrize("num_sets", [0, 4])
def test_without_weight_it_is_gae_to_the_last_bit(set_credit, num_sets):
    rollouts = with_values(some_rollouts())
    changes = {"rollouts_per_state": 6, "gae_lambda": 0.95, "num_sets": num_sets}
    plain = estimate(rollouts, settings("window", polychromic=False, **changes), np.random.default_rng(0))
    for given, progress in (({"polychromic_weight": 0.0}, 0.3), ({"polychromic_schedule": "linear"}, 1.0)):
        config = settings(set_credit, **changes, **given)
        found = estimate(rollouts, config, np.random.default_rng(0), progress=progress)
        np.testing.assert_array_equal(found.advantages, plain.advantages)
        np.testing.assert_array_equal(found.value_targets, plain.value_targets)
    full = advantages_of(rollouts, settings(set_credit, **changes))
    half = advantages_of(rollouts, settings(set_credit, polychromic_schedule="linear", **changes), progress=0.5)
    np.testing.assert_allclose(half, (full + gae_of(rollouts)) / 2, atol=1e-12)


def test_the_critic_learns_to_predict_credit():
    rollouts = with_values(some_rollouts())
    config = settings("critic", rollouts_per_state=6, gae_lambda=0.9, value_target="monte-carlo")
    found = estimate(rollouts, config, np.random.default_rng(0))
    credit = 2 * group_advantages(rollouts, config, np.random.default_rng(0))[0].ravel()
    np.testing.assert_allclose(found.value_targets, np.repeat(credit, 2), atol=1e-6)
    paid = np.zeros(rollouts.num_steps)
    paid[1::2] = credit
    np.testing.assert_allclose(
        found.advantages, gae(paid, rollouts.values, rollouts.offsets, gae_lambda=0.9), atol=1e-6
    )
    others_targets = estimate(rollouts, settings("trajectory", rollouts_per_state=6), np.random.default_rng(0))
    np.testing.assert_allclose(
        others_targets.value_targets, gae_of(rollouts, 1.0) + rollouts.values, atol=1e-6
    )  # as ever


def test_rollouts_in_no_group_keep_gae():
    rollouts = with_values(some_rollouts())
    fewer = Rollouts(**{**rollouts.__dict__, "groups": rollouts.groups[1:]})
    for set_credit in ("trajectory", "control-variate"):
        config = settings(set_credit, rollouts_per_state=6)
        found = step_advantages(fewer, config, np.random.default_rng(0))
        np.testing.assert_array_equal(found.advantages[:12], gae_of(rollouts, 1.0)[:12])
        np.testing.assert_array_equal(found.advantages[12:], advantages_of(rollouts, config)[12:])
        assert found.stats["polychromic_share"] == pytest.approx(4 / 5)


def test_a_time_limit_that_bootstraps_is_part_of_the_return():
    """With λ = 1 what is left is a baseline of the state: the same at the same cell for two ways that go on alike."""
    rollouts = some_rollouts()
    cut = {"terminated": np.zeros(30, bool), "final_values": np.linspace(0, 1, 30).astype(np.float32)}
    rollouts = Rollouts(**{**rollouts.__dict__, **cut})
    config = settings(rollouts_per_state=6, time_limit="bootstrap", objective="mean-return", control_variate="in-group")
    credit = np.repeat(2 * group_advantages(rollouts, config, np.random.default_rng(0))[0].ravel(), 2)
    returns = rollouts.returns + cut["final_values"]
    grouped = returns.reshape(5, 6)
    alpha = np.repeat(slopes(credit[::2].reshape(5, 6), grouped), 12)
    mean = np.repeat(grouped.mean(axis=1), 12)
    earned = np.where(np.arange(60) % 2, np.roll(rollouts.rewards, 1), 0.0)  # before the step
    expected = credit - alpha * (rollouts.values + earned - mean)
    np.testing.assert_allclose(advantages_of(rollouts, config), expected, atol=1e-7)


def test_credit_without_each_is_the_credit_of_smaller_groups():
    rng = np.random.default_rng(0)
    sets = all_sets(6, 3)
    scores = rng.random((2, len(sets)))
    found = credit_without_each(scores, np.broadcast_to(sets, (2, *sets.shape)), 6, all_sets=True)
    assert found.shape == (2, 6, 5)
    for i in range(6):
        kept = ~(sets == i).any(axis=1)
        renamed = np.searchsorted(others(6)[i], sets[kept])
        np.testing.assert_allclose(found[:, i], 3 * set_advantages(scores[:, kept], renamed, 5), atol=1e-12)
    # Of M random sets: without bias, then shrunk as in the whole group.
    few, few_scores = np.array([[[0, 1], [0, 2], [1, 3], [2, 3]]]), rng.random((1, 4))
    sampled = credit_without_each(few_scores, few, 4, all_sets=False)
    two = set_advantages(few_scores[0, 2:], few[0, 2:] - 1, 3, baseline="leave_one_out")
    np.testing.assert_allclose(sampled[0, 0], 0.75 * 2 * two, atol=1e-12)
    np.testing.assert_array_equal(credit_without_each(few_scores[:, :1], few[:, :1], 4, all_sets=False), 0.0)


def test_enumerated_sets_give_the_slopes_of_the_closed_form():
    rollouts = with_values(some_rollouts())
    for objective, own in (("best-of", "polychromic.core.objectives:best_of"), ("polychromic", "test_set_credit:poly")):
        closed = advantages_of(rollouts, settings(objective=objective, rollouts_per_state=6, set_size=3))
        listed = advantages_of(rollouts, settings(objective=own, rollouts_per_state=6, set_size=3))
        np.testing.assert_allclose(listed, closed, atol=1e-12)


def poly(returns, diversity):
    return returns.mean(axis=-1) * diversity


def test_slopes_are_zero_where_nothing_varies():
    same = np.full((1, 4), np.float64(np.float32(0.7)))
    np.testing.assert_array_equal(slopes(np.arange(4.0)[None], same), [0.0])
    np.testing.assert_array_equal(slopes(np.arange(4.0)[None], np.zeros((1, 4))), [0.0])
    np.testing.assert_allclose(slopes(np.arange(4.0)[None], same + 1e-3 * np.arange(4)), [1000.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"set_credit": "windows"}, "set_credit is 'windows'; did you mean 'window'"),
        ({"normalise": "per-kind"}, "normalise is 'per-kind', but set_credit = 'control-variate' leaves one kind"),
        ({"credit": "last", "num_sets": 4}, "credit is 'last', but set_credit = 'control-variate' follows"),
        ({"window": 3}, "window is 3, but set_credit is 'control-variate', which has none: leave it out"),
        ({"advantage": "rloo"}, "advantage is 'rloo', but set_credit = 'control-variate' needs a critic"),
        ({"polychromic": False}, "set_credit is 'control-variate', but polychromic is False"),
        (
            {"set_size": 3},
            "set_size is 3, but without one of its 4 rollouts a group has a single set; give set_size ≤ 2",
        ),
        ({"set_former": "disjoint", "num_sets": 2}, "set_former is 'disjoint', but without one rollout the others"),
        (
            {"set_credit": "trajectory", "control_variate": "in-group"},
            "control_variate is 'in-group', but set_credit is",
        ),
        (
            {"set_credit": "critic", "discount": 0.9},
            "discount is 0.9, but set_credit is 'critic': returns in set credit",
        ),
        ({"set_credit": "critic", "time_limit": "bootstrap"}, "time_limit is 'bootstrap', but set_credit is 'critic'"),
        (
            {"set_credit": "critic", "forks_per_rollout": 1, "initial_states_form_groups": False},
            "initial_states_form_groups is False, but set_credit is 'critic': rollouts in no group",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(changes, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")) as caught:
        settings(**{"set_credit": "control-variate", **changes})
    assert "\n" not in str(caught.value)


def test_what_goes_together_is_taken():
    settings("trajectory", advantage="rloo", discount=0.9, time_limit="bootstrap", window=-1)
    settings("control-variate", set_size=3, control_variate="in-group")
    settings("control-variate", set_former="disjoint", num_sets=2, control_variate="in-group")
    settings("control-variate", credit="mean")  # over all sets it is the sum
    assert make_config("poly-ppo", "triangle", set_credit="trajectory").set_credit == "trajectory"  # its window is 0
    assert make_config("poly-ppo", "goto", preset="paper").set_credit == "window"


class Cross(type(cross())):
    """The crossing as a world that cannot be forked."""

    can_fork = False


@pytest.mark.parametrize("num_sets", [0, 4])
@pytest.mark.parametrize("forks", [0, 1])
@pytest.mark.parametrize("set_credit", REACHING)
def test_runs_with_and_without_vines(set_credit, forks, num_sets):
    world = cross()
    if forks == 0:
        world.__class__ = Cross
    size = {0: 42, 1: 6}[forks]  # the same number of trajectories
    config = {"forks_per_rollout": forks, "rollouts_per_state": size, "budget": 42, "set_size": 3, "num_sets": num_sets}
    result = polychromic.finetune(
        world, table_policy(world), method="poly-ppo", set_credit=set_credit, iterations=2, minibatch_size=256,
        evaluation_rollouts=4, **config,
    )  # fmt: skip
    for line in result.metrics:
        assert line["set_credit_std"] > 0
        assert line["polychromic_share"] == 1.0
        assert 0 < line["polychromic_to_gae"] < 10
        assert ("control_variate_slope" in line) == (set_credit == "control-variate")
        assert np.isfinite(line["explained_variance"])
    if forks == 0:
        with pytest.raises(UserError, match="this world cannot be forked"):
            polychromic.finetune(world, table_policy(world), set_credit=set_credit, iterations=1, forks_per_rollout=1)


@pytest.mark.parametrize("set_credit", REACHING)
def test_it_learns_several_ways(set_credit):
    """On the crossing a policy that prefers one road learns to reach the goals and keeps all four of them."""
    world = cross()
    logits = np.zeros((len(world.moves), 4))
    logits[0] = [1.0, 0.0, 0.0, 0.0]
    result = polychromic.finetune(
        world, table_policy(world, logits), method="poly-ppo", set_credit=set_credit, forks_per_rollout=0, num_sets=0,
        budget=64, set_size=4, iterations=40, actor_learning_rate=0.05, critic_learning_rate=0.05, minibatch_size=256,
        evaluate_every=20, evaluation_rollouts=200, max_grad_norm=10.0,
    )  # fmt: skip
    assert result.evaluations[-1]["success"] > 0.9
    at_crossing = np.exp(result.policy.params["actor"]["table"][0])
    assert (at_crossing / at_crossing.sum()).min() > 0.05


def test_all_metrics_by_hand():
    rollouts = with_values(some_rollouts())
    config = settings(rollouts_per_state=6, control_variate="in-group", gae_lambda=0.95)
    found = step_advantages(rollouts, config, np.random.default_rng(0))
    credit = 2 * group_advantages(rollouts, config, np.random.default_rng(0))[0]
    returns = rollouts.returns[rollouts.groups]
    alpha = np.array([np.cov(u, r, bias=True)[0, 1] / r.var() for u, r in zip(credit, returns, strict=True)])
    residual = credit - alpha[:, None] * (returns - returns.mean(axis=1, keepdims=True))
    base = gae_of(rollouts)
    np.testing.assert_allclose(found.advantages, np.repeat(alpha, 12) * base + np.repeat(residual, 2), atol=1e-12)
    expected = {
        "set_credit_std": credit.std(),
        "control_variate_slope": alpha.mean(),
        "polychromic_std": residual.std(),
        "polychromic_to_gae": residual.std() / base.std(),
        "advantage_std": base.std(),
    }
    assert {name: found.stats[name] for name in expected} == pytest.approx(expected)


def test_collected_vines_get_credit_from_their_own_fork():
    world = cross()
    saved = table_policy(world)
    rollouts = collect(
        Evaluator(saved.policy, saved.params), world, np.array([0]), np.random.default_rng(0),
        rollouts_per_state=6, forks_per_rollout=2,
    )  # fmt: skip
    config = settings("trajectory", rollouts_per_state=6, forks_per_rollout=2, budget=100)
    advantages = advantages_of(rollouts, config)
    credit = 2 * group_advantages(rollouts, config, np.random.default_rng(0))[0]
    assert len(rollouts.groups) > 6
    for group, own in zip(rollouts.groups, credit, strict=True):
        for trajectory, expected in zip(group, own, strict=True):
            steps = advantages[rollouts.offsets[trajectory] : rollouts.offsets[trajectory + 1]]
            np.testing.assert_array_equal(steps, expected)

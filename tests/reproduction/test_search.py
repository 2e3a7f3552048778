"""The search for settings, on landscapes that are known."""

from collections import Counter

import pytest
from made_up import searched
from reproduction.plan import key_of
from reproduction.plans import FULL, PLAIN, SEARCH, UCB
from reproduction.search import best_by_configurations, chosen_of, score_of, search_chains, whole_search

TASKS = SEARCH.tasks(FULL)

WANTED = {"actor_learning_rate": 3e-5, "kl_coefficient": 0.05, "configurations_per_iteration": 8, "ucb": 0.3}


def landscape(cell):
    """Best where every setting is as wanted."""
    return sum(0.1 for name, value in WANTED.items() if cell.settings.get(name) == value)


def searched_through(score, records=None):
    """Run it to its end; the records, and how often there was something to run."""
    records, rounds = dict(records or {}), 0
    while missing := [one for chain in search_chains(records, SEARCH, FULL) for one in chain.missing]:
        records |= {key_of(one.cell): searched(one.cell, score(one.cell)) for one in missing}
        rounds += 1
        assert rounds < 10
    return records, rounds


def test_every_coordinate_ends_at_its_best_and_methods_spend_alike():
    records, rounds = searched_through(landscape)
    chosen = chosen_of(search_chains(records, SEARCH, FULL))
    for task in TASKS:
        for method in ("ppo", "poly-ppo"):
            own = chosen[task][f"{method}-ucb"]
            assert {name: own[name] for name in WANTED} == WANTED
            assert own["critic_learning_rate"] == pytest.approx(3e-4)
            assert chosen[task][method] == {name: value for name, value in own.items() if name != "ucb"}
        assert "kl_coefficient" not in chosen[task]["reinforce"]
    runs = Counter((one["task"], one["method"]) for one in records.values())
    assert {runs[task, method] for task in TASKS for method in PLAIN} == {8}
    assert {runs[task, method] for task in TASKS for method in UCB} == {4}
    # The same trajectories, whatever the configurations per iteration; and the estimate is about as many runs.
    for one in records.values():
        own = one["settings"]
        assert own["iterations"] * own["configurations_per_iteration"] == FULL.tasks[one["task"]].lengths["search"]
    assert len(whole_search(SEARCH, FULL)) == len(records)
    assert rounds == 4


def test_a_chain_waits_for_what_is_missing_and_nothing_else():
    records, _ = searched_through(landscape)
    # Without one result of the last stage its chain waits for that run and no other.
    gone = next(key for key, one in records.items() if one["method"] == "ppo-ucb" and one["task"] == "goto")
    del records[gone]
    chains = search_chains(records, SEARCH, FULL)
    assert [key_of(one.cell) for chain in chains for one in chain.missing] == [gone]
    assert "ppo-ucb" not in chosen_of(chains)["goto"]


def test_a_tie_goes_to_the_earlier_candidate_and_a_run_that_diverged_loses():
    records, _ = searched_through(lambda _: 0.5)
    own = chosen_of(search_chains(records, SEARCH, FULL))["goto"]["ppo"]
    with_eight = best_by_configurations(search_chains(records, SEARCH, FULL), SEARCH)["goto"]["ppo"]["8"]
    assert with_eight["actor_learning_rate"] == 1e-5  # and not three times that
    assert (own["actor_learning_rate"], own["kl_coefficient"], own["configurations_per_iteration"]) == (1e-5, 0.01, 1)
    for one in records.values():
        if one["settings"]["actor_learning_rate"] == 1e-5:
            one["failed"] = "a loss or a parameter is no longer finite"
    records, _ = searched_through(lambda _: 0.5, records)
    assert chosen_of(search_chains(records, SEARCH, FULL))["goto"]["ppo"]["actor_learning_rate"] == 3e-5


def test_the_score_is_that_of_the_last_three_evaluations():
    curve = {"success": [0.9, 0.1, 0.2, 0.3], "coverage": [1.0, 0.5, 0.6, 0.7]}
    assert score_of({"curve": curve}) == pytest.approx(0.8)
    assert score_of(None) is None
    assert score_of({"failed": "a loss"}) == -1

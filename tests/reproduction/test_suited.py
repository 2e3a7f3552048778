"""Whether settings of the search suit other tasks: the rules on made-up scores, and what follows for the plans."""

from dataclasses import replace

import pytest
from made_up import made_up
from reproduction.__main__ import Arguments, reproduce
from reproduction.lines import Stored
from reproduction.page import results_blocks
from reproduction.plan import expand
from reproduction.plans import BONUSES, CREDIT, FULL, NEARBY, RATES, SCREENING, STAND_IN, TABLES
from reproduction.suited import NOISE, Tried, with_bonuses, with_rates

from polychromic.errors import UserError


def test_the_best_rate_wins():
    def factor(*scores):
        return Tried("ppo", dict(zip((1.0, 1 / 3, 3.0), scores, strict=True))).factor

    assert factor(1.2, 1.0, 1.2) == 1.0  # at a tie that of the search
    assert factor(1.2, 1.0, 1.26) == 3.0
    assert factor(1.2, 1.3, 1.26) == 1 / 3
    assert factor(1.2, None, 1.4) == 1.0  # not before all were tried
    assert factor(-1.0, 1.0, -1.0) == 1 / 3  # diverged
    settings = {"ppo": {"actor_learning_rate": 3e-5, "kl_coefficient": 0.1}, "ppo-ucb": {"actor_learning_rate": 3e-5}}
    tried = [Tried("ppo", {1.0: 0.5, 3.0: 0.9})]
    assert with_rates(settings, tried) == {
        "ppo": {"actor_learning_rate": 9e-5, "kl_coefficient": 0.1},
        "ppo-ucb": {"actor_learning_rate": 9e-5},
    }


def learned(cell, success):
    """A result whose learning curve ends with this success."""
    record = made_up(cell, 0.5)
    record["curve"] |= {"success": [success] * 20, "coverage": [0.9] * 20}
    return record


def test_a_task_takes_the_rate_that_suits_it(tmp_path):
    stored = Stored(tmp_path, FULL)
    stored.search.notes["chosen"] = {"goto": STAND_IN}
    assert stored.needed_first(TABLES, ("goto", "pickup")) == ("no learning rates are chosen for pickup", "rates")
    given = Arguments("tables", results=tmp_path, out=tmp_path / "cells", tasks=("pickup",))
    stored.search.write()
    with pytest.raises(
        UserError, match="no learning rates are chosen for pickup yet; run `python -m reproduction rates`"
    ):
        reproduce(given)
    checks = expand(RATES, FULL, stored.searched, ("pickup", "bosslevel"))
    assert len(checks) == 18
    for one in checks:
        better = 0.3 if one.label == "ppo, learning rate × 3" else 0.0
        stored.files["rates"].add([learned(one.cell, 0.4 + better)])
    assert stored.needed_first(TABLES, ("pickup",)) == ("no λ_UCB is chosen for pickup", "bonuses")
    assert stored.needed_first(CREDIT, ("pickup",)) is None
    rates = {method: own["actor_learning_rate"] for method, own in stored.chosen.of_task("pickup").items()}
    assert rates == pytest.approx({method: 3e-4 if method in ("ppo", "ppo-ucb") else 1e-4 for method in STAND_IN})
    assert stored.chosen.of_task("goto") == stored.chosen.of_task("synthseq") == STAND_IN
    # What the screening saw, and what it chose, keeps the rates of the search.
    for plan in (RATES, SCREENING):
        assert expand(plan, FULL, stored.chosen) == expand(plan, FULL, stored.searched)
    cells = expand(CREDIT, FULL, replace(stored.chosen, finalists=("critic",)), ("bosslevel",))
    rates = {one.label: one.cell.settings["actor_learning_rate"] for one in cells}
    assert rates == {"ppo": pytest.approx(3e-4), "critic": pytest.approx(1e-4)}
    assert TABLES.needs_rates
    assert not SCREENING.needs_rates
    table = results_blocks(stored, {})["rates"]
    assert "| Pickup, PPO | 1.300 | 1.300 | 1.600 | × 3 |" in table
    assert "| Pickup, Poly-PPO | 1.300 | 1.300 | 1.300 | × 1 |" in table


def test_another_weight_of_ucb_must_beat_the_noise():
    def factor(*scores):
        return Tried("ppo-ucb", dict(zip((1.0, 1 / 3, 0.1), scores, strict=True)), NOISE).factor

    assert factor(1.2, 1.0, 1.2 + NOISE - 0.001) == 1.0
    assert factor(1.2, 1.0, 1.2 + NOISE + 0.001) == 0.1
    assert factor(1.0, 1.3, 1.2) == 1 / 3
    assert factor(1.0, None, 1.9) == 1.0  # not before all were tried
    assert factor(-1.0, 0.1, -1.0) == 1 / 3  # diverged
    tried = [Tried("ppo-ucb", {1.0: 0.5, 1 / 3: 0.9, 0.1: 0.7})]
    settings = {"ppo-ucb": {"ucb": 0.01, "kl_coefficient": 0.1}, "ppo": {"kl_coefficient": 0.2}}
    assert with_bonuses(settings, tried) == {**settings, "ppo-ucb": {"ucb": 0.00333333, "kl_coefficient": 0.1}}


def test_a_task_takes_the_weight_of_ucb_that_suits_it(tmp_path):
    stored = Stored(tmp_path, FULL)
    stored.search.notes["chosen"] = {"goto": STAND_IN}
    stored.search.write()
    for one in expand(RATES, FULL, stored.searched, ("pickup",)):
        stored.files["rates"].add([learned(one.cell, 0.4 + (0.3 if one.label == "ppo, learning rate × 3" else 0.0))])
    stored.files["rates"].write()
    given = Arguments("tables", results=tmp_path, out=tmp_path / "cells", tasks=("pickup",))
    with pytest.raises(UserError, match="no λ_UCB is chosen for pickup yet; run `python -m reproduction bonuses`"):
        reproduce(given)
    checks = expand(BONUSES, FULL, stored.with_rates, ("pickup",))
    assert len(checks) == 9
    # With the rates that were found, and three weights each.
    usual = STAND_IN["ppo-ucb"]["ucb"]
    own = [one.cell.settings for one in checks if one.cell.method == "ppo-ucb"]
    assert {settings["actor_learning_rate"] for settings in own} == {3e-4}
    assert [settings["ucb"] for settings in own] == pytest.approx([usual, usual / 3, usual / 10], rel=1e-5)
    for one in checks:
        better = 0.3 if one.label == "ppo-ucb, λ × 1/10" else NOISE / 2 if one.label.endswith("1/3") else 0.0
        stored.files["rates"].add([learned(one.cell, 0.4 + better)])
    assert stored.needed_first(TABLES, ("pickup",)) is None
    weights = {method: own["ucb"] for method, own in stored.chosen.of_task("pickup").items() if "ucb" in own}
    same = {method: own["ucb"] for method, own in STAND_IN.items() if "ucb" in own}
    assert weights == pytest.approx({**same, "ppo-ucb": usual / 10})
    assert stored.chosen.of_task("goto") == STAND_IN
    assert TABLES.needs_bonuses
    assert not any(plan.needs_bonuses for plan in (RATES, BONUSES, SCREENING, CREDIT))
    table = results_blocks(stored, {})["bonuses"]
    assert "| Pickup, PPO + UCB | 1.300 | 1.350 | 1.600 | × 0.1 |" in table
    assert "| Pickup, Poly-PPO + UCB | 1.300 | 1.350 | 1.300 | × 1 |" in table


def test_something_better_nearby_is_named(tmp_path):
    stored = Stored(tmp_path, FULL)
    stored.search.notes["chosen"] = {"goto": STAND_IN}
    assert results_blocks(stored, {})["nearby"] == "Not run yet: `python -m reproduction nearby`."
    planned = expand(NEARBY, FULL, stored.chosen, ("pickup",))
    for one in planned:
        better = NOISE / 2 if one.label == "ppo, KL 0.05" else 0.0
        stored.files["rates"].add([learned(one.cell, 0.4 + better)])
    block = results_blocks(stored, {})["nearby"]
    assert "| Pickup, PPO | 1.300 | 1.300 | 1.350 | 1.300 | 1.300 |" in block
    assert "| Pickup, REINFORCE | 1.300 | – | – | – | 1.300 |" in block
    assert "by more than 0.1: none." in block
    for one in planned:
        if one.label == "reinforce, other configurations":
            stored.files["rates"].add([learned(one.cell, 0.4 + 2 * NOISE)])
    assert "by more than 0.1: Pickup, REINFORCE." in results_blocks(stored, {})["nearby"]

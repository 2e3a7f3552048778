"""Whether settings of the search suit other tasks: the rule on made-up scores, and what follows for the plans."""

import pytest
from made_up import made_up
from reproduction.__main__ import Arguments, reproduce
from reproduction.lines import Stored
from reproduction.page import results_blocks
from reproduction.plan import expand
from reproduction.plans import FULL, RATES, SCREENING, STAND_IN, TABLES
from reproduction.rates import Checked, adapted

from polychromic.errors import UserError


def test_another_rate_must_beat_chance():
    def factor(*scores, noise=0.05):
        return Checked("ppo", dict(zip((1.0, 1 / 3, 3.0), scores, strict=True)), noise).factor

    assert factor(1.2, 1.0, 1.24) == 1.0
    assert factor(1.2, 1.0, 1.26) == 3.0
    assert factor(1.2, 1.3, 1.26) == 1 / 3
    assert factor(1.2, None, 1.4) == 1.0  # not before all were tried
    assert factor(-1.0, 1.0, -1.0) == 1 / 3  # diverged
    settings = {"ppo": {"actor_learning_rate": 3e-5, "kl_coefficient": 0.1}, "ppo-ucb": {"actor_learning_rate": 3e-5}}
    checked = [Checked("ppo", {1.0: 0.5, 3.0: 0.9}, 0.1)]
    assert adapted(settings, checked) == {
        "ppo": {"actor_learning_rate": 9e-5, "kl_coefficient": 0.1},
        "ppo-ucb": {"actor_learning_rate": 9e-5},
    }


def learned(cell, success):
    """A result whose learning curve ends with this success."""
    record = made_up(cell, 0.5)
    if "curve" not in record:
        return record
    record["curve"] |= {"success": [success] * 20, "coverage": [0.9] * 20}
    return record


def test_a_task_takes_the_rate_that_suits_it(tmp_path):
    stored = Stored(tmp_path, FULL)
    stored.search.notes["chosen"] = {"goto": STAND_IN}
    assert stored.unchecked(("goto", "pickup")) == ["pickup"]
    given = Arguments("tables", results=tmp_path, out=tmp_path / "cells", tasks=("pickup",))
    stored.search.write()
    with pytest.raises(
        UserError, match="learning rates are not checked on pickup yet; run `python -m reproduction rates`"
    ):
        reproduce(given)
    for one in expand(TABLES, FULL, stored.searched, ("goto",)):
        stored.files["runs"].add([learned(one.cell, 0.5 + 0.01 * one.cell.seed)])
    checks = expand(RATES, FULL, stored.searched, ("pickup",))
    assert len(checks) == 9
    for one in checks:
        better = 0.3 if one.label == "poly-ppo, learning rate × 3" else 0.02 if "× 3" in one.label else 0.0
        stored.files["rates"].add([learned(one.cell, 0.4 + better)])
    assert stored.unchecked(("pickup",)) == []
    taken = {one.method: one for one in stored.rates("pickup")}
    # Seeds differ by 0.01: 2.8 standard deviations of five of them, or of three.
    assert taken["ppo"].noise == pytest.approx(2.8 * 0.01581, abs=1e-4)
    assert taken["reinforce"].noise == pytest.approx(2.8 * 0.01, abs=1e-4)
    rates = {method: own["actor_learning_rate"] for method, own in stored.chosen.of_task("pickup").items()}
    assert rates == pytest.approx({method: 3e-4 if "poly" in method else 1e-4 for method in STAND_IN})
    assert stored.chosen.of_task("goto") == stored.chosen.of_task("synthseq") == STAND_IN
    # What came before the check keeps its settings.
    for plan in (RATES, SCREENING):
        assert stored.chosen_for(plan) == stored.searched
    table = results_blocks(stored, {})["rates"]
    assert "| Pickup, Poly-PPO | 1.300 | 1.300 | 1.600 | 0.044 | × 3 |" in table
    assert "| Pickup, PPO | 1.300 | 1.300 | 1.320 | 0.044 | × 1 |" in table

"""Which comparison leads, what its sentence says, and that nothing is claimed which the intervals do not hold."""

import pytest

from polychromic.report.compare import compare
from polychromic.report.gather import Entry
from polychromic.report.headline import headline, in_order

COUNT = 20


def entry(method, successes, kinds, *, task="fourrooms", attempts=10, temperature=1.0, known=True, settings=None):
    """An evaluated policy: successes of each of 20 configurations, and how many distinct strategies succeed."""
    configurations = {
        "return": [won / attempts for won in successes],
        "entropy": [0.5] * COUNT,
        "distinct_strategies": kinds,
    }
    if known:
        configurations |= {
            "successes": successes,
            "success": [won / attempts for won in successes],
            "coverage": [float(won > 0) for won in successes],
            "distinct_successful_strategies": kinds,
        }
    result = {"attempts": attempts, "temperature": temperature, "configurations": configurations}
    evaluation = {
        "result": result,
        "strategies": "room sets",
        "missions": [""] * COUNT,
        "policy": {"hash": method, "method": method},
    }
    return Entry(method, task, 100, (), COUNT, method, settings=settings or {}, evaluation=evaluation)


def told(*entries):
    (comparison,) = compare(entries)
    return headline(comparison)


BASE = entry("pretrained", [2, 3] * 10, [6, 7] * 10)
PPO = entry("ppo", [5, 6] * 10, [1, 2] * 10)
POLY = entry("poly-ppo", [5, 6] * 10, [4, 6] * 10)


def test_the_sentence_is_about_the_largest_clear_difference():
    found = told(BASE, PPO, POLY)
    assert found.sentence == (
        "FourRooms: in 10 attempts at a configuration PPO finds 1.5 distinct room sets that succeed, Poly-PPO 5."
    )
    assert found.methods == ("PPO", "Poly-PPO")
    text = "\n".join(found.lines)
    assert "No clear difference in solved attempts (+0.0 points [+0.0, +0.0])." in text
    assert "Poly-PPO minus PPO: +3.5 [" in text
    assert "Before fine-tuning: pretrained 25.0 % solved, 6.5 distinct room sets that succeed." in text
    assert "Means over 20 configurations with 95 % intervals; one run of each." in text


def test_a_difference_that_is_against_poly_ppo_is_said_as_plainly():
    worse = entry("poly-ppo", [1, 2] * 10, [1, 2] * 10)
    found = told(BASE, PPO, worse)
    assert found.sentence == "FourRooms: PPO solves 55.0 % of its attempts, Poly-PPO 15.0 %."
    assert any(line.startswith("No clear difference in distinct room sets that succeed (+0.0") for line in found.lines)


def test_nothing_is_claimed_without_a_clear_difference():
    near = entry("poly-ppo", [6, 5] * 10, [2, 1] * 10)
    found = told(BASE, PPO, near)
    assert (
        found.sentence == "FourRooms: no clear difference between PPO and Poly-PPO (solved attempts 55.0 % and 55.0 %)."
    )
    assert found.order == (False, 0.0)
    assert "distinct room sets that succeed (+0.0 [" in found.lines[0]
    assert "−" in found.lines[0]


def test_the_largest_clear_effect_leads_whatever_its_name():
    large = [entry("ppo", [9, 9] * 10, [1, 1] * 10, task="a"), entry("poly-ppo", [9, 8] * 10, [90, 80] * 10, task="a")]
    unclear = [entry("ppo", [5, 6] * 10, [1, 2] * 10, task="b"), entry("poly-ppo", [6, 5] * 10, [2, 1] * 10, task="b")]
    for entries in ([*unclear, PPO, POLY, *large], [*large, *unclear, PPO, POLY]):
        assert [one.task for one, _ in in_order(compare(entries))] == ["a", "fourrooms", "b"]


def test_of_several_methods_the_one_that_differs_most_from_ppo_is_named():
    other = entry("reinforce", [5, 6] * 10, [1, 3] * 10)
    assert told(BASE, other, PPO, POLY).methods == ("PPO", "Poly-PPO")
    assert told(other, POLY).methods == ("REINFORCE", "Poly-PPO")
    assert told(BASE, POLY).methods == ("pretrained", "Poly-PPO")
    sets = [entry("poly-ppo", [5, 6] * 10, [n, n] * 10, settings={"set_size": n}) for n in (4, 8)]
    assert told(PPO, *sets).methods == ("PPO", "Poly-PPO, set_size 8")


def test_other_numbers_of_attempts_are_not_compared_in_strategies():
    fewer = entry("poly-ppo", [2, 3] * 10, [4, 6] * 10, attempts=5)
    found = told(PPO, fewer)
    assert "distinct" not in " ".join((found.sentence, *found.lines))


def test_without_success_returns_and_strategies_are_compared():
    own = [
        entry(method, won, kinds, task="Own", known=False)
        for method, won, kinds in (("ppo", [5, 6] * 10, [1, 2] * 10), ("poly-ppo", [6, 5] * 10, [4, 6] * 10))
    ]
    found = told(*own)
    assert found.sentence == "Own: in 10 attempts PPO shows 1.5 distinct room sets, Poly-PPO 5."
    assert any("No clear difference in return (" in line for line in found.lines)


@pytest.mark.parametrize("entries", [(BASE,), (PPO,)])
def test_a_policy_alone_is_described(entries):
    found = told(*entries)
    assert found.methods == ()
    assert found.sentence.startswith(f"FourRooms: {'pretrained, 25.0' if entries[0] is BASE else 'PPO, 55.0'} % solved")


def test_a_task_says_what_things_are_called():
    found = told(
        *(
            entry(one.method, one.evaluation["result"]["configurations"]["successes"], kinds, task="triangle")
            for one, kinds in ((PPO, [1, 2] * 10), (POLY, [4, 6] * 10))
        )
    )
    assert found.sentence == "Triangle discovery: in 10 answers PPO names 1.5 distinct triangles, Poly-PPO 5."

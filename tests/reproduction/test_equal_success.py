"""Set credit at equal success, and runs to convergence: rules on curves whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest
from made_up import made_up
from reproduction.__main__ import Arguments, reproduce
from reproduction.convergence import collapse, movement, rise
from reproduction.credit import EARNED, MISSED, NOT_RESOLVED, Compared, verdict
from reproduction.equal_success import at_equal_success, common_range, monotone, read_off
from reproduction.figures import draw_figures
from reproduction.intervals import Interval
from reproduction.lines import Line, Stored
from reproduction.overview import overview_blocks
from reproduction.page import results_blocks
from reproduction.plan import Task, expand
from reproduction.plans import CONVERGENCE, CREDIT, FULL, QUICK, SCREENING, STAND_IN, TABLES

from polychromic.sweep.cells import PRETRAINED


def run(end, strategies, passed=0.9, seed=0, noise=0.0):
    """A run whose success rises from 0.3 to `end` in ten evaluations; metrics are straight lines of success."""
    rng = np.random.default_rng(seed)
    success = np.linspace(0.3, end, 10)
    curve = {
        "iteration": [*range(6, 66, 6)],
        "success": success.tolist(),
        "distinct_successful_strategies": (strategies(success) * (1 + noise * rng.normal())).tolist(),
        "pass@8": (passed * np.ones(10) + noise * rng.normal()).tolist(),
    }
    return {"seed": seed, "curve": curve}


def test_success_is_made_monotone():
    assert monotone([0.1, 0.3, 0.2, 0.4]).tolist() == pytest.approx([0.1, 0.25, 0.25, 0.4])
    assert monotone([0.4, 0.3, 0.2]).tolist() == pytest.approx([0.3] * 3)
    rising = np.sort(np.random.default_rng(0).normal(size=20))
    assert monotone(rising).tolist() == rising.tolist()


def test_metrics_are_read_off_where_success_is_reached():
    curve = run(0.7, lambda success: 10 * success)["curve"]
    levels = np.array([0.35, 0.512, 0.7])
    assert read_off(curve, "distinct_successful_strategies", levels).tolist() == pytest.approx((10 * levels).tolist())
    # A run that stands still reaches its level where it first does.
    flat = {"iteration": [1, 2, 3, 4], "success": [0.2, 0.4, 0.4, 0.6], "pass@8": [0.5, 0.6, 0.8, 0.9]}
    assert read_off(flat, "pass@8", np.array([0.4])).tolist() == [0.6]


def test_methods_are_compared_over_the_top_of_what_all_their_runs_reached():
    ours = [run(0.6, lambda success: 12 - 6 * success, 0.93, seed) for seed in range(3)]
    theirs = [run(0.8, lambda success: 12 - 12 * success, 0.9, seed) for seed in range(5)]
    assert common_range((ours, theirs)) == pytest.approx((0.3, 0.6))
    found = at_equal_success(ours, theirs)
    assert (found.low, found.high) == pytest.approx((0.525, 0.6))
    middle = 0.5625
    assert found.strategies.mean == pytest.approx((12 - 6 * middle) / (12 - 12 * middle), rel=1e-6)
    assert found.pass_at_8.mean == pytest.approx(0.03)
    assert found.strategies.low == pytest.approx(found.strategies.high)  # no seed differs
    old = [{"curve": {name: run(0.8, lambda s: s)["curve"][name] for name in ("iteration", "success")}}]
    assert at_equal_success(ours, [*theirs, *old]) == found  # an older curve without these metrics does not count
    assert at_equal_success(ours, old) is None
    late = [{"curve": {**ours[0]["curve"], "success": [0.9] * 10}}]
    assert at_equal_success(late, theirs) is None  # no success in common


def test_intervals_over_seeds_contain_the_true_ratio():
    inside = 0
    for repeat in range(200):
        ours = [run(0.6, lambda success: 10 - success, 0.9, 10 * repeat + seed, 0.1) for seed in range(3)]
        theirs = [run(0.6, lambda success: 8 - 0.8 * success, 0.9, 9000 + 10 * repeat + seed, 0.1) for seed in range(5)]
        strategies = at_equal_success(ours, theirs).strategies
        inside += strategies.low <= 1.25 <= strategies.high
    assert 182 <= inside <= 198


def compared(low, high, passed=(-0.01, 0.03), success=-0.02, seeds=(3, 3), label="critic", missing=0, diverged=()):
    method = "ppo" if label.startswith("ppo") else "poly-ppo"
    records = [{"seed": seed} for seed in range(seeds[0])]
    line = Line("finalists", label, method, records, tuple(range(seeds[0] + missing)), diverged)
    ppo = Line("ppo", "ppo", "ppo", [{"seed": seed} for seed in range(5)], tuple(range(5)))
    equal = at_equal_success([run(0.6, lambda s: s)], [run(0.6, lambda s: s)])
    equal = equal._replace(
        strategies=Interval((low + high) / 2, low, high), pass_at_8=Interval(sum(passed) / 2, *passed), seeds=seeds
    )
    return Compared(line, ppo, equal, Interval(success, success - 0.03, success + 0.03), None)


def test_the_bar():
    assert compared(1.26, 1.5).bar == EARNED
    assert compared(1.2, 1.5).bar == NOT_RESOLVED
    assert compared(1.0, 1.2).bar == MISSED
    assert compared(1.26, 1.5, passed=(-0.05, 0.03)).bar == NOT_RESOLVED  # pass@8 is below in the mean
    assert compared(1.26, 1.5, passed=(-0.05, -0.01)).bar == MISSED
    assert compared(1.26, 1.5, seeds=(2, 5)).bar == NOT_RESOLVED
    assert compared(1.26, 1.5, seeds=(5, 2)).bar == NOT_RESOLVED  # too few curves of PPO
    assert compared(1.26, 1.5, diverged=(4,)).bar == MISSED
    won, lost = compared(1.26, 1.5), compared(1.0, 1.2)
    far = compared(1.26, 1.5, success=-0.08)
    tasks = ("goto", "synthseq", "bosslevel")

    def said(*settings, control=lost):
        control = control._replace(line=replace(control.line, label="ppo, KL × 10", method="ppo"))
        return verdict({task: [one, control] for task, one in zip(tasks, settings, strict=False)}, 3)

    assert verdict({}, 3) == "Not run yet: `python -m reproduction credit`."
    assert said(won, won).startswith("Not finished")  # a task is missing
    assert said(won, won, compared(1.26, 1.5, missing=1)).startswith("Not finished")
    assert said(won, won, lost) == "**Earned** by *critic* on GoTo and SynthSeq."
    unclear = compared(1.2, 1.5)
    assert said(won, unclear, lost, control=won) == "**Not earned.**"  # what PPO earns does not count
    assert said(won, far, lost).startswith("**Earned at equal success alone**, by *critic* on GoTo and SynthSeq;")


def converged(values, seed=0, noise=0.0):
    """A run whose success goes through these values, evaluated 80 times, with 20 policies scored in full."""
    attempts, rng = 160, np.random.default_rng(seed)

    def point(number, value):
        solved = [int(attempts * value)] * 6
        start = {"starts": [1] * 6, "success": [value] * 6}
        return {"iteration": 200 * (number + 1), "attempts": attempts, "successes": [solved], "perturbed": start}

    along = [point(number, value) for number, value in enumerate(values)]
    where = np.arange(50, 4001, 50)
    success = np.interp(where, 200 * (1 + np.arange(len(values))), values) + noise * rng.normal(size=80)
    curve = {"iteration": where.tolist(), "success": success.tolist()}
    return {**along[-1], "along": along, "curve": curve, "iterations": 4000, "method": "ppo"}


def test_flat_over_the_last_quarter():
    rising = [converged(np.linspace(0.2, 0.8, 20))]
    assert rise(rising).mean == pytest.approx(0.6 * 5 / 19, abs=0.005)
    assert movement(rising) == "still moves"
    flat = [converged([*np.linspace(0.2, 0.6, 15), *np.full(5, 0.6)], seed, 0.03) for seed in range(2)]
    assert movement(flat) == "is flat"
    assert movement([*flat, *rising]) == "still moves"
    # What one run gains and another loses is no standstill.
    falling = [converged(np.linspace(0.8, 0.2, 20))]
    assert rise([*rising, *falling]).mean == pytest.approx(0, abs=1e-9)
    assert movement([*rising, *falling]) == "still moves"
    # Four points in noise of six are neither resolved nor flat.
    slow = [converged([*np.full(15, 0.5), *np.linspace(0.5, 0.54, 5)], 1, 0.06)]
    assert movement(slow) == "may still move"


def test_the_interval_of_a_rise_contains_the_true_rise():
    inside = 0
    for repeat in range(300):
        runs = [converged(np.linspace(0.2, 0.6, 20), 2 * repeat + seed, 0.03) for seed in range(2)]
        found = rise(runs)
        inside += found.low <= 0.4 * 5 / 19 <= found.high
    assert 272 <= inside <= 296


def test_collapse_is_said_either_way():
    base = Line("", PRETRAINED, PRETRAINED, [{**converged([0.4]), "method": PRETRAINED}], (0,))

    def line(method, *ends, diverged=()):
        records = [converged(np.full(20, end)) for end in ends]
        return Line("", method, method, records, (0, 1), diverged)

    def said(*ends, diverged=(), others=(0.5, 0.52)):
        return collapse([line("ppo", *ends, diverged=diverged), line("reinforce", *others)], base)

    assert said(0.2, 0.21).startswith(
        "**PPO collapses from perturbed starts; does not collapse in pass@128.** In the last quarter"
    )
    assert said(0.7, 0.71).startswith("**PPO does not collapse.**")
    assert said(0.37, 0.371, others=(0.5, 0.501)).startswith("**PPO does not collapse.**")  # a little, clearly
    assert said(0.3, 0.48).startswith(
        "**PPO does not collapse in pass@128; whether it does from perturbed starts is not resolved.**"
    )
    # Two seeds alone would say nothing: the spread is that of both methods.
    assert said(0.38, 0.41).startswith(
        "**PPO does not collapse in pass@128; whether it does from perturbed starts is not resolved.**"
    )
    assert "Success over that quarter: PPO is flat (" in said(0.7, 0.71)
    assert said(0.7).startswith("Not finished")
    assert said(0.7, diverged=(1,)) == "**PPO diverges**: 1 of 2 runs."
    assert collapse([], base) == "Not run yet: `python -m reproduction convergence`."


def test_the_pages_show_set_credit_and_convergence_when_they_are_there(tmp_path, monkeypatch):
    monkeypatch.setattr("reproduction.intervals.RESAMPLES", 400)
    monkeypatch.setattr("reproduction.intervals.DIFFERENCE_RESAMPLES", 400)
    lengths = {"tables": 480, "screening": 384, "credit": 480}
    scale = replace(
        FULL,
        tasks={
            "goto": Task("GoTo", {**lengths, "curves": 480, "convergence": 4000}),
            "synthseq": Task("SynthSeq", lengths, settings_of="goto"),
        },
    )
    stored = Stored(tmp_path, scale)
    stored.search.notes["chosen"] = {"goto": STAND_IN}
    screened = expand(SCREENING, scale, stored.chosen)
    for one in screened[:-1]:
        stored.files["screening"].add([made_up(one.cell, 0.6)])
    assert stored.finalists == ()
    assert "37 of 38 runs of the screening are done" in overview_blocks(stored, {})["credit"]
    for one in screened:
        kept = 8.0 if one.label in ("critic, n = 16", "ppo, KL × 10") else 5.0
        stored.files["screening"].add([made_up(one.cell, 0.6, strategies=kept)])
    assert stored.finalists == ("ppo, KL × 10", "control-variate", "critic, n = 16")
    runs = stored.files["runs"]
    for one in expand(TABLES, scale, stored.chosen, ("goto",), ("chosen",)):
        runs.add([made_up(one.cell, 0.3 if one.cell.method == PRETRAINED else 0.6)])
    for one in expand(CREDIT, scale, stored.chosen_for(CREDIT)):
        noise = 0.1 * one.cell.seed
        runs.add([made_up(one.cell, 0.6, strategies=(8.0 if one.label == "critic, n = 16" else 5.0) + noise)])
    for one in expand(CONVERGENCE, scale, stored.chosen):
        runs.add([made_up(one.cell, 0.6)])
    made = results_blocks(stored, draw_figures(stored, tmp_path / "figures"))
    assert "| critic, n = 16 |" in made["screening-table"]
    assert made["screening-table"].count("| yes |") == 3
    row = next(line for line in made["credit-table"].splitlines() if line.startswith("| critic, n = 16 (5, 5)"))
    assert f"| {EARNED} |" in row
    assert "**Earned** by *critic, n = 16* on GoTo and SynthSeq." in made["credit"]
    assert "figures/results-credit.svg" in made["credit"]
    assert "**PPO does not collapse.** In the last quarter of 4,000 iterations" in made["convergence"]
    assert "figures/results-convergence.svg" in made["convergence"]
    assert "| PPO | 2 |" in made["convergence-table"]
    assert "not run yet" not in next(line for line in made["verdict"].splitlines() if "4,000 iterations" in line)


@pytest.mark.slow
def test_set_credit_and_convergence_from_the_command_to_the_page(tmp_path, capsys):
    lengths = dict.fromkeys(("tables", "literal", "screening", "credit", "curves", "convergence"), 4)
    scale = replace(
        QUICK,
        tasks={"fourrooms": Task("FourRooms", lengths)},
        attempts=8,
        rollouts=8,
        points=4,
        settings={"budget": 68},
    )
    given = Arguments("credit", quick=True, out=tmp_path / "cells", results=tmp_path / "results", workers=1)
    for what in ("screening", "credit", "convergence"):
        assert reproduce(replace(given, what=what), scale) == 0
        assert reproduce(replace(given, what=what), scale) == 0
        assert "\n0 of " in capsys.readouterr().out
    study = (tmp_path / "results" / "results-study.md").read_text()
    assert study.count("| yes |") == 3
    assert "### FourRooms" in study
    tables = (tmp_path / "results" / "results-tables.md").read_text()
    assert "rise over the last quarter" in tables
    assert (tmp_path / "results" / "figures" / "results-convergence.svg").exists()

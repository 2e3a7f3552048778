"""Every claim comes out as the documentation says it does."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from polychromic.cli import main
from polychromic.theory import bandit, claims, tree

FAILING = {
    "the same with no γ^t inside the expectation",
    "d♯ with i = 1 … n has mass 1 (n = 3, γ = 0.2)",
    "child i's nodes at depth t are n(i − 1) + j, without overlap",
    "λ is a constant, as the statement says; the proof has λ = αI, which differs by kind of set",
    "Λ > bound at n = 2, p = 0.45, q = 2",
    "E[d] = 1 − (1 − 1/n)ⁿ at n = 4",
    "Cov(φ^(d), count of τ) < 0 for every τ, at π = (0.9, 0.1), n = 3",
    "f̂ is independent of the set, so the expected gradient is the true one (N = 4, n = 2, M = 3, all logits)",
    "each rollout is in one of the M independent sets",
    "N + N²(p − 1) trajectories at N = 8, p = 2 make B = 136",
    "mean reward ≤ success rate for every pretrained policy (a success pays at most 1)",
    "rates are means over 100 × 50 × 3 = 15,000 rollouts (then, to 0.1 %, half would be multiples of 0.2 %)",
}


@pytest.fixture(scope="module")
def rows():
    return list(claims.all_claims())


def test_exactly_the_known_slips_fail(rows):
    assert {row.claim for row in rows if not row.holds} == FAILING
    assert len(rows) == 30


@pytest.mark.parametrize(
    ("claim", "exact"),
    [
        ("Λ > bound at n = 2, p = 0.45, q = 2", "0.0681"),
        ("E[d] = 1 − (1 − 1/n)ⁿ at n = 4", "0.6797"),
        ("d♯ with i = 1 … n has mass 1 (n = 3, γ = 0.2)", "1.500000"),
        ("Cov(φ^(d), count of τ) < 0 for every τ, at π = (0.9, 0.1), n = 3", "-0.144 and +0.144"),
        ("the same at the paper's N = 8, n = 4, M = 4", "× 0.375000"),
    ],
)
def test_figures_worked_out_by_hand(rows, claim, exact):
    assert next(row.exact for row in rows if row.claim == claim) == exact


@pytest.mark.parametrize("seed", range(5))
def test_set_performance_difference_on_random_trees(seed):
    rng = np.random.default_rng(seed)
    mdp = tree.random_tree(rng, num_actions=3, depth=2, set_size=2, discount=0.4)
    new, old = tree.random_policy(mdp, rng), tree.random_policy(mdp, rng)
    assert tree.set_values(mdp, new)[()] == pytest.approx(tree.set_value_by_trees(mdp, new), abs=1e-12)
    difference = tree.set_values(mdp, new)[()] - tree.set_values(mdp, old)[()]
    assert difference == pytest.approx(tree.summed_advantage(mdp, new, old), abs=1e-12)


@pytest.mark.parametrize(("num_rollouts", "set_size", "num_sets"), [(4, 2, 2), (3, 2, 3), (4, 3, 3)])
def test_the_shrinking_of_the_gradient_is_as_derived(num_rollouts, set_size, num_sets):
    ratios = claims.expected_gradient_ratios(
        np.array([0.6, 0.3, 0.1]),
        np.array([1.0, 0.5, 0.0]),
        num_rollouts=num_rollouts,
        set_size=set_size,
        num_sets=num_sets,
    )
    np.testing.assert_allclose(ratios, (1 - 1 / num_sets) * (1 - set_size / num_rollouts), atol=1e-9)


def test_homogeneous_sets_repel_and_obey_their_bound_under_random_policies():
    """Prop. 5.4 beyond the lab's family: any number of right and wrong arms with any probabilities."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        set_size, num_actions = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        policy = rng.dirichlet(np.full(num_actions, 0.5))
        rewards = (rng.random(num_actions) < 0.6).astype(float)
        rewards[0] = 1.0
        sets = bandit.action_sets(num_actions, set_size)
        scores = bandit.polychromic_scores(rewards, sets)
        value = bandit.scaffold_value(policy, scores, sets, np.zeros(set_size, np.int64))
        assert value <= np.sqrt(policy[0] * (1 - policy[0]) / set_size) + 1e-12
        if policy[0] > (set_size - 1) / set_size:
            assert value <= 1e-12


def test_scaffold_values_by_hand():
    """n = 2, π = (p, 1 − p), both right: f = 1 for mixed pairs, 0 else, so Λ of {a, a} = p(1 − p)(1 − 2p)."""
    for p in (0.2, 0.6, 0.9):
        sets = bandit.action_sets(2, 2)
        scores = bandit.polychromic_scores(np.array([1.0, 1.0]), sets)
        value = bandit.scaffold_value(np.array([p, 1 - p]), scores, sets, np.array([0, 0]))
        assert value == pytest.approx(p * (1 - p) * (1 - 2 * p), abs=1e-12)


@pytest.mark.parametrize("columns", ["60", "80", "140"])
def test_every_row_shows_its_verdict_in_a_terminal_of_any_width(tmp_path, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["theory", "--out", str(tmp_path), "--no-figures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    verdicts = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert (verdicts.count("yes"), verdicts.count("no")) == (18, 12)


def test_a_terminal_without_greek_gets_a_table_all_the_same(tmp_path):
    command = [sys.executable, "-m", "polychromic.cli", "theory", "--out", str(tmp_path), "--no-figures"]
    shown = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=True)
    assert b"statements hold" in shown.stdout


def test_the_command_prints_and_writes_everything(tmp_path, capsys):
    out = tmp_path / "lab"
    assert main(["theory", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "18 of 30 statements hold" in printed
    # The picture and its three lines lead; the table comes after them.
    lines = printed.splitlines()
    assert lines[0].startswith("Why policies collapse")
    assert [line.split("  ")[0] for line in lines[14:17]] == ["REINFORCE", "PPO-style", "polychromic, n = 4"]
    assert next(number for number, line in enumerate(lines) if line.startswith("│")) > 17
    assert "E[d]" in printed
    written = {path.name for path in out.iterdir()}
    assert written == {"claims.json", "scaffold.png", "scaffold.svg", "bandit.png", "bandit.svg"}
    assert len(json.loads((out / "claims.json").read_text(encoding="utf-8"))) == 30


def test_the_bandit_of_the_command_can_be_varied(tmp_path, capsys):
    options = ["--arms", "6", "--right", "2", "--set-size", "3", "--unevenness", "0.5", "--steps", "400"]
    assert main(["theory", "--out", str(tmp_path), "--no-figures", *options]) == 0
    printed = capsys.readouterr().out
    assert "6 arms, 2 of them right (●), 400 exact gradient steps" in printed
    assert "polychromic, n = 3" in printed
    assert main(["theory", "--out", str(tmp_path), "--right", "11"]) == 2
    assert "right is 11; it must be between 1 and 10" in capsys.readouterr().err

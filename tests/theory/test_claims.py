"""Every claim comes out as the documentation says it does."""

import json

import numpy as np
import pytest

from polychromic.cli import main
from polychromic.theory import claims, tree

FAILING = {
    "the same with no γ^t inside the expectation",
    "d♯ with i = 1 … n has mass 1 (n = 3, γ = 0.2)",
    "child i's nodes at depth t are n(i − 1) + j, without overlap",
    "λ is one constant for all sets (here for a homogeneous and a distinct one)",
    "Λ > bound at n = 2, p = 0.45, q = 2",
    "E[d] = 1 − (1 − 1/n)ⁿ at n = 4",
    "Cov(φ^(d), count of τ) < 0 for every τ, at π = (0.9, 0.1), n = 3",
    "the baseline leaves the gradient unbiased (N = 8, n = 4, M = 4)",
    "each rollout is in one of the M independent sets",
    "N + N²(p − 1) trajectories at N = 8, p = 2 make B = 136",
    "mean reward ≤ success rate for every pretrained policy (a success pays at most 1)",
    "rates are means over 100 × 50 × 3 = 15,000 rollouts (then few would be multiples of 0.2 %)",
}


@pytest.fixture(scope="module")
def rows():
    return list(claims.all_claims())


def test_exactly_the_known_slips_fail(rows):
    assert {row.claim for row in rows if not row.holds} == FAILING
    assert len(rows) == 29


@pytest.mark.parametrize(
    ("claim", "exact"),
    [
        ("Λ > bound at n = 2, p = 0.45, q = 2", "0.0681"),
        ("E[d] = 1 − (1 − 1/n)ⁿ at n = 4", "0.6797"),
        ("d♯ with i = 1 … n has mass 1 (n = 3, γ = 0.2)", "1.500000"),
        ("Cov(φ^(d), count of τ) < 0 for every τ, at π = (0.9, 0.1), n = 3", "-0.144 and +0.144"),
        ("the baseline leaves the gradient unbiased (N = 8, n = 4, M = 4)", "× 0.375000"),
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


@pytest.mark.parametrize(("num_rollouts", "set_size", "num_sets"), [(6, 2, 3), (8, 4, 4), (5, 4, 2)])
def test_the_shrinking_of_the_gradient_is_as_derived(num_rollouts, set_size, num_sets):
    ratio = claims.expected_gradient_ratio(
        np.array([0.6, 0.3, 0.1]), np.array([1.0, 0.5, 0.0]), num_rollouts, set_size, num_sets
    )
    assert ratio == pytest.approx((1 - 1 / num_sets) * (1 - set_size / num_rollouts), abs=1e-9)


def test_the_command_prints_and_writes_everything(tmp_path, capsys):
    out = tmp_path / "lab"
    assert main(["theory", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "17 of 29 statements hold" in printed
    assert "E[d]" in printed
    written = {path.name for path in out.iterdir()}
    assert written == {"claims.json", "scaffold.png", "scaffold.svg", "bandit.png", "bandit.svg"}
    assert len(json.loads((out / "claims.json").read_text(encoding="utf-8"))) == 29

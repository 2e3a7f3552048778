"""The paper's claims and this project's corrections, each with the number as printed and the number as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import product
from math import comb, sqrt

import numpy as np

from polychromic.core.checks import Floats, Ints
from polychromic.core.credit import set_advantages
from polychromic.core.diversity import distinct_fraction
from polychromic.core.objectives import mean_return, score_sets
from polychromic.core.polychromic import polychromic_advantages
from polychromic.core.sets import all_sets
from polychromic.theory import bandit, tree


@dataclass(frozen=True)
class Claim:
    """One row of the theory lab's table."""

    where: str
    claim: str
    as_printed: str
    exact: str
    holds: bool


def all_claims() -> Iterator[Claim]:
    """Every row, computed on demand."""
    yield from performance_difference()
    yield from reduction_to_ordinary_rl()
    yield from first_order_changes()
    yield from scaffold_bounds()
    yield from definition_of_polychromic()
    yield from estimator()
    yield from arithmetic()


def performance_difference() -> Iterator[Claim]:
    """Lemma 3.2 and the three slips in its proof, on a tree of depth 3 with 2 actions and sets of 2."""
    rng = np.random.default_rng(0)
    mdp = tree.random_tree(rng, num_actions=2, depth=3, set_size=2, discount=0.3)
    new, old = tree.random_policy(mdp, rng), tree.random_policy(mdp, rng)
    by_recursion, by_trees = tree.set_values(mdp, new)[()], tree.set_value_by_trees(mdp, new)
    yield Claim(
        "Def. 3.1",
        "V♯ by recursion = average over all 16,384 trees that can be drawn",
        f"{by_recursion:.9f}",
        f"{by_trees:.9f}",
        abs(by_recursion - by_trees) < 1e-12,
    )
    difference = by_recursion - tree.set_values(mdp, old)[()]
    right_side = tree.summed_advantage(mdp, new, old)
    yield Claim(
        "Lemma 3.2",
        "V♯(π_θ) − V♯(π_β) = E[A♯] / (1 − γn)",
        f"{right_side:.9f}",
        f"{difference:.9f}",
        abs(difference - right_side) < 1e-12,
    )
    undiscounted = tree.summed_advantage(mdp, new, old, discounted=False)
    yield Claim(
        "Lemma 3.2, proof",
        "the same with no γ^t inside the expectation",
        f"{undiscounted:.6f}",
        f"{difference:.6f}",
        abs(difference - undiscounted) < 1e-9,
    )
    for where, text, nodes_at in (
        ("App. C, d♯", "d♯ with i = 1 … n has mass 1 (n = 3, γ = 0.2)", lambda t: 3),  # noqa: ARG005
        ("…, corrected", "d♯ with i = 1 … n^t has mass 1", lambda t: 3**t),
    ):
        mass = (1 - 0.2 * 3) * sum(0.2**t * nodes_at(t) for t in range(200))
        yield Claim(where, text, "1", f"{mass:.6f}", abs(mass - 1) < 1e-9)
    for where, text, offset in (
        ("Lemma 3.2, proof", "child i's nodes at depth t are n(i − 1) + j, without overlap", lambda t: 2),  # noqa: ARG005
        ("…, corrected", "child i's nodes at depth t are n^{t−1}(i − 1) + j", lambda t: 2 ** (t - 1)),
    ):
        depth = 3
        indices = [offset(depth) * (i - 1) + j for i in (1, 2) for j in range(1, 2 ** (depth - 1) + 1)]
        shared = len(indices) - len(set(indices))
        yield Claim(where, text, "0 shared", f"{shared} shared at n = 2, t = 3", shared == 0)


def reduction_to_ordinary_rl() -> Iterator[Claim]:
    """Section 3.1: with the mean return as the objective set RL is ordinary RL."""
    policy, rewards = bandit.softmax(np.array([1.0, 0.2, -0.5, -1.0])), np.array([1.0, 0.0, 0.6, 0.3])
    sets = bandit.action_sets(4, 3)
    gradient = bandit.logit_gradient(policy, mean_return(rewards[sets]), sets)
    ordinary = policy * (rewards - policy @ rewards)
    yield Claim(
        "Sec. 3.1",
        "mean-return set gradient = ordinary policy gradient (first logit)",
        f"{ordinary[0]:.9f}",
        f"{gradient[0]:.9f}",
        bool(np.abs(gradient - ordinary).max() < 1e-12),
    )
    returns = np.array([0.9, 0.1, 0.4, 0.0, 1.0, 0.3])
    subsets = all_sets(6, 3)
    advantages = set_advantages(score_sets(subsets, returns, objective=mean_return), subsets, 6)
    factor = (6 - 3) / (3 * (6 - 1))
    yield Claim(
        "Sec. 3.1",
        "over all subsets its advantage is (N−n)/(n(N−1)) · (R_i − R̄) (N = 6, n = 3)",
        f"{factor:.6f}",
        f"{(advantages @ (returns - returns.mean())) / ((returns - returns.mean()) ** 2).sum():.6f}",
        bool(np.abs(advantages - factor * (returns - returns.mean())).max() < 1e-12),
    )


def first_order_changes() -> Iterator[Claim]:
    """Prop. 5.1 and Lemma 5.3 against the true change, with the order in which the error vanishes."""
    logits, rewards = np.array([1.2, 0.3, -0.4, -1.0]), np.array([1.0, 1.0, 0.0, 1.0])
    policy, sets = bandit.softmax(logits), bandit.action_sets(4, 3)
    scores = bandit.polychromic_scores(rewards, sets)
    gradient = bandit.logit_gradient(policy, scores, sets)
    steps = np.array([1e-2, 1e-3])

    predicted = np.array([bandit.entropy_change(policy, scores, sets, a) for a in steps])
    true = np.array(
        [float(bandit.entropy(bandit.softmax(logits + a * gradient)) - bandit.entropy(policy)) for a in steps]
    )
    order = _order(np.abs(predicted - true), steps)
    yield Claim(
        "Prop. 5.1",
        f"entropy change after one step, α = {steps[1]:g} (error of order α^{order:.2f})",
        f"{predicted[1]:.6e}",
        f"{true[1]:.6e}",
        order > 1.9,
    )
    offset = bandit.log_probability_offset(policy, scores, sets)
    for name, reference in (("homogeneous", [0, 0, 0]), ("mixed", [0, 0, 1]), ("distinct", [0, 1, 3])):
        chosen = np.array(reference)
        overlap = bandit.most_overlap(chosen)
        value = bandit.scaffold_value(policy, scores, sets, chosen)
        predicted = steps * (overlap * value - len(chosen) * offset)
        true = np.array(
            [float((np.log(bandit.softmax(logits + a * gradient)) - np.log(policy))[chosen].sum()) for a in steps]
        )
        order = _order(np.abs(predicted - true), steps)
        yield Claim(
            "Lemma 5.3",
            f"change of log π of a {name} set with λ = αI, I = {overlap} (error of order α^{order:.2f})",
            f"{predicted[1]:.6e}",
            f"{true[1]:.6e}",
            order > 1.9,
        )
    overlaps = [bandit.most_overlap(np.array(a)) for a in ([0, 0, 0], [0, 1, 3])]
    yield Claim(
        "Lemma 5.3",
        "λ is a constant, as the statement says; the proof has λ = αI, which differs by kind of set",
        "λ = const",
        f"λ/α = {overlaps[0]} and {overlaps[1]}",
        overlaps[0] == overlaps[1],
    )


def scaffold_bounds() -> Iterator[Claim]:
    """Props. 5.4 and 5.5 over a grid of policies."""
    signs, bounds = [], []
    for set_size in (2, 3, 4, 5):
        for probability in np.linspace(0.02, 0.995, 40).tolist():
            value = homogeneous_scaffold(probability, set_size)
            if probability > (set_size - 1) / set_size:
                signs.append(value)
            bounds.append(value - sqrt(probability * (1 - probability) / set_size))
    yield Claim(
        "Prop. 5.4",
        f"Λ of a homogeneous right set < 0 once p > (n − 1)/n ({len(signs)} cases)",
        "< 0",
        f"at most {max(signs):.2e}",
        max(signs) < 0,
    )
    yield Claim(
        "Prop. 5.4",
        f"Λ ≤ √(p(1 − p)/n) ({len(bounds)} cases)",
        "Λ − bound ≤ 0",
        f"at most {max(bounds):.2e}",
        max(bounds) <= 0,
    )
    value, printed = heterogeneous_scaffold(0.45, 2, 2), _lower_bound(0.45, 2, 2, corrected=False)
    yield Claim(
        "Prop. 5.5",
        "Λ > bound at n = 2, p = 0.45, q = 2",
        f"> {printed:.4f}",
        f"{value:.4f}",
        value > printed,
    )
    cases = [(float(p), n, q) for n in (2, 3, 4) for q in range(1, n + 1) for p in np.linspace(0.02, 1 / n - 0.01, 16)]
    held = sum(heterogeneous_scaffold(p, n, q) > _lower_bound(p, n, q, corrected=True) for p, n, q in cases)
    yield Claim(
        "Prop. 5.5, corrected",
        "Λ > bound with E[d] = 1 − (1 − 1/n)ⁿ − n^{−n}",
        f"{len(cases)} of {len(cases)}",
        f"{held} of {len(cases)}",
        held == len(cases),
    )
    expected = float(distinct_fraction(bandit.action_sets(4, 4)).mean())
    for where, text, printed in (
        ("Prop. 5.5, proof", "E[d] = 1 − (1 − 1/n)ⁿ at n = 4", 1 - 0.75**4),
        ("…, corrected", "E[d] = 1 − (1 − 1/n)ⁿ − n^{−n} at n = 4", 1 - 0.75**4 - 4.0**-4),
    ):
        yield Claim(where, text, f"{printed:.4f}", f"{expected:.4f}", abs(printed - expected) < 1e-12)


def definition_of_polychromic() -> Iterator[Claim]:
    """The second condition of the general definition cannot hold for every trajectory."""
    policy, sets = np.array([0.9, 0.1]), bandit.action_sets(2, 3)
    weights = bandit.set_probabilities(policy, sets)
    covariances = bandit.covariance(weights, distinct_fraction(sets), bandit.action_counts(sets, 2))
    yield Claim(
        "Def. 5.6 (2)",
        "Cov(φ^(d), count of τ) < 0 for every τ, at π = (0.9, 0.1), n = 3",
        "all < 0",
        f"{covariances[0]:+.3f} and {covariances[1]:+.3f}",
        bool((covariances < 0).all()),
    )
    yield Claim(
        "…, corrected",
        "it holds for the dominant τ; over all τ the covariances sum to 0",
        "< 0, sum 0",
        f"{covariances[0]:+.3f}, sum {covariances.sum():.0e}",
        bool(covariances[0] < 0 and abs(covariances.sum()) < 1e-12),
    )


def estimator() -> Iterator[Claim]:
    """The expectation of the sampled estimator of section 3.3, over every group and every choice of M sets."""
    policy, rewards = np.array([0.6, 0.3, 0.1]), np.array([1.0, 0.5, 0.0])
    ratios = expected_gradient_ratios(policy, rewards, num_rollouts=4, set_size=2, num_sets=3)
    shrink = (1 - 1 / 3) * (1 - 2 / 4)
    yield Claim(
        "Sec. 3.1, 3.3",
        "f̂ is independent of the set, so the expected gradient is the true one (N = 4, n = 2, M = 3, all logits)",
        "× 1",
        f"× {ratios.min():.6f} … {ratios.max():.6f}",
        bool(np.abs(ratios - 1).max() < 1e-9),
    )
    yield Claim(
        "…, corrected",
        "f̂ contains the set: right direction, scaled by (1 − 1/M)(1 − n/N)",
        f"× {shrink:.6f}",
        f"× {ratios.min():.6f} … {ratios.max():.6f}",
        bool(np.abs(ratios - shrink).max() < 1e-9),
    )
    num_rollouts, set_size, num_sets = 8, 4, 4
    policy, rewards = np.array([0.7, 0.3]), np.array([1.0, 0.4])
    shrink = (1 - 1 / num_sets) * (1 - set_size / num_rollouts)
    # Given a group, M independent sets have (1 − 1/M) of the expected credit of all its subsets (the rows above).
    ratio = (1 - 1 / num_sets) * float(all_subsets_gradient_ratios(policy, rewards, num_rollouts, set_size)[0])
    yield Claim(
        "…, corrected",
        "the same at the paper's N = 8, n = 4, M = 4",
        f"× {shrink:.6f}",
        f"× {ratio:.6f}",
        abs(ratio - shrink) < 1e-9,
    )
    nowhere = (comb(num_rollouts - 1, set_size) / comb(num_rollouts, set_size)) ** num_sets
    yield Claim(
        "Sec. 3.3",
        "each rollout is in one of the M independent sets",
        "100 %",
        f"{100 * (1 - nowhere):.2f} %",
        nowhere == 0,
    )


def arithmetic() -> Iterator[Claim]:
    """Slips that arithmetic alone shows."""
    vines, forks = 8, 2
    for where, text, cost in (
        ("App. A.1.1", "N + N²(p − 1) trajectories at N = 8, p = 2 make B = 136", vines + vines**2 * (forks - 1)),
        ("…, corrected", "N + N²p trajectories make B = 136", vines + vines**2 * forks),
    ):
        yield Claim(where, text, "136", str(cost), cost == 136)
    tables = json.loads(resources.files("polychromic.tasks.grids").joinpath("paper_results.json").read_text())
    results = tables["reward_and_success_percent"]
    impossible = [
        f"{task}: {row[0][0]:.3f} > {row[0][1] / 100:.3f}"
        for task, row in results.items()
        if row[0][0] > row[0][1] / 100
    ]
    yield Claim(
        "Table 1",
        "mean reward ≤ success rate for every pretrained policy (a success pays at most 1)",
        "all",
        "; ".join(impossible) or "all",
        not impossible,
    )
    rates = [round(success * 10) for row in results.values() for _, success in row]
    fit = sum(rate % 2 == 0 for rate in rates)
    yield Claim(
        "Table 1",
        "rates are means over 100 × 50 × 3 = 15,000 rollouts (then, to 0.1 %, half would be multiples of 0.2 %)",
        f"about {len(rates) // 2} of {len(rates)}",
        f"{fit} of {len(rates)}: fits 500 rollouts",
        fit < len(rates),
    )


def homogeneous_scaffold(probability: float, set_size: int) -> float:
    """Λ of the set {a, …, a}, r(a) = 1, π(a) = p; a second right arm and a wrong one share the rest."""
    policy = np.array([probability, (1 - probability) / 2, (1 - probability) / 2])
    sets = bandit.action_sets(3, set_size)
    scores = bandit.polychromic_scores(np.array([1.0, 1.0, 0.0]), sets)
    return bandit.scaffold_value(policy, scores, sets, np.zeros(set_size, np.int64))


def heterogeneous_scaffold(probability: float, set_size: int, num_right: int) -> float:
    """Λ of a set of n distinct actions with π = p/n each, q of them right; one wrong one has the rest (Prop. 5.5)."""
    policy = np.append(np.full(set_size, probability / set_size), 1 - probability)
    rewards = np.append((np.arange(set_size) < num_right).astype(np.float64), 0.0)
    sets = bandit.action_sets(set_size + 1, set_size)
    scores = bandit.polychromic_scores(rewards, sets)
    return bandit.scaffold_value(policy, scores, sets, np.arange(set_size))


def expected_gradient_ratios(
    policy: Floats, rewards: Floats, *, num_rollouts: int, set_size: int, num_sets: int
) -> Floats:
    """E[sampled set gradient] / true gradient, one entry per logit: every group of N draws, every M-tuple of sets."""
    groups, weights = _all_groups(policy, num_rollouts)
    subsets = all_sets(num_rollouts, set_size)
    scores = score_sets(subsets, rewards[groups], labels=groups)
    total = np.zeros(groups.shape)
    choices = list(product(range(len(subsets)), repeat=num_sets))
    for choice in choices:
        total += set_advantages(scores[:, choice], subsets[list(choice)], num_rollouts)
    return _gradient_ratios(policy, rewards, groups, weights, total / len(choices), set_size)


def all_subsets_gradient_ratios(policy: Floats, rewards: Floats, num_rollouts: int, set_size: int) -> Floats:
    """The same for the average over all subsets, [K]: it is 1 − n/N for every logit."""
    groups, weights = _all_groups(policy, num_rollouts)
    advantages = polychromic_advantages(rewards[groups], groups, set_size=set_size)
    return _gradient_ratios(policy, rewards, groups, weights, advantages, set_size)


def _all_groups(policy: Floats, num_rollouts: int) -> tuple[Ints, Floats]:
    groups = bandit.action_sets(len(policy), num_rollouts)
    return groups, bandit.set_probabilities(policy, groups)


def _gradient_ratios(
    policy: Floats, rewards: Floats, groups: Ints, weights: Floats, advantages: Floats, set_size: int
) -> Floats:
    # (n/N) Σ_i A_i ∇log π(a_i): per set, as in eq. 4.
    slopes = (groups[:, :, None] == np.arange(len(policy))) - policy
    estimated = weights @ (advantages[:, :, None] * slopes).sum(axis=1) * set_size / groups.shape[1]
    sets = bandit.action_sets(len(policy), set_size)
    return np.asarray(estimated / bandit.logit_gradient(policy, bandit.polychromic_scores(rewards, sets), sets))


def _lower_bound(probability: float, set_size: int, num_right: int, *, corrected: bool) -> float:
    """q pⁿ (1 − p) / n · E[d] (Prop. 5.5), with E[d] as printed or with the homogeneous draws taken off."""
    diversity = 1 - (1 - 1 / set_size) ** set_size - (set_size**-set_size if corrected else 0.0)
    return num_right * probability**set_size * (1 - probability) / set_size * diversity


def _order(errors: Floats, steps: Floats) -> float:
    """The power of the step size with which the error falls."""
    return float(np.log(errors[0] / errors[1]) / np.log(steps[0] / steps[1]))

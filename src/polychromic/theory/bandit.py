"""Set RL on a softmax bandit (H = 1), every expectation a sum over all Kⁿ ordered action sets (paper, section 5).

Notation: K actions, a policy π [K], action sets [S, n] with S = Kⁿ, scores f(s, a_{1:n}) [S].
"""

from __future__ import annotations

from itertools import product

import numpy as np

from polychromic.core.checks import Floats, Ints
from polychromic.core.diversity import distinct_fraction
from polychromic.core.objectives import polychromic_objective


def softmax(logits: Floats) -> Floats:
    """π(a) = exp(z_a) / Σ_b exp(z_b), over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def entropy(policy: Floats) -> Floats:
    """H(π) = −Σ_a π(a) log π(a), over the last axis."""
    return np.asarray(-(policy * np.log(np.where(policy > 0, policy, 1.0))).sum(axis=-1))


def action_sets(num_actions: int, set_size: int) -> Ints:
    """All ordered sets a_{1:n} of actions, [Kⁿ, n]."""
    return np.array(list(product(range(num_actions), repeat=set_size)), dtype=np.int64)


def set_probabilities(policy: Floats, sets: Ints) -> Floats:
    """π(a_{1:n}) = Π_i π(a_i), [S]."""
    return np.asarray(policy[sets].prod(axis=-1))


def polychromic_scores(rewards: Floats, sets: Ints) -> Floats:
    """f_poly of every action set (eq. 7 with τ = a), [S]."""
    return polychromic_objective(rewards[sets], distinct_fraction(sets))


def covariance(weights: Floats, first: Floats, second: Floats) -> Floats:
    """Cov(first, second) under probabilities `weights`, over the first axis of both; `second` may be [S, …]."""
    centred = first - weights @ first
    return np.asarray((weights * centred) @ second)


def action_counts(sets: Ints, num_actions: int) -> Floats:
    """Σ_i 1{a_i = a} for every action a, [S, K]."""
    return np.asarray((sets[:, :, None] == np.arange(num_actions)).sum(axis=1), np.float64)


def logit_gradient(policy: Floats, scores: Floats, sets: Ints) -> Floats:
    """∂E[f]/∂z_a = E[(f − f̂) Σ_i (1{a_i = a} − π(a))] = Cov(f, Σ_i 1{a_i = a})   (eq. 4 and the appendix's lemma)."""
    return covariance(set_probabilities(policy, sets), scores, action_counts(sets, len(policy)))


def entropy_change(policy: Floats, scores: Floats, sets: Ints, step_size: float) -> float:
    """Prop. 5.1, term by term as printed.

    Δ ≈ −α Cov_{a}( (1/n) Σ_i log π(a_i), Cov_{a'}( f(a'), Σ_{ij} 1{a_i = a'_j} ) )
    """
    weights = set_probabilities(policy, sets)
    counts = action_counts(sets, len(policy))
    inner = covariance(weights, scores, counts @ counts.T)  # one entry per reference set a
    return float(-step_size * covariance(weights, np.log(policy)[sets].mean(axis=-1), inner))


def most_overlap(reference: Ints) -> int:
    """I(a_{1:n}) = max over a' of Σ_{ij} 1{a'_i = a_j}: n × how often the commonest action occurs."""
    return int(len(reference) * np.bincount(reference).max())


def scaffold_value(policy: Floats, scores: Floats, sets: Ints, reference: Ints) -> float:
    """Λ_f(a_{1:n}; π) = Cov_{a'}( f(a'), (1/I) Σ_{ij} 1{a'_i = a_j} )   (Definition 5.2)."""
    overlap = (sets[:, :, None] == reference).sum(axis=(1, 2)) / most_overlap(reference)
    return float(covariance(set_probabilities(policy, sets), scores, np.asarray(overlap, np.float64)))


def log_probability_offset(policy: Floats, scores: Floats, sets: Ints) -> float:
    """C(θ) = Cov_{a'}( f(a'), Σ_i π(a'_i) ), the part of Lemma 5.3 that is the same for all sets."""
    return float(covariance(set_probabilities(policy, sets), scores, policy[sets].sum(axis=-1)))

"""Why policies collapse: exact training of a softmax bandit with several right arms.

Nothing is sampled: every method follows the gradient of its own expected objective, so the curves show the effect of
the objective, not of noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polychromic.core.checks import Floats
from polychromic.theory.bandit import entropy, softmax

Update = Callable[[Floats, Floats, float], Floats]  # logits [K], rewards [K], step size -> logits [K]


def expected_polychromic(policy: Floats, rewards: Floats, set_size: int) -> float:
    """E[f_poly] of n independent draws from π, in closed form.

        (1/n) Σ_a π_a R_a (1 + Σ_{b≠a} (1 − (1 − π_b)^{n−1})) − (1/n) Σ_a π_aⁿ R_a

    The first part counts the distinct arms beside one that pays; the second is the rule d = 0 for homogeneous sets.
    """
    seen = 1.0 - (1.0 - policy) ** (set_size - 1)
    beside = 1.0 + seen.sum() - seen
    return float((policy * rewards * beside).sum() - (policy**set_size * rewards).sum()) / set_size


def polychromic_gradient(policy: Floats, rewards: Floats, set_size: int) -> Floats:
    """The gradient of `expected_polychromic` by the logits, [K]."""
    seen = 1.0 - (1.0 - policy) ** (set_size - 1)
    seen_slope = (set_size - 1) * (1.0 - policy) ** max(set_size - 2, 0)
    paying = policy * rewards
    slope = rewards * (1.0 + seen.sum() - seen) + (paying.sum() - paying) * seen_slope
    slope = slope / set_size - rewards * policy ** (set_size - 1)
    return through_softmax(policy, slope)


def through_softmax(policy: Floats, slope: Floats) -> Floats:
    """∂J/∂z from ∂J/∂π: π_k (slope_k − Σ_a π_a slope_a)."""
    return np.asarray(policy * (slope - policy @ slope))


def reinforce_update(logits: Floats, rewards: Floats, step_size: float) -> Floats:
    """One step along ∇E[R] (with the value as its baseline, which changes nothing in expectation)."""
    return np.asarray(logits + step_size * through_softmax(softmax(logits), rewards))


def ppo_update(logits: Floats, rewards: Floats, step_size: float, *, clip: float = 0.2, num_epochs: int = 2) -> Floats:
    """Epochs along the exact gradient of E_{a∼π_β}[min(r A, clip(r, 1 ± ε) A)] (eq. 2), advantages normalised."""
    old = softmax(logits)
    advantage = rewards - old @ rewards
    spread = np.sqrt(old @ advantage**2)
    advantage = advantage / (spread + 1e-8)
    for _ in range(num_epochs):
        policy = softmax(logits)
        ratio = policy / old
        clipped = np.where(advantage > 0, ratio > 1 + clip, ratio < 1 - clip)
        # d/dπ_a of π_β(a) · (π_a / π_β(a)) · A_a is A_a where the clip does not bind, 0 where it does.
        logits = logits + step_size * through_softmax(policy, np.where(clipped, 0.0, advantage))
    return logits


def polychromic_update(set_size: int) -> Update:
    """One step along ∇E[f_poly] for sets of `set_size`."""

    def update(logits: Floats, rewards: Floats, step_size: float) -> Floats:
        return np.asarray(logits + step_size * polychromic_gradient(softmax(logits), rewards, set_size))

    return update


@dataclass(frozen=True)
class Curve:
    """The training curve of one method: one entry per step."""

    name: str
    success: Floats
    entropy: Floats
    distinct_right: Floats


def train(
    name: str, update: Update, logits: Floats, rewards: Floats, *, num_steps: int, step_size: float, draws: int
) -> Curve:
    """Follow `update` and record success, entropy and the distinct right arms expected in `draws` draws."""
    policies = [softmax(logits)]
    for _ in range(num_steps):
        logits = update(logits, rewards, step_size)
        policies.append(softmax(logits))
    policy = np.array(policies)
    right = rewards > 0
    return Curve(
        name=name,
        success=np.asarray(policy @ rewards),
        entropy=entropy(policy),
        distinct_right=np.asarray((1.0 - (1.0 - policy[:, right]) ** draws).sum(axis=-1)),
    )

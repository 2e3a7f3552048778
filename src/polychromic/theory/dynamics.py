"""Why policies collapse: training of a softmax bandit with several right arms.

Nothing is sampled unless asked for: every method follows the gradient of its own expected objective, so the curves show
the effect of the objective, not of noise. `from_draws` is the same with a group of drawn arms at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polychromic.core.checks import Floats, Ints
from polychromic.core.polychromic import polychromic_advantages
from polychromic.theory.bandit import entropy, softmax

Update = Callable[[Floats, Floats, float], Floats]  # logits [K], rewards [K], step size -> logits [K]

REINFORCE, PPO, POLYCHROMIC = METHODS = ("reinforce", "ppo", "polychromic")


def uneven_start(num_arms: int, num_right: int, unevenness: float) -> Floats:
    """Logits: of the right arms, which come first, evenly spaced from `unevenness` to minus that; of the others 0."""
    logits = np.zeros(num_arms)
    logits[:num_right] = unevenness * (np.linspace(1.0, -1.0, num_right) if num_right > 1 else 1.0)
    return logits


def right_first(num_arms: int, num_right: int) -> Floats:
    """Rewards: 1 for the first `num_right` arms, 0 for the others."""
    return (np.arange(num_arms) < num_right).astype(np.float64)


def exact(method: str, set_size: int) -> Update:
    """The update of a method along its exact gradient; only the polychromic one has sets."""
    return {REINFORCE: reinforce_update, PPO: ppo_update, POLYCHROMIC: polychromic_update(set_size)}[method]


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


def from_draws(method: str, set_size: int, num_rollouts: int, seed: int) -> Update:
    """The update of a method from `num_rollouts` arms drawn at each step, as training does it.

    REINFORCE subtracts the mean reward of the group; polychromic advantages run over all its sets. Both are scaled so
    that their expectation is the exact gradient: (1 − n/N) is what the baseline costs, with n = 1 for REINFORCE.
    """
    rng = np.random.default_rng(seed)

    def update(logits: Floats, rewards: Floats, step_size: float) -> Floats:
        old = softmax(logits)
        arms: Ints = rng.choice(len(old), num_rollouts, p=old)
        returns = rewards[arms]
        if method == PPO:
            advantages = (returns - returns.mean()) / (returns.std() + 1e-8)
            return _clipped_epochs(logits, arms, advantages, step_size)
        if method == REINFORCE:
            credit = (returns - returns.mean()) / (1 - 1 / num_rollouts)
        else:
            credit = polychromic_advantages(returns, arms, set_size=set_size) * set_size / (1 - set_size / num_rollouts)
        return np.asarray(logits + step_size * _score_gradient(old, arms, credit))

    return update


def _clipped_epochs(
    logits: Floats, arms: Ints, advantages: Floats, step_size: float, *, clip: float = 0.2, num_epochs: int = 2
) -> Floats:
    old = softmax(logits)
    for _ in range(num_epochs):
        policy = softmax(logits)
        ratio = (policy / old)[arms]
        clipped = np.where(advantages > 0, ratio > 1 + clip, ratio < 1 - clip)
        logits = logits + step_size * _score_gradient(policy, arms, np.where(clipped, 0.0, ratio * advantages))
    return logits


def _score_gradient(policy: Floats, arms: Ints, weights: Floats) -> Floats:
    """The mean of w_i ∇ log π(a_i) over the draws, [K]."""
    taken = np.bincount(arms, weights, minlength=len(policy)) / len(arms)
    return np.asarray(taken - policy * taken.sum())


@dataclass(frozen=True)
class Curve:
    """The training curve of one method: one entry per step."""

    name: str
    policy: Floats  # [steps + 1, K]
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
        policy=policy,
        success=np.asarray(policy @ rewards),
        entropy=entropy(policy),
        distinct_right=np.asarray((1.0 - (1.0 - policy[:, right]) ** draws).sum(axis=-1)),
    )

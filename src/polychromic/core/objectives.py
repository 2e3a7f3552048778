"""What is a good set? A set objective maps the returns of a set [..., n] and its diversity [...] to a score [...].

Any callable `objective(returns, diversity)` will do; `score_sets` applies one to the sets of a group.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import (
    ROUNDING,
    Floats,
    float_array,
    label_array,
    members_array,
    read_array,
    real_number,
    sets_of_groups,
    square_kernel,
    unit_interval,
)
from polychromic.core.diversity import distinct_fraction, vendi_diversity
from polychromic.errors import UserError

SetObjective = Callable[[Floats, Any], ArrayLike]
Diversity = Callable[[NDArray[Any]], ArrayLike]


def polychromic_objective(returns: ArrayLike, diversity: ArrayLike | None) -> Floats:
    """f_poly(s, τ_{1:n}) = (1/n) Σ_i R(τ_i) · d(s, τ_{1:n})   (paper, eq. 7).

    Args:
        returns: [..., n], each in [0, 1].
        diversity: [...], in [0, 1].

    Returns:
        [...] in [0, 1]: high only for sets that are both successful and diverse.
    """
    reward = mean_return(unit_interval("returns", members_array("returns", returns)))
    return reward * unit_interval("diversity", _diversity_for(diversity, reward.shape))


def mean_return(returns: ArrayLike, diversity: ArrayLike | None = None) -> Floats:  # noqa: ARG001
    """(1/n) Σ_i R(τ_i), [..., n] → [...]. Under it set RL is ordinary RL (paper, section 3.1)."""
    return np.asarray(members_array("returns", returns).mean(axis=-1))


def best_of(returns: ArrayLike, diversity: ArrayLike | None = None) -> Floats:  # noqa: ARG001
    """max_i R(τ_i), [..., n] → [...]. With returns 0 and 1 its expectation is pass@n."""
    return np.asarray(members_array("returns", returns).max(axis=-1))


class PolychromicConditionWarning(UserWarning):
    """The given samples violate a condition of the paper's definition of a polychromic objective."""


class ConditionFigures(NamedTuple):
    """The two covariances of the paper's definition, measured on samples (means over groups).

    Attributes:
        reward_covariance: Cov(φ^(R), Σ_i R(τ_i)) over sets; the definition asks for > 0.
        homogeneity_covariance: Cov(φ^(d), Σ_i 1{τ_i = τ}) over sets, for each group's most common label τ;
            the definition asks for < 0. It asks it of *every* τ, which no objective can satisfy, because the
            covariances sum to Cov(φ^(d), n) = 0; the most common τ is the one that a policy collapses on.
    """

    reward_covariance: float
    homogeneity_covariance: float


@dataclass(frozen=True)
class ProductObjective:
    """φ = φ^(R) · φ^(d), a general polychromic objective (paper, section 5, last definition).

    Made by `product_objective`. Calling it with returns [..., n] and diversity [...] gives scores [...].
    """

    reward_part: Callable[[Floats], ArrayLike]
    diversity_part: Callable[[Floats], ArrayLike]
    part_range: tuple[float, float]

    def parts(self, returns: ArrayLike, diversity: ArrayLike | None) -> tuple[Floats, Floats]:
        """φ^(R) and φ^(d), each [...], after a check that both stay in the common range."""
        members = members_array("returns", returns)
        given_diversity = _diversity_for(diversity, members.shape[:-1])
        reward = float_array("reward_part", self.reward_part(members), ndim_at_least=0)
        diverse = float_array("diversity_part", self.diversity_part(given_diversity), ndim_at_least=0)
        for name, part in (("reward_part", reward), ("diversity_part", diverse)):
            if part.shape != members.shape[:-1]:
                raise UserError(
                    f"{name} returned shape {part.shape}; one value per set is needed: {members.shape[:-1]}"
                )
        low, high = self.part_range
        slack = ROUNDING * max(1.0, abs(low), abs(high))
        for name, part in (("reward_part", reward), ("diversity_part", diverse)):
            if part.size and (part.min() < low - slack or part.max() > high + slack):
                raise UserError(
                    f"{name} spans [{part.min():.6g}, {part.max():.6g}]; its declared range is [{low:g}, {high:g}]"
                )
        return reward, diverse

    def __call__(self, returns: ArrayLike, diversity: ArrayLike | None) -> Floats:
        reward, diverse = self.parts(returns, diversity)
        return reward * diverse

    def conditions(self, returns: ArrayLike, diversity: ArrayLike, labels: Any) -> ConditionFigures:
        """Measure conditions 1 and 2 on the sets of groups: returns, labels [..., M, n], diversity [..., M]."""
        reward, diverse = self.parts(returns, diversity)
        total = float_array("returns", returns).sum(axis=-1)
        members = label_array(labels, np.shape(returns))
        flat = members.reshape(-1, members.shape[-2] * members.shape[-1])
        common = np.array([_most_common(group) for group in flat]).reshape(*members.shape[:-2], 1, 1)
        count = (members == common).sum(axis=-1)
        return ConditionFigures(_covariance(reward, total), _covariance(diverse, count))


def product_objective(
    reward_part: Callable[[Floats], ArrayLike],
    diversity_part: Callable[[Floats], ArrayLike] | None = None,
    *,
    reward_range: tuple[float, float] = (0.0, 1.0),
    diversity_range: tuple[float, float] = (0.0, 1.0),
) -> ProductObjective:
    """A product of a reward part and a diversity part, with the paper's conditions checked.

    Condition 3 (both parts share one range) is checked here for the declared ranges and at every call for the
    values; conditions 1 and 2 (the signs of two covariances) are measured by `score_sets`, which warns with the
    numbers where they fail.

    Args:
        reward_part: φ^(R), from the returns of a set [..., n] to [...]; `best_of`, say.
        diversity_part: φ^(d), from the diversity of a set [...] to [...]; unchanged if not given.
        reward_range: (inf, sup) of φ^(R).
        diversity_range: (inf, sup) of φ^(d).
    """
    for name, part in (("reward_part", reward_part), ("diversity_part", diversity_part)):
        if part is not None and not callable(part):
            raise UserError(f"{name} is {part!r}; it must be a function")
    for name, span in (("reward_range", reward_range), ("diversity_range", diversity_range)):
        if not (isinstance(span, tuple | list) and len(span) == 2):
            raise UserError(f"{name} is {span!r}; it must be a pair (inf, sup)")
    low, high = (real_number("reward_range", bound, -np.inf, np.inf) for bound in reward_range)
    if not (low < high and tuple(map(float, diversity_range)) == (low, high)):
        raise UserError(
            f"reward_range is {tuple(reward_range)} and diversity_range {tuple(diversity_range)}; a polychromic "
            "objective needs one common range with inf < sup for both parts: rescale one of them"
        )
    return ProductObjective(reward_part, diversity_part or (lambda diversity: diversity), (low, high))


def score_sets(
    sets: ArrayLike,
    returns: ArrayLike,
    *,
    labels: Any = None,
    kernel: ArrayLike | None = None,
    features: ArrayLike | None = None,
    objective: SetObjective = polychromic_objective,
    diversity: Diversity | None = None,
) -> Floats:
    """f(s, g) for every set g of every group.

    Labels, kernel or features are given once per group and only indexed per set.

    Args:
        sets: rollout indices [M, n], or [..., M, n] with the group axes of `returns`.
        returns: [..., N].
        labels: [..., N]; numbers reach the diversity as they are, other labels as integer codes.
        kernel: [..., N, N] similarities, instead of labels.
        features: [..., N, D], a vector of each rollout, instead of labels; for a diversity of your own.
        objective: from set returns [..., M, n] and diversity [..., M] to scores [..., M].
        diversity: from labels [..., M, n], a kernel [..., M, n, n] or features [..., M, n, D] to [..., M]. By default
            `distinct_fraction` for labels and `vendi_diversity` for a kernel. Where none of them is given the objective
            gets None instead, which suits objectives that ignore diversity (`mean_return`, `best_of`).

    Returns:
        [..., M].
    """
    group_returns = float_array("returns", returns)
    members = sets_of_groups(sets, group_returns.shape[-1], group_returns.shape[:-1], "returns")
    set_returns = _gather(group_returns, members)
    set_diversity, set_labels = _diversity_of_sets(members, group_returns.shape, labels, kernel, features, diversity)
    scores = float_array("objective(returns, diversity)", objective(set_returns, set_diversity), ndim_at_least=0)
    if scores.shape != members.shape[:-1]:
        raise UserError(f"objective returned shape {scores.shape}; one score per set is needed: {members.shape[:-1]}")
    if isinstance(objective, ProductObjective) and set_diversity is not None and set_labels is not None and scores.size:
        _warn_of_conditions(objective.conditions(set_returns, set_diversity, set_labels))
    return scores


def _diversity_of_sets(
    members: NDArray[np.int64],
    shape: tuple[int, ...],
    labels: Any,
    kernel: ArrayLike | None,
    features: ArrayLike | None,
    diversity: Diversity | None,
) -> tuple[Floats | None, NDArray[Any] | None]:
    """The diversity of every set, [..., M], and its labels, [..., M, n], where there are any."""
    given = {"labels": labels, "kernel": kernel, "features": features}
    if len(both := [name for name, value in given.items() if value is not None]) > 1:
        raise UserError(f"{' and '.join(both)} are both given; diversity reads one of them")
    set_labels = None
    if labels is not None:
        set_labels = _gather(label_array(labels, shape), members)
        value = (diversity or distinct_fraction)(set_labels)
    elif kernel is not None:
        similarities = square_kernel("kernel", kernel)
        if similarities.shape != (*shape, shape[-1]):
            raise UserError(f"kernel has shape {similarities.shape}; returns {shape} need {(*shape, shape[-1])}")
        rows = np.take_along_axis(similarities[..., None, :, :], members[..., :, None], axis=-2)
        value = (diversity or vendi_diversity)(np.take_along_axis(rows, members[..., None, :], axis=-1))
    elif features is not None:
        vectors = read_array("features", features)
        if vectors.ndim != len(shape) + 1 or vectors.shape[:-1] != shape:
            raise UserError(f"features has shape {vectors.shape}; returns {shape} need {(*shape, 'D')}")
        if diversity is None:
            raise UserError(
                "features are given without a diversity that reads them; kernel_from_embeddings makes a kernel"
            )
        value = diversity(np.take_along_axis(vectors[..., None, :, :], members[..., None], axis=-2))
    elif diversity is not None:
        raise UserError("diversity is given without labels or a kernel (or features) to read")
    else:
        return None, None
    diversities = float_array("diversity", value, ndim_at_least=0)
    if diversities.shape != members.shape[:-1]:
        raise UserError(
            f"diversity returned shape {diversities.shape}; one value per set is needed: {members.shape[:-1]}"
        )
    return diversities, set_labels


def _diversity_for(diversity: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    """The diversity of sets whose returns have the shape [*shape, n]."""
    if diversity is None:
        raise UserError("diversity is missing; give the labels or the kernel to compute it from")
    array = float_array("diversity", diversity, ndim_at_least=0)
    if array.shape != shape:
        raise UserError(f"diversity has shape {array.shape}; returns have {shape} sets, each with one diversity")
    return array


def _gather(values: NDArray[Any], members: NDArray[np.int64]) -> NDArray[Any]:
    """values [..., N] at members [..., M, n] → [..., M, n]."""
    return np.take_along_axis(values[..., None, :], members, axis=-1)


def _most_common(labels: NDArray[Any]) -> Any:
    values, counts = np.unique(labels, return_counts=True)
    return values[counts.argmax()]


def _covariance(first: Floats, second: NDArray[Any]) -> float:
    """Mean over groups of the covariance over the sets of a group (the last axis)."""
    centred = first - first.mean(axis=-1, keepdims=True)
    return float((centred * (second - second.mean(axis=-1, keepdims=True))).mean())


def _warn_of_conditions(sample: ConditionFigures) -> None:
    # Samples without variation say nothing about a sign; the rounding error of a zero is far below this.
    rounding = 1e-12
    failed = []
    if sample.reward_covariance < -rounding:
        failed.append(f"Cov(reward part, sum of returns) = {sample.reward_covariance:.4g}, should be > 0")
    if sample.homogeneity_covariance > rounding:
        failed.append(
            f"Cov(diversity part, count of the most common label) = {sample.homogeneity_covariance:.4g}, should be < 0"
        )
    if failed:
        warnings.warn("; ".join(failed), PolychromicConditionWarning, stacklevel=3)

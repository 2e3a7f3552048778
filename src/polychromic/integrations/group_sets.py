"""From the rewards and the likeness of groups of completions to advantages and metrics to log."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.core.checks import Floats, Seed, one_of, real_number, whole_number
from polychromic.core.credit import CREDITS
from polychromic.core.metrics import pass_at_k
from polychromic.core.polychromic import mean_set_score, polychromic_advantages, polychromic_kernel_advantages
from polychromic.core.sets import MOST_ENUMERATED_SETS, MOST_GRADED_SETS
from polychromic.errors import UserError
from polychromic.integrations.answers import Likeness, distinct_labels

# Sets over which the metrics of a kernel are averaged; those of labels are exact.
MOST_SETS_IN_METRICS = 256


@dataclass(frozen=True)
class SetSettings:
    """Which sets of completions are formed, and what a completion gets of their scores.

    Attributes:
        set_size: n, the completions of a set.
        num_sets: 'auto': all C(N, n) sets of a group, in closed form; of embeddings without a threshold, where there
            is no closed form, 2,000 random ones of groups that have more. 'all' insists on all. Or M random ones.
        credit: 'sum', the set policy gradient regrouped by completion, or 'mean', over the sets that hold a
            completion. Over all sets they are the same.
        homogeneous_zero: the paper's rule that a set of completions that are all alike has diversity 0, not 1/n.
        scale: what advantages are multiplied by: a number, the same for the whole run, or 'batch', one over their
            standard deviation in the batch. It changes their size, never their proportions.
        anneal: the share of the run over which the weight of the sets falls linearly from 1 to 0, while that of GRPO's
            own advantages rises from 0 to 1, so that training ends as stock GRPO; 0: not at all. Needs `scale='batch'`.
    """

    set_size: int = 4
    num_sets: int | str = "auto"
    credit: str = "sum"
    homogeneous_zero: bool = True
    scale: float | str = 1.0
    anneal: float = 0.0

    def __post_init__(self) -> None:
        whole_number("set_size", self.set_size, at_least=2, why="one completion alone has no diversity")
        one_of("credit", self.credit, CREDITS)
        if isinstance(self.num_sets, str):
            one_of("num_sets", self.num_sets, ("auto", "all"))
        else:
            whole_number("num_sets", self.num_sets, at_least=2, why="a single set is its own baseline")
        if isinstance(self.scale, str):
            if self.scale != "batch":
                raise UserError(
                    f"scale is {self.scale!r}; it must be 'batch' or a number: a scale for each group would change the "
                    "objective"
                )
        else:
            real_number("scale", self.scale, 1e-9, 1e9)
        if real_number("anneal", self.anneal, 0.0, 1.0) and self.scale != "batch":
            raise UserError(
                f"anneal is {self.anneal:g} with scale {self.scale!r}; scale must be 'batch', so that the advantages "
                "of sets are as large as those of GRPO that take their place"
            )
        if self.credit == "last" or (self.credit == "mean" and not isinstance(self.num_sets, str)):
            raise UserError(
                f"credit is {self.credit!r} with num_sets={self.num_sets!r}; such advantages do not add up to zero in "
                "a group, so a trainer that subtracts the group's mean would change them: use credit='sum', or 'mean' "
                "with num_sets='all'"
            )

    def check_group_size(self, name: str, group_size: int, *, by_kernel: bool) -> None:
        """Refuse a size of the groups in training with which these sets are impossible, or carry no signal."""
        if group_size < self.set_size:
            raise UserError(f"{name} is {group_size}; sets of {self.set_size} need groups of more than {self.set_size}")
        if group_size == self.set_size:
            raise UserError(
                f"{name} is {group_size}, the set_size: a group then has a single set, which is its own baseline, and "
                f"every advantage is 0; use groups of more than {self.set_size}"
            )
        if by_kernel and not self.homogeneous_zero:
            raise UserError(
                "homogeneous_zero is False with embed and no similarity_threshold: the rule is about labels, and the "
                "Vendi score of completions that are all alike is 0; give a similarity_threshold, or leave the rule on"
            )
        if by_kernel and self.num_sets == "all" and comb(group_size, self.set_size) > MOST_ENUMERATED_SETS:
            raise UserError(
                f"num_sets is 'all' with {name} {group_size} and set_size {self.set_size}: "
                f"{comb(group_size, self.set_size):.3g} sets, and the Vendi score has no closed form; "
                "leave num_sets out to have some of them drawn, or give a similarity_threshold"
            )
        if by_kernel and self.credit == "mean" and self.sets_of_kernel(group_size) != "all":
            raise UserError(
                f"credit is 'mean' with {comb(group_size, self.set_size):,} sets in a group, of which some are drawn: "
                "such advantages do not add up to zero in a group; use credit='sum', or num_sets='all'"
            )

    def weight_after(self, passed: float) -> float:
        """The weight of the sets when this share of the run has passed; GRPO's own advantages have the rest."""
        return max(0.0, 1 - passed / self.anneal) if self.anneal else 1.0

    def sets_of_kernel(self, group_size: int) -> int | str:
        """How many sets are scored where there is no closed form."""
        if self.num_sets != "auto":
            return self.num_sets
        return "all" if comb(group_size, self.set_size) <= MOST_GRADED_SETS else MOST_GRADED_SETS


# The settings by name, as keyword arguments. 'paper' is the paper's N = 8, n = 4, M = 4; 'poly-epo' is the authors'
# follow-up for language models (arXiv 2604.17654): all subsets, mean credit, no rule for sets that are all alike.
PRESETS = MappingProxyType(
    {
        "paper": MappingProxyType({"set_size": 4, "num_sets": 4, "credit": "sum", "homogeneous_zero": True}),
        "poly-epo": MappingProxyType({"set_size": 4, "num_sets": "all", "credit": "mean", "homogeneous_zero": False}),
    }
)


def homogeneous_rule(given: bool | None, wrong_answers: str, *, by_kernel: bool) -> bool:
    """`homogeneous_zero`, if it was not given: the paper's rule, but not where wrong answers are 'never-different'.

    There, all of a group with one kind of right answer is alike, and nothing would be learned from it.
    """
    return (by_kernel or wrong_answers != "never-different") if given is None else given


def group_advantages(returns: Floats, likeness: Likeness, sets: SetSettings, rng: Seed) -> Floats:
    """The polychromic advantages [G, N] of G groups of N completions with returns in [0, 1], not yet scaled."""
    group_size = returns.shape[-1]
    if group_size <= sets.set_size:
        # Groups of evaluation may be smaller than a set; a single set is its own baseline.
        return np.zeros_like(returns)
    if likeness.kernel is not None:
        return polychromic_kernel_advantages(
            returns,
            likeness.kernel,
            set_size=sets.set_size,
            num_sets=sets.sets_of_kernel(group_size),
            credit=sets.credit,
            rng=rng,
        )
    return polychromic_advantages(
        returns,
        likeness.labels,
        set_size=sets.set_size,
        num_sets="all" if sets.num_sets == "auto" else sets.num_sets,
        credit=sets.credit,
        homogeneous_zero=sets.homogeneous_zero,
        rng=rng,
    )


def silent_groups(advantages: Floats) -> NDArray[np.bool_]:
    """Which groups [G, N] have advantages that are all 0, so that nothing is learned from them, [G]."""
    return np.asarray((np.abs(advantages) < 1e-12).all(axis=-1))


def grpo_advantages(rewards: Floats) -> Floats:
    """What GRPO makes of the rewards [G, N] of G groups: less their group's mean, over its standard deviation."""
    centred = rewards - rewards.mean(axis=-1, keepdims=True)
    return np.asarray(centred / (rewards.std(axis=-1, ddof=1, keepdims=True) + 1e-4))


def scaled(advantages: Floats, scale: float | str) -> Floats:
    """Advantages of a whole batch times a number; 'batch' makes their standard deviation 1, as TRL's scaling does."""
    if isinstance(scale, str):
        # TRL adds the same small number: a batch in which nothing differs stays at 0.
        return np.asarray(advantages / (advantages.std() + 1e-4))
    return advantages * scale


def group_metrics(returns: Floats, likeness: Likeness, sets: SetSettings, success: Any) -> dict[str, float]:
    """What to log of G groups: means over groups.

    Args:
        returns: [G, N], in [0, 1].
        likeness: of the same completions.
        sets: their settings.
        success: [G, N], which completions count as right for pass@n and the distinct right answers.

    Returns:
        `distinct_answers` and, where answers are labels, `distinct_right_answers` in a group; of groups that hold a
        set, `diversity` and `set_score`, means over all sets of n, and `pass@n`.
    """
    group_size = returns.shape[-1]
    right = np.asarray(success, bool)
    metrics = {"distinct_answers": likeness.distinct()}
    if group_size >= sets.set_size:
        metrics |= _set_metrics(returns, likeness, sets)
        metrics[f"pass@{sets.set_size}"] = _pass_table(group_size, sets.set_size)[right.sum(axis=-1)]
    if likeness.labels is not None:
        wrong = ~right
        marked = np.where(wrong, -1, likeness.labels)
        metrics["distinct_right_answers"] = distinct_labels(marked) - wrong.any(axis=-1)
    return {name: float(np.mean(values)) for name, values in metrics.items()}


def _set_metrics(returns: Floats, likeness: Likeness, sets: SetSettings) -> dict[str, Floats]:
    # Two questions in one call: with returns of 1, the score of a set is its diversity.
    both = np.stack([np.ones_like(returns), returns])
    if likeness.labels is not None:
        labels = np.broadcast_to(likeness.labels, both.shape)
        scores = mean_set_score(both, labels, set_size=sets.set_size, homogeneous_zero=sets.homogeneous_zero)
    else:
        few = comb(returns.shape[-1], sets.set_size) <= MOST_SETS_IN_METRICS
        options: dict[str, Any] = {
            "set_size": sets.set_size,
            "num_sets": "all" if few else MOST_SETS_IN_METRICS,
            "rng": 0,
        }
        scores = np.stack([mean_set_score(values, kernel=likeness.kernel, **options) for values in both])
    return {"diversity": scores[0], "set_score": scores[1]}


@cache
def _pass_table(group_size: int, k: int) -> Floats:
    """pass@k of a group by its number of successes, 0 … group_size."""
    return pass_at_k(group_size, np.arange(group_size + 1), k)

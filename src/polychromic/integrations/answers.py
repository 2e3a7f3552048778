"""When do two completions of a language model count as the same? What every adapter for text shares.

Four ways to say it, each asked at most once a completion or a group:

    key(completion)                     a hashable answer or strategy
    judge(prompt, completions)          a label for each completion of a group at once
    equivalent(prompt, first, second)   whether two completions are the same in kind
    embed(completions)                  vectors, compared by cosine: Vendi diversity, or clusters above a threshold

An empty completion (nothing but white space) is never shown to any of them: all empty completions count as one
answer, different from every other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import Floats, Ints, check_label, real_number
from polychromic.core.diversity import clusters_from_kernel, kernel_from_embeddings, vendi_diversity
from polychromic.errors import UserError

# Rewards come as 32-bit floats, so one that is meant to be 1 may be a little less or more.
REWARD_TOLERANCE = 1e-6


class NoAnswer(Enum):
    """The label of an empty completion."""

    EMPTY = "empty completion"


class Likeness(NamedTuple):
    """How alike the completions of G groups of N are: labels [G, N], or a kernel [G, N, N]; the other is None."""

    labels: Ints | None
    kernel: Floats | None

    def distinct(self) -> Floats:
        """Distinct answers per group, [G]; for a kernel the effective number of them (the Vendi score)."""
        if self.labels is not None:
            return distinct_labels(self.labels)
        assert self.kernel is not None
        return np.asarray(1.0 + (self.kernel.shape[-1] - 1) * vendi_diversity(self.kernel))


@dataclass(frozen=True)
class Comparison:
    """Exactly one of the four ways above.

    Attributes:
        key: from a completion to its answer.
        judge: from a prompt and the N completions of its group to N labels.
        equivalent: from a prompt and two completions to a bool, taken to be transitive: a completion is compared
            with one representative of each class found so far.
        embed: from a list of completions to vectors [completions, features].
        similarity_threshold: with `embed`, completions joined by cosines of at least this much are one answer; not
            given, diversity is the Vendi score.
    """

    key: Callable[[str], Hashable] | None = None
    judge: Callable[[Any, list[str]], Sequence[Hashable]] | None = None
    equivalent: Callable[[Any, str, str], bool] | None = None
    embed: Callable[[list[str]], ArrayLike] | None = None
    similarity_threshold: float | None = None

    def __post_init__(self) -> None:
        ways = ("key", "judge", "equivalent", "embed")
        given = [way for way in ways if getattr(self, way) is not None]
        if len(given) != 1:
            raise UserError(
                f"{' and '.join(given) or 'none of ' + ', '.join(ways)} given; say in exactly one way when two "
                "completions count as the same, for example key=lambda completion: completion.split()[-1]"
            )
        if not callable(getattr(self, given[0])):
            raise UserError(f"{given[0]} is {getattr(self, given[0])!r}; it must be a function")
        if self.similarity_threshold is not None:
            if self.embed is None:
                raise UserError(
                    f"similarity_threshold is {self.similarity_threshold} without embed, which alone reads it"
                )
            real_number("similarity_threshold", self.similarity_threshold, -1.0, 1.0)

    @property
    def needs_whole_groups(self) -> bool:
        """Whether the last word is a user's function of a whole group, to be shared out between processes."""
        return self.judge is not None or self.equivalent is not None

    def of_completions(self, completions: Sequence[str]) -> list[Any]:
        """One item per completion: its label, its vector (None if empty), or the completion itself."""
        if self.key is not None:
            return [NoAnswer.EMPTY if _empty(text) else _label(self.key, text) for text in completions]
        if self.embed is not None:
            return _vectors(self.embed, completions)
        return list(completions)

    def labels_of_group(self, prompt: Any, completions: Sequence[str]) -> list[Hashable]:
        """The labels of one group by `judge` or `equivalent`."""
        texts = [text for text in completions if not _empty(text)]
        if self.judge is not None:
            found = _judged(self.judge, prompt, texts) if texts else []
        else:
            found = _classes(self.equivalent, prompt, texts)  # type: ignore[arg-type]
        rest = iter(found)
        return [NoAnswer.EMPTY if _empty(text) else next(rest) for text in completions]

    def likeness(self, items: Sequence[Sequence[Any]]) -> Likeness:
        """From the items of `of_completions` (or the labels of `labels_of_group`), one row per group."""
        if self.embed is None:
            return Likeness(label_codes(items), None)
        kernel = np.stack([_kernel(group) for group in items])
        if self.similarity_threshold is None:
            return Likeness(None, kernel)
        return Likeness(clusters_from_kernel(kernel, threshold=self.similarity_threshold), None)


def label_codes(labels: Sequence[Sequence[Hashable]]) -> Ints:
    """Hashable labels [G][N] as integers [G, N]; equal integers mean equal labels."""
    codes: dict[Hashable, int] = {}
    return np.array([[codes.setdefault(label, len(codes)) for label in group] for group in labels], np.int64)


def distinct_labels(labels: Ints) -> Floats:
    """How many different labels each group has, [G, N] → [G]."""
    ordered = np.sort(labels, axis=-1)
    return np.asarray(1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=-1), np.float64)


def reward_bounds(reward_range: Any) -> tuple[float, float]:
    """(lowest, highest), if these are two finite numbers in this order."""
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError):
        low = high = float("nan")
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise UserError(
            f"reward_range is {reward_range!r}; it must be two finite numbers (lowest, highest) with lowest < highest"
        )
    return low, high


def rewards_of(
    values: Any,
    count: int,
    reward_range: tuple[float, float],
    source: str,
    names: Sequence[str] | None = None,
) -> tuple[Floats, Floats]:
    """The rewards [count] that a user's function gave, and the same mapped from `reward_range` to [0, 1].

    names: what an error calls each completion; none: by its number.
    """
    low, high = reward_bounds(reward_range)
    try:
        rewards = [float("nan") if value is None else float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise UserError(f"{source} returned {values!r:.80}; it must return one number per completion") from (error)
    if len(rewards) != count:
        raise UserError(f"{source} returned {len(rewards)} rewards for {count} completions")
    raw = np.array(rewards, np.float64)
    bad = ~np.isfinite(raw) | (raw < low - REWARD_TOLERANCE) | (raw > high + REWARD_TOLERANCE)
    if bad.any():
        row = int(bad.argmax())
        shown = "None or NaN" if np.isnan(raw[row]) else f"{raw[row]:g}"
        name = names[row] if names else f"completion {row}"
        raise UserError(
            f"{source} returned {shown} for {name}; the polychromic objective needs a reward in "
            f"[{low:g}, {high:g}] for every completion: say reward_range=(lowest, highest) to have others rescaled"
        )
    return raw, np.clip((raw - low) / (high - low), 0.0, 1.0)


def right_answers(rewards: Floats, threshold: float) -> NDArray[np.bool_]:
    """Which rewards reach the threshold, up to rounding."""
    return np.asarray(rewards >= threshold - REWARD_TOLERANCE)


def _empty(completion: str) -> bool:
    return not completion.strip()


def _shown(completion: str) -> str:
    return repr(completion if len(completion) <= 80 else completion[:77] + "...")


def _label(key: Callable[[str], Hashable], completion: str) -> Hashable:
    try:
        label = key(completion)
    except Exception as error:
        raise UserError(
            f"key raised {type(error).__name__}: {error} on the completion {_shown(completion)}; "
            "return a label for answers that cannot be read too, None for example"
        ) from error
    return _hashable("key", label, completion)


def _hashable(source: str, label: Hashable, completion: str) -> Hashable:
    try:
        hash(label)
    except TypeError as error:
        raise UserError(
            f"{source} returned {type(label).__name__} for the completion {_shown(completion)}: {error}; labels must "
            "be hashable, a string or a tuple for example"
        ) from error
    check_label(label, f"what {source} returned for the completion {_shown(completion)}")
    return label


def _judged(judge: Callable[[Any, list[str]], Sequence[Hashable]], prompt: Any, texts: list[str]) -> list[Hashable]:
    try:
        labels = list(judge(prompt, texts))
    except Exception as error:
        raise UserError(f"judge raised {type(error).__name__}: {error} on {len(texts)} completions") from error
    if len(labels) != len(texts):
        raise UserError(f"judge returned {len(labels)} labels for {len(texts)} completions")
    return [_hashable("judge", label, text) for label, text in zip(labels, texts, strict=True)]


def _classes(equivalent: Callable[[Any, str, str], bool], prompt: Any, texts: Sequence[str]) -> list[Hashable]:
    """Each text's class, by comparison with the first text of every class; equal texts are not compared again."""
    class_of: dict[str, int] = {}
    representatives: list[str] = []
    for text in texts:
        if text in class_of:
            continue
        for index, first in enumerate(representatives):
            try:
                same = equivalent(prompt, first, text)
            except Exception as error:
                raise UserError(
                    f"equivalent raised {type(error).__name__}: {error} on {_shown(first)} and {_shown(text)}"
                ) from error
            if same:
                class_of[text] = index
                break
        else:
            class_of[text] = len(representatives)
            representatives.append(text)
    return [class_of[text] for text in texts]


def _vectors(embed: Callable[[list[str]], ArrayLike], completions: Sequence[str]) -> list[NDArray[Any] | None]:
    texts = [text for text in completions if not _empty(text)]
    if not texts:
        return [None] * len(completions)
    try:
        vectors = np.asarray(embed(texts), np.float64)
    except Exception as error:
        raise UserError(f"embed raised {type(error).__name__}: {error} on {len(texts)} completions") from error
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise UserError(f"embed returned shape {vectors.shape}; {len(texts)} completions need [{len(texts)}, features]")
    useless = ~np.isfinite(vectors).all(axis=1) | (vectors == 0).all(axis=1)
    if useless.any():
        raise UserError(
            f"embed returned a vector of zeros or with NaN for {_shown(texts[int(useless.argmax())])}; "
            "cosine similarity needs a direction"
        )
    rest = iter(vectors)
    return [None if _empty(text) else next(rest) for text in completions]


def _kernel(vectors: Sequence[NDArray[Any] | None]) -> Floats:
    """Cosines [N, N] of one group; empty completions are 1 to each other and 0 to all others."""
    filled = np.array([vector is not None for vector in vectors])
    kernel: Floats = np.logical_and.outer(~filled, ~filled).astype(np.float64)
    if filled.any():
        cosines = kernel_from_embeddings(np.stack([vector for vector in vectors if vector is not None]))
        kernel[np.ix_(filled, filled)] = cosines
    return kernel


def calculations(completion: str) -> frozenset[str]:
    """A key for word problems: which calculations a completion writes out (`48/2`, `24 + 48`), in whatever order.

    Completions that reach the same number on other ways differ, and that is what sets are to be paid for.
    """
    found = re.findall(r"(\d[\d,]*(?:\.\d+)?)\s*([-+*/×÷−])\s*(\d[\d,]*(?:\.\d+)?)", completion)
    plain = str.maketrans({"×": "*", "÷": "/", "−": "-", ",": None})
    return frozenset("".join(parts).translate(plain) for parts in found)


def last_number(completion: str) -> str | None:
    """A key for tasks with several right answers that are numbers: the last one of a completion, without commas.

    Where one answer alone is right, other answers are wrong, and this key would pay sets for having wrong ones.
    """
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", completion)
    return found[-1].replace(",", "") if found else None

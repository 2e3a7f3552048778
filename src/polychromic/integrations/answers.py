"""When do two completions of a language model count as the same? What every adapter for text shares.

Four ways to say it, each asked at most once a completion or a group:

    key(completion)                     a hashable answer or strategy
    judge(prompt, completions)          a label for each completion of a group at once
    equivalent(prompt, first, second)   whether two completions are the same in kind
    embed(completions)                  vectors, compared by cosine: Vendi diversity, or clusters above a threshold

A completion is a `Completion`: a string that also knows its prompt, the columns of its row, its messages and the tools
that it called. `judge` and `equivalent` may be asynchronous, and `calls` says how they are called.

An empty completion (nothing but white space) is never shown to any of them: all empty completions count as one
answer, different from every other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import Floats, Ints, check_label, one_of, real_number
from polychromic.core.diversity import clusters_from_kernel, kernel_from_embeddings, vendi_diversity
from polychromic.errors import UserError
from polychromic.integrations.calls import Cache, Calls, Failure, answer_all
from polychromic.integrations.completions import Completion

# What becomes of a group whose judge gives no answer: the run stops, its advantages are 0, or its texts are compared.
ON_FAILURE = ("error", "skip", "text")
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
        if self.kernel.shape[-1] == 1:
            return np.ones(len(self.kernel))
        return np.asarray(1.0 + (self.kernel.shape[-1] - 1) * vendi_diversity(self.kernel))

    def wrong_alike(self, right: NDArray[np.bool_]) -> Likeness:
        """The same, but all completions of a group that are not right, [G, N], are one answer."""
        if self.labels is not None:
            return Likeness(np.where(right, self.labels, -1), None)
        assert self.kernel is not None
        both_right = right[:, :, None] & right[:, None, :]
        both_wrong = ~right[:, :, None] & ~right[:, None, :]
        return Likeness(None, np.where(both_right, self.kernel, both_wrong.astype(np.float64)))


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
        calls: how `judge` or `equivalent` is called: at the same time, with a time limit, retries and a cache.
        on_failure: what becomes of a group for which `judge` or `equivalent` has failed to the last try: 'error'
            stops the run; 'skip' gives the group the advantage 0; 'text' compares its texts word by word.
    """

    key: Callable[[Completion], Hashable] | None = None
    judge: Callable[[Any, list[Completion]], Any] | None = None
    equivalent: Callable[[Any, Completion, Completion], Any] | None = None
    embed: Callable[[list[Completion]], ArrayLike] | None = None
    similarity_threshold: float | None = None
    calls: Calls | None = None
    on_failure: str = "error"
    _cache: Cache = field(init=False, repr=False, compare=False)

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
        if self.calls is not None and not isinstance(self.calls, Calls):
            raise UserError(f"calls is {self.calls!r}; it must be a Calls, Calls(timeout=60, retries=2) for example")
        one_of("on_failure", self.on_failure, ON_FAILURE)
        if (self.calls is not None or self.on_failure != "error") and not self.needs_whole_groups:
            raise UserError(
                f"calls and on_failure are for judge and equivalent; {given[0]} is called once in this process"
            )
        object.__setattr__(self, "_cache", Cache(self.calls.cache_size if self.calls is not None else 0))

    @property
    def by_kernel(self) -> bool:
        """Whether completions are compared by degrees (Vendi) rather than as the same or not."""
        return self.embed is not None and self.similarity_threshold is None

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

    def labels_of_groups(self, prompts: Sequence[Any], groups: Sequence[Sequence[str]]) -> list[list[Hashable] | None]:
        """The labels of each group by `judge` or `equivalent`; None for a group that is to be skipped."""
        function = self.judge or self.equivalent
        assert function is not None
        questions = _of_judge if self.judge is not None else _of_equivalence
        check: Callable[..., Any] = _judged if self.judge is not None else _same
        texts = [[text for text in group if not _empty(text)] for group in groups]
        conversations = [questions(*pair) for pair in zip(prompts, texts, strict=True)]
        found = answer_all(function, conversations, check, self.calls, self._cache)
        return [self._labels(group, outcome) for group, outcome in zip(groups, found, strict=True)]

    def _labels(self, group: Sequence[str], outcome: Any) -> list[Hashable] | None:
        if isinstance(outcome, Failure):
            if self.on_failure == "error":
                raise _named(outcome.error, "judge" if self.judge is not None else "equivalent", group)
            if self.on_failure == "skip":
                return None
            outcome = [" ".join(text.split()) for text in group if not _empty(text)]
        rest = iter(outcome)
        return [NoAnswer.EMPTY if _empty(text) else next(rest) for text in group]

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
        name = names[row] if names else f"completion {row}"
        if np.isnan(raw[row]):
            raise UserError(
                f"{source} returned None or NaN for {name}; sets are scored by the rewards of all their completions: "
                f"return a number for each, {low:g} for one that cannot be judged, say"
            )
        raise UserError(
            f"{source} returned {raw[row]:g} for {name}; the polychromic objective needs a reward in "
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


def _label(key: Callable[[Completion], Hashable], completion: Any) -> Hashable:
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


def _of_judge(prompt: Any, texts: list[Any]) -> Generator[tuple[Any, ...], Any, list[Hashable]]:
    return (yield prompt, texts) if texts else []


def _judged(labels: Any, prompt: Any, texts: list[str]) -> list[Hashable]:  # noqa: ARG001
    labels = list(labels)
    if len(labels) != len(texts):
        raise UserError(f"judge returned {len(labels)} labels for {len(texts)} completions")
    return [_hashable("judge", label, text) for label, text in zip(labels, texts, strict=True)]


def _of_equivalence(prompt: Any, texts: list[Any]) -> Generator[tuple[Any, ...], Any, list[Hashable]]:
    """Each text's class, by comparison with the first text of every class; equal ones are not compared again."""
    class_of: dict[Hashable, int] = {}
    representatives: list[str] = []
    names = [getattr(text, "identity", text) for text in texts]
    for name, text in zip(names, texts, strict=True):
        if name in class_of:
            continue
        for index, first in enumerate(representatives):
            if (yield prompt, first, text):
                class_of[name] = index
                break
        else:
            class_of[name] = len(representatives)
            representatives.append(text)
    return [class_of[name] for name in names]


def _same(answer: Any, prompt: Any, first: str, second: str) -> bool:  # noqa: ARG001
    return bool(answer)


def _named(error: Exception, source: str, group: Sequence[str]) -> UserError:
    """The error of a user's function, with where it came up."""
    if isinstance(error, UserError):
        return error
    where = f"{len(group)} completions, the first {_shown(group[0])}"
    named = UserError(
        f"{source} raised {type(error).__name__}: {error} on {where}; "
        "on_failure='skip' or 'text' trains on, and calls=Calls(retries=…) tries again"
    )
    named.__cause__ = error
    return named


def _vectors(embed: Callable[[list[Any]], ArrayLike], completions: Sequence[str]) -> list[NDArray[Any] | None]:
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

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

import itertools
import logging
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import Floats, Ints, check_label, is_plain, one_of, real_number
from polychromic.core.diversity import clusters_from_kernel, kernel_from_embeddings, vendi_diversity
from polychromic.errors import UserError
from polychromic.integrations.calls import Cache, Calls, Failure, answer_all
from polychromic.integrations.completions import Completion

logger = logging.getLogger(__name__)

# What becomes of a group whose judge gives no answer, and how a warning puts it.
ON_FAILURE = {"error": "an error", "skip": "skipped", "text": "compared word by word"}
# How wrong completions are compared: like right ones, as one answer, or as the group's most common right answer.
WRONG_ANSWERS = ("compared", "alike", "never-different")
# What can be iterated over but has no order of completions, or is made of letters.
UNORDERED = (str, bytes, Mapping, Set)
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

    def of_wrong(self, right: NDArray[np.bool_], wrong_answers: str) -> Likeness:
        """The same, with the completions that are not right, [G, N], compared in one of the `WRONG_ANSWERS`."""
        if wrong_answers == "compared":
            return self
        return self._wrong_alike(right) if wrong_answers == "alike" else self._wrong_as_most_common(right)

    def _wrong_alike(self, right: NDArray[np.bool_]) -> Likeness:
        if self.labels is not None:
            return Likeness(np.where(right, self.labels, -1), None)
        assert self.kernel is not None
        both_right = right[:, :, None] & right[:, None, :]
        both_wrong = ~right[:, :, None] & ~right[:, None, :]
        return Likeness(None, np.where(both_right, self.kernel, both_wrong.astype(np.float64)))

    def _wrong_as_most_common(self, right: NDArray[np.bool_]) -> Likeness:
        """Each wrong completion in the place of the right one that is most like the other right ones, [G, N]."""
        alike = self.labels[:, :, None] == self.labels[:, None, :] if self.labels is not None else self.kernel
        assert alike is not None
        common = np.where(right, (alike * right[:, None, :]).sum(axis=-1), -np.inf).argmax(axis=1)
        place = np.where(right, np.arange(right.shape[1]), common[:, None])
        if self.labels is not None:
            return Likeness(np.take_along_axis(self.labels, place, axis=1), None)
        assert self.kernel is not None
        groups = np.arange(len(place))[:, None, None]
        return Likeness(None, self.kernel[groups, place[:, :, None], place[:, None, :]])


class GroupLabels(NamedTuple):
    """The labels of a group by a judge; None: it failed, and the group is to be skipped."""

    labels: list[Hashable] | None
    failed: bool = False


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
            stops the run; 'skip' gives the group the advantage 0; 'text' compares its texts word by word. The last two
            are warned of.
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
        one_of("on_failure", self.on_failure, tuple(ON_FAILURE))
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

    def labels_of_groups(self, prompts: Sequence[Any], groups: Sequence[Sequence[str]]) -> list[GroupLabels]:
        """The labels of each group by `judge` or `equivalent`."""
        function = self.judge or self.equivalent
        assert function is not None
        questions = _of_judge if self.judge is not None else _of_equivalence
        check: Callable[..., Any] = _judged if self.judge is not None else _same
        texts = [[text for text in group if not _empty(text)] for group in groups]
        conversations = [questions(*pair) for pair in zip(prompts, texts, strict=True)]
        found = answer_all(function, conversations, check, self.calls, self._cache)
        failures = [outcome for outcome in found if isinstance(outcome, Failure)]
        if failures and self.on_failure != "error":
            logger.warning(
                "polychromic: the judge failed for %d of %d groups, which are %s; the first error is %s",
                len(failures), len(groups), ON_FAILURE[self.on_failure], told(failures[0].error),
            )  # fmt: skip
        return [self._labels(group, outcome) for group, outcome in zip(groups, found, strict=True)]

    def _labels(self, group: Sequence[str], outcome: Any) -> GroupLabels:
        failed = isinstance(outcome, Failure)
        if failed:
            if self.on_failure == "error":
                raise _named(outcome.error, "judge" if self.judge is not None else "equivalent", group)
            if self.on_failure == "skip":
                return GroupLabels(None, failed)
            outcome = [" ".join(text.split()) for text in group if not _empty(text)]
        rest = iter(outcome)
        return GroupLabels([NoAnswer.EMPTY if _empty(text) else next(rest) for text in group], failed)

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
    try:
        return _codes(labels, codes)
    except Exception as error:  # of a class of the user's own
        raise UserError(f"labels cannot be compared: {told(error)}") from error


def _codes(labels: Sequence[Sequence[Hashable]], codes: dict[Hashable, int]) -> Ints:
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


def threshold_of(threshold: Any, reward_range: tuple[float, float]) -> float:
    """The reward from which on a completion counts as right: the one given, or the highest."""
    return reward_range[1] if threshold is None else real_number("success_threshold", threshold, *reward_range)


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
    given = numbers_of(values, count, source)
    raw = np.array([np.nan if value is None else value for value in given], np.float64)
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


def numbers_of(values: Any, count: int, source: str) -> list[float | None]:
    """One number or None per completion from what a user's function returned; anything else is refused."""
    try:
        if isinstance(values, UNORDERED):
            raise TypeError(f"a {type(values).__name__} is not a list of numbers")
        found = [None if value is None else number_of(value) for value in itertools.islice(values, count + 1)]
    except Exception as error:  # a generator may raise anything
        raise UserError(
            f"{source} returned {brief(values)}; it must return one number per completion ({told(error)})"
        ) from error
    if len(found) != count:
        number = len(values) if hasattr(values, "__len__") else "more" if len(found) > count else len(found)
        raise UserError(f"{source} returned {number} rewards for {count} completions")
    return found


def number_of(value: Any) -> float:
    """A real number as a float; texts of numbers and complex numbers are none."""
    if isinstance(value, str | bytes | complex | np.complexfloating):
        raise TypeError(f"{brief(value)} is not a real number")
    return float(value)


def right_answers(rewards: Floats, threshold: float) -> NDArray[np.bool_]:
    """Which rewards reach the threshold, up to rounding."""
    return np.asarray(rewards >= threshold - REWARD_TOLERANCE)


def _empty(completion: str) -> bool:
    return not completion.strip()


def told(error: Exception) -> str:
    """The error of a user's function in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def brief(value: Any) -> str:
    """The beginning of what a user's function returned, in one line."""
    try:
        return " ".join(repr(value).split())[:80]
    except Exception:  # of a class of the user's own
        return f"a {type(value).__name__}"


def _shown(completion: str) -> str:
    return repr(completion if len(completion) <= 80 else completion[:77] + "...")


def _label(key: Callable[[Completion], Hashable], completion: Any) -> Hashable:
    try:
        label = key(completion)
    except Exception as error:
        columns = list(getattr(completion, "columns", {}))
        if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str) and columns:
            advice = f"the columns of a completion are {', '.join(map(repr, columns))}"
        else:
            advice = "return a label for answers that cannot be read too, None for example"
        raise UserError(f"key raised {told(error)} on the completion {_shown(completion)}; {advice}") from error
    return _hashable("key", label, completion)


def _hashable(source: str, label: Hashable, completion: str) -> Hashable:
    try:
        hash(label)
    except Exception as error:  # of a class of the user's own
        raise UserError(
            f"{source} returned {type(label).__name__} for the completion {_shown(completion)}: {told(error)}; labels "
            "must be hashable, a string or a tuple for example"
        ) from error
    if not is_plain(label):
        check_label(label, f"what {source} returned for the completion {_shown(completion)}")
    return label


def _of_judge(prompt: Any, texts: list[Any]) -> Generator[tuple[Any, ...], Any, list[Hashable]]:
    return (yield prompt, texts) if texts else []


def _judged(labels: Any, prompt: Any, texts: list[str]) -> list[Hashable]:  # noqa: ARG001
    if isinstance(labels, UNORDERED):
        raise UserError(f"judge returned {brief(labels)}; it must return a list of {len(texts)} labels, in order")
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
    if not isinstance(answer, bool | np.bool_):
        raise UserError(f"equivalent returned {brief(answer)} for {_shown(first)}; it must return True or False")
    return bool(answer)


def _named(error: Exception, source: str, group: Sequence[str]) -> UserError:
    """The error of a user's function, with where it came up."""
    if isinstance(error, UserError):
        return error
    where = f"{len(group)} completions, the first {_shown(group[0])}"
    named = UserError(
        f"{source} raised {told(error)} on {where}; "
        "on_failure='skip' or 'text' continues without its answer, and calls=Calls(retries=…) tries again"
    )
    named.__cause__ = error
    return named


def _vectors(embed: Callable[[list[Any]], ArrayLike], completions: Sequence[str]) -> list[NDArray[Any] | None]:
    texts = [text for text in completions if not _empty(text)]
    if not texts:
        return [None] * len(completions)
    try:
        found = np.asarray(embed(texts))
        if found.dtype.kind in "cUSMm":
            raise TypeError(f"{found.dtype} is not a type of real numbers")
        vectors = found.astype(np.float64)
    except Exception as error:
        raise UserError(f"embed raised {told(error)} on {len(texts)} completions") from error
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise UserError(f"embed returned shape {vectors.shape}; {len(texts)} completions need [{len(texts)}, features]")
    with np.errstate(all="ignore"):
        lengths = np.square(vectors).sum(axis=1)
    useless = ~np.isfinite(lengths) | (lengths == 0)
    if useless.any():
        raise UserError(
            f"embed returned a vector of zeros or with NaN for {_shown(texts[int(useless.argmax())])}, or one that is "
            "too short or too long; cosine similarity needs a direction"
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

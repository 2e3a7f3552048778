"""Reward functions as TRL calls them, made of several functions or of a function of one completion."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from polychromic.core.checks import Floats, float_array, real_number
from polychromic.errors import UserError
from polychromic.integrations.answers import brief, number_of, numbers_of, told
from polychromic.integrations.calls import Cache, Calls, Failure, answer_all, is_asynchronous, run_in_loop
from polychromic.integrations.completions import Completion

LARGEST = 1e15  # no reward comes near

# What TRL passes to a reward function beside the columns of the data set.
NOT_COLUMNS = ("completion_ids", "trainer_state", "log_extra", "log_metric", "environments")

RewardFunction = Callable[..., list[float | None]]


def columns_of(prompts: Sequence[Any], completions: Sequence[Any], columns: dict[str, Any]) -> list[Completion]:
    """What TRL hands to a reward function, as one `Completion` each, with its row of the columns."""
    rows = {
        name: values
        for name, values in columns.items()
        if name not in NOT_COLUMNS and isinstance(values, list) and len(values) == len(completions)
    }
    if not rows:
        return [Completion.of(answer, prompt) for prompt, answer in zip(prompts, completions, strict=True)]
    return [
        Completion.of(answer, prompt, {name: values[row] for name, values in rows.items()})
        for row, (prompt, answer) in enumerate(zip(prompts, completions, strict=True))
    ]


def named_call(name: str, function: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """The answer of a user's function; its error is told in one line that names it."""
    try:
        return function(*given, **more)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name} raised {told(error)}") from error


def each_completion(
    function: Callable[[Completion], Any], *, calls: Calls | None = None, fallback: float | None = None
) -> RewardFunction:
    """A reward function from a function of one completion, asynchronous or not.

    It can be pickled if `function` can.

    Args:
        function: from a `Completion`, which knows its prompt and columns, to its reward.
        calls: how it is called: at the same time, with a time limit, retries and a cache.
        fallback: the reward of a completion for which it has failed to the last try; none: the run stops. The share of
            such completions is logged as `polychromic/failed_rewards`.
    """
    if not callable(function):
        raise UserError(f"each_completion was given {brief(function)}; it must be a function of one completion")
    if calls is not None and not isinstance(calls, Calls):
        raise UserError(f"calls is {brief(calls)}; it must be a Calls, Calls(timeout=60, retries=2) for example")
    if fallback is not None:
        real_number("fallback", fallback, -LARGEST, LARGEST)
    return _EachCompletion(function, calls, fallback)


class _EachCompletion:
    """The reward function of `each_completion`: a class, because a closure cannot be sent to another process."""

    def __init__(self, function: Callable[[Completion], Any], calls: Calls | None, fallback: float | None) -> None:
        self.function, self.calls, self.fallback = function, calls, fallback
        self.__name__ = getattr(function, "__name__", "reward")
        self._cache = Cache(calls.cache_size if calls is not None else 0)

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        asked = columns_of(prompts, completions, columns)
        questions = [_question(completion) for completion in asked]
        outcomes = answer_all(self.function, questions, _number, self.calls, self._cache)
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        if failures and self.fallback is None:
            error = failures[0].error
            if isinstance(error, _NoNumber):  # further tries would give no other
                raise UserError(f"{self.__name__}: {error}") from error
            raise UserError(
                f"{self.__name__} raised {told(error)} for {len(failures)} of {len(asked)} completions; "
                "calls=Calls(retries=…) tries again, fallback=0.0 gives them that reward"
            ) from error
        if self.fallback is not None and "log_metric" in columns:
            columns["log_metric"]("polychromic/failed_rewards", len(failures) / max(len(asked), 1))
        return [self.fallback if isinstance(outcome, Failure) else outcome for outcome in outcomes]


class _NoNumber(UserError):
    """What a function returned is no reward."""


def _question(completion: Completion) -> Generator[tuple[Any, ...], Any, Any]:
    return (yield (completion,))


def _number(value: Any, completion: Completion) -> float:
    try:
        number = number_of(value)
    except Exception:  # of a class of the user's own
        number = math.nan
    if not math.isfinite(number):
        raise _NoNumber(f"the reward of {str(completion)[:80]!r} is {brief(value)}; it must be a finite number")
    return number


def combine(*functions: Callable[..., Any], weights: Sequence[float] | None = None) -> RewardFunction:
    """One reward function, the weighted sum of several, as the trainer would add them up.

    What a function returns as None counts as nothing, as in TRL; NaN and infinity are refused. Asynchronous functions
    are waited for together. Each function's mean is logged as `polychromic/rewards/<its name>`. The sum can be pickled
    if its functions can.

    Args:
        functions: reward functions as TRL calls them.
        weights: one per function; not given, 1 each. `reward_range` of `PolychromicReward` is that of the sum.
    """
    if not functions:
        raise UserError("combine was given no function")
    for function in functions:
        if not callable(function):
            raise UserError(f"combine was given {brief(function)}; give it functions, combine(is_right, is_short) say")
    factors = float_array("weights", [1.0] * len(functions) if weights is None else weights)
    if factors.shape != (len(functions),):
        raise UserError(f"weights has shape {factors.shape} for {len(functions)} functions; give one weight for each")
    return _Combined(functions, factors)


class _Combined:
    """The reward function of `combine`: a class, because a closure cannot be sent to another process."""

    def __init__(self, functions: Sequence[Callable[..., Any]], weights: Floats) -> None:
        self.functions, self.weights = functions, weights
        self.names = [getattr(function, "__name__", "reward") for function in functions]
        self.__name__ = "+".join(self.names)

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        found = self._answers({"prompts": prompts, "completions": completions, **columns})
        values = np.array(
            [_counted(name, given, len(completions)) for name, given in zip(self.names, found, strict=True)]
        )
        if "log_metric" in columns:
            for name, row in zip(self.names, values, strict=True):
                if not np.isnan(row).all():
                    columns["log_metric"](f"polychromic/rewards/{name}", float(np.nanmean(row)))
        sums = np.nansum(values * self.weights[:, None], axis=0)
        missing = np.isnan(values).all(axis=0)
        return [None if absent else float(total) for absent, total in zip(missing, sums, strict=True)]

    def _answers(self, given: dict[str, Any]) -> list[Any]:
        """What each function returns, the asynchronous ones waited for together."""
        found = [named_call(name, function, **given) for name, function in zip(self.names, self.functions, strict=True)]
        waiting = [i for i, function in enumerate(self.functions) if is_asynchronous(function)]
        if waiting:
            work = _together([found[i] for i in waiting])
            answers = named_call("+".join(self.names[i] for i in waiting), run_in_loop, work)
            for i, answer in zip(waiting, answers, strict=True):
                found[i] = answer
        return found


def _counted(name: str, rewards: Any, count: int) -> list[float]:
    """The rewards of one function; NaN where a completion does not count."""
    numbers = numbers_of(rewards, count, name)
    for place, number in enumerate(numbers):
        if number is not None and not math.isfinite(number):
            raise UserError(
                f"{name} returned {number} for completion {place}; it must be a finite number, or None for one "
                "that does not count"
            )
    return [np.nan if number is None else number for number in numbers]


async def _together(waiting: list[Any]) -> list[Any]:
    return list(await asyncio.gather(*waiting))

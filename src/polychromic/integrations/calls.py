"""Calls of functions that may be slow or fail: judges and rewards that ask a model behind a server.

They run at once, up to a number, with a time limit, further tries and a memory of earlier answers. Asynchronous
functions share one event loop for the life of the process, because clients keep their connections in it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Generator, Hashable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, NamedTuple

from polychromic.core.checks import real_number, whole_number
from polychromic.integrations.completions import Completion

# A question is the arguments of one call of the user's function. Who answers a generator of them, one by one, does not
# matter to it: the caller's own thread, or the event loop.
Questions = Generator[tuple[Any, ...], Any, Any]


@dataclass(frozen=True)
class Calls:
    """How a slow function is called.

    Given to a function that is not asynchronous, it is called in threads of their own, which do not share the caller's
    `torch.no_grad` or CUDA device. Without it, such a function is called in the caller's thread, one call at a time.

    Attributes:
        concurrency: calls at the same time.
        timeout: seconds for one try; none: wait for ever.
        retries: further tries after one that failed or took too long.
        wait: seconds before the first further try; they double with every try.
        cache_size: answers remembered, the latest used; 0 remembers none.
    """

    concurrency: int = 16
    timeout: float | None = None
    retries: int = 0
    wait: float = 1.0
    cache_size: int = 0

    def __post_init__(self) -> None:
        whole_number("concurrency", self.concurrency, at_least=1)
        whole_number("retries", self.retries, at_least=0)
        whole_number("cache_size", self.cache_size, at_least=0)
        real_number("wait", self.wait, 0.0, 3600.0)
        if self.timeout is not None:
            real_number("timeout", self.timeout, 1e-3, 86400.0)


class Failure(NamedTuple):
    """The error of the last try."""

    error: Exception


class Cache(OrderedDict[Hashable, Any]):
    """The last `size` answers."""

    def __init__(self, size: int = 0) -> None:
        super().__init__()
        self.size = size

    def look_up(self, question: Hashable) -> tuple[bool, Any]:
        """Whether there is an answer, and the answer."""
        if question not in self:
            return False, None
        self.move_to_end(question)
        return True, self[question]

    def remember(self, question: Hashable, answer: Any) -> None:
        """Keep an answer, and forget the one that was used longest ago."""
        if self.size:
            self[question] = answer
            if len(self) > self.size:
                self.popitem(last=False)


def is_asynchronous(function: Any) -> bool:
    """Whether a call returns something to wait for."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def answer_all(
    function: Callable[..., Any],
    conversations: Sequence[Questions],
    check: Callable[..., Any],
    calls: Calls | None = None,
    cache: Cache | None = None,
) -> list[Any]:
    """What each generator of questions returns when `function` answers them; a `Failure` where a try was not enough.

    Args:
        function: the user's, asynchronous or not.
        conversations: generators that yield the arguments of a call and are sent its checked answer.
        check: from the answer and the arguments to the checked answer; an error in it is one of the call.
        calls: how to call; none: in this thread, unless the function is asynchronous.
        cache: of earlier answers.
    """
    if calls is None and not is_asynchronous(function):
        return [_outcome(conversation, function, check) for conversation in conversations]
    found: list[Any] = run_in_loop(
        _answer_all(function, conversations, check, calls or Calls(), Cache(0) if cache is None else cache)
    )
    return found


def run_in_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of `work` in the event loop of this process, from a thread outside of it."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    finally:
        future.cancel()


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}


def _loop() -> asyncio.AbstractEventLoop:
    """One a process; a process that was forked from this one needs its own."""
    process = os.getpid()
    if process not in _LOOPS:
        _LOOPS[process] = asyncio.new_event_loop()
        threading.Thread(target=_LOOPS[process].run_forever, daemon=True, name="polychromic calls").start()
    return _LOOPS[process]


def _outcome(conversation: Questions, function: Callable[..., Any], check: Callable[..., Any]) -> Any:
    """Without tries and limits, in this thread."""
    answer = None
    while True:
        try:
            question = conversation.send(answer)
        except StopIteration as end:
            return end.value
        try:
            answer = check(function(*question), *question)
        except Exception as error:
            return Failure(error)


async def _answer_all(
    function: Callable[..., Any],
    conversations: Sequence[Questions],
    check: Callable[..., Any],
    calls: Calls,
    cache: Cache,
) -> list[Any]:
    free = asyncio.Semaphore(calls.concurrency)

    async def answered(conversation: Questions) -> Any:
        answer = None
        while True:
            try:
                question = conversation.send(answer)
            except StopIteration as end:
                return end.value
            known, answer = cache.look_up(identity := _identity(question))
            if not known:
                try:
                    async with free:
                        answer = await _tried(function, question, check, calls)
                except Exception as error:
                    return Failure(error)
                cache.remember(identity, answer)

    return await asyncio.gather(*map(answered, conversations))


async def _tried(
    function: Callable[..., Any], question: tuple[Any, ...], check: Callable[..., Any], calls: Calls
) -> Any:
    """The checked answer of the first try that succeeds."""
    for retry in range(calls.retries + 1):
        try:
            answer = function(*question) if is_asynchronous(function) else _in_thread(function, question)
            return check(await asyncio.wait_for(answer, calls.timeout), *question)
        except TimeoutError as error:
            if retry == calls.retries:
                raise TimeoutError(f"no answer within {calls.timeout} s") from error
        except Exception:
            if retry == calls.retries:
                raise
        await asyncio.sleep(calls.wait * 2**retry)
    raise AssertionError("unreachable")


def _in_thread(function: Callable[..., Any], arguments: tuple[Any, ...]) -> asyncio.Future[Any]:
    """A call in a thread that does not keep the process alive when nobody waits for it any more."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(answer: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(answer)
        else:
            # A future takes any exception but this one, which would end whoever waits for it in silence.
            future.set_exception(RuntimeError("StopIteration") if isinstance(error, StopIteration) else error)

    def work() -> None:
        try:
            answer, failure = function(*arguments), None
        except Exception as error:
            answer, failure = None, error
        loop.call_soon_threadsafe(settle, answer, failure)

    threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
    return future


def _identity(value: Any) -> Hashable:
    """Equal for questions that mean the same."""
    if isinstance(value, Completion):
        return (value.identity, _identity(value.prompt), repr(sorted(value.columns.items(), key=lambda item: item[0])))
    if isinstance(value, tuple | list):
        return tuple(map(_identity, value))
    return value if isinstance(value, str) else repr(value)

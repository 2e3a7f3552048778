"""A completion of a language model: its text, and what it answers and how it came about.

A `Completion` is a string, so a function of texts takes it as it is. One that asks for more finds it on the string:

    key=lambda completion: (completion.columns["topic"], completion.tool_calls)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# How Hermes, Qwen and others write a call down. TRL hands calls over apart from the text, verl as the model wrote them;
# in this form the text of both is the same.
BEGIN_CALL, END_CALL = "<tool_call>", "</tool_call>"


class ToolCall(NamedTuple):
    """A call of a tool; equal calls are equal and have the same hash.

    Attributes:
        name: of the tool.
        arguments: as JSON with sorted names, or as the model wrote them where they are not JSON.
    """

    name: str
    arguments: str


class Completion(str):
    """The text of a completion, that is, all that the model has written, thoughts and calls of tools included.

    Attributes:
        prompt: what it answers, as the trainer has it: a string or a list of messages.
        columns: the columns of the data set in its row.
    """

    prompt: Any
    columns: Mapping[str, Any]

    def __new__(
        cls,
        text: str,
        prompt: Any = None,
        columns: Mapping[str, Any] | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> Completion:
        completion = super().__new__(cls, text)
        completion.prompt = prompt
        completion.columns = columns or {}
        completion._messages = messages
        return completion

    _messages: Sequence[Mapping[str, Any]] | None

    @classmethod
    def of(cls, answer: Any, prompt: Any = None, columns: Mapping[str, Any] | None = None) -> Completion:
        """From what a trainer hands over: a text, or the messages that follow a prompt."""
        if isinstance(answer, str):
            return cls(answer, prompt, columns)
        return cls(_written(answer), prompt, columns, answer)

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """The conversation that follows the prompt, what tools and environments said included."""
        if self._messages is None:
            return [{"role": "assistant", "content": str(self)}]
        return list(self._messages)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of tools in their order; a key for agents, as it stands."""
        calls = [_tool_call(call) for message in self._messages or () for call in message.get("tool_calls") or ()]
        return tuple(calls or map(_parsed_call, _called(self)))

    @property
    def identity(self) -> Any:
        """Equal for completions that no function could tell apart by text or messages."""
        return str(self) if self._messages is None else (str(self), repr(self._messages))


def content_of(message: Mapping[str, Any]) -> str:
    """The text of a message; images and other parts are left out."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _written(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the assistant wrote in `messages`."""
    parts: list[str] = []
    for message in messages:
        if message.get("role", "assistant") == "assistant":
            parts += [_thought(message), content_of(message), *map(_as_text, message.get("tool_calls") or ())]
    return "\n".join(part for part in parts if part)


def _thought(message: Mapping[str, Any]) -> str:
    """What the model thought before it answered, between the marks that a trainer with a parser has taken off."""
    thought = message.get("reasoning_content") or message.get("thinking")
    return f"<think>\n{thought}\n</think>" if thought else ""


def _as_text(call: Mapping[str, Any]) -> str:
    name, arguments = _tool_call(call)
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    """From a call as OpenAI writes it, {"function": {"name": …, "arguments": …}}, or without the outer part."""
    function = call.get("function") or call
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return ToolCall(str(function.get("name")), arguments)
    return ToolCall(str(function.get("name")), json.dumps(arguments, sort_keys=True, default=str))


def _called(text: str) -> list[str]:
    """What a text has between the marks of a call; one without an end is none."""
    parts = [part.partition(END_CALL) for part in text.split(BEGIN_CALL)[1:]]
    return [call.strip() for call, end, _ in parts if end]


def _parsed_call(text: str) -> ToolCall:
    """A model may write anything here; text that is not a call is compared as it stands."""
    try:
        call = json.loads(text)
        if isinstance(call, dict) and isinstance(call.get("function") or call, dict):
            return _tool_call(call)
    except (ValueError, RecursionError):
        pass
    return ToolCall("", text)

"""Judges and embeddings from a model behind any OpenAI-compatible server (vLLM, SGLang, llama.cpp, a provider).

    judge = EndpointJudge("http://127.0.0.1:8000/v1", "Qwen/Qwen3-8B")
    reward = PolychromicReward(is_right, judge=judge, calls=Calls(timeout=120, retries=2), on_failure="skip")

A group is one request. What the server has said once is not asked again, in later runs neither if there is a
`cache_file`. What happens when it does not answer is said by `calls` and `on_failure`, which the reward takes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polychromic.core.checks import Floats, real_number, whole_number
from polychromic.errors import UserError
from polychromic.integrations.completions import content_of

logger = logging.getLogger(__name__)

INSTRUCTIONS = """You compare solutions to the same task. Two solutions belong together if they follow the same \
strategy: the same key idea, method or sequence of main steps. Wording, order of presentation, notation and length do \
not matter, and neither does whether a solution is right. Look at what each solution does, then answer with a JSON \
object alone, {"groups": [...]}, that has one whole number for each solution, in their order; equal numbers for \
solutions that belong together."""


class _Endpoint:
    """Requests to a server, and what it has said before."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key_variable: str | None = None,
        timeout: float = 120.0,
        cache_file: str | Path | None = None,
    ) -> None:
        if not str(url).startswith(("http://", "https://")):
            raise UserError(f"url is {url!r}; it must be where the server's API begins, http://127.0.0.1:8000/v1 say")
        if api_key_variable is not None and api_key_variable not in os.environ:
            raise UserError(f"api_key_variable is {api_key_variable!r}; there is no such environment variable")
        self.url, self.model = url.rstrip("/"), model
        self.api_key_variable = api_key_variable
        self.timeout = real_number("timeout", timeout, 1e-3, 86400.0)
        self.cache_file = None if cache_file is None else Path(cache_file)
        if self.cache_file is not None and not self.cache_file.absolute().parent.is_dir():
            raise UserError(
                f"cache_file is {str(cache_file)!r}, but the folder {self.cache_file.parent} does not exist; create it"
            )
        self._known = _read_cache(self.cache_file)
        self._writing = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """For a process that is started with a copy: without the lock, which belongs to this one."""
        return {name: value for name, value in vars(self).items() if name != "_writing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._writing = threading.Lock()

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        """The server's answer; an error names the address and what came back."""
        headers = {"Content-Type": "application/json"}
        if self.api_key_variable is not None:
            headers["Authorization"] = f"Bearer {os.environ[self.api_key_variable]}"
        request = urllib.request.Request(f"{self.url}/{path}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise UserError(f"{self.url}/{path} answered {error.code}: {said[:200]!r}") from error
        except OSError as error:
            raise UserError(f"{self.url}/{path} does not answer: {error}") from error
        except ValueError as error:
            raise UserError(f"{self.url}/{path} did not answer in JSON: {error}") from error

    def _remember(self, name: str, value: Any) -> None:
        self._known[name] = value
        if self.cache_file is not None:
            try:
                with self._writing:
                    _add_line(self.cache_file, json.dumps([name, value]))
            except OSError as error:  # the answer is there all the same
                logger.warning("polychromic: cannot write %s (%s); answers are remembered in this process only",
                               self.cache_file, error)  # fmt: skip
                self.cache_file = None


class EndpointJudge(_Endpoint):
    """A `judge`: a chat model is shown a task and its different completions, and says which share a strategy.

    It is tested against `transformers serve` with a small model, too small to judge well.

    Args:
        url: where the server's API begins, up to and with `/v1`.
        model: the name by which the server knows the model.
        instructions: what to compare; the answer must be a JSON object {"groups": [one number per solution]}.
        api_key_variable: the environment variable that holds the key, if the server wants one.
        timeout: seconds for a request.
        cache_file: a file of answers to read and to add to; none: answers are remembered in this process only.
        most_characters: of a completion that are shown; the middle of longer ones is left out.
        options: anything else to send with each request, {"temperature": 0.0} if not given.
    """

    __name__ = "EndpointJudge"

    def __init__(
        self,
        url: str,
        model: str,
        *,
        instructions: str = INSTRUCTIONS,
        api_key_variable: str | None = None,
        timeout: float = 120.0,
        cache_file: str | Path | None = None,
        most_characters: int = 8_000,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(url, model, api_key_variable=api_key_variable, timeout=timeout, cache_file=cache_file)
        self.instructions = instructions
        self.most_characters = whole_number("most_characters", most_characters, at_least=100)
        self.options = {"temperature": 0.0} if options is None else options

    def __call__(self, prompt: Any, completions: Sequence[str]) -> list[int]:
        """A number for each completion; equal numbers for the same strategy."""
        texts = list(dict.fromkeys(map(str, completions)))  # equal ones are shown once
        numbers = {texts[0]: 0} if len(texts) == 1 else dict(zip(texts, self._groups(prompt, texts), strict=True))
        return [numbers[text] for text in completions]

    def _groups(self, prompt: Any, texts: list[str]) -> list[int]:
        shown = "\n\n".join(
            f"Solution {number}:\n{_shortened(text, self.most_characters)}" for number, text in enumerate(texts, 1)
        )
        messages = [
            {"role": "system", "content": self.instructions},
            {"role": "user", "content": f"Task:\n{_prompt_text(prompt)}\n\n{shown}"},
        ]
        body = {"model": self.model, "messages": messages, **self.options}
        name = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        if name not in self._known:
            self._remember(name, _groups_in(self._ask("chat/completions", body), len(texts)))
        found: list[int] = self._known[name]
        return found


class EndpointEmbeddings(_Endpoint):
    """An `embed`: the server's vectors of texts, those it has not seen before in batches.

    So far it was only run against stub servers, not against a real model's.

    Args:
        url, model, api_key_variable, timeout, cache_file: as for `EndpointJudge`.
        batch_size: texts in a request.
    """

    __name__ = "EndpointEmbeddings"

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key_variable: str | None = None,
        timeout: float = 120.0,
        cache_file: str | Path | None = None,
        batch_size: int = 64,
    ) -> None:
        super().__init__(url, model, api_key_variable=api_key_variable, timeout=timeout, cache_file=cache_file)
        self.batch_size = whole_number("batch_size", batch_size, at_least=1)

    def __call__(self, completions: Sequence[str]) -> Floats:
        """[texts, features]"""
        names = [hashlib.sha256(f"{self.model}\n{text}".encode()).hexdigest() for text in completions]
        missing = {name: text for name, text in zip(names, completions, strict=True) if name not in self._known}
        texts = list(missing.items())
        for start in range(0, len(texts), self.batch_size):
            batch = texts[start : start + self.batch_size]
            answer = self._ask("embeddings", {"model": self.model, "input": [str(text) for _, text in batch]})
            try:
                vectors = [part["embedding"] for part in sorted(answer["data"], key=lambda part: part["index"])]
            except (KeyError, TypeError) as error:
                raise UserError(f"{self.url}/embeddings answered without vectors: {str(answer)[:200]}") from error
            if len(vectors) != len(batch):
                raise UserError(f"{self.url}/embeddings answered {len(vectors)} vectors for {len(batch)} texts")
            for (name, _), vector in zip(batch, vectors, strict=True):
                self._remember(name, vector)
        return np.array([self._known[name] for name in names], np.float64)


def _groups_in(answer: Any, count: int) -> list[int]:
    """The numbers in a model's answer: the last JSON object with "groups" in it, so that it may think aloud before."""
    try:
        text = answer["choices"][0]["message"]["content"] or ""
    except (KeyError, IndexError, TypeError) as error:
        raise UserError(f"the judge's server answered without a message: {str(answer)[:200]}") from error
    for found in reversed(re.findall(r'\{\s*"groups"\s*:\s*\[[^\]]*\]\s*\}', text)):
        try:
            groups = json.loads(found)["groups"]
        except ValueError:
            continue
        if len(groups) == count and all(isinstance(group, int) for group in groups):
            return list(groups)
    raise UserError(f"the judge did not sort {count} solutions; it answered {text[-200:]!r}")


def _prompt_text(prompt: Any) -> str:
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return "\n".join(content_of(message) for message in prompt)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n[…]\n{text[-most // 2 :]}"


def _add_line(path: Path, line: str) -> None:
    """Append a line of its own, even where a run that was killed has left half a line."""
    with path.open("ab+", buffering=0) as file:  # one write, so that lines of several processes do not mix
        half = False
        if file.tell():
            file.seek(-1, os.SEEK_END)
            half = file.read(1) != b"\n"
        file.write(b"\n" * half + line.encode() + b"\n")


def _read_cache(path: Path | None) -> dict[str, Any]:
    """The answers in a file. A damaged line is left out, and what it held is asked again."""
    if path is None or not path.exists():
        return {}
    lines = [line for line in path.read_text(errors="replace").splitlines() if line]
    found = [_answer_in(line) for line in lines]
    known = dict(answer for answer in found if answer is not None)
    damaged = found.count(None)
    if damaged and not known and not any(line.startswith("[") for line in lines):
        raise UserError(f"cache_file is {path}; it holds no answers of a server: give another file")
    if damaged:
        logger.warning("polychromic: %d of %d lines of %s are damaged and left out", damaged, len(lines), path)
    return known


def _answer_in(line: str) -> tuple[str, Any] | None:
    """The name of a question and its answer; None if the line does not hold them."""
    try:
        name, value = json.loads(line)
    except (ValueError, TypeError):
        return None
    return (name, value) if isinstance(name, str) else None

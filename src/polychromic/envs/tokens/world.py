"""Any token task as a world that can be forked: prompts, a reward for finished answers, and when answers are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polychromic.core.checks import whole_number
from polychromic.envs.protocol import StepResult, World
from polychromic.envs.rows import take_rows
from polychromic.errors import UserError

# Columns of a state's row, in front of its tokens.
CONFIGURATION, LENGTH, ENDED, PLACE, SUCCEEDED = range(5)
FIRST_TOKEN = 5
GOING, TERMINATED, TRUNCATED = range(3)  # what ENDED holds
NOWHERE = -1  # the place of a sequence that has named none yet, and of tokens that name none

# (configurations [B], answers [B, max_tokens], −1 past the end of each) -> [B]
AnswerFunction = Callable[[NDArray[np.int64], NDArray[np.int64]], ArrayLike]


class TokenState:
    """A batch of unfinished and finished sequences, one per row; `state[rows]` is an independent copy."""

    __slots__ = ("rows",)

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any) -> TokenState:
        return TokenState(take_rows(self.rows, rows))

    def __repr__(self) -> str:
        return f"TokenState({len(self)} rows, {int((self.rows[:, ENDED] != GOING).sum())} ended)"


class TokenWorld(World):
    """Prompts to be continued token by token; `token_world` makes one.

    In addition to the members of `World`: `context` (maximum tokens of a sequence), `vocabulary` (words, or empty). An
    action is a token, a configuration is a prompt, and its mission is the text of the prompt.
    """

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        num_tokens: int,
        end: int,
        max_tokens: int,
        reward: AnswerFunction,
        place_of_token: NDArray[np.int64] | None,
        label: AnswerFunction | None,
        vocabulary: Sequence[str],
        task: str,
        level_seeds: Sequence[int],
    ) -> None:
        self.num_actions = num_tokens
        self.num_configurations = len(prompts)
        self.horizon = max_tokens
        self.task = task
        self.level_seeds = tuple(level_seeds)
        self.vocabulary = tuple(vocabulary)
        self._missions = tuple(" ".join(self.word(token) for token in prompt) for prompt in prompts)
        self.end = end
        self.names_places = place_of_token is not None or label is not None
        self._reward, self._label, self._place_of_token = reward, label, place_of_token
        self._prompt_lengths = np.array([len(prompt) for prompt in prompts])
        self.context = int(self._prompt_lengths.max()) + max_tokens
        self._first = np.zeros((len(prompts), FIRST_TOKEN + self.context), np.int64)
        self._first[:, CONFIGURATION] = np.arange(len(prompts))
        self._first[:, LENGTH] = self._prompt_lengths
        self._first[:, PLACE] = NOWHERE if label is None else 0
        for row, prompt in zip(self._first, prompts, strict=True):
            row[FIRST_TOKEN : FIRST_TOKEN + len(prompt)] = prompt

    @property
    def missions(self) -> Sequence[str]:
        """The text of each prompt."""
        return self._missions

    def word(self, token: int) -> str:
        """A token as text."""
        return self.vocabulary[token] if self.vocabulary else str(token)

    def start(self, configurations: ArrayLike) -> TokenState:
        """The prompts of these configurations, one row each."""
        chosen = np.atleast_1d(np.asarray(configurations))
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or (len(chosen) and not self._has(chosen)):
            raise UserError(
                f"configurations: expected numbers from 0 to {self.num_configurations - 1}, got {configurations!r}"
            )
        return TokenState(self._first[chosen])

    def _has(self, numbers: NDArray[np.int64]) -> bool:
        return bool(numbers.min() >= 0 and numbers.max() < self.num_configurations)

    def observe(self, state: TokenState) -> dict[str, NDArray[Any]]:
        """`tokens` int32 [B, context], zeros after the first `length` int32 [B] of them."""
        rows = state.rows
        return {"tokens": rows[:, FIRST_TOKEN:].astype(np.int32), "length": rows[:, LENGTH].astype(np.int32)}

    def step(self, state: TokenState, actions: ArrayLike) -> StepResult:
        """Append a token to every unfinished row. The end token, or the last one that fits, finishes and pays it."""
        rows = state.rows
        tokens = np.asarray(actions)
        if tokens.dtype.kind not in "iu" or tokens.shape != (len(rows),):
            raise UserError(
                f"actions: expected {len(rows)} tokens, one per row, got {tokens.dtype} of shape {tokens.shape}"
            )
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.num_actions:
            raise UserError(
                f"actions: tokens run from 0 to {self.num_actions - 1}, got {tokens.min()} … {tokens.max()}"
            )
        reward = np.zeros(len(rows), np.float32)
        going = np.flatnonzero(rows[:, ENDED] == GOING)
        new = tokens[going]
        rows[going, FIRST_TOKEN + rows[going, LENGTH]] = new
        rows[going, LENGTH] += 1
        if self._place_of_token is not None:
            named = self._place_of_token[new]
            rows[going, PLACE] = np.where(named == NOWHERE, rows[going, PLACE], named)
        lengths = rows[going, LENGTH] - self._prompt_lengths[rows[going, CONFIGURATION]]
        rows[going, ENDED] = np.where(new == self.end, TERMINATED, np.where(lengths == self.horizon, TRUNCATED, GOING))
        ended = going[rows[going, ENDED] != GOING]
        if len(ended):
            finished = TokenState(rows[ended])
            reward[ended] = self._asked("reward", self._reward, finished, np.float32)
            rows[ended, SUCCEEDED] = reward[ended] > 0
            if self._label is not None:
                rows[ended, PLACE] = self._asked("label", self._label, finished, np.int64)
        return StepResult(reward, rows[:, ENDED] == TERMINATED, rows[:, ENDED] == TRUNCATED)

    def _asked(self, name: str, function: AnswerFunction, finished: TokenState, kind: Any) -> NDArray[Any]:
        values = np.asarray(function(finished.rows[:, CONFIGURATION].copy(), self.answers(finished)))
        if values.shape != (len(finished),) or values.dtype.kind not in ("iub" if kind is np.int64 else "iubf"):
            raise UserError(
                f"{name} returned {values.dtype} of shape {values.shape} for {len(finished)} answers; "
                f"it must return one {'whole ' if kind is np.int64 else ''}number for each"
            )
        if not np.isfinite(values).all():
            raise UserError(f"{name} returned {values[~np.isfinite(values)][0]}; it must return finite numbers")
        return values.astype(kind)

    def answers(self, state: TokenState) -> NDArray[np.int64]:
        """The tokens after the prompt, int64 [B, horizon], −1 past the end of each."""
        rows = state.rows
        start = self._prompt_lengths[rows[:, CONFIGURATION]][:, None]
        at = start + np.arange(self.horizon)
        tokens = np.take_along_axis(rows[:, FIRST_TOKEN:], at, axis=1)
        return np.where(at < rows[:, LENGTH][:, None], tokens, -1)

    def places(self, state: TokenState) -> NDArray[np.int64]:
        """The place that a row named last; with a label function instead, 0 until its answer is finished."""
        return state.rows[:, PLACE].copy()

    def succeeded(self, state: TokenState) -> NDArray[np.bool_]:
        """Which rows are finished answers with a reward above 0."""
        return np.not_equal(state.rows[:, SUCCEEDED], 0)

    def misfit(self, header: Mapping[str, Any]) -> str:
        """Whether sequences are longer, or words differ from those that the network was trained on."""
        architecture = header["architecture"]
        if "num_tokens" not in architecture and {"cells", "code_triples"} & set(architecture):
            return "the network sees the cells of a grid, the world shows tokens"
        if architecture.get("num_tokens", self.num_actions) != self.num_actions:
            return f"num_actions is {architecture['num_tokens']}, the world has {self.num_actions}"
        if architecture.get("context", self.context) < self.context:
            return f"context is {architecture['context']}, sequences of the world have up to {self.context} tokens"
        for token, (word, theirs) in enumerate(zip(header["vocabulary"], self.vocabulary, strict=False)):
            if word != theirs:
                return f"vocabulary: token {token} is '{word}', in the world it is '{theirs}'"
        return ""

    def text(self, state: TokenState, row: int = 0, *, colours: bool = False) -> str:
        """The answer so far, as text."""
        del colours
        return " ".join(self.word(token) for token in self.answers(state[[row]])[0].tolist() if token >= 0)

    def configurations(self, state: TokenState) -> NDArray[np.int64]:
        """The configuration of each row."""
        return state.rows[:, CONFIGURATION].copy()

    def concatenate(self, states: Iterable[TokenState]) -> TokenState:
        """The rows of several states in one, as independent copies."""
        return TokenState(np.concatenate([state.rows for state in states]))


def token_world(
    *,
    prompts: Sequence[Sequence[int]],
    num_tokens: int,
    end: int,
    max_tokens: int,
    reward: AnswerFunction,
    place: Callable[[int], int | None] | None = None,
    label: AnswerFunction | None = None,
    vocabulary: Sequence[str] = (),
    task: str = "tokens",
    seeds: Sequence[int] | None = None,
) -> TokenWorld:
    """A token task of your own as a world that can be forked.

    Two answers are alike if they named the same set of places (`place`), or if they have the same label (`label`); give
    one of the two. Functions of answers get configurations int64 [B] and answers int64 [B, max_tokens], the tokens
    after the prompt with −1 past the end of each, and return one number per row. They see finished answers only, among
    them those that ran into `max_tokens` without the end token.

    Args:
        prompts: the tokens that a sequence starts with, one prompt per configuration.
        num_tokens: size of the vocabulary; tokens are 0 … num_tokens − 1.
        end: the token that finishes an answer.
        max_tokens: maximum tokens of an answer, including the end token.
        reward: the rewards of finished answers.
        place: the place that a token names, a number of at least 0, or None.
        label: whole numbers; answers with the same label count as the same.
        vocabulary: a word for every token, for display.
        task: a name for messages and reports.
        seeds: a number for each prompt, for reports; default 0, 1, …
    """
    num_tokens = whole_number("num_tokens", num_tokens, at_least=2)
    end = whole_number("end", end, at_least=0, at_most=num_tokens - 1)
    max_tokens = whole_number("max_tokens", max_tokens, at_least=1)
    if not len(prompts):
        raise UserError("prompts is empty; give at least one prompt")
    for number, prompt in enumerate(prompts):
        if not len(prompt):
            raise UserError(f"prompts[{number}] is empty; a policy needs a token to start from")
        for token in prompt:
            whole_number(f"prompts[{number}]", token, at_least=0, at_most=num_tokens - 1)
    if place is not None and label is not None:
        raise UserError("place and label are both given; answers are compared by one of them")
    if vocabulary and len(vocabulary) != num_tokens:
        raise UserError(f"vocabulary has {len(vocabulary)} words for num_tokens = {num_tokens}")
    numbers = range(len(prompts)) if seeds is None else seeds
    if len(numbers) != len(prompts):
        raise UserError(f"seeds has {len(numbers)} numbers for {len(prompts)} prompts")
    table = None
    if place is not None:
        named = [place(token) for token in range(num_tokens)]
        table = np.array([NOWHERE if at is None else whole_number("place", at, at_least=0) for at in named])
    return TokenWorld(prompts, num_tokens, end, max_tokens, reward, table, label, vocabulary, task, numbers)

"""Two tasks with several right answers to every prompt, and a rule that checks one."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A task for a tiny language model.

    Attributes:
        prompts: all of them.
        is_right: whether a completion answers a prompt.
        answer: what of a completion counts as its answer; None where it cannot be read.
        max_tokens: the longest completion, with its end.
        pretraining: texts that teach the form of an answer, but not to give what the prompt asks for.
        pretraining_steps: of next-token training on them.
        steps: of reinforcement learning.
        learning_rate: of the same, constant.
    """

    prompts: list[str]
    is_right: Callable[[str, str], bool]
    answer: Callable[[str], object]
    max_tokens: int
    pretraining: list[str]
    pretraining_steps: int
    steps: int
    learning_rate: float


def digits() -> Task:
    """'7=' asks for two digits that add up to 7, '34' for example: t + 1 right answers to a target t = 5 … 9.

    Pretraining shows two random digits after a random target.
    """

    def is_right(prompt: str, completion: str) -> bool:
        return len(completion) == 2 and completion.isdigit() and sum(map(int, completion)) == int(prompt[0])

    return Task(
        prompts=[f"{target}=" for target in range(5, 10)],
        is_right=is_right,
        answer=lambda completion: completion if re.fullmatch(r"\d\d", completion) else None,
        max_tokens=3,
        pretraining=[f"{target}={pair:02}" for target in range(10) for pair in range(100)],
        pretraining_steps=200,
        steps=1000,
        learning_rate=2.5e-4,
    )


STEP = re.compile(r"([+\-*])(\d)=(\d)")


def chains() -> Task:
    """'3>8:' asks for two steps from 3 to 8, each with its result: '*2=6+2=8', '+6=9-1=8', …

    An answer is right if it is two steps, both are correct, and the last result is the target. Pretraining shows
    correct steps between random numbers, so it teaches arithmetic; that the target matters is left to reinforcement
    learning.
    """

    def apply(value: int, operation: str, operand: int) -> int:
        return {"+": value + operand, "-": value - operand, "*": value * operand}[operation]

    def is_right(prompt: str, completion: str) -> bool:
        steps = STEP.findall(completion)
        if len(steps) != 2 or "".join(f"{o}{d}={r}" for o, d, r in steps) != completion:
            return False
        value, target = int(prompt[0]), int(prompt[2])
        for operation, operand, result in steps:
            if apply(value, operation, int(operand)) != int(result):
                return False
            value = int(result)
        return value == target

    rng = random.Random(0)
    moves = {
        value: [
            (f"{operation}{operand}={apply(value, operation, operand)}", apply(value, operation, operand))
            for operation in "+-*"
            for operand in range(1, 10)
            if 0 <= apply(value, operation, operand) <= 9
        ]
        for value in range(10)
    }
    pretraining = []
    for _ in range(20_000):
        start, target = rng.randint(1, 9), rng.randint(0, 9)
        first, middle = rng.choice(moves[start])
        second, _ = rng.choice(moves[middle])
        pretraining.append(f"{start}>{target}:{first}{second}")
    return Task(
        prompts=[f"{start}>{target}:" for start in (2, 3, 5, 7) for target in (4, 6, 8)],
        is_right=is_right,
        answer=lambda completion: tuple(STEP.findall(completion)) or None,
        max_tokens=9,
        pretraining=pretraining,
        pretraining_steps=500,
        steps=500,
        learning_rate=2.5e-4,
    )


TASKS: dict[str, Callable[[], Task]] = {"digits": digits, "chains": chains}

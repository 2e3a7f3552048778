"""Three families of prompts with several right answers each, for the language study.

A family knows how to check an answer, when two right answers are the same, and which answers a prompt has. Its prompts
come in splits: those that are trained on, held-out ones with as many right answers, some of which are for choosing
settings alone, and harder ones, held out too, with one or two right answers only.
"""

from __future__ import annotations

import operator
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
EASY = 6  # right answers of a prompt that is trained on, at least
HARD = 2  # right answers of a harder prompt, at most
SPLITS = ("train", "held-out", "harder")
VALIDATION = "validation"  # held-out prompts too, on which settings are chosen and nothing is reported


@dataclass(frozen=True)
class Family:
    """Prompts and how their answers are checked.

    Attributes:
        name: of the family.
        characters: of prompts and answers.
        max_tokens: the longest answer, with its end.
        answer: what an answer to a prompt amounts to, a key under which equal answers are the same; None if wrong.
        examples: pairs of a prompt and the answers that are right, by key, for as long as they are asked for.
        sample: a random prompt with a right answer to it, for pretraining.
    """

    name: str
    characters: str
    max_tokens: int
    answer: Callable[[str, str], Hashable | None]
    examples: Callable[[random.Random], Iterator[tuple[str, int]]]
    sample: Callable[[random.Random], tuple[str, str]]


def splits(family: Family, *, train: int = 400, test: int = 64) -> dict[str, list[str]]:
    """The prompts of each split, the same every time; no prompt is in two of them."""
    rng = random.Random(f"prompts of {family.name}")
    easy: dict[str, None] = {}
    hard: dict[str, None] = {}
    for prompt, count in family.examples(rng):
        if count >= EASY:
            easy[prompt] = None
        elif 1 <= count <= HARD:
            hard[prompt] = None
        if len(easy) >= train + 2 * test and len(hard) >= test:
            break
    prompts = list(easy)
    ends = [0, train, train + test, train + 2 * test]
    names = ("train", "held-out", VALIDATION)
    chosen = {name: prompts[start:end] for name, start, end in zip(names, ends, ends[1:], strict=False)}
    return chosen | {"harder": list(hard)[:test]}


def pretraining_texts(family: Family, held_out: set[str], *, count: int, seed: int) -> list[str]:
    """Random prompts, each with one random right answer; none of the held-out prompts is among them."""
    rng = random.Random(f"pretraining {family.name} {seed}")
    texts: list[str] = []
    while len(texts) < count:
        prompt, answer = family.sample(rng)
        if prompt not in held_out:
            texts.append(prompt + answer)
    return texts


# Countdown: '23578>24:' asks for 24 from some of the numbers 2, 3, 5, 7, 8, each used once at most: '3*5+7+2', '3*8'.
# The usual precedence, no parentheses. Answers that differ only in the order of terms or factors are the same.

COUNTDOWN_NUMBERS = 5
TERM = re.compile(r"([+-]?)(\d(?:\*\d)*)")


def countdown_terms(expression: str) -> tuple[tuple[int, ...], ...] | None:
    """The terms of a sum of products, in order, each with its sign first; None if it is no such sum."""
    if not re.fullmatch(r"\d([+\-*]\d)+", expression):
        return None
    terms = [
        (-1 if sign == "-" else 1, *sorted(map(int, factors.split("*")))) for sign, factors in TERM.findall(expression)
    ]
    return tuple(sorted(terms))


def countdown_value(terms: tuple[tuple[int, ...], ...]) -> int:
    """What the sum comes to."""
    total = 0
    for term in terms:
        value = 1
        for factor in term:
            value *= factor
        total += value
    return total


def countdown_answer(prompt: str, completion: str) -> Hashable | None:
    """The terms of a right answer."""
    terms = countdown_terms(completion)
    numbers, target = prompt.rstrip(":").split(">")
    if terms is None or countdown_value(terms) != int(target):
        return None
    left = list(numbers)
    for digit in re.findall(r"\d", completion):
        if digit not in left:
            return None
        left.remove(digit)
    return terms


def partitions(items: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Every way to divide items into groups."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for chosen in combinations(range(len(rest)), size):
            others = tuple(item for index, item in enumerate(rest) if index not in chosen)
            for groups in partitions(others):
                yield [(first, *(rest[index] for index in chosen)), *groups]


def countdown_solutions(numbers: str) -> dict[int, set[Hashable]]:
    """The right answers from some numbers, by target: sums of products of two or more of them."""
    by_target: dict[int, set[Hashable]] = defaultdict(set)
    digits = tuple(map(int, numbers))
    for size in range(2, len(digits) + 1):
        for chosen in set(combinations(digits, size)):
            for groups in partitions(chosen):
                for signs in product((1, -1), repeat=len(groups)):
                    if 1 in signs:  # an expression does not begin with a minus
                        terms = tuple(sorted((s, *sorted(g)) for s, g in zip(signs, groups, strict=True)))
                        by_target[countdown_value(terms)].add(terms)
    return by_target


def _countdown_examples(rng: random.Random) -> Iterator[tuple[str, int]]:
    while True:
        numbers = "".join(sorted(rng.choices("23456789", k=COUNTDOWN_NUMBERS)))
        by_target = countdown_solutions(numbers)
        targets = sorted(target for target in by_target if 1 <= target <= 99)
        for target in rng.sample(targets, min(8, len(targets))):
            yield f"{numbers}>{target}:", len(by_target[target])


def _countdown_sample(rng: random.Random) -> tuple[str, str]:
    while True:
        numbers = rng.choices("23456789", k=COUNTDOWN_NUMBERS)
        chosen = rng.sample(numbers, rng.choice((2, 3, 3, 4, 4, 5, 5)))
        expression = chosen[0] + "".join(rng.choice("+-*") + number for number in chosen[1:])
        terms = countdown_terms(expression)
        assert terms is not None
        if 1 <= countdown_value(terms) <= 99:
            return f"{''.join(sorted(numbers))}>{countdown_value(terms)}:", expression


# Chains: '7>61:' asks for three steps from 7 to 61, each with its result: '*4=28*2=56+5=61'. Every step must be right,
# and no result may leave 0 … 99.

STEP = re.compile(r"([+\-*])([2-5])=(\d{1,2})")
CHAIN_STEPS = 3


def chain_answer(prompt: str, completion: str) -> Hashable | None:
    """The operations of a right chain."""
    steps = STEP.findall(completion)
    if len(steps) != CHAIN_STEPS or "".join(f"{o}{d}={r}" for o, d, r in steps) != completion:
        return None
    value, target = map(int, prompt.rstrip(":").split(">"))
    for operation, operand, result in steps:
        value = OPERATIONS[operation](value, int(operand))
        if str(value) != result:
            return None
    return tuple((operation, operand) for operation, operand, _ in steps) if value == target else None


@cache
def chain_moves(value: int) -> tuple[tuple[str, int], ...]:
    """The steps that can be written after a value, each with its result."""
    moves = [(o, d, OPERATIONS[o](value, d)) for o in OPERATIONS for d in range(2, 6)]
    return tuple((f"{o}{d}={result}", result) for o, d, result in moves if 0 <= result <= 99)


@cache
def chains_to(start: int, steps: int = CHAIN_STEPS) -> dict[int, int]:
    """How many chains there are from a start, by where they end."""
    if steps == 0:
        return {start: 1}
    totals: dict[int, int] = defaultdict(int)
    for _, value in chain_moves(start):
        for end, count in chains_to(value, steps - 1).items():
            totals[end] += count
    return totals


def _chain_examples(rng: random.Random) -> Iterator[tuple[str, int]]:
    prompts = [(f"{s}>{end}:", count) for s in range(1, 31) for end, count in chains_to(s).items() if end != s]
    rng.shuffle(prompts)
    yield from prompts


def _chain_sample(rng: random.Random) -> tuple[str, str]:
    start = value = rng.randint(1, 30)
    written = ""
    for _ in range(CHAIN_STEPS):
        step, value = rng.choice(chain_moves(value))
        written += step
    return f"{start}>{value}:", written


# Programs: '3>11,5>17:' asks for a program that turns 3 into 11 and 5 into 17. A program is one to five letters, each
# an instruction on a number, run from left to right by `run_program`: 'tii' (times three, plus one, plus one), 'itk'.

INSTRUCTIONS: dict[str, Callable[[int], int]] = {
    "i": lambda x: x + 1,  # increase
    "k": lambda x: x - 1,  # decrease
    "d": lambda x: 2 * x,  # double
    "t": lambda x: 3 * x,  # triple
    "h": lambda x: x // 2,  # halve, rounding down
}
PROGRAM_LENGTH = 5
INPUTS = range(1, 10)
LARGEST = 99


def run_program(program: str, number: int) -> int | None:
    """What a program makes of a number; None if it is no program. It knows these instructions, and nothing else."""
    if not 1 <= len(program) <= PROGRAM_LENGTH or any(letter not in INSTRUCTIONS for letter in program):
        return None
    for letter in program:
        number = INSTRUCTIONS[letter](number)
    return number


def program_answer(prompt: str, completion: str) -> Hashable | None:
    """A right program itself: two are the same if their letters are."""
    for pair in prompt.rstrip(":").split(","):
        given, wanted = map(int, pair.split(">"))
        if run_program(completion, given) != wanted:
            return None
    return completion


@cache
def program_results() -> dict[str, tuple[int, ...]]:
    """What every program makes of every input, in the order of `INPUTS`."""
    letters = ("".join(p) for size in range(1, PROGRAM_LENGTH + 1) for p in product(INSTRUCTIONS, repeat=size))
    results = {}
    for program in letters:
        values = list(INPUTS)
        for letter in program:
            values = [INSTRUCTIONS[letter](value) for value in values]
        results[program] = tuple(values)
    return results


@cache
def count_programs() -> Counter[str]:
    """How many programs are right, by prompt."""
    found: Counter[str] = Counter()
    for results in program_results().values():
        found.update(_program_prompts(results))
    return found


def _program_prompts(results: tuple[int, ...]) -> list[str]:
    """The prompts that a program with these results answers."""
    pairs = [(given, made) for given, made in zip(INPUTS, results, strict=True) if 0 <= made <= LARGEST]
    return [f"{a}>{x},{b}>{y}:" for (a, x), (b, y) in combinations(pairs, 2)]


def _program_examples(rng: random.Random) -> Iterator[tuple[str, int]]:
    prompts = sorted(count_programs().items())
    rng.shuffle(prompts)
    yield from prompts


def _program_sample(rng: random.Random) -> tuple[str, str]:
    while True:
        program = "".join(rng.choices(list(INSTRUCTIONS), k=rng.choice((1, 2, 3, 4, 4, 5, 5))))
        prompts = _program_prompts(program_results()[program])
        if prompts:
            return rng.choice(prompts), program


FAMILIES = {
    family.name: family
    for family in (
        Family("countdown", "0123456789+-*>:", 10, countdown_answer, _countdown_examples, _countdown_sample),
        Family("chains", "0123456789+-*=>:", 16, chain_answer, _chain_examples, _chain_sample),
        Family(
            "programs", "0123456789>,:" + "".join(INSTRUCTIONS), 6, program_answer, _program_examples, _program_sample
        ),
    )
}

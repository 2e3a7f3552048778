"""Keys: what counts as a different answer, for the kinds of text that language models are trained on.

A key must see what differs between *right* completions. The last number of a problem with one right answer does not:
whoever writes another one is wrong, and makes a set more diverse by it.

Keys read text and never run it. They take any text: what cannot be read is None, or the empty set.
"""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from polychromic.core.checks import Floats
from polychromic.integrations.arithmetic import SIGNED, is_number, normal_form, plain, plain_number, runs_of
from polychromic.integrations.completions import Completion, ToolCall
from polychromic.integrations.syntax import is_program, parsed, rename, strip_types

# ------------------------------------------------------------------ where the answer is

ANSWER = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
BRACES = re.compile(r"(\\boxed\s*)?\{|\}")
# "The answer is …", "**Final answer:** …": the rest of the sentence, on this line or the next one with text.
SAID = re.compile(r"\banswer\W{0,5}(?:is\b|:|=)[\s:*$]*(.*?)(?=[.!?](?:\s|\Z)|\n|\Z)", re.IGNORECASE)


def _parts(completion: str) -> list[str]:
    """What follows the thoughts, where there are some, and then the whole completion."""
    return list(dict.fromkeys((completion.rpartition("</think>")[2], str(completion))))


def _places(completion: str) -> Iterator[str]:
    """Where to look for an answer, the best place first.

    That is inside `<answer>…</answer>`, inside `\\boxed{…}`, the sentence after `answer is` or `answer:`, each from the
    last to the first; then everywhere. What follows the thoughts comes before the thoughts.
    """
    for part in _parts(completion):
        for found in (ANSWER.findall(part), _boxed(part), SAID.findall(part)):
            yield from reversed(found)
        yield part


def _boxed(text: str) -> list[str]:
    """What is inside each `\\boxed{…}`, with the braces in it; up to the end of the text where it is not closed."""
    found, start, depth = [], 0, 0
    for mark in BRACES.finditer(text):
        if depth:
            depth += -1 if mark[0] == "}" else 1
            if not depth:
                found.append(text[start : mark.start()])
        elif mark[1]:
            start, depth = mark.end(), 1
    return [*found, text[start:]] if depth else found


# ------------------------------------------------------------------ arithmetic


def calculations(completion: str) -> frozenset[str]:
    """A key for word problems: which calculations a completion writes out (`48/2`, `24 + 48`), in whatever order.

    Completions that reach the same number on other ways differ, and that is what sets are to be paid for. A calculation
    is read as a whole, up to an equals sign, a word or the end of the line: `12+8+5` and `(3+5)*2` are one each. It has
    the normal form of `expression`, so `24+48` and `48+24` are the same. Units before an operator (`5 apples × $3`) do
    not count. Ranges (`3-4 days`) and dates are no calculations, and those with powers or functions are not read.
    """
    runs = {tuple(run.tokens) for run in runs_of(plain(completion))}
    return frozenset(text for text in map(normal_form, runs) if text is not None)


def last_number(completion: str) -> str | None:
    """A key for tasks with several right answers that are numbers: the last number of the answer, without commas.

    The answer is looked for where `expression` looks for it.

    Where one answer alone is right, other answers are wrong, and this key would pay sets for having wrong ones.
    """
    for place in _places(completion):
        found = SIGNED.findall(plain(place))
        if found:
            sign, number = found[-1]
            return f"{sign}{plain_number(number)}"
    return None


def expression(completion: str) -> str | None:
    """A key for puzzles like Countdown: the expression that a completion answers with, in a normal form.

    `3 * (5 + 2)`, `(2+5)*3` and `\\boxed{(2 + 5) \\times 3}` are the same; `3*5 + 3*2`, which calculates otherwise, is
    not. Terms and factors are put in order and brackets that change nothing are dropped.

    It is looked for inside `<answer>…</answer>`, then inside `\\boxed{…}`, then in the sentence after `answer is` or
    `answer:`, the last of each first, then everywhere; and in what follows the thoughts before the thoughts. Where one
    place has several, the one with the most numbers counts: `3 * (5 + 2)` of `3 * (5 + 2) = 3 * 7 = 21`. Among equals
    it is the last one, but one after `check` or `verify` on the same line comes after all others. Ranges (`3-4 steps`)
    and dates are no expressions, and those with powers or functions are not read. None where there is no expression.
    """
    found = _answered(completion)
    return None if found is None else found[0]


def numbers_used(completion: str) -> tuple[str, ...] | None:
    """A coarser key: which numbers that expression uses, each as often as it does, whatever is done with them."""
    found = _answered(completion)
    return None if found is None else tuple(sorted(plain_number(token) for token in found[1] if is_number(token)))


def _answered(completion: str) -> tuple[str, list[str]] | None:
    """The expression that a completion answers with, in its normal form and as it is written; see `expression`."""
    for place in _places(completion):
        runs = runs_of(plain(place))[::-1]
        for run in sorted(runs, key=lambda run: (-run.size, run.checks)):
            text = normal_form(run.tokens)
            if text is not None:
                return text, run.tokens
    return None


# ------------------------------------------------------------------ programs

FENCED = re.compile(r"```[ \t]*([\w+#.-]*)[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
PYTHON = re.compile(r"py(?:thon)?[23]?", re.IGNORECASE)


def python_code(completion: str) -> str:
    """The Python of a completion.

    It is looked for inside `<answer>…</answer>`, then in what follows the thoughts, then everywhere. Fenced blocks that
    are tagged as Python are joined or, where there are none, those without a tag. Blocks that are no program, such as
    what one prints or a session with `>>>`, are left out, unless there is nothing else. Without fences, it is the text
    in `<answer>…</answer>` if that is a program, or all that follows the thoughts.
    """
    parts = _parts(completion)
    for part in parts:
        for answer in reversed(ANSWER.findall(part)):
            code = _fenced(answer)
            if code or is_program(answer):
                return code or answer
        if code := _fenced(part):
            return code
    return parts[0]


def python_tree(completion: str) -> str | None:
    """A key for programs: the abstract syntax of the Python in a completion (see `python_code`).

    White space, comments, docstrings, annotations, imports from `typing` and the names that the program itself gives
    (functions, arguments, variables, imported modules, exceptions) do not count; which functions, methods and operators
    it uses, and how, does. None where it is not Python.
    """
    tree = parsed(python_code(completion))
    if tree is None:
        return None
    strip_types(tree)
    rename(tree)
    try:
        return ast.dump(tree)
    except RecursionError:
        return None


def python_calls(completion: str) -> frozenset[str] | None:
    """A coarser key: which functions, methods, loops, comprehensions and branches a program uses, in whatever order."""
    tree = parsed(python_code(completion))
    if tree is None:
        return None
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = {node.asname: node.name for node in nodes if isinstance(node, ast.alias) and node.asname}
    used = {type(node).__name__ for node in nodes if isinstance(node, _CONTROL)}
    for node in nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            used.add("recursion" if name in own else imported.get(name, name))
    return frozenset(used)


_CONTROL = (ast.For, ast.While, ast.If, ast.IfExp, ast.Try, ast.Lambda,
            ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip


def _fenced(text: str) -> str:
    """The fenced blocks that are the program of a text; empty where there are none."""
    blocks = [(tag, textwrap.dedent(code)) for tag, code in FENCED.findall(text)]
    chosen = [code for tag, code in blocks if PYTHON.fullmatch(tag)] or [code for tag, code in blocks if not tag]
    return "\n".join([code for code in chosen if is_program(code)] or chosen)


# ------------------------------------------------------------------ agents


def tool_calls(completion: str) -> tuple[ToolCall, ...]:
    """A key for agents: which tools a completion calls, with which arguments, in this order."""
    return (completion if isinstance(completion, Completion) else Completion(completion)).tool_calls


# ------------------------------------------------------------------ words


def word_vectors(completions: Sequence[str], features: int = 512) -> Floats:
    """An `embed` that needs no model: how often each word and pair of neighbouring words comes, hashed to `features`.

    It sees words, not meaning: two ways to say the same are different, and a long text with a small change is the same.
    """
    vectors = np.zeros((len(completions), features))
    for vector, text in zip(vectors, completions, strict=True):
        words = re.findall(r"\w+|[^\w\s]", text.lower())
        for gram in [*words, *map(" ".join, itertools.pairwise(words))]:
            vector[zlib.crc32(gram.encode()) % features] += 1.0
    return vectors

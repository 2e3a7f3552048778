"""Keys: what counts as a different answer, for the kinds of text that language models are trained on.

A key must see what differs between *right* completions. The last number of a problem with one right answer does not:
whoever writes another one is wrong, and makes a set more diverse by it.
"""

from __future__ import annotations

import ast
import itertools
import re
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from polychromic.core.checks import Floats

NUMBER = r"\d[\d,]*(?:\.\d+)?"
# A run of numbers, brackets and operators.
EXPRESSION = re.compile(r"[\d(][\d\s().,+\-*/×÷−]*")
PLAIN = str.maketrans({"×": "*", "÷": "/", "−": "-", ",": None})
FENCED = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)


# ------------------------------------------------------------------ arithmetic


def calculations(completion: str) -> frozenset[str]:
    """A key for word problems: which calculations a completion writes out (`48/2`, `24 + 48`), in whatever order.

    Completions that reach the same number on other ways differ, and that is what sets are to be paid for.
    """
    found = re.findall(rf"({NUMBER})\s*([-+*/×÷−])\s*({NUMBER})", completion)
    return frozenset("".join(parts).translate(PLAIN) for parts in found)


def last_number(completion: str) -> str | None:
    """A key for tasks with several right answers that are numbers: the last one of a completion, without commas.

    Where one answer alone is right, other answers are wrong, and this key would pay sets for having wrong ones.
    """
    found = re.findall(rf"-?{NUMBER}", completion)
    return found[-1].replace(",", "") if found else None


def expression(completion: str) -> str | None:
    """A key for puzzles like Countdown: the last expression of a completion, in a normal form.

    `3 * (5 + 2)`, `(2+5)*3` and `(2 + 5) × 3 = 21` are the same; `3*5 + 3*2`, which calculates otherwise, is not. Terms
    and factors are put in order and brackets that change nothing are dropped. None where there is no expression.
    """
    tree = _last_expression(completion)
    return None if tree is None else _normal(tree)


def numbers_used(completion: str) -> tuple[str, ...] | None:
    """A coarser key: which numbers the last expression uses, each as often as it does, whatever is done with them."""
    tree = _last_expression(completion)
    if tree is None:
        return None
    return tuple(sorted(_number(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)))


def _last_expression(completion: str) -> ast.expr | None:
    """The last run of numbers and operators that is an expression with at least one operator."""
    for found in reversed(EXPRESSION.findall(completion)):
        # A full stop, a bracket of the sentence and the like may follow.
        text = found.translate(PLAIN).strip().rstrip("+-*/.(").strip()
        for candidate in (text, text.rstrip(") ")):
            try:
                tree = ast.parse(candidate, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            if isinstance(tree, ast.BinOp) and _is_arithmetic(tree):
                return tree
    return None


def _is_arithmetic(tree: ast.expr) -> bool:
    return all(
        isinstance(node, ast.BinOp | ast.UnaryOp | ast.Add | ast.Sub | ast.Mult | ast.Div | ast.USub | ast.UAdd)
        or (isinstance(node, ast.Constant) and isinstance(node.value, int | float))
        for node in ast.walk(tree)
    )


def _normal(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return _number(node.value)
    parts: list[tuple[str, str]] = []
    if isinstance(node, ast.UnaryOp):
        return _normal(node.operand) if isinstance(node.op, ast.UAdd) else f"(-{_normal(node.operand)})"
    assert isinstance(node, ast.BinOp)
    sums = isinstance(node.op, ast.Add | ast.Sub)
    _collect(node, sums, False, parts)
    # With a sign before each term (or factor) their order can be any: + before -, * before /, then by their text.
    return "(" + "".join(sign + text for sign, text in sorted(parts)) + ")"


def _collect(node: ast.AST, sums: bool, inverse: bool, parts: list[tuple[str, str]]) -> None:
    """The terms of a sum, or the factors of a product, with their signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) == sums:
        _collect(node.left, sums, inverse, parts)
        _collect(node.right, sums, inverse != isinstance(node.op, ast.Sub | ast.Div), parts)
    else:
        parts.append((("+-" if sums else "*/")[inverse], _normal(node)))


def _number(value: Any) -> str:
    return str(Fraction(str(value)))


# ------------------------------------------------------------------ programs


def python_code(completion: str) -> str:
    """The Python of a completion: its fenced blocks, or all of it where there is none."""
    blocks = FENCED.findall(completion)
    return "\n".join(blocks) if blocks else completion


def python_tree(completion: str) -> str | None:
    """A key for programs: the abstract syntax of the Python in a completion.

    White space, comments, docstrings, annotations and the names that the program itself gives (functions, arguments,
    variables) do not count; which functions, methods and operators it uses, and how, does. None where it is not Python.
    """
    try:
        tree = ast.parse(python_code(completion).strip("\n"))
        _rename(tree)
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def python_calls(completion: str) -> frozenset[str] | None:
    """A coarser key: which functions, methods, loops, comprehensions and branches a program uses, in whatever order."""
    try:
        tree = ast.parse(python_code(completion).strip("\n"))
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        used = {type(node).__name__ for node in ast.walk(tree) if isinstance(node, _CONTROL)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                used.add("recursion" if name in own else name)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return frozenset(used)


_CONTROL = (ast.For, ast.While, ast.If, ast.IfExp, ast.Try, ast.Lambda,
            ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # fmt: skip


def _rename(tree: ast.AST) -> None:
    """Names that the program gives become numbers in the order in which they come; docstrings and types go."""
    given = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    given |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    given |= {node.name for node in ast.walk(tree) if isinstance(node, _NAMED)}
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"_{len(numbers)}") if name in given else name

    for node in _in_order(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(getattr(body[0].value, "value", None), str):
                node.body = body[1:] or [ast.Pass()]
        if isinstance(node, _NAMED):
            node.name = number(node.name)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.Name):
            node.id = number(node.id)
        elif isinstance(node, ast.arg):
            node.arg, node.annotation = number(node.arg), None
        elif isinstance(node, ast.keyword) and node.arg is not None:
            node.arg = number(node.arg)


_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _in_order(node: ast.AST) -> list[ast.AST]:
    """Depth first, as it is written; `ast.walk` goes by depth, and would number names by it."""
    found, waiting = [], [node]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(list(ast.iter_child_nodes(found[-1])))
    return found


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

"""The syntax of programs that a language model wrote, without what does not change what they do."""

from __future__ import annotations

import ast
import warnings
from typing import Any


def is_program(code: str) -> bool:
    """Whether it is Python, and more than a value: `[1, 2]` or `Total: 3` is what a program prints."""
    tree = parsed(code)
    return tree is not None and not all(
        isinstance(node, _VALUE) or (isinstance(node, ast.AnnAssign) and node.value is None) for node in ast.walk(tree)
    )


_VALUE = (ast.Module, ast.Expr, ast.Constant, ast.Name, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp,
          ast.unaryop, ast.expr_context)  # fmt: skip


def parsed(code: str) -> ast.Module | None:
    """The syntax of a program; None where it is not Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the model's program, of no use to who trains
        try:
            return ast.parse(code.strip("\n"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def strip_types(tree: ast.Module) -> None:
    """Docstrings and types go."""
    for node in list(ast.walk(tree)):
        in_class = isinstance(node, ast.ClassDef)
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, [_untyped(item) for item in value if in_class or not _is_type(item)])
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            if body and isinstance(body[0], ast.Expr) and isinstance(getattr(body[0].value, "value", None), str):
                node.body = body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None


def _is_type(statement: Any) -> bool:
    """Whether a statement is about types alone: `x: int`, which in a class would be a field, or an import of types."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None
    return isinstance(statement, ast.ImportFrom) and statement.module in ("typing", "__future__")


def _untyped(statement: Any) -> Any:
    """`x: int = 3` as `x = 3`, and a field `x: int` without its type."""
    if not isinstance(statement, ast.AnnAssign):
        return statement
    if statement.value is None:
        return ast.Expr(statement.target)
    return ast.Assign([statement.target], statement.value)


# Where a program gives a name: the class of the node and the field with the name.
_GIVEN = {ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name", ast.arg: "arg",
          ast.ExceptHandler: "name", ast.MatchAs: "name", ast.MatchStar: "name", ast.MatchMapping: "rest",
          ast.alias: "asname"}  # fmt: skip


def rename(tree: ast.Module) -> None:
    """Names that the program gives become numbers in the order in which they come."""
    nodes = _in_order(tree)
    for node in nodes:
        if isinstance(node, ast.alias) and node.name != "*":
            node.asname = node.asname or node.name.partition(".")[0]
    given = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    given |= {getattr(node, _GIVEN[type(node)]) for node in nodes if type(node) in _GIVEN}
    numbers: dict[str, str] = {}

    def number(name: str) -> str:
        return numbers.setdefault(name, f"_{len(numbers)}") if name in given else name

    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = number(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [number(name) for name in node.names]
        else:
            field = "arg" if isinstance(node, ast.keyword) else _GIVEN.get(type(node))
            if field is not None and getattr(node, field) is not None:
                setattr(node, field, number(getattr(node, field)))


def _in_order(node: ast.AST) -> list[ast.AST]:
    """Depth first, as it is written; `ast.walk` goes by depth, and would number names by it."""
    found, waiting = [], [node]
    while waiting:
        found.append(waiting.pop())
        waiting += reversed(list(ast.iter_child_nodes(found[-1])))
    return found

"""What a user asks of a sweep, from a file and from options: read and checked, one line for whatever is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from polychromic.errors import UserError
from polychromic.files import read_table
from polychromic.finetuning.config_check import nearest
from polychromic.sweep.cells import Evaluation

LISTS = ("tasks", "methods", "seeds")
TABLES = ("settings", "vary", "evaluation")
SCORING = tuple(field.name for field in fields(Evaluation))


def read_plan(path: Path) -> dict[str, Any]:
    """A sweep from a TOML or JSON file: tasks, methods, seeds, settings, vary, evaluation, policy, horizon, …"""
    values = read_table("file", path)
    try:
        _check(values)
    except UserError as error:
        raise UserError(f"file: {path}: {error}") from error
    return values


def _check(plan: Mapping[str, Any]) -> None:
    """Every part by its kind."""
    known = (*LISTS, *TABLES, "policy", "horizon", "time_penalty")
    for name, value in plan.items():
        if name not in known:
            raise UserError(f"has '{name}'; {nearest(name, known)}what it may hold is {', '.join(sorted(known))}")
        if name in LISTS:
            entries = (str, int) if name == "seeds" else (str,)
            if not isinstance(value, list) or not all(_is(entry, *entries) for entry in value):
                raise UserError(f"{name} is {value!r}; it must be a list, such as {_EXAMPLES[name]}")
        elif name in TABLES and not isinstance(value, dict):
            raise UserError(f"{name} is {value!r}; it must be a table of names and values")
    for name, values in plan.get("vary", {}).items():
        if not isinstance(values, list) or not values:
            raise UserError(f"vary: {name} is {values!r}; it must be a list of the values to run, such as [0.01, 0.1]")
    for name in plan.get("evaluation", {}):
        if name not in SCORING:
            raise UserError(f"evaluation has '{name}'; {nearest(name, SCORING)}it may hold {', '.join(SCORING)}")
    for name, kinds, what in (
        ("policy", (str,), "a text"),
        ("horizon", (int,), "a whole number"),
        ("time_penalty", (int, float), "a number"),
    ):
        if name in plan and not _is(plan[name], *kinds):
            raise UserError(f"{name} is {plan[name]!r}; it must be {what}")


_EXAMPLES = {"tasks": '["goto"]', "methods": '["ppo", "poly-ppo"]', "seeds": '[0, 1] or ["0-19"]'}


def _is(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def parse_seeds(given: Iterable[Any]) -> list[int]:
    """Seeds as numbers or ranges: 0 1 2, or 0-19."""
    seeds: list[int] = []
    for part in given:
        first, dash, last = str(part).partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"seeds has {part!r}; give numbers or ranges, such as 0 1 2 or 0-19")
        seeds += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(seeds))


def parse_settings(field_name: str, given: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE arguments by name, values as text."""
    found = {}
    for part in given:
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise UserError(f"{field_name} has {part!r}; give NAME=VALUE, such as iterations=100")
        found[name.replace("-", "_")] = value
    return found


def parse_value(text: str) -> Any:
    """A setting as Python: JSON where it is JSON (numbers, true, [0, 1]), else text."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)

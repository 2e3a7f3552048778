"""The user's plan of a sweep, from a file and from options: read and checked, with one line per error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

import msgspec

from polychromic.errors import UserError
from polychromic.files import checked, read_table
from polychromic.finetuning.config_check import nearest
from polychromic.sweep.cells import Evaluation

SCORING = tuple(field.name for field in fields(Evaluation))


class Plan(TypedDict, total=False):
    """The entries of a sweep file."""

    tasks: list[str]
    methods: list[str]
    seeds: list[int | str]
    settings: dict[str, Any]
    vary: dict[str, Annotated[list[Any], msgspec.Meta(min_length=1)]]
    evaluation: dict[str, Any]
    policy: str
    horizon: int
    time_penalty: float


def read_plan(path: Path) -> Plan:
    """A sweep from a TOML or JSON file: tasks, methods, seeds, settings, vary, evaluation, policy, horizon, …"""
    plan = read_table("file", path)
    where = f"file: {path}"
    known = tuple(Plan.__annotations__)
    for name in plan:
        if name not in known:
            raise UserError(f"{where}: has '{name}'; {nearest(name, known)}it may hold {', '.join(sorted(known))}")
    checked(plan, Plan, where)
    for name in plan.get("evaluation", {}):
        if name not in SCORING:
            raise UserError(
                f"{where}: evaluation has '{name}'; {nearest(name, SCORING)}it may hold {', '.join(SCORING)}"
            )
    return cast(Plan, plan)


def parse_seeds(given: Iterable[Any]) -> list[int]:
    """Seeds as numbers or ranges: 0 1 2, or 0-19."""
    seeds: list[int] = []
    for part in given:
        first, dash, last = str(part).partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"seeds has {part!r}; give numbers or ranges, such as 0 1 2 or 0-19")
        seeds += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(seeds))

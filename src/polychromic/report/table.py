"""A table for pages, Markdown and terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A title, a note, column headings and rows of text."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def as_markdown(tables: Sequence[Table], problems: Sequence[str] = ()) -> str:
    """The tables for a paper or a README."""
    parts = []
    for table in tables:
        lines = [f"## {table.title}", "", table.note, ""]
        lines += [_line(table.columns), _line(["---"] * len(table.columns)), *map(_line, table.rows)]
        parts.append("\n".join(lines) + "\n")
    if problems:
        parts.append("\n".join(f"- {_plain(problem)}" for problem in problems) + "\n")
    return "\n".join(parts)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")

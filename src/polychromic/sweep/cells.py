"""What a sweep consists of: cells, each an ordinary run directory named after its configuration."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from polychromic.config import make_config
from polychromic.errors import UserError
from polychromic.runs import read_json, write_text

PRETRAINED = "pretrained"  # the method of a cell that only evaluates the base policy
CELL, SETTINGS, FIGURES = "cell.json", "settings.json", "figures.json"


@dataclass(frozen=True)
class Evaluation:
    """How a cell is evaluated at its end (`polychromic evaluate`)."""

    attempts: int = 160
    """Attempts at each configuration; 0: no evaluation beyond the brief one that every run ends with."""
    perturbed: bool = False
    """Also from perturbed starts."""
    recordings: bool = True
    """Keep episodes for the report's viewer."""


@dataclass(frozen=True)
class Cell:
    """One run and its evaluation."""

    task: str
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of Config that differ from the method's
    policy: str = ""  # "": the shipped policy of the task
    horizon: int = 0  # 0: what the task has by itself
    time_penalty: float = 0.5
    evaluation: Evaluation = field(default_factory=Evaluation)

    @property
    def iterations(self) -> int:
        """Iterations of the run; 0 for the base policy."""
        return 0 if self.method == PRETRAINED else self.config().iterations

    def config(self) -> Any:
        """The resolved configuration of the run; bad settings are refused here."""
        return make_config(self.method, self.task, **{**_tuples(self.settings), "seed": self.seed})

    @property
    def name(self) -> str:
        """The name of its folder: for people, then a hash of all that decides the run's results."""
        decided = {
            "task": self.task,
            "policy": self.policy,
            "horizon": self.horizon,
            "time_penalty": self.time_penalty,
            "config": PRETRAINED if self.method == PRETRAINED else asdict(self.config()),
        }
        digest = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:8]
        number = "" if self.method == PRETRAINED else f"-{self.seed}"
        return f"{self.task.replace('/', '_')}-{self.method}{number}-{digest}"


def make_cells(
    tasks: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    settings: Mapping[str, Any] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    **common: Any,
) -> list[Cell]:
    """Every combination, all of the first seed first, so that a whole table is there early.

    settings: fields of Config for all cells. vary: fields with several values each, all combinations of which are run.
    common: policy, horizon, time_penalty and evaluation of all cells.
    """
    for name, values in {"tasks": tasks, "methods": methods, "seeds": seeds}.items():
        if not values:
            raise UserError(f"{name} is empty; give at least one")
    names = list(vary or {})
    combinations = [dict(zip(names, chosen, strict=True)) for chosen in product(*(vary or {}).values())]
    cells = {}
    for seed, task, method, varied in product(seeds, tasks, methods, combinations):
        plain = method == PRETRAINED
        cell = Cell(task, method, 0 if plain else seed, {} if plain else {**(settings or {}), **varied}, **common)
        cells[cell.name] = cell  # making the name checks the settings
    return list(cells.values())


def write_cells(folder: Path, cells: Iterable[Cell]) -> list[Path]:
    """The folders of the cells in a sweep's folder, with what each is to do; cells that are there must agree."""
    folders = []
    try:
        for cell in cells:
            path = folder / cell.name
            described = json.loads(json.dumps(asdict(cell)))
            if (path / CELL).exists():
                _compare(path, read_json(path / CELL), described)
            else:
                path.mkdir(parents=True, exist_ok=True)
                if cell.method != PRETRAINED:
                    text = json.dumps({**cell.settings, "method": cell.method, "seed": cell.seed}, indent=1)
                    write_text(path / SETTINGS, text + "\n")
                write_text(path / CELL, json.dumps(described, indent=1) + "\n")
            folders.append(path.resolve())
    except OSError as error:
        raise UserError(
            f"out: cannot write to {error.filename or folder} ({error.strerror}); nothing has been started"
        ) from error
    return folders


def read_cell(folder: Path) -> Cell:
    """The cell of a folder."""
    values = read_json(folder / CELL)
    try:
        return Cell(**{**values, "evaluation": Evaluation(**values["evaluation"])})
    except (TypeError, KeyError) as error:
        raise UserError(f"{folder / CELL} is damaged: {error!r}") from error


def find_cells(folder: Path) -> list[Path]:
    """The folders of all cells of a sweep."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give one that polychromic sweep wrote")
    found = sorted(path.parent.resolve() for path in folder.glob(f"*/{CELL}"))
    if not found:
        raise UserError(f"{folder} holds no cells; give a folder that polychromic sweep wrote")
    return found


def is_done(folder: Path) -> bool:
    """Whether a cell is complete; its figures are written last."""
    return (folder / FIGURES).exists()


def read_plan(path: Path) -> dict[str, Any]:
    """A sweep from a TOML or JSON file: tasks, methods, seeds, settings, vary, evaluation, policy, horizon, …"""
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UserError(f"file: {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise UserError(f"file: {path} is neither TOML nor JSON: {error}") from error
    known = {"tasks", "methods", "seeds", "settings", "vary", "evaluation", "policy", "horizon", "time_penalty"}
    for name in values:
        if name not in known:
            raise UserError(f"file: {path} has '{name}'; what it may hold is {', '.join(sorted(known))}")
    return dict(values)


def parse_seeds(given: Iterable[Any]) -> list[int]:
    """Seeds as numbers or ranges: 0 1 2, or 0-19."""
    seeds: list[int] = []
    for part in given:
        first, dash, last = str(part).partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
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


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _compare(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """The name holds everything but the evaluation."""
    for name, value in now["evaluation"].items():
        found = before.get("evaluation", {}).get(name)
        if found != value:
            raise UserError(
                f"out: {path} is a cell with evaluation {name} = {found}, now it is {value}; "
                "give another folder, or the same evaluation to go on with it"
            )

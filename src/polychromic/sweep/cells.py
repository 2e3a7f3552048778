"""The cells of a sweep: each is an ordinary run directory, named after its settings."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypedDict

from polychromic.envs.registry import TaskSpec, find_spec, short_name
from polychromic.errors import UserError
from polychromic.evaluate.targets import EVALUATION
from polychromic.files import Int, converted, read_json, read_json_or, remove_partial, write_json
from polychromic.finetuning.config import make_config
from polychromic.finetuning.start import base_policy_of
from polychromic.policies.files import PolicyInfo, read_identity
from polychromic.sweep.lock import STALE_SECONDS, holding

PRETRAINED = "pretrained"  # the method of a cell that only evaluates the base policy
CELL, FIGURES = "cell.json", "figures.json"


@dataclass(frozen=True)
class Evaluation:
    """How a cell is evaluated at its end (`polychromic evaluate`)."""

    attempts: int | None = None
    """Attempts at each configuration; None: the number of the task; 0: only the brief evaluation that ends a run."""
    perturbed: bool = False
    """Also from perturbed starts."""
    recordings: bool = True
    """Keep episodes for the report's viewer."""
    greedy: bool = False
    """Also with the most likely action at every step."""
    along_the_way: bool = False
    """Kept policies are points of the way and not late ones to average: they too are scored from perturbed starts."""

    def __post_init__(self) -> None:
        whole = isinstance(self.attempts, int) and not isinstance(self.attempts, bool) and self.attempts >= 0
        if self.attempts is not None and not whole:
            raise UserError(f"attempts is {self.attempts!r}; it must be a whole number, at least 0")
        for name in ("perturbed", "recordings", "greedy", "along_the_way"):
            if not isinstance(getattr(self, name), bool):
                raise UserError(f"{name} is {getattr(self, name)!r}; it must be true or false")


@dataclass(frozen=True)
class Cell:
    """One run and its evaluation."""

    task: str
    method: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of Config that differ from the method's defaults
    policy: str = ""  # "": the shipped policy of the task
    horizon: int = 0  # 0: the task's default
    time_penalty: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of the task's own
    evaluation: Evaluation = field(default_factory=Evaluation)

    def __post_init__(self) -> None:
        if self.evaluation.attempts is None:
            spec = find_spec(self.task)
            attempts = spec.attempts if spec else TaskSpec.attempts
            object.__setattr__(self, "evaluation", replace(self.evaluation, attempts=attempts))

    @property
    def iterations(self) -> int:
        """Iterations of the run; 0 for the base policy."""
        return 0 if self.method == PRETRAINED else self.config().iterations

    def config(self) -> Any:
        """The resolved configuration of the run; bad settings are refused here."""
        return make_config(self.method, self.task, **{**_tuples(self.settings), "seed": self.seed})

    @property
    def name(self) -> str:
        """The name of its folder: a readable part, then a hash of everything that decides the run's results."""
        info, parameters = self._base()
        decided = {
            "task": self.task,
            "policy": self.policy,
            "parameters": parameters,  # the file may change
            "configurations": info.configurations,
            "horizon": self.horizon,
            "time_penalty": self.time_penalty,
            **({"options": dict(self.options)} if self.options else {}),
            "config": PRETRAINED if self.method == PRETRAINED else asdict(self.config()),
        }
        digest = hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()[:8]
        number = "" if self.method == PRETRAINED else f"-{self.seed}"
        task = re.sub(r"[^\w.-]", "_", self.task)
        return f"{task}-{self.method}{number}-{digest}"

    @property
    def base_policy(self) -> str:
        """The policy that it starts from, by name or as a file."""
        return self.policy or base_policy_of(self.task)

    @property
    def base_parameters(self) -> str:
        """A hash of the parameters that it starts from."""
        return self._base()[1]

    def _base(self) -> tuple[PolicyInfo, str]:
        """The header and hash of the policy that it starts from; empty if that does not exist yet, as in estimates."""
        named = self.base_policy
        try:
            return read_identity(named)
        except UserError:
            if Path(named).exists():
                raise
            return PolicyInfo(), ""


class _Metrics(TypedDict):
    """The first entries of a cell's metrics (figures.json)."""

    task: str
    method: str
    seed: Int


def make_cells(
    tasks: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    settings: Mapping[str, Any] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    **common: Any,
) -> list[Cell]:
    """Every combination, all cells of the first seed first, so that a whole table is complete early.

    settings: fields of Config for all cells. vary: fields with several values each; all combinations are run.
    common: policy, horizon, time_penalty, options and evaluation of all cells.
    """
    for name, values in {"tasks": tasks, "methods": methods, "seeds": seeds}.items():
        if not values:
            raise UserError(f"{name} is empty; give at least one")
    for name in {**(settings or {}), **(vary or {})}:
        if name in ("method", "seed", "task"):
            raise UserError(f"{name} is among the settings of all cells; give --{name}s instead")
    names = list(vary or {})
    combinations = [dict(zip(names, chosen, strict=True)) for chosen in product(*(vary or {}).values())]
    cells = {}
    for seed, task, method, varied in product(seeds, tasks, methods, combinations):
        plain = method == PRETRAINED
        cell = Cell(task, method, 0 if plain else seed, {} if plain else {**(settings or {}), **varied}, **common)
        check_policy(cell)
        cells[cell.name] = cell  # making the name checks the settings
    return list(cells.values())


def check_policy(cell: Cell) -> None:
    """Refuse a policy that was made for another task, or that names no configurations."""
    info, _ = read_identity(cell.base_policy)
    if short_name(info.task) != short_name(cell.task) and (info.task or cell.method == PRETRAINED):
        made_for = f"made for {info.task}" if info.task else "which names no task"
        raise UserError(f"policy is {cell.policy}, {made_for}; it cannot be used for the task {cell.task}")
    if not info.configurations:
        raise UserError(f"policy: {info.source} names no configurations to play")


def write_cells(folder: Path, cells: Iterable[Cell]) -> list[Path]:
    """Write the cells into a sweep's folder and return their folders; cells that already exist must agree."""
    named = {folder / cell.name: cell for cell in cells}
    described = {path: json.loads(json.dumps(asdict(cell))) for path, cell in named.items()}
    try:
        there = {path for path in named if (path / CELL).exists()}
        for path in there:  # check all of them before anything is written
            _compare(path, read_cell(path), named[path])
        for path in [path for path in named if path not in there]:
            _write_cell(path, described[path])
    except OSError as error:
        raise UserError(
            f"out: cannot write to {error.filename or folder} ({error.strerror}); nothing has been started"
        ) from error
    return [path.resolve() for path in named]


def _write_cell(folder: Path, described: Mapping[str, Any]) -> None:
    """Write a cell's description as its holder, so that what a kill has left of an earlier write can be removed.

    If another process holds a cell without a description, it is a sweep that writes the same one at this moment.
    """
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + STALE_SECONDS
    while not (folder / CELL).exists():
        with holding(folder) as held:
            if held:
                remove_partial(folder, (CELL,))
                write_json(folder / CELL, described)
        if not held:
            if time.monotonic() > until:
                raise UserError(
                    f"out: another process holds {folder} and writes no {CELL}; end it, or give another folder"
                )
            time.sleep(0.05)


def read_cell(folder: Path) -> Cell:
    """The cell of a folder."""
    cell: Cell = converted(read_json(folder / CELL), Cell, f"{folder / CELL} is damaged")
    return cell


def find_cells(folder: Path) -> list[Path]:
    """The folders of all cells of a sweep."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give one that polychromic sweep wrote")
    folders = sorted(path.parent.resolve() for path in folder.glob(f"*/{CELL}"))
    if not folders:
        raise UserError(f"{folder} holds no cells; give a folder that polychromic sweep wrote")
    return folders


def is_done(folder: Path, *, thorough: bool = False) -> bool:
    """Whether a cell is complete; its metrics are written last. A damaged file is made again.

    thorough: whether its evaluation, which is larger, is intact too.
    """
    done = read_json_or(folder / FIGURES, _Metrics, None) is not None
    evaluation = folder / EVALUATION
    if not done or not thorough or not evaluation.exists():
        return done
    return read_json_or(evaluation, dict[str, Any], None) is not None


def _tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}


def _compare(path: Path, before: Cell, now: Cell) -> None:
    """Refuse another evaluation; the name of the folder covers everything else."""
    for name, value in asdict(now.evaluation).items():
        old = getattr(before.evaluation, name)
        if old != value:
            raise UserError(
                f"out: {path} is a cell with evaluation {name} = {old}, now it is {value}; "
                "give another folder, or the same evaluation to resume it"
            )

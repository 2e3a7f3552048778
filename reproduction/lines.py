"""What stands in which row: planned cells and the results there are of them, seeds together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polychromic.sweep.cells import PRETRAINED
from reproduction.plan import CHOSEN, OTHER_BASES, TASKS, Planned, Size, first_plan, study_plan
from reproduction.records import BEST_MARK, Results, check_alike

NAMES = {"goto": "GoTo", "fourrooms": "FourRooms"}
METHOD_NAMES = {
    PRETRAINED: "pretrained",
    "reinforce": "REINFORCE",
    "reinforce-ucb": "REINFORCE + UCB",
    "ppo": "PPO",
    "ppo-ucb": "PPO + UCB",
    "poly-ppo": "Poly-PPO",
    "poly-ppo-ucb": "Poly-PPO + UCB",
}


@dataclass(frozen=True)
class Line:
    """A row of a table: a name, the method as the paper's tables have it, and the results behind it."""

    part: str
    label: str
    method: str
    records: list[dict[str, Any]]
    planned_seeds: tuple[int, ...]
    broken: tuple[int, ...] = ()  # seeds whose runs broke down; no figure has them
    against: str = ""  # in the study: the label that it is compared with; "": the reference of its method

    @property
    def missing(self) -> list[int]:
        """Seeds that were not run."""
        return sorted(set(self.planned_seeds) - {one["seed"] for one in self.records} - set(self.broken))

    @property
    def seeds(self) -> str:
        """How many there are, as tables say it."""
        return str(len(self.records)) + (f" ({len(self.broken)} more broke down)" if self.broken else "")


@dataclass(frozen=True)
class Found:
    """All files of results, and the lines of their tables by item and task."""

    search: Results
    runs: Results  # of the comparison and the study, which share some
    size: Size
    tasks: tuple[str, ...] = TASKS

    @property
    def chosen(self) -> Mapping[str, Any]:
        """Settings by task and method, as far as the search is through."""
        return dict(self.search.notes.get("chosen", {}))

    @property
    def best_by_configurations(self) -> Mapping[str, Any]:
        """The best settings by task, method and configurations per iteration."""
        return dict(self.search.notes.get("best_by_configurations", {}))

    def lines(self, item: str, task: str) -> list[Line]:
        """The lines of an item's table, whether they have results or not; none before settings are chosen."""
        if not {"ppo", "poly-ppo"} <= set(self.chosen.get(task, {})):
            return []
        if item == "first":
            return lines_of(first_plan(self.chosen, self.size, (task,)), self.runs)
        bases = {base: f"{base}/policy" for base in OTHER_BASES.get(task, ())}  # of which a result knows the name alone
        return lines_of(study_plan(self.chosen, self.best_by_configurations, self.size, (task,), bases), self.runs)


def lines_of(plan: Sequence[Planned], results: Results) -> list[Line]:
    """What is planned, seeds together, with all results there are; the best temperature after the pretrained policy."""
    seeds: dict[tuple[str, str, str], list[int]] = {}
    for one in plan:
        seeds.setdefault((one.part, one.label, one.line), []).append(one.cell.seed)
    first = {(one.part, one.label, one.line): one for one in reversed(plan)}
    known, broken = results.lines(), results.broken()
    lines = []
    for (part, label, key), planned in seeds.items():
        one = first[part, label, key]
        method = one.cell.method
        gone = tuple(broken.get(key, ()))
        check_alike(known.get(key, []))
        lines.append(Line(part, label, method, known.get(key, []), tuple(planned), gone, one.against))
        best = known.get(key + BEST_MARK, [])
        if method == PRETRAINED and best:
            name = f"{label}, best temperature ({best[0]['temperature']:g})"
            lines.append(Line(part, name, "", best, tuple(planned)))
    return lines


def line_name(line: Line) -> str:
    """The name of a line as people read it."""
    name = line.label
    for method in sorted(METHOD_NAMES, key=len, reverse=True):
        if name == method or name.startswith(f"{method},"):
            return METHOD_NAMES[method] + name.removeprefix(method)
    return name


def figure_name(kind: str, part: str, task: str) -> str:
    """Of a figure of the comparison: with the settings of the search, or with the paper's literal ones."""
    return f"{kind}-{task}" if part == CHOSEN else f"{kind}-{part}-{task}"

"""The rows of tables: planned cells and their results, grouped over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from polychromic.sweep.cells import PRETRAINED
from reproduction import screening, suited
from reproduction.plan import Chosen, Plan, Planned, Scale, expand
from reproduction.plans import BONUSES, CHOSEN, METHOD_NAMES, PAIR, RATES, SCREENING, STAND_IN
from reproduction.records import BEST_MARK, Results, check_alike
from reproduction.suited import BONUS_FACTORS, NOISE, RATE_FACTORS, Tried

FILES = ("search", "rates", "runs", "screening", "triangle")


@dataclass(frozen=True)
class Line:
    """A row of a table: a name, the method as in the paper's tables, and the results behind it."""

    part: str
    label: str
    method: str
    records: list[dict[str, Any]]
    planned_seeds: tuple[int, ...]
    diverged: tuple[int, ...] = ()  # seeds whose runs diverged; excluded from all metrics
    against: str = ""  # in the study: the label that it is compared with; "": the reference of its method

    @property
    def missing(self) -> list[int]:
        """Seeds that were not run."""
        return sorted(set(self.planned_seeds) - {record["seed"] for record in self.records} - set(self.diverged))

    @property
    def seeds(self) -> str:
        """The number of seeds, as shown in tables."""
        return str(len(self.records)) + (f" ({len(self.diverged)} more diverged)" if self.diverged else "")


@dataclass(frozen=True)
class Stored:
    """All results files of a folder, and the rows of tables by plan and task."""

    folder: Path
    scale: Scale
    stand_in: bool = False  # use stand-ins for settings not searched for; a quick run and an estimate need no search

    @cached_property
    def files(self) -> dict[str, Results]:
        """The results files by name, whether they exist or not."""
        return {name: Results(self.folder / f"{name}.json") for name in FILES}

    @property
    def search(self) -> Results:
        """The results of the search: its runs, and what it chose."""
        return self.files["search"]

    @property
    def chosen(self) -> Chosen:
        """Settings by task and method: those of the search, and what was found for the tasks that it did not have."""
        known = self.with_rates
        found = {task: suited.with_bonuses(known.of_task(task), self.bonuses(task)) for task in known.own_settings}
        return replace(known, own_settings=found)

    @property
    def with_rates(self) -> Chosen:
        """Settings by task and method: those of the search, and learning rates of the tasks that it did not have."""
        searched = self.searched
        tried = {task: self.rates(task) for task in RATES.tasks(self.scale)}
        found = {
            task: suited.with_rates(searched.of_task(task), methods)
            for task, methods in tried.items()
            if methods and all(one.finished for one in methods)
        }
        return replace(searched, own_settings=found)

    def rates(self, task: str) -> list[Tried]:
        """Three learning rates for every method on a task that the search did not have."""
        if not self.scale.tasks[task].settings_of or not set(PAIR) <= self.searched.of_task(task).keys():
            return []
        planned = expand(RATES, self.scale, self.searched, (task,))
        return suited.tried(lines_of(planned, self.files[RATES.results]), RATE_FACTORS)

    def bonuses(self, task: str) -> list[Tried]:
        """Three λ_UCB for every method with UCB on a task that the search did not have."""
        planned = expand(BONUSES, self.scale, self.with_rates, (task,))
        return suited.tried(lines_of(planned, self.files[BONUSES.results]), BONUS_FACTORS, NOISE)

    def needed_first(self, plan: Plan, tasks: Sequence[str]) -> tuple[str, str] | None:
        """What is not chosen yet of what a plan needs on these tasks, in words, and the name of the plan that does."""
        own = [task for task in tasks if task in RATES.tasks(self.scale)]
        rates = [task for task in own if any(not one.finished for one in self.rates(task))]
        if plan.needs_rates and rates:
            return f"no learning rates are chosen for {', '.join(rates)}", RATES.name
        bonuses = [task for task in own if any(not one.finished for one in self.bonuses(task))]
        if plan.needs_bonuses and bonuses:
            return f"no λ_UCB is chosen for {', '.join(bonuses)}", BONUSES.name
        return None

    @property
    def searched(self) -> Chosen:
        """Settings by task and method, as far as the search has got."""
        notes = self.search.notes
        chosen = Chosen(notes.get("chosen", {}), notes.get("best_by_configurations", {}), self.scale.tasks)
        if self.stand_in:
            return replace(chosen, settings={task: {**STAND_IN, **chosen.of_task(task)} for task in self.scale.tasks})
        return chosen

    def chosen_for(self, plan: Plan) -> Chosen:
        """Settings, and for a plan that needs them what the screening chose."""
        return replace(self.chosen, finalists=self.finalists) if plan.has_finalists else self.chosen

    @property
    def finalists(self) -> tuple[str, ...]:
        """The rows that the screening chose, by their labels; none before it is finished."""
        by_task = {task: self.lines(SCREENING, task) for task in SCREENING.tasks(self.scale)}
        if self.stand_in and not screening.is_finished(by_task):
            return screening.stand_in(by_task)
        return screening.finalists(by_task)

    def lines(self, plan: Plan, task: str) -> list[Line]:
        """The rows of a plan's table, whether they have results or not; none before settings are chosen."""
        return lines_of(self.planned(plan, task), self.files[plan.results])

    def planned(self, plan: Plan, task: str) -> list[Planned]:
        """The cells of a plan on a task, with those on request; none before settings are chosen."""
        needs = any(runs.settings == "chosen" for runs in plan.runs if runs.methods != (PRETRAINED,))
        if task not in plan.tasks(self.scale) or (needs and not set(PAIR) <= self.searched.of_task(task).keys()):
            return []
        bases = {base: f"{base}/policy" for base in self.scale.tasks[task].bases}  # results store only the name
        return expand(plan, self.scale, self.chosen_for(plan), (task,), plan.parts, bases)

    def has_results(self, plan: Plan, task: str) -> bool:
        """Whether any run of a plan on a task has a result."""
        return any(line.records for line in self.lines(plan, task))


def lines_of(plan: Sequence[Planned], results: Results) -> list[Line]:
    """The planned rows with all available results; the best temperature comes after the pretrained policy."""
    seeds: dict[tuple[str, str, str], list[int]] = {}
    for planned in plan:
        seeds.setdefault((planned.part, planned.label, planned.line), []).append(planned.cell.seed)
    first = {(planned.part, planned.label, planned.line): planned for planned in reversed(plan)}
    known, diverged = results.lines(), results.diverged()
    lines = []
    for (part, label, key), own_seeds in seeds.items():
        planned = first[part, label, key]
        method = planned.cell.method
        check_alike(known.get(key, []))
        gone = tuple(diverged.get(key, ()))
        lines.append(Line(part, label, method, known.get(key, []), tuple(own_seeds), gone, planned.against))
        best = known.get(key + BEST_MARK, [])
        if method == PRETRAINED and best:
            name = f"{label}, best temperature ({best[0]['temperature']:g})"
            lines.append(Line(part, name, "", best, tuple(own_seeds)))
    return lines


def line_name(line: Line) -> str:
    """The display name of a line."""
    name = line.label
    for method in sorted(METHOD_NAMES, key=len, reverse=True):
        if name == method or name.startswith(f"{method},"):
            return METHOD_NAMES[method] + name.removeprefix(method)
    return name


def title_of(task: str, tasks: Mapping[str, Any]) -> str:
    """The name of a task on pages."""
    return str(tasks[task].title) if task in tasks else task


def figure_name(kind: str, part: str, task: str) -> str:
    """The name of a figure of the comparison: with the settings of the search, or with the paper's literal ones."""
    return f"{kind}-{task}" if part == CHOSEN else f"{kind}-{part}-{task}"

"""The search for settings: one coordinate after another, the same number of runs for every method.

The rule, fixed before any run: in each stage the candidate with the highest success + coverage wins, both averaged over
the last three evaluations of its run; ties go to the earlier candidate. Each stage starts from the choice of the one
before. All runs of a task have the same number of trajectories, and a seed that no comparison uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polychromic.tasks.grids.defaults import CRITIC
from reproduction.plan import APART, Planned, Scale, Settings, key_of, make_cell

RULE = "success + coverage, both averaged over the last three evaluations of a run; at a tie the earlier candidate"
LAST = 3

Records = Mapping[str, Mapping[str, Any]]  # results by key


@dataclass(frozen=True)
class Candidate:
    """The changes of a candidate to the settings of the stage before."""

    changes: Settings = field(default_factory=dict)
    rate: float = 0.0  # learning rate of the actor; 0: unchanged
    times: float = 1.0  # factor for the learning rate

    def of(self, before: Settings) -> dict[str, Any]:
        """All settings; the critic's learning rate follows the actor's."""
        rate = (self.rate or before["actor_learning_rate"]) * self.times
        rate = float(f"{rate:.6g}")  # 3e-05, without rounding noise
        rates = {"actor_learning_rate": rate, "critic_learning_rate": float(f"{CRITIC * rate:.6g}")}
        return {**before, **rates, **self.changes}


@dataclass(frozen=True)
class Search:
    """The search space: candidates by method and stage, methods in running order."""

    length: str  # of its runs, by name; tasks that have it are searched
    points: int  # of a learning curve
    start: Mapping[str, Settings]
    stages: Mapping[str, Mapping[str, Sequence[Candidate]]]
    after: Mapping[str, str]  # method -> the method whose chosen settings it starts from
    by_configurations: str  # the stage that tries numbers of configurations
    readings: Mapping[str, Settings] = field(default_factory=dict)

    def tasks(self, scale: Scale) -> tuple[str, ...]:
        """The tasks to search on."""
        return tuple(name for name, task in scale.tasks.items() if self.length in task.lengths)


@dataclass(frozen=True)
class Trial:
    """A candidate of a stage; the score is None until it has run, and −1 if its run diverged."""

    stage: str
    planned: Planned
    settings: dict[str, Any]
    score: float | None
    wins: bool = False


@dataclass(frozen=True)
class Chain:
    """The state of the search for one method on one task."""

    task: str
    method: str
    trials: tuple[Trial, ...] = ()
    chosen: dict[str, Any] | None = None  # once all stages are finished
    missing: tuple[Planned, ...] = field(default=())  # cells to run next


def search_chains(records: Records, search: Search, scale: Scale, tasks: Sequence[str] = ()) -> list[Chain]:
    """The state of the search, from the results so far: the same results give the same chains."""
    chains: dict[tuple[str, str], Chain] = {}
    for method in search.stages:
        for task in tasks or search.tasks(scale):
            earlier = search.after.get(method)
            before = chains[task, earlier].chosen if earlier else search.start[method]
            chains[task, method] = (
                Chain(task, method) if before is None else _walk(task, method, before, records, search, scale)
            )
    return list(chains.values())


def _walk(task: str, method: str, start: Settings, records: Records, search: Search, scale: Scale) -> Chain:
    settings, trials = dict(start), []
    for stage, candidates in search.stages[method].items():
        tried = [candidate.of(settings) for candidate in candidates]
        plans = [Planned(stage, method, _cell(task, method, candidate, search, scale)) for candidate in tried]
        scores = [score_of(records.get(key_of(planned.cell))) for planned in plans]
        known = [score for score in scores if score is not None]
        best = scores.index(max(known)) if len(known) == len(scores) else -1
        trials += [
            Trial(stage, planned, own, score, number == best)
            for number, (planned, own, score) in enumerate(zip(plans, tried, scores, strict=True))
        ]
        if best < 0:
            waiting = tuple(planned for planned, score in zip(plans, scores, strict=True) if score is None)
            return Chain(task, method, tuple(trials), missing=waiting)
        settings = tried[best]
    return Chain(task, method, tuple(trials), settings)


def _cell(task: str, method: str, settings: Settings, search: Search, scale: Scale) -> Any:
    length = scale.tasks[task].lengths[search.length]
    points = min(search.points, scale.points)
    return make_cell(
        task, method, APART, settings, length, scale, readings=search.readings, points=points, scored="briefly"
    )


def score_of(record: Mapping[str, Any] | None) -> float | None:
    """The score of a run by the rule; −1, below everything, if it diverged."""
    if record is None:
        return None
    if "failed" in record:
        return -1.0
    late = [record["curve"][name][-LAST:] for name in ("success", "coverage")]
    return float(sum(sum(values) / len(values) for values in late))


def chosen_of(chains: Sequence[Chain]) -> dict[str, dict[str, dict[str, Any]]]:
    """The settings of all methods whose search is finished, by task."""
    chosen: dict[str, dict[str, dict[str, Any]]] = {}
    for chain in chains:
        if chain.chosen is not None:
            chosen.setdefault(chain.task, {})[chain.method] = chain.chosen
    return chosen


def best_by_configurations(chains: Sequence[Chain], search: Search) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """The best settings for each number of configurations per iteration, by task and method."""
    settings: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for chain in chains:
        by_number: dict[str, list[Trial]] = {}
        for trial in chain.trials:
            if trial.stage == search.by_configurations and trial.score is not None:
                by_number.setdefault(str(trial.settings["configurations_per_iteration"]), []).append(trial)
        if by_number:
            best = {number: max(tried, key=lambda trial: trial.score or 0.0) for number, tried in by_number.items()}
            settings.setdefault(chain.task, {})[chain.method] = {
                number: trial.settings for number, trial in best.items()
            }
    return settings


def whole_search(search: Search, scale: Scale, tasks: Sequence[str] = ()) -> list[Planned]:
    """Cells like those of a whole search, for an estimate: the chosen learning rate does not change the cost."""
    plan: list[Planned] = []
    for task in tasks or search.tasks(scale):
        for method, stages in search.stages.items():
            plain = search.after.get(method, method)
            first = next(iter(search.stages[plain].values()))[0]
            start = first.of(search.start[plain])
            seen: dict[str, Planned] = {}
            for stage, candidates in stages.items():
                for candidate in candidates:
                    cell = _cell(task, method, candidate.of(start), search, scale)
                    seen[key_of(cell)] = Planned(stage, method, cell)
            plan += seen.values()
    return plan

"""The first stage of the study of set credit: a fixed rule chooses the settings that get more seeds and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reproduction.equal_success import at_equal_success
from reproduction.search import LAST

if TYPE_CHECKING:
    from reproduction.lines import Line

FINALISTS = 2
NEAR = 0.05  # of PPO's success at equal trajectories, for the bar
NOISE = 0.02  # of pass@8 of one run
RULE = (
    "at equal success with PPO, the most distinct successful strategies (geometric mean over the tasks) among the "
    f"settings whose pass@8 there is at most {100 * NOISE:.0f} points lower; then the same among those whose success "
    f"at equal trajectories is not lower; if that is the same setting, the next; {FINALISTS} in all; and of the "
    "settings of PPO itself the best by the first criterion"
)

ByTask = Mapping[str, Sequence["Line"]]


@dataclass(frozen=True)
class Score:
    """A setting against PPO in the screening, over its tasks."""

    label: str
    method: str
    strategies: float  # ratio at equal success; 0 if there is no equal success, or if a run diverged
    pass_at_8: float  # difference there
    success: float  # difference at the end, at equal trajectories

    @property
    def eligible(self) -> bool:
        """Whether pass@8 is kept."""
        return self.strategies > 0 and self.pass_at_8 >= -NOISE

    @property
    def order(self) -> tuple[bool, float]:
        """What settings are ranked by."""
        return self.eligible, self.strategies


def is_finished(by_task: ByTask) -> bool:
    """Whether every row has its result."""
    lines = [line for own in by_task.values() for line in own]
    return bool(lines) and not any(line.missing for line in lines)


def scores(by_task: ByTask) -> list[Score]:
    """Every setting that has results on all tasks, in the order of the plan; PPO as the tables have it comes first."""
    labels = [line.label for line in next(iter(by_task.values()), ())]
    found = []
    for label in labels:
        own = {task: _named(lines, label) for task, lines in by_task.items()}
        theirs = {task: _named(lines, "ppo") for task, lines in by_task.items()}
        if all(line.records or line.diverged for line in [*own.values(), *theirs.values()]):
            found.append(_score(label, [(own[task], theirs[task]) for task in by_task]))
    return found


def finalists(by_task: ByTask) -> tuple[str, ...]:
    """The labels of the chosen rows, in the order of the plan; none before the screening is finished."""
    if not is_finished(by_task):
        return ()
    known = scores(by_task)
    sets = sorted((one for one in known if one.method != "ppo"), key=lambda one: one.order, reverse=True)
    level = [one for one in sets if one.success >= 0] or sorted(sets, key=lambda one: one.success, reverse=True)
    ranked = [sets[0], level[0], *sets]
    of_ppo = max((one for one in known if one.method == "ppo" and one.label != "ppo"), key=lambda one: one.order)
    wanted = {of_ppo.label, *list(dict.fromkeys(one.label for one in ranked))[:FINALISTS]}
    return tuple(one.label for one in known if one.label in wanted)


def stand_in(by_task: ByTask) -> tuple[str, ...]:
    """As many rows as would be chosen, for a quick run and an estimate before the screening is finished."""
    lines = next(iter(by_task.values()), ())
    ppo = [line.label for line in lines if line.method == "ppo" and line.label != "ppo"]
    return (*ppo[:1], *[line.label for line in lines if line.method != "ppo"][:FINALISTS])


def _named(lines: Sequence[Line], label: str) -> Line:
    return next(line for line in lines if line.label == label)


def _score(label: str, pairs: Sequence[tuple[Line, Line]]) -> Score:
    method = pairs[0][0].method
    if any(line.diverged for pair in pairs for line in pair):
        return Score(label, method, 0.0, -1.0, -1.0)
    equal = [at_equal_success(ours.records, theirs.records) for ours, theirs in pairs]
    known = [one for one in equal if one is not None]
    ends = [_end(ours.records[0]) - _end(theirs.records[0]) for ours, theirs in pairs]
    if len(known) < len(pairs):
        return Score(label, method, 0.0, -1.0, float(np.mean(ends)))
    ratio = np.exp(np.mean([np.log(one.strategies.mean) for one in known]))
    return Score(
        label, method, float(ratio), float(np.mean([one.pass_at_8.mean for one in known])), float(np.mean(ends))
    )


def _end(record: Mapping[str, Any]) -> float:
    """Success at the end, over as many evaluations as the search looks at."""
    return float(np.mean(record["curve"]["success"][-LAST:]))

"""The search for settings: one coordinate after another, the same number of runs for every method.

The rule, fixed before any run: of the candidates of a stage the one with the highest success + coverage wins, both
averaged over the last three evaluations of its run; at a tie the earlier candidate. What one stage chose, the next
begins with. All runs of a task have the same number of trajectories, and a seed that no comparison uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polychromic.tasks.grids.defaults import CRITIC
from reproduction.plan import PLAIN, TASKS, UCB, Planned, Size, key_of, run_cell_of

RULE = "success + coverage, both averaged over the last three evaluations of a run; at a tie the earlier candidate"
LAST = 3
CONFIGURATIONS_STAGE = "configurations"
SEED = 100
RATES = (1e-5, 3e-5, 1e-4)
KLS = (0.01, 0.005, 0.05, 0.1)
# Of the learning rate of REINFORCE, which has no KL: as many runs as the others spend on it.
FINER = (1.0, 0.5, 1.5, 2.0)
UCBS = (0.1, 0.03, 0.3, 0.01)  # 0.01 was added when 0.03, the lowest of the others, had won everywhere

Settings = dict[str, Any]
Records = Mapping[str, Mapping[str, Any]]  # results by key


@dataclass(frozen=True)
class Trial:
    """A candidate of a stage; the score is None as long as it has not run, and −1 if its run broke down."""

    stage: str
    planned: Planned
    settings: Settings
    score: float | None
    wins: bool = False


@dataclass(frozen=True)
class Chain:
    """How far the search for one method on one task is."""

    task: str
    method: str
    trials: tuple[Trial, ...] = ()
    chosen: Settings | None = None  # once all stages are through
    missing: tuple[Planned, ...] = field(default=())  # what has to run next


def stages_of(method: str) -> dict[str, Callable[[Settings], list[Settings]]]:
    """The candidates of each stage, given what was chosen before. The first of the later stages has run already."""
    if method.endswith("-ucb"):
        return {"λ_UCB": lambda own: [{**own, "ucb": value} for value in UCBS]}
    return {
        "learning rate": lambda own: [_with_rate(own, rate) for rate in RATES],
        **(
            {"learning rate, finer": lambda own: [_with_rate(own, own["actor_learning_rate"] * by) for by in FINER]}
            if method == "reinforce"
            else {"KL": lambda own: [{**own, "kl_coefficient": value} for value in KLS]}
        ),
        CONFIGURATIONS_STAGE: lambda own: [
            own,
            {**own, "configurations_per_iteration": 8},
            {**_with_rate(own, 3 * own["actor_learning_rate"]), "configurations_per_iteration": 8},
        ],
    }


def _with_rate(own: Settings, rate: float) -> Settings:
    actor = float(f"{rate:.6g}")  # 3 · 1e-5 as people write it
    return {**own, "actor_learning_rate": actor, "critic_learning_rate": float(f"{CRITIC * actor:.6g}")}


def start_of(method: str) -> Settings:
    """Where a search begins: the paper's values."""
    kl = {} if method == "reinforce" else {"kl_coefficient": KLS[0]}
    return {**_with_rate({}, RATES[0]), **kl, "configurations_per_iteration": 1}


def search_chains(records: Records, size: Size, tasks: Sequence[str] = TASKS) -> list[Chain]:
    """How far the search is, from the results of its runs so far: the same results give the same chains."""
    found: dict[tuple[str, str], Chain] = {}
    for method in (*PLAIN, *UCB):
        for task in tasks:
            before = found[task, method.removesuffix("-ucb")].chosen if method in UCB else start_of(method)
            found[task, method] = Chain(task, method) if before is None else _walk(task, method, before, records, size)
    return list(found.values())


def _walk(task: str, method: str, start: Settings, records: Records, size: Size) -> Chain:
    settings, trials = start, []
    for stage, candidates in stages_of(method).items():
        plans = [
            Planned(stage, method, run_cell_of(task, method, SEED, own, size.search[task], size, search=True))
            for own in candidates(settings)
        ]
        scores = [score_of(records.get(key_of(one.cell))) for one in plans]
        known = [score for score in scores if score is not None]
        best = scores.index(max(known)) if len(known) == len(scores) else -1
        trials += [
            Trial(stage, one, own, score, number == best)
            for number, (one, own, score) in enumerate(zip(plans, candidates(settings), scores, strict=True))
        ]
        if best < 0:
            waiting = tuple(one for one, score in zip(plans, scores, strict=True) if score is None)
            return Chain(task, method, tuple(trials), missing=waiting)
        settings = candidates(settings)[best]
    return Chain(task, method, tuple(trials), settings)


def score_of(record: Mapping[str, Any] | None) -> float | None:
    """By the rule; −1, below everything, for a run that broke down."""
    if record is None:
        return None
    if "failed" in record:
        return -1.0
    late = [record["curve"][name][-LAST:] for name in ("success", "coverage")]
    return float(sum(sum(values) / len(values) for values in late))


def chosen_of(chains: Sequence[Chain]) -> dict[str, dict[str, Settings]]:
    """The settings of all methods whose search is through, by task."""
    found: dict[str, dict[str, Settings]] = {}
    for chain in chains:
        if chain.chosen is not None:
            found.setdefault(chain.task, {})[chain.method] = chain.chosen
    return found


def best_by_configurations(chains: Sequence[Chain]) -> dict[str, dict[str, dict[str, Settings]]]:
    """The best settings for each number of configurations an iteration, by task and method."""
    found: dict[str, dict[str, dict[str, Settings]]] = {}
    for chain in chains:
        tried = [trial for trial in chain.trials if trial.stage == CONFIGURATIONS_STAGE and trial.score is not None]
        if tried:
            by_number: dict[str, list[Trial]] = {}
            for trial in tried:
                by_number.setdefault(str(trial.settings["configurations_per_iteration"]), []).append(trial)
            best = {number: max(own, key=lambda trial: trial.score or 0.0) for number, own in by_number.items()}
            found.setdefault(chain.task, {})[chain.method] = {number: one.settings for number, one in best.items()}
    return found


def most_search(size: Size, tasks: Sequence[str] = TASKS) -> list[Planned]:
    """Cells like those of a whole search, for its estimate: which learning rate wins does not change what runs cost."""
    plan: list[Planned] = []
    for task in tasks:
        for method in (*PLAIN, *UCB):
            own = start_of(method.removesuffix("-ucb"))
            seen = {}
            for stage, candidates in stages_of(method).items():
                for settings in candidates(own):
                    cell = run_cell_of(task, method, SEED, settings, size.search[task], size, search=True)
                    seen[key_of(cell)] = Planned(stage, method, cell)
            plan += seen.values()
    return plan

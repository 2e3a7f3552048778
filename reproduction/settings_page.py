"""How settings were chosen, as blocks of the page on method: the search, and what was tried where there was none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from reproduction import search
from reproduction.equal_success import STRATEGIES
from reproduction.lines import Line, Stored, line_name, title_of
from reproduction.plan import Plan, key_of
from reproduction.plans import BONUSES, CHECKS, METHOD_NAMES, NEARBY, NEARBY_KLS, PAIR, RATE, RATES, SEARCH, TASKS
from reproduction.suited import NOISE, Tried, score_of_line, shown_score, tried_table
from reproduction.words import bare, bold, folded, footer, gap, joined, number, percent, provenance, short_settings

NEARBY_COLUMNS = {  # by the end of a row's label
    "": "as taken",
    **{f", KL {value:g}": f"KL {value:g}" for value in NEARBY_KLS},
    ", other configurations": "1 configuration (REINFORCE: 8)",
}


def settings_blocks(stored: Stored, again: Mapping[str, str]) -> dict[str, str]:
    """The text of these marks. again: the commands, by plan."""
    return {
        "search": _search_block(stored, again["search"]),
        "rates": _tried_block(stored, RATES, stored.rates, "rate", again["rates"]),
        "nearby": _nearby_block(stored, again["nearby"]),
        "checks": _checks_block(stored, again["checks"]),
        "bonuses": _tried_block(stored, BONUSES, stored.bonuses, "λ", again["bonuses"]),
    }


def _search_block(stored: Stored, command: str) -> str:
    records = stored.search.cells
    chains = search.search_chains(records, SEARCH, stored.scale)
    trials = [(chain, trial) for chain in chains for trial in chain.trials]
    if not any(trial.score is not None for _, trial in trials):
        return f"Not run yet: `{command}`."
    rows = []
    for chain, trial in trials:
        record = records.get(key_of(trial.planned.cell), {})
        late = {name: record.get("curve", {}).get(name, [])[-search.LAST :] for name in ("success", "coverage")}
        metrics = [f"{sum(values) / len(values):.3f}" if values else NOTHING for values in late.values()]
        score = shown_score(trial.score)
        rows.append(
            (
                f"{title_of(chain.task, TASKS)}, {METHOD_NAMES[chain.method]}",
                trial.stage,
                short_settings(trial.settings),
                *metrics,
                bold(score, trial.wins),
            )
        )
    waiting = sum(trial.score is None for _, trial in trials)
    finished = sum(chain.chosen is not None for chain in chains)
    columns = ("task, method", "stage", "settings", "success", "coverage", "sum")
    state = f"{finished} of {len(chains)} searches are finished"
    state += f"; {waiting} runs of their current stages are missing." if waiting else "."
    titles = [title_of(task, TASKS) for task in SEARCH.tasks(stored.scale)]
    every = bare(Table("", "In bold what each stage chose.", columns, tuple(rows)))
    chosen = bare(Table("", f"Rule: {search.RULE}.", ("method", *titles), _chosen_rows(chains)))
    return "\n\n".join(
        [
            chosen,
            state,
            provenance(command, list(records.values())),
            folded("All runs of the search", every),
        ]
    )


def _tried_block(stored: Stored, plan: Plan, tried: Callable[[str], Sequence[Tried]], what: str, command: str) -> str:
    """Whether a setting of the search suits the tasks that it did not have."""
    tasks = plan.tasks(stored.scale)
    by_task = {title_of(task, TASKS): own for task in tasks if (own := tried(task))}
    lines = [line for task in tasks for line in stored.lines(plan, task)]
    records = [record for line in lines for record in line.records]
    if not records:
        return f"Not run yet: `{command}`."
    return "\n\n".join([bare(tried_table(by_task, METHOD_NAMES, what)), provenance(command, records)])


def _nearby_block(stored: Stored, command: str) -> str:
    """Other KL coefficients and configurations around what these tasks take, and whether any is better."""
    rows, better, records = [], [], []
    for task in NEARBY.tasks(stored.scale):
        lines = stored.lines(NEARBY, task)
        records += [record for line in lines for record in line.records]
        for own in (line for line in lines if line.label == line.method):
            ends = {line.label.removeprefix(own.method): line for line in lines if line.method == own.method}
            scores = {end: score_of_line(line) for end, line in ends.items()}
            name = f"{title_of(task, TASKS)}, {METHOD_NAMES[own.method]}"
            rows.append((name, *(shown_score(scores.get(end)) for end in NEARBY_COLUMNS)))
            best, taken = max((score for score in scores.values() if score is not None), default=None), scores[""]
            if best is not None and taken is not None and best - taken > NOISE:
                better.append(name)
    if not records:
        return f"Not run yet: `{command}`."
    told = f"Better than what was taken by more than {NOISE:g}: {joined(better) or 'none'}."
    columns = ("task, method", *NEARBY_COLUMNS.values())
    return "\n\n".join([bare(Table("", "", columns, tuple(rows))), told, provenance(command, records)])


def _checks_block(stored: Stored, command: str) -> str:
    """Poly-PPO with another learning rate than in the tables, beside what the tables have."""
    metrics = ("success", "perturbed", "pass@128")
    rows: list[tuple[str, ...]] = []
    lines: list[Line] = []
    for task in CHECKS.tasks(stored.scale):
        own = [line for line in stored.lines(CHECKS, task) if line.records]
        known = {line.label: line for line in own}
        lines += own
        rows += [
            (
                f"{title_of(task, TASKS)}, {line_name(line)} ({short_settings(line.records[0]['settings'])})",
                line.seeds,
                *(percent(line, name) for name in metrics),
                number(line, STRATEGIES, 2),
            )
            for line in own
        ]
        rows += [
            (f"{line_name(line)} − {line_name(other)}", "", *(gap(line, other, name) for name in metrics), "")
            for line in own
            if line.part == RATE
            for label in PAIR
            if (other := known.get(label))
        ]
    if not any(line.part == RATE for line in lines):
        return f"Not run yet: `{command}`."
    columns = ("method", "seeds", "success %", "perturbed starts %", "pass@128 %", "successful strategies")
    return "\n\n".join([bare(Table("", "", columns, tuple(rows))), footer(lines, command)])


def _chosen_rows(chains: Sequence[search.Chain]) -> tuple[tuple[str, ...], ...]:
    """What was chosen for every method, task by task."""
    rows: dict[str, list[str]] = {}
    for chain in chains:
        rows.setdefault(chain.method, []).append(NOTHING if chain.chosen is None else short_settings(chain.chosen))
    return tuple((METHOD_NAMES[method], *settings) for method, settings in rows.items())

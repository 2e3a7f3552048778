"""The tables of a comparison of methods, beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from polychromic.report.table import Table
from polychromic.report.tables import NOTHING
from polychromic.sweep.cells import PRETRAINED
from polychromic.tasks.grids import paper_results
from reproduction.intervals import REWARD, at_equal_steps, cpu_hours, rewards_of, still_moving
from reproduction.lines import Line, line_name, title_of
from reproduction.plans import METHOD_NAMES, TASKS
from reproduction.words import (
    BOLD,
    COMPARED,
    ONE_IN_TWENTY,
    bare,
    enough,
    footer,
    gap,
    number,
    percent,
    points,
    printed,
    short_settings,
)

LITTLE = 0.01  # the largest rise that counts as flat


def comparison_block(task: str, lines: Sequence[Line], command: str, figures: Sequence[str | None]) -> str:
    """All tables and figures of a comparison."""
    if not any(line.records for line in lines if line.method not in (PRETRAINED, "")):
        return f"Not run yet: `{command}`."
    ordered = sorted(lines, key=_place)
    tables = [_main_table(task, ordered), _attempts_table(ordered), _differences_table(ordered)]
    parts = [bare(table) for table in tables]
    parts += [f"![{_described(figure, task)}]({figure})" for figure in figures if figure]
    trained = [line for line in ordered if any("iterations" in record for record in line.records)]
    if trained:
        parts += [bare(_runs_table(trained)), _flatness(trained), _per_step(trained)]
    return "\n\n".join(part for part in [*parts, footer(lines, command)] if part)


def _main_table(task: str, lines: Sequence[Line]) -> Table:
    paper = paper_results()
    rewards = dict(zip(paper["methods"], paper["reward_and_success_percent"].get(task, []), strict=False))
    starts = dict(zip(paper["methods"], paper["perturbed_start_success_percent"].get(task, []), strict=False))
    scales = rewards_of(next(line.records for line in lines if line.records))
    rows = []
    for line in lines:
        their_reward, their_success = rewards.get(line.method, (None, None))
        rows.append(
            (
                line_name(line),
                line.seeds,
                percent(line, "success"),
                printed(their_success),
                percent(line, "perturbed"),
                printed(starts.get(line.method)),
                *(number(line, name) for name in scales),
                printed(their_reward, 3),
                percent(line, "greedy"),
                percent(line, "greedy perturbed"),
            )
        )
    columns = ("method", "seeds", "success %", "paper", "perturbed starts %", "paper")
    named = (f"reward ({name.removeprefix(REWARD)})" for name in scales)
    more = ("paper: reward", "greedy %", "greedy, perturbed %")
    note = "Greedy: the most likely action at every step, of the last policy alone."
    return Table("", note, (*columns, *named, *more), tuple(rows))


def _attempts_table(lines: Sequence[Line]) -> Table:
    rows = [
        (
            line_name(line),
            *(percent(line, f"pass@{k}") for k in (2, 8, 32, 128)),
            percent(line, "coverage"),
            number(line, "entropy", 2),
            number(line, "distinct_strategies", 1),
            number(line, "distinct_successful_strategies", 1),
        )
        for line in lines
    ]
    attempts = next((record["attempts"] for line in lines for record in line.records), 0)
    note = (
        "Several attempts: pass@1 is success; coverage is the share of configurations solved in any of "
        f"{attempts} attempts; strategies are how many different sets of rooms these attempts visit. The paper prints "
        "pass@k as curves only."
    )
    columns = ("method", *(f"pass@{k} %" for k in (2, 8, 32, 128)), "coverage %")
    return Table("", note, (*columns, "entropy", "strategies", "successful strategies"), tuple(rows))


def _differences_table(lines: Sequence[Line]) -> Table:
    """The pattern that the paper reports, as differences with their intervals."""
    by = {line.label: line for line in lines}
    cold = next((line.label for line in lines if not line.method), "")  # the pretrained policy at its best temperature
    pairs = [("poly-ppo", "ppo"), ("poly-ppo", "reinforce"), ("reinforce", "ppo"), ("poly-ppo-ucb", "ppo-ucb")]
    pairs += [(f"{method}-ucb", method) for method in ("ppo", "poly-ppo", "reinforce")]
    pairs += [(ours, theirs) for theirs in (PRETRAINED, cold) for ours in ("ppo", "poly-ppo", "reinforce")]
    pairs += [(cold, PRETRAINED)]
    rows = []
    for ours, theirs in pairs:
        if ours in by and theirs in by and by[ours].records and by[theirs].records:
            gaps = [gap(by[ours], by[theirs], name) for name in COMPARED]
            rows.append((f"{line_name(by[ours])} − {line_name(by[theirs])}", *gaps))
    note = f"Differences in points, those of rewards in hundredths; {BOLD}. {ONE_IN_TWENTY}."
    return Table("", note, ("difference", *COMPARED.values()), tuple(rows))


def _runs_table(lines: Sequence[Line]) -> Table:
    rows = []
    for line in lines:
        first = line.records[0]
        means = [sum(record[name] for record in line.records) / len(line.records) for name in ("trajectories", "steps")]
        rises = [still_moving(line.records, name) for name in ("success", "coverage")]
        rows.append(
            (
                line_name(line),
                short_settings(first["settings"]),
                str(first["iterations"]),
                *(f"{value:,.0f}" for value in means),
                f"{60 * cpu_hours(line.records) / len(line.records):.1f}",
                ", ".join(map(str, first.get("averaged_after", []))),
                *(NOTHING if rise is None else points(rise) for rise in rises),
            )
        )
    note = (
        "What was run (means over seeds); lr is the learning rate of the actor, C the configurations an iteration, λ "
        "that of UCB. Rise: the last fifth of training minus the fifth before it, in points."
    )
    columns = ("method", "settings", "iterations", "trajectories", "steps", "CPU minutes")
    return Table("", note, (*columns, "averaged after", "rise of success", "rise of coverage"), tuple(rows))


def _flatness(lines: Sequence[Line]) -> str:
    """Which curves are flat, which are still moving, and which have too few seeds to tell."""
    kinds: dict[str, list[str]] = {"still moving": [], "flat within a point": [], "unclear from so few seeds": []}
    for line in lines:
        rise = still_moving(line.records) if enough(line) else None
        if rise is not None:
            flat = max(abs(rise.low), abs(rise.high)) <= LITTLE
            kind = "flat within a point" if flat else "still moving" if rise.clear else "unclear from so few seeds"
            kinds[kind].append(line_name(line))
    parts = [f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names]
    return f"Success in the last fifth of training: {'; '.join(parts)}." if parts else ""


def _per_step(lines: Sequence[Line]) -> str:
    """Poly-PPO and PPO at the same number of environment steps, as vines are shorter than whole episodes."""
    by = {line.label: line for line in lines}
    if "ppo" not in by or "poly-ppo" not in by:
        return ""
    ours, theirs = by["poly-ppo"], by["ppo"]
    gaps = {name: at_equal_steps(ours.records, theirs.records, name) for name in ("success", "coverage")}
    differences = [f"{name} {points(gap)}" for name, both in gaps.items() if both is not None for gap in both[1:]]
    steps = next((both[0] for both in gaps.values() if both is not None), 0.0)
    return (
        f"At equal environment steps ({steps / 1e6:.2f} million, the most that all of their runs reached) the learning "
        f"curves differ by, Poly-PPO − PPO in points: {', '.join(differences)} (coverage in "
        f"{ours.records[0]['rollouts']} attempts; 95 % intervals over seeds)."
    )


def _described(figure: str, task: str) -> str:
    return f"{'pass@k' if 'passk' in figure else 'Learning curves'} on {title_of(task, TASKS)}"


def _place(line: Line) -> int:
    """The order of the paper's tables; a line without a name there follows the pretrained policy."""
    order = list(METHOD_NAMES)
    return order.index(line.method) if line.method in order else 0

"""Every cell of the verdict table is compared with the stored results; an edited number or word is found."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from made_up import made_up
from reproduction.claims import CLAIMS, TRIANGLE_CLAIMS
from reproduction.intervals import Interval, at_equal_steps, between_seeds, difference, mean_difference, table_of
from reproduction.lines import Stored
from reproduction.plan import expand
from reproduction.plans import CONVERGENCE, FULL, STAND_IN, TABLES, TASKS, TRIANGLE, TRIANGLE_SETS, TRIANGLE_VINES
from reproduction.verdicts import judge, judge_somewhere, verdict_table, verdicts

from polychromic.sweep.cells import PRETRAINED
from polychromic.tasks.grids import paper_results

ROOT = Path(__file__).parents[2]
INTERVAL = r"([+−]\d+\.\d+) \[([+−]\d+\.\d+), ([+−]\d+\.\d+)\]"


def numbers(text):
    """The means and intervals in a text."""
    return [tuple(signed(part) for part in found) for found in re.findall(INTERVAL, text)]


def signed(text):
    """A number with a minus sign that is one."""
    return float(text.replace("−", "-"))


def rows_of(page):
    """The verdict table of a page, cells by claim, in order."""
    table = page.split("<!-- verdict -->")[1].split("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if "|" in line]
    return rows[2:]


class Facts(NamedTuple):
    """What the results say about a claim on the grid tasks; nothing in it comes from `verdicts`."""

    names: list[str]  # of what was compared
    full: list[str]  # where both solve everything
    gone: list[str]  # tasks where a run diverged
    sides: dict[str, int]  # 1, −1, or 0 where nothing is resolved
    paper: list[float]  # its differences; none where it prints none
    mean: Interval | None


def facts_of(claim, stored, *, together=False):
    pairs, gone, few = {}, [], []
    for task in claim.tasks or claim.plan.tasks(stored.scale):
        lines = {line.method: line for line in stored.lines(claim.plan, task) if line.part == claim.part}
        wanted = [lines[method] for pair in claim.pairs for method in pair if method in lines]
        title = TASKS[task].title
        if any(line.diverged for line in wanted):
            gone.append(title)
            continue
        usable = {
            line.method: line
            for line in wanted
            if line.records and (line.method == PRETRAINED or len(line.records) >= claim.seeds)
        }
        own = [(task, usable[ours], usable[theirs]) for ours, theirs in claim.pairs if {ours, theirs} <= usable.keys()]
        if len(own) == len(claim.pairs):
            named = {"reinforce": "REINFORCE", "ppo": "PPO", "poly-ppo": "Poly-PPO"}
            pairs |= {f"{title} with {named[pair[2].method]}" if len(own) > 1 else title: pair for pair in own}
            if claim.seeds < 3:  # the spread of few seeds is that of all methods
                few += [line.records for line in lines.values() if line.records and line.method != PRETRAINED]

    def solves_everything(line):
        return table_of(line.records, claim.metric).mean() > 0.9995

    full = [name for name, (_, *lines) in pairs.items() if all(map(solves_everything, lines))]
    shown = {name: pair for name, pair in pairs.items() if name not in full}

    confidence = 1 - 0.05 / max(len(shown), 1) if claim.somewhere or together else 0.95
    apart = {
        name: at_equal_steps(a.records, b.records, claim.metric, confidence)[1]
        if claim.equal_steps
        else difference(a.records, b.records, claim.metric, confidence, few)
        for name, (_, a, b) in shown.items()
    }
    sides = {name: 1 if gap.low >= 0.0005 else -1 if gap.high <= -0.0005 else 0 for name, gap in apart.items()}
    tables = {"success": "reward_and_success_percent", "perturbed": "perturbed_start_success_percent"}
    paper, printed = [], paper_results()
    if claim.metric in tables:
        for task, *lines in (shown or pairs).values():
            known = dict(zip(printed["methods"], printed[tables[claim.metric]][task], strict=True))
            ours, theirs = (float(np.ravel(known[line.method])[-1]) for line in lines)
            paper.append(ours - theirs)
    tasks = dict.fromkeys(task for task, *_ in shown.values())
    by_task = [[(a.records, b.records) for task, a, b in shown.values() if task == own] for own in tasks]
    if claim.equal_steps and by_task:
        gaps = [at_equal_steps(*pair, claim.metric)[1] for own in by_task for pair in own]
        mean, half = np.mean([gap.mean for gap in gaps]), np.hypot.reduce([gap.high - gap.mean for gap in gaps])
        mean = Interval(mean, mean - half / len(gaps), mean + half / len(gaps))
    else:
        mean = mean_difference(by_task, claim.metric, few)
    return Facts(list(pairs), full, gone, sides, paper, mean)


def of_grids(claim, facts, paper, here, verdict, sentence):
    """What a row says that the results do not."""
    if not facts.names and not facts.gone:
        return [] if (here, verdict, sentence) == ("–", "not run yet", "–") else ["nothing was run"]
    found = []
    if claim.somewhere:
        told = [[int(digits) for digits in re.findall(r"\d+", text.split("; ")[-1])] for text in (paper, here)]
        sides = [[int(np.sign(gap)) for gap in facts.paper], list(facts.sides.values())]
        if told != [[own.count(1), own.count(-1), len(own)] for own in sides] and facts.sides:
            found.append(f"counts are of {sides}")
    elif (paper != (claim.paper or "–")) if not facts.paper else abs(signed(paper) - np.mean(facts.paper)) > 0.051:
        found.append("the paper's")
    stated = numbers(here)
    if (here != "–") if facts.mean is None else not close(stated, [[100 * part for part in facts.mean]], 1):
        found.append(f"ours is {facts.mean}")
    lists = {side: [name for name, own in facts.sides.items() if own == side] for side in (1, -1, 0)}
    wanted = [("higher on", lists[1]), ("lower on", lists[-1])]
    if len(claim.pairs) > 1:
        wanted.append((f"no clear difference in {len(lists[0])} of {len(facts.sides)} comparisons", lists[0]))
    else:
        wanted.append(("no clear difference on", lists[0]))
    wanted.append(("cannot show it: both solve everything", facts.full))
    wanted.append(("where runs diverged", facts.gone))
    excluded = facts.paper and not claim.somewhere and stated and not stated[0][1] <= signed(paper) <= stated[0][2]
    wanted.append(("the paper's size is excluded", ["it"] if excluded and verdict in ("not resolved", "mixed") else []))
    for part in sentence.rstrip(".").split("; "):
        said = part[:1].lower() + part[1:]
        match = [one for one in wanted if one[0].lower() in said and one[1]]
        if len(match) != 1:
            found.append(f"says {part!r}")
            continue
        wanted.remove(match[0])
        if match[0][0] == "the paper's size is excluded":
            continue
        subject = re.sub(r"^.* on |^[Ww]ithout |, where runs diverged$| cannot show it.*$", "", part)
        named = re.split(r", | and ", subject)
        if "comparisons" not in said and set(named) != set(match[0][1]):
            found.append(f"{part!r} should name {match[0][1]}")
    found += [f"does not say {word}" for word, names in wanted if names]
    sides = set(facts.sides.values())
    if claim.somewhere:
        side = 1 if 1 in sides else -1 if sides == {-1} else 0
        right = {1: "confirmed", -1: "contradicted", 0: "not resolved"}[side]
    else:
        side = 0 if not stated else 1 if stated[0][1] > 0 else -1 if stated[0][2] < 0 else 0
        side = 1 if claim.margin and stated and stated[0][1] > -100 * claim.margin else side
        size = signed(paper) if facts.paper and stated else None
        agrees = "confirmed" if size is None or stated[0][1] <= size <= stated[0][2] else "direction confirmed"
        side = 0 if -side in sides else side
        right = {claim.sign: agrees, -claim.sign: "contradicted", 0: "not resolved"}[side]
        right = "mixed" if {1, -1} <= sides else right
    right = "not resolved" if facts.gone else right
    return found if verdict == right else [*found, f"the verdict for {here}"]


def close(stated, wanted, digits):
    """Whether printed numbers are those that are known, but for rounding."""
    return len(stated) == len(wanted) and np.abs(np.array(stated) - np.array(wanted)).max() < 0.51 * 10**-digits


def triangle_facts_of(claim, stored):
    """Both differences of a row on triangles, in its units: vines, sets of 64; None before they were run."""
    lines = {line.label: line for line in stored.lines(TRIANGLE, "triangle") if line.records}
    if not {TRIANGLE_SETS, TRIANGLE_VINES, claim.against} <= lines.keys():
        return None

    def values(label):
        points = [point for record in lines[label].records for point in record["points"]]
        return claim.scale * np.array([point[claim.metric] for point in points if point["temperature"] == 1])

    facts = [between_seeds(values(ours), values(claim.against)) for ours in (TRIANGLE_VINES, TRIANGLE_SETS)]
    points = lines[PRETRAINED].records[0]["points"]
    best = max(points, key=lambda point: point[claim.metric])
    return *facts, best["temperature"], claim.scale * best[claim.metric] - values(PRETRAINED).mean()


def of_triangles(claim, facts, paper, here, verdict, sentence):
    if facts is None:
        return [] if (here, verdict, sentence) == ("–", "not run yet", "–") else ["nothing was run"]
    found = [] if paper == claim.paper else ["the paper's"]
    stated = [*numbers(here), *numbers(sentence)]
    *gaps, temperature, more = facts
    if not close(stated, gaps, claim.digits):
        return [*found, f"ours are {gaps}"]
    words = re.sub(INTERVAL, "X", sentence)
    control = re.fullmatch(r"(.*); the pretrained policy at temperature ([\d.]+) ([+−][\d.]+)\.", words)
    if claim.against == PRETRAINED:
        if (
            not control
            or float(control[2]) != temperature
            or not close([(signed(control[3]),)], [(more,)], claim.digits)
        ):
            return [*found, f"the pretrained policy: {words}"]
        words = f"{control[1]}."
    if words != "With sets of 64 X.":
        found.append(f"words: {words}")
    side = 1 if stated[0][1] > 0 else -1 if stated[0][2] < 0 else 0
    agrees = "contradicted" if paper == "slightly less" and stated[0][2] < -20 else "confirmed"
    if verdict != {claim.sign: agrees, -claim.sign: "contradicted", 0: "not resolved"}[side]:
        found.append(f"the verdict for {here}")
    return found


def all_facts(stored):
    return [facts_of(claim, stored) for claim in CLAIMS] + [
        triangle_facts_of(claim, stored) for claim in TRIANGLE_CLAIMS
    ]


def problems(page, facts, unfinished):
    """What the table of a page says that the stored results do not."""
    claims, rows = (*CLAIMS, *TRIANGLE_CLAIMS), rows_of(page)
    if [row[0] for row in rows] != [claim.text for claim in claims]:
        return ["other claims"]
    found = []
    for claim, own, row in zip(claims, facts, rows, strict=True):
        check = of_grids if claim in CLAIMS else of_triangles
        found += [f"{claim.text}: {problem}" for problem in check(claim, own, *row[1:])]
    [(total, counted)] = re.findall(r"\*\*Of (\d+) rows: (.*)\.\*\*", page)
    told = {verdict: int(count) for count, verdict in re.findall(r"(\d+) ([a-z ]+)", counted)}
    if int(total) != len(rows) or told != Counter(row[3] for row in rows):
        found.append("how many of each verdict")
    [below] = re.findall(r"Grid rows are in points, averaged over the tasks in the last column.*", page)
    waiting = re.findall(r"Not finished: (.*)\.", below)
    if (re.split(", | and ", waiting[0]) if waiting else []) != unfinished:
        found.append(f"not finished are {unfinished}")
    return found


def unfinished_tasks(stored):
    """Titles of the tasks that lack runs of the tables which a claim needs."""
    found = []
    for task in TABLES.tasks(stored.scale):
        for claim in [claim for claim in CLAIMS if claim.plan is TABLES]:
            if claim.tasks and task not in claim.tasks:
                continue
            lines = [line for line in stored.lines(TABLES, task) if line.part == claim.part]
            own = [line for line in lines if any(line.method in pair for pair in claim.pairs)]
            if own and not any(line.diverged for line in own):
                few = [line for line in own if len(line.records) < (1 if line.method == PRETRAINED else claim.seeds)]
                found += [TASKS[task].title] if few else []
    return list(dict.fromkeys(found))


@pytest.fixture(scope="module")
def facts():
    return all_facts(Stored(ROOT / "results", FULL))


@pytest.fixture(scope="module")
def unfinished():
    return unfinished_tasks(Stored(ROOT / "results", FULL))


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "results.md").read_text()


def test_the_verdict_table_says_what_the_results_say(page, facts, unfinished):
    assert problems(page, facts, unfinished) == []


def test_the_corrected_verdicts_are_those_of_tasks_that_are_judged_together():
    stored = Stored(ROOT / "results", FULL)
    usual, corrected = verdicts(stored), verdicts(stored, corrected=True)
    for claim, one in zip(CLAIMS, corrected, strict=False):
        assert of_grids(claim, facts_of(claim, stored, together=True), *one[1:]) == [], claim.text
    changed = [other for one, other in zip(usual, corrected, strict=True) if one.verdict != other.verdict]
    table = (ROOT / "docs" / "results-method.md").read_text().split("<!-- corrected -->")[1].split("<!-- end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert [(row[0], row[2]) for row in rows] == [(one.claim, one.verdict) for one in changed]


def mutants(page):
    """The page with one thing changed in its verdict table: every number, every verdict, every word of a side."""
    start, end = page.index("<!-- verdict -->"), page.index("Triangle rows are per 100")
    table = page[start:end]
    changes = {"confirmed": "contradicted", "contradicted": "not resolved", "not resolved": "confirmed"}
    changes |= {"igher on": "ower on", "ower on": "igher on", "GoTo": "Pickup", "No clear": "Higher"}
    for match in re.finditer(r"\d+\.\d+", table):
        digits = match[0]
        changed = digits[:-1] + str((int(digits[-1]) + 5) % 10)
        yield (
            page[:start] + table[: match.start()] + changed + table[match.end() :] + page[end:],
            f"{digits} → {changed}",
        )
    for match in re.finditer(r"\d+ (con|dir|not|rows)", table.partition("|")[0]):
        edited = table[: match.start()] + f"9{match[0]}" + table[match.end() :]
        yield page[:start] + edited + page[end:], f"9{match[0]}"
    for word, other in changes.items():
        for match in re.finditer(re.escape(word), table):
            yield page[:start] + table[: match.start()] + other + table[match.end() :] + page[end:], f"{word} → {other}"
    lines = table.splitlines(keepends=True)
    rule = next(number for number, line in enumerate(lines) if line.startswith("| ---"))
    for number, (first, second) in enumerate(pairwise(lines)):
        if number > rule and second.startswith("|"):  # rows exchanged
            swapped = [*lines[:number], second, first, *lines[number + 2 :]]
            yield page[:start] + "".join(swapped) + page[end:], "rows exchanged"


def test_whatever_is_edited_in_the_table_is_found(page, facts, unfinished):
    edited = list(mutants(page))
    assert len(edited) > 60
    assert [what for text, what in edited if not problems(text, facts, unfinished)] == []


def test_the_mean_over_tasks_has_the_interval_of_independent_tasks():
    rng = np.random.default_rng(0)

    def line(mean):
        return [{"entropy": (mean + 0.05 * rng.normal() + 0.1 * rng.normal(size=50)).tolist()} for _ in range(5)]

    pairs = [(line(0.7), line(0.5)) for _ in range(4)]
    alone = [difference(*pair, "entropy") for pair in pairs]
    together = mean_difference([[pair] for pair in pairs], "entropy")
    assert together.mean == pytest.approx(np.mean([gap.mean for gap in alone]))
    half = np.sqrt(sum(((gap.high - gap.low) / 2) ** 2 for gap in alone)) / 4
    assert (together.high - together.low) / 2 == pytest.approx(half, rel=0.1)
    one = mean_difference([pairs[:1]], "entropy")
    assert (one.low, one.high) == pytest.approx((alone[0].low, alone[0].high), abs=1e-12)
    assert mean_difference([], "entropy") is None


def test_the_rule():
    def of(low, high, *sides, sign=1, paper=None):
        return judge(Interval((low + high) / 2, low, high), sides, sign, paper=paper)

    assert of(0.01, 0.05, 1, 0) == "confirmed"
    assert of(0.01, 0.05, 1, -1) == of(-0.05, 0.05, 1, -1) == "mixed"  # tasks disagree
    assert of(0.01, 0.05, 0, -1) == "not resolved"
    assert of(0.01, 0.05, 1, paper=0.02) == "confirmed"
    assert of(0.01, 0.05, 1, paper=0.5) == "direction confirmed"  # a size that was not found
    assert of(-0.05, -0.01, -1, paper=0.5) == "contradicted"
    assert of(0.01, 0.05, 0, 0, sign=-1) == "contradicted"
    assert of(-0.05, -0.01, -1, sign=-1) == "confirmed"
    assert of(-0.01, 0.05, 1) == "not resolved"
    assert of(0.0001, 0.05, 1) == "not resolved"  # printed as 0.0
    as_much = [judge(Interval(0.0, low, 0.03), sides, 1, margin=0.05) for low, sides in ((-0.04, [0]), (-0.06, [0]))]
    assert as_much == ["confirmed", "not resolved"]
    assert judge(Interval(0.0, -0.04, 0.03), [0, -1], 1, margin=0.05) == "not resolved"  # a task has clearly less


def test_new_tasks_and_more_runs_change_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr("reproduction.intervals.DIFFERENCE_RESAMPLES", 2000)
    stored = Stored(tmp_path, FULL)
    stored.search.notes["chosen"] = {"goto": STAND_IN, "fourrooms": STAND_IN}
    found = {verdict.claim: verdict for verdict in verdicts(stored)}
    assert {verdict.verdict for verdict in found.values()} == {"not run yet"}
    chances = {"ppo": 0.4, "poly-ppo": 0.7, "reinforce": 0.6, PRETRAINED: 0.3}
    runs = stored.files["runs"]
    for task in ("goto", "pickup"):
        for one in expand(TABLES, FULL, stored.chosen, (task,)):
            runs.add([made_up(one.cell, chances[one.cell.method.removesuffix("-ucb")])])
        first = verdicts(stored)[0]
        assert (first.verdict, first.here[0]) == ("confirmed", "+")  # the paper has 34 and 32 points too
        assert first.sentence == ("Higher on GoTo." if task == "goto" else "Higher on GoTo and Pickup.")
        assert first.paper == ("+34.0" if task == "goto" else "+31.9")
    assert "Not finished: FourRooms, SynthSeq and BossLevel." in verdict_table(stored)
    # A task counts once it has enough seeds.
    before = verdicts(stored)
    for one in expand(TABLES, FULL, stored.chosen, ("synthseq",)):
        if one.cell.seed == 0:
            runs.add([made_up(one.cell, 0.5)])
    assert verdicts(stored)[:4] == before[:4]
    for one in expand(CONVERGENCE, FULL, stored.chosen):
        runs.add([made_up(one.cell, chances[one.cell.method])])
    [literal] = [one for one in verdicts(stored) if "4,000 iterations" in one.claim]
    assert (literal.paper, literal.here[0]) == ("−26.8", "−")
    page = f"<!-- verdict -->\n{verdict_table(stored)}\n<!-- end -->"
    assert problems(page, all_facts(stored), unfinished_tasks(stored)) == []
    assert problems(page, all_facts(stored), []) == ["not finished are []"]


def test_a_task_where_a_run_diverged_is_left_out_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("reproduction.intervals.DIFFERENCE_RESAMPLES", 2000)
    stored = Stored(tmp_path, FULL)
    stored.search.notes["chosen"] = {"goto": STAND_IN, "fourrooms": STAND_IN}
    runs = stored.files["runs"]
    for task in ("goto", "fourrooms"):
        for one in expand(TABLES, FULL, stored.chosen, (task,)):
            record = made_up(one.cell, 0.5)
            if (task, one.cell.method, one.cell.seed) == ("goto", "reinforce", 2):
                record = {
                    **{name: record[name] for name in ("task", "method", "base", "settings", "seed")},
                    "failed": "nan",
                }
            runs.add([record])
    found = {verdict.claim: verdict for verdict in verdicts(stored)}
    reinforce = found["Poly-PPO succeeds more often than REINFORCE"]
    assert reinforce.sentence.endswith("without GoTo, where runs diverged.")
    assert reinforce.paper == "+2.8"
    assert reinforce.verdict == "not resolved"
    ucb = found["UCB helps REINFORCE and PPO on some tasks"]
    assert "2 comparisons" in ucb.sentence
    assert "diverged" not in found["Poly-PPO succeeds more often than PPO"].sentence
    table = verdict_table(stored)
    assert "Not finished: Pickup, SynthSeq and BossLevel." in table
    assert problems(f"<!-- verdict -->\n{table}\n<!-- end -->", all_facts(stored), unfinished_tasks(stored)) == []


def test_the_rule_for_some_tasks():
    assert judge_somewhere([0, 1, -1], 1) == "confirmed"
    assert judge_somewhere([0, 0, -1], 1) == "not resolved"
    assert judge_somewhere([-1, -1], 1) == "contradicted"

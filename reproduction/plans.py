"""The plans: tasks with their lengths, what is searched, what is run, and what is compared.

Everything here is data. Add a task, a row or a whole plan here and nowhere else; rows without results show up in
`python -m reproduction NAME --estimate-only`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polychromic.sweep.cells import PRETRAINED
from reproduction.plan import ONCE_DEFAULT, Plan, Runs, Scale, Scored, Seeds, Task
from reproduction.search import Candidate, Search
from reproduction.suited import BONUS_FACTORS, RATE_FACTORS

# ---------------------------------------------------------------- methods

PLAIN = ("ppo", "poly-ppo", "reinforce")
UCB = tuple(f"{method}-ucb" for method in PLAIN)
PAIR = ("poly-ppo", "ppo")  # the two that the paper is about
METHOD_NAMES = {  # in the order of the paper's tables
    PRETRAINED: "pretrained",
    "reinforce": "REINFORCE",
    "reinforce-ucb": "REINFORCE + UCB",
    "ppo": "PPO",
    "ppo-ucb": "PPO + UCB",
    "poly-ppo": "Poly-PPO",
    "poly-ppo-ucb": "Poly-PPO + UCB",
}

# ---------------------------------------------------------------- tasks and scales

TASKS = {
    "goto": Task(
        "GoTo",
        {
            "search": 192,
            "tables": 480,
            "literal": 480,
            "study": 240,
            "long": 480,
            "screening": 384,
            "credit": 480,
            "curves": 480,
            "convergence": 4000,
        },
        bases=("goto-memory",),
    ),
    "fourrooms": Task(
        "FourRooms",
        {"search": 384, "tables": 1280, "literal": 1280, "study": 640, "long": 5120},
        bases=("fourrooms-full",),
    ),
    # No search of their own: they use what it chose on GoTo, with a learning rate of their own.
    "pickup": Task("Pickup", {"rates": 192, "tables": 480, "checks": 480}, settings_of="goto"),
    "synthseq": Task("SynthSeq", {"rates": 192, "tables": 480, "screening": 384, "credit": 480}, settings_of="goto"),
    "bosslevel": Task("BossLevel", {"rates": 192, "tables": 480, "credit": 480}, settings_of="goto"),
    "triangle": Task("Triangle discovery", {"triangle": 300}),
}
# `goto-full` is not among the base policies: from demonstrations it learned no more than how often each action occurs
# (docs/pretraining.md).

FULL = Scale(TASKS, seeds=3, pair_seeds=5, attempts=160, rollouts=32, points=20)

_QUICK_LENGTHS = {"search": 16, "rates": 16, "tables": 24, "literal": 24, "study": 24, "long": 48, "triangle": 24}
_QUICK_LENGTHS |= {"checks": 24, "screening": 24, "credit": 24, "curves": 24, "convergence": 48}
QUICK = Scale(
    {
        name: replace(task, lengths={length: _QUICK_LENGTHS[length] for length in task.lengths})
        for name, task in TASKS.items()
    },
    seeds=1,
    pair_seeds=1,
    attempts=32,
    rollouts=8,
    points=4,
    perturbed=False,
)

# ---------------------------------------------------------------- readings

# Pinned, so that results keep their meaning when defaults change.
READINGS: dict[str, Any] = {"normalise": "joint"}
SET_READINGS: dict[str, Any] = {
    "set_size": 4,
    "num_sets": 4,
    "credit": "sum",
    "window": 5,
    "initial_states_form_groups": True,
    "objective": "polychromic",
    "fork_rule": "spaced",
    "forks_per_rollout": 2,
    **ONCE_DEFAULT,
}
GRID_READINGS = {"": READINGS, "poly": SET_READINGS}

# ---------------------------------------------------------------- the search

_RATES = tuple(Candidate(rate=rate) for rate in (1e-5, 3e-5, 1e-4))
_KLS = tuple(Candidate({"kl_coefficient": value}) for value in (0.01, 0.005, 0.05, 0.1))
_FINER = tuple(Candidate(times=times) for times in (1.0, 0.5, 1.5, 2.0))
# 0.01 was added after 0.03 had won everywhere.
_UCBS = tuple(Candidate({"ucb": value}) for value in (0.1, 0.03, 0.3, 0.01))
_EIGHT = {"configurations_per_iteration": 8}
CONFIGURATIONS = "configurations"
_MORE_CONFIGURATIONS = (Candidate(), Candidate(_EIGHT), Candidate(_EIGHT, times=3.0))
_START = {"configurations_per_iteration": 1}  # the paper's values; the learning rate is that of the first candidate
_WITH_KL = {"learning rate": _RATES, "KL": _KLS, CONFIGURATIONS: _MORE_CONFIGURATIONS}

# By method, in running order. Every method has as many runs as the others of its kind; REINFORCE, which has no KL,
# spends them on its learning rate. UCB starts from the settings chosen without it.
SEARCH = Search(
    length="search",
    points=6,
    readings=GRID_READINGS,
    start={
        "ppo": {"kl_coefficient": 0.01, **_START},
        "poly-ppo": {"kl_coefficient": 0.01, **_START},
        "reinforce": _START,
    },
    stages={
        "ppo": _WITH_KL,
        "poly-ppo": _WITH_KL,
        "reinforce": {"learning rate": _RATES, "learning rate, finer": _FINER, CONFIGURATIONS: _MORE_CONFIGURATIONS},
        **{method: {"λ_UCB": _UCBS} for method in UCB},
    },
    after={method: method.removesuffix("-ucb") for method in UCB},
    by_configurations=CONFIGURATIONS,
)
# Used by a quick run and by an estimate where there was no search.
STAND_IN: dict[str, dict[str, Any]] = {
    method: {
        **SEARCH.start[method.removesuffix("-ucb")],
        "actor_learning_rate": 1e-4,
        "critic_learning_rate": 1e-3,
        **({"ucb": 0.1} if method in UCB else {}),
    }
    for method in (*PLAIN, *UCB)
}

RATES = Plan(
    "rates",
    "learning rates for the tasks without a search of their own: three for every method",
    "rates",
    tuple(
        Runs(
            "rates",
            PLAIN,
            "rates",
            f"{{method}}{label}",
            rate=factor,
            as_searched=True,
            seeds="apart",
            points=0.3,
            scored="briefly",
        )
        for label, factor in RATE_FACTORS.items()
    ),
    GRID_READINGS,
    results="rates",
)

BONUSES = Plan(
    "bonuses",
    "λ_UCB for the tasks without a search of their own: three for every method",
    "rates",
    tuple(
        Runs("bonuses", UCB, "rates", f"{{method}}{label}", bonus=factor, seeds="apart", points=0.3, scored="briefly")
        for label, factor in BONUS_FACTORS.items()
    ),
    GRID_READINGS,
    results="rates",
)

# Around what these tasks take: is anything better by more than the noise?
NEARBY_KLS = (0.01, 0.05, 0.1)
_OTHER = "{method}, other configurations"
_NEARBY: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
    (PLAIN, "{method}", {}),
    *((PAIR, f"{{method}}, KL {value:g}", {"kl_coefficient": value}) for value in NEARBY_KLS),
    (PAIR, _OTHER, {"configurations_per_iteration": 1}),
    (("reinforce",), _OTHER, {"configurations_per_iteration": 8}),
)
NEARBY = Plan(
    "nearby",
    "other KL coefficients and configurations per iteration on the tasks without a search of their own",
    "rates",
    tuple(
        Runs("nearby", methods, "rates", label, changes=changes, seeds="apart", points=0.3, scored="briefly")
        for methods, label, changes in _NEARBY
    ),
    GRID_READINGS,
    results="rates",
)

# ---------------------------------------------------------------- the paper's tables

CHOSEN, PAPER = "chosen", "paper"  # settings of the search, and the paper's literal ones
RATE = "learning rate"
GREEDILY: Scored = "greedily too"
TABLES = Plan(
    "tables",
    "Tables 1 and 2 and pass@k: every method with the settings of the search, then with the paper's literal ones",
    "tables",
    (
        Runs(CHOSEN, (PRETRAINED,), "tables"),
        Runs(PAPER, (PRETRAINED,), "literal"),
        Runs(CHOSEN, PLAIN, "tables", scored=GREEDILY),
        Runs(CHOSEN, UCB, "tables", scored=GREEDILY),
        # The paper gives no λ_UCB, so UCB has no literal settings.
        Runs(PAPER, ("ppo", "poly-ppo"), "literal", settings="literal", scored=GREEDILY),
        Runs(PAPER, ("reinforce",), "literal", settings="literal", scored=GREEDILY),
        Runs(CHOSEN, ("ppo", "poly-ppo"), "tables", seeds="further", scored=GREEDILY),
    ),
    GRID_READINGS,
)

# A choice that the search left to chance: on Pickup two learning rates of Poly-PPO scored 1.214 and 1.216.
CHECKS = Plan(
    "checks",
    "Poly-PPO on Pickup with GoTo's learning rate, which scored as well as the one that the tables have",
    "checks",
    (
        Runs("compared", PAIR, "tables", seeds="pair", scored=GREEDILY),
        Runs(
            RATE,
            ("poly-ppo",),
            "checks",
            "{method}, GoTo's learning rate",
            as_searched=True,
            seeds="pair",
            scored=GREEDILY,
        ),
    ),
    GRID_READINGS,
)

# ---------------------------------------------------------------- the study: what decides the outcome?

REFERENCE, LENGTH, OBSERVATION = "reference", "length", "observation"
SET_ADVANTAGES = "set advantages"
AS_COMPARED = "as in the comparison"
_FEW = 0.25  # of the usual points on the learning curve of a change, which is not drawn
_NO_FORKS: dict[str, Any] = {"forks_per_rollout": 0, "num_sets": 0}
# One change at a time to Poly-PPO with the settings that the search chose.
_CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    # Without sets: GAE at all steps, on the same trunks and forks.
    SET_ADVANTAGES: {"none: PPO on vines": {"polychromic": False}},
    "diversity": {"mean return alone": {"objective": "mean-return"}},
    "normalisation": {"each kind apart": {"normalise": "per-kind"}},
    "sets": {"all subsets": {"num_sets": 0}},
    "window": {"W = 0": {"window": 0}, "to the end": {"window": -1}},
    "initial state": {"no rollout state": {"initial_states_form_groups": False}},
    "forks": {
        "most uncertain": {"fork_rule": "most-uncertain"},
        "worst predicted": {"fork_rule": "worst-predicted"},
        "none, all subsets": _NO_FORKS,
    },
    # One group of all rollouts, where the closed form makes large sets affordable.
    "set size": {
        "n = 32, no forks": {**_NO_FORKS, "set_size": 32},
        "n = 32, no forks, to the end": {**_NO_FORKS, "set_size": 32, "window": -1},
    },
}
# A row that differs from the reference in more than one setting is compared with the row that it differs from in one.
_COMPARED_WITH = {
    "none, all subsets": "all subsets",
    "n = 32, no forks": "none, all subsets",
    "n = 32, no forks, to the end": "n = 32, no forks",
}
STUDY = Plan(
    "study",
    "one change at a time: what decides the outcome?",
    "study",
    (
        Runs(REFERENCE, (PRETRAINED,), "study"),
        Runs(REFERENCE, PAIR, "study", points=_FEW, scored=GREEDILY),
        Runs(REFERENCE, PAIR, "tables", f"{{method}}, {AS_COMPARED}", seeds="pair", scored=GREEDILY),
        # The most important setting of the search, so these runs are as long and as many as those of the comparison.
        Runs(
            CONFIGURATIONS,
            PAIR,
            "tables",
            "{method}, {configurations} an iteration",
            settings="other configurations",
            seeds="pair",
            scored=GREEDILY,
            against=f"{{method}}, {AS_COMPARED}",
        ),
        Runs(
            LENGTH,
            ("ppo", "poly-ppo"),
            "long",
            "{method}, {times} times as long",
            scored=GREEDILY,
            times_of="study",
        ),
        # A high learning rate: if PPO forgets what it could do before, does Poly-PPO keep it? Each keeps its KL
        # coefficient, so a difference may also come from that.
        Runs(
            RATE,
            ("ppo", "poly-ppo"),
            "study",
            "{method}, 0.0003",
            changes={"actor_learning_rate": 3e-4, "critic_learning_rate": 3e-3},
            points=_FEW,
        ),
        *(
            Runs(
                factor,
                ("poly-ppo",),
                "study",
                label,
                changes=change,
                points=_FEW,
                against=_COMPARED_WITH.get(label, ""),
            )
            for factor, levels in _CHANGES.items()
            for label, change in levels.items()
        ),
        # Base policies that see or remember more. `polychromic pretrain` makes them; none of them is shipped.
        Runs(OBSERVATION, (PRETRAINED,), "study", "{base}, pretrained", other_bases=True, on_request=True),
        Runs(OBSERVATION, PAIR, "study", "{base}, {method}", points=_FEW, other_bases=True, on_request=True),
    ),
    GRID_READINGS,
)
WITHOUT_VINES = [runs.label for runs in STUDY.runs if runs.changes.get("forks_per_rollout") == 0]

# ---------------------------------------------------------------- how set credit reaches the steps

# PPO's settings and rollouts, one group of 136 a configuration, all subsets: nothing but the advantages differs from
# PPO. First every setting once, with a seed of its own; then those that it chose (`screening.RULE`), with the seeds of
# the comparison. There PPO itself has the learning rate of the tables, where a task has its own; what is compared with
# it has what the screening saw. PPO's own ways to keep strategies are candidates too.
_REACHES: dict[str, Any] = {"forks_per_rollout": 0, "num_sets": 0, "window": -1}
_LINEAR = {"polychromic_schedule": "linear"}
_PPO_CHANGES: dict[str, dict[str, tuple[dict[str, Any], float]]] = {
    RATE: {"learning rate × 3": ({}, 3.0)},
    "KL": {"KL × 10": ({"kl_coefficient": 0.1}, 1.0)},
    "entropy bonus": {"entropy bonus 0.02": ({"entropy_coefficient": 0.02}, 1.0)},
}
_CREDIT_CHANGES: dict[str, dict[str, tuple[dict[str, Any], float]]] = {
    "rules": {"": ({}, 1.0)},
    "set size": {", n = 16": ({"set_size": 16}, 1.0), ", n = 64": ({"set_size": 64}, 1.0)},
    "objective": {", best of 4": ({"objective": "best-of"}, 1.0)},
    "annealed": {", annealed": (_LINEAR, 1.0)},
    RATE: {", learning rate × 3": ({}, 3.0)},
    "annealed, learning rate": {", annealed, learning rate × 3": (_LINEAR, 3.0)},
}
_CREDIT_RULES = ("control-variate", "critic")


def _credit_candidates(length: str, seeds: Seeds, control_seeds: Seeds, **common: Any) -> tuple[Runs, ...]:
    """Every setting of the study of set credit, as rows of one length. control_seeds: of the settings of PPO."""
    ppo = [
        Runs(
            part,
            ("ppo",),
            length,
            f"{{method}}, {label}",
            changes=changes,
            rate=rate,
            as_searched=True,
            seeds=control_seeds,
            against="ppo",
            **common,
        )
        for part, levels in _PPO_CHANGES.items()
        for label, (changes, rate) in levels.items()
    ]
    # What the control variate is worth: the same credit without it, "trajectory".
    rules = [
        (part, label, rule) for part, levels in _CREDIT_CHANGES.items() for label in levels for rule in _CREDIT_RULES
    ]
    sets = []
    for part, label, rule in [*rules, ("rules", "", "trajectory")]:
        changes, rate = _CREDIT_CHANGES[part][label]
        own = {**_REACHES, "set_credit": rule, **changes}
        sets.append(
            Runs(
                part,
                ("poly-ppo",),
                length,
                rule + label,
                settings_of="ppo",
                changes=own,
                rate=rate,
                as_searched=True,
                seeds=seeds,
                against="ppo",
                **common,
            )
        )
    return (*ppo, *sets)


SCREENING = Plan(
    "screening",
    "set credit that reaches all steps, first stage: every setting once, with a seed that no comparison uses",
    "screening",
    (
        Runs("rules", ("ppo",), "screening", as_searched=True, seeds="apart", scored="briefly"),
        *_credit_candidates("screening", "apart", "apart", scored="briefly"),
    ),
    GRID_READINGS,
    results="screening",
)
CREDIT = Plan(
    "credit",
    "set credit that reaches all steps, second stage: what the screening chose against PPO",
    "credit",
    (
        Runs("ppo", ("ppo",), "credit", seeds="pair", scored=GREEDILY),  # cells of the tables
        # GoTo's are older than the curves of distinct successful strategies.
        Runs("ppo", ("ppo",), "curves", seeds="more", scored=GREEDILY),
        *(replace(runs, part="finalists") for runs in _credit_candidates("credit", "pair", "all", finalist=True)),
    ),
    GRID_READINGS,
)

# ---------------------------------------------------------------- the paper's settings until nothing moves any more

CONVERGENCE = Plan(
    "convergence",
    "the paper's literal settings for 4,000 iterations, scored along the way: does PPO collapse?",
    "convergence",
    (
        Runs(
            PAPER,
            ("ppo", "reinforce", "poly-ppo"),
            "convergence",
            settings="literal",
            seeds="two",
            points=4,  # times the usual number: whether success is flat is judged by them
            along=19,
        ),
    ),
    GRID_READINGS,
)

# ---------------------------------------------------------------- triangle discovery

_BASE_TEMPERATURES = (1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.12, 0.1, 0.07)  # append new ones:
_TEMPERATURES = (1.0, 0.9, 0.8, 1.25, 1.5, 2.0, 0.6, 0.4, 0.2)  # the position decides the random numbers
# Larger minibatches than the paper's 64 and larger learning rates than its 1e-5 and 1e-4: a hundred iterations suffice.
_TRIANGLE: dict[str, Any] = {
    "configurations_per_iteration": 3,
    "minibatch_size": 288,  # steps, that is 32 sequences
    "actor_learning_rate": 1e-4,
    "critic_learning_rate": 1e-3,
    "evaluate_every": 0,
    "evaluation_rollouts": 64,
    "checkpoint_every": 10,
}
_ONE_GROUP = {"rollouts_per_state": 0, "forks_per_rollout": 0, "num_sets": 0, "window": -1}
TRIANGLE_VINES = "Poly-PPO, vines (N = 8, n = 4, W = 0)"
TRIANGLE_SETS = "Poly-PPO, one group of 136, n = 64"
# In the order of the table: label -> method and changes.
_TRIANGLE_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "REINFORCE": ("reinforce", {}),
    "REINFORCE with UCB": ("reinforce-ucb", {}),
    "PPO": ("ppo", {}),
    "PPO with UCB": ("ppo-ucb", {}),
    "PPO with an entropy bonus of 0.02": ("ppo", {"entropy_coefficient": 0.02}),
    TRIANGLE_VINES: ("poly-ppo", {}),
    "Poly-PPO, vines, with UCB": ("poly-ppo-ucb", {}),
    **{
        f"Poly-PPO, one group of 136, n = {size}": ("poly-ppo", {**_ONE_GROUP, "set_size": size})
        for size in (4, 16, 32, 64, 128)
    },
}
TRIANGLE = Plan(
    "triangle",
    "triangle discovery: validity, diversity and creativity by temperature",
    "triangle",
    (
        Runs("methods", (PRETRAINED,), "triangle", temperatures=_BASE_TEMPERATURES),
        *(
            Runs(
                "methods",
                (method,),
                "triangle",
                label,
                settings="none",
                changes={**_TRIANGLE, **changes},
                temperatures=_TEMPERATURES,
            )
            for label, (method, changes) in _TRIANGLE_ROWS.items()
        ),
    ),
    results="triangle",
)

PLANS = {
    plan.name: plan
    for plan in (RATES, BONUSES, NEARBY, TABLES, CHECKS, STUDY, SCREENING, CREDIT, CONVERGENCE, TRIANGLE)
}

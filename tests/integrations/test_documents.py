"""What the documentation shows is what the repository holds."""

import json
import statistics
from pathlib import Path

import numpy as np

from polychromic import polychromic_advantages
from polychromic.integrations.answers import Likeness
from polychromic.integrations.group_sets import SetSettings, group_advantages

ROOT = Path(__file__).parent.parent.parent


def test_what_the_guide_to_keys_says_of_a_key_that_pays_for_wrong_answers():
    page = (ROOT / "docs/keys.md").read_text()

    def shown(value):
        return f"{'+' if value > 0 else '−'} {abs(value):.3f}"

    for right in (2, 4, 5, 6, 7):
        rewards = np.array([1.0] * right + [0.0] * (8 - right))
        advantages = polychromic_advantages(rewards, [0] * right + list(range(1, 9 - right)), set_size=4)
        wrong = shown(advantages[-1])
        assert f"| {right} | {shown(advantages[0])} | {f'**{wrong}**' if advantages[-1] > 0 else wrong} |" in page
    rewards = np.array([[1.0] * 6 + [0.0] * 2])
    groups = [([0] * 6 + [1, 2], (0, -1)), ([0] * 5 + [1, 2, 3], (0, 5, -1))]  # labels, and whose advantages are shown
    for wrong_answers, zero in (
        ("compared", True),
        ("alike", True),
        ("never-different", True),
        ("never-different", False),
    ):
        columns = []
        for labels, members in groups:
            likeness = Likeness(np.array([labels]), None).of_wrong(rewards > 0, wrong_answers)
            found = group_advantages(rewards, likeness, SetSettings(homogeneous_zero=zero), 0)[0]
            parts = [shown(found[member]) if abs(found[member]) > 1e-9 else "0" for member in members]
            columns.append(", ".join([*parts[:-1], f"**{parts[-1]}**" if found[-1] > 1e-9 else parts[-1]]))
        start = "| the same" if zero and wrong_answers == "never-different" else f'| `"{wrong_answers}"`'
        assert any(line.startswith(start) and line.endswith(f"| {' | '.join(columns)} |") for line in page.splitlines())


def test_the_configuration_for_verl_is_shown_as_it_is():
    assert (ROOT / "examples/verl/polychromic.yaml").read_text() in (ROOT / "docs/verl.md").read_text()


def test_the_overhead_in_the_documentation_is_the_measured_one_and_meets_its_bar():
    page = (ROOT / "docs/trl.md").read_text()
    stored = json.loads((ROOT / "benchmarks/results/trl_overhead.json").read_text())
    assert f"in turn, {stored['pairs']} of each" in page
    for result in stored["results"]:
        bounds = [100 * bound for name in ("scoring", "step") for bound in result[f"{name}_interval"]]
        part, whole = ("{} % to {} %".format(*(f"{bound:.1f}".replace("-", "−") for bound in pair))
                       for pair in (bounds[:2], bounds[2:]))  # fmt: skip
        milliseconds = f"{result['added_milliseconds']:.1f} ms of {result['stock_step_milliseconds']:.0f} ms"
        added = f"+ {100 * result['scoring']:.1f} % ({milliseconds})"
        assert f"| {result['group_size']} | {added} | {part} | {whole} |" in page
        assert result["scoring_interval"][1] < 0.03


def probe(name):
    """The runs of a probe on chains: arm -> seed -> run."""
    runs = json.loads((ROOT / "benchmarks/results" / f"{name}.json").read_text())["runs"]
    return {arm: {run["seed"]: run for run in runs if run["arm"] == arm} for arm in {run["arm"] for run in runs}}


def test_the_probe_of_vines_is_the_stored_one():
    page = (ROOT / "docs/language-models.md").read_text()
    arms = probe("vines_language")
    names = {
        "whole": "16 whole ones",
        "vines": "8 whole ones, and 8 continuations of one of them, cut at a random token",
        "uncertain": "the same, cut at the least certain token",
    }
    for arm, name in names.items():
        runs = arms[arm].values()
        assert len(runs) == 5
        success, distinct = (statistics.mean(run[key] for run in runs) for key in ("success", "distinct_right"))
        assert f"| {name} | {success:.2f} | {distinct:.1f} |" in page
    wins = {
        arm: sum(arms["whole"][seed]["success"] > run["success"] for seed, run in arms[arm].items())
        for arm in ("vines", "uncertain")
    }
    words = f"in {wins['vines']} of 5 seeds against cuts at random tokens, and in {wins['uncertain']} of 5 against"
    assert words in " ".join(page.split())


def test_the_probe_of_keys_is_the_stored_one():
    page = (ROOT / "docs/keys.md").read_text()
    arms = probe("keys_language")
    names = {
        "calculations": "`keys.calculations`",
        "text": "the whole text",
        "last number": "`keys.last_number`",
        "wrong alike": '`keys.last_number`, `wrong_answers="alike"`',
        "last number, graded": '`keys.last_number`, `"never-different"`',
        "calculations, never different": '`keys.calculations`, `"never-different"`, `homogeneous_zero=True`',
        "calculations, graded": '`keys.calculations`, `"never-different"`',
        "stock": "none: stock GRPO",
    }
    for arm, name in names.items():
        runs = [arms[arm][seed] for seed in (0, 1, 2)]
        success = ", ".join(f"{run['success']:.2f}" for run in runs)
        distinct = ", ".join(f"{run['distinct_right']:.1f}" for run in runs)
        assert f"| {name} | {success} | {distinct} |" in page
    for seed, run in arms["last number"].items():
        assert run["success"] < min(arms[arm][seed]["success"] for arm in ("calculations", "text"))
        assert run["success"] < arms["last number, graded"][seed]["success"]
    cautious = [arms["calculations, never different"], arms["calculations, graded"]]
    weak = [run["success"] for arm in cautious for run in arm.values()]
    assert sum(success < 0.35 for success in weak) > len(weak) / 2


def test_the_results_of_the_example_are_the_recorded_ones_and_meet_their_bar():
    runs = json.loads((ROOT / "docs/figures/language-model.json").read_text())["runs"]
    page = (ROOT / "docs/language-models.md").read_text()
    for task in ("digits", "chains"):
        means = {}
        for method, name in (("grpo", "stock GRPO"), ("polychromic", "polychromic")):
            last = [run["curve"][-1] for run in runs if (run["task"], run["method"]) == (task, method)]
            assert len(last) == 3
            success, distinct = (statistics.mean(point[key] for point in last) for key in ("success", "distinct_right"))
            assert f"| {task} | {name} | {success:.3f} | {distinct:.2f} |" in page
            means[method] = success, distinct
        assert means["polychromic"][0] >= 0.9 * means["grpo"][0]
        assert means["polychromic"][1] >= 2.5 * means["grpo"][1]

"""What the documentation shows is what the repository holds."""

import json
import statistics
from pathlib import Path

import numpy as np

from polychromic import polychromic_advantages

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
    merged = polychromic_advantages([1.0] * 6 + [0.0] * 2, [0] * 6 + [1] * 2, set_size=4)
    assert f"a wrong one still gets\n{shown(merged[-1])}" in page


def test_the_configuration_for_verl_is_shown_as_it_is():
    assert (ROOT / "examples/verl/polychromic.yaml").read_text() in (ROOT / "docs/verl.md").read_text()


def test_the_overhead_in_the_documentation_is_the_measured_one():
    page = (ROOT / "docs/trl.md").read_text()
    for result in json.loads((ROOT / "benchmarks/results/trl_overhead.json").read_text())["results"]:
        assert f"| {result['group_size']} | + {100 * result['step']:.1f} %" in page


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

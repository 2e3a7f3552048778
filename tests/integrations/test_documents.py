"""What the documentation shows is what the repository holds."""

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_configuration_for_verl_is_shown_as_it_is():
    assert (ROOT / "examples/verl/polychromic.yaml").read_text() in (ROOT / "docs/verl.md").read_text()


def test_the_overhead_in_the_documentation_is_the_measured_one():
    page = (ROOT / "docs/trl.md").read_text()
    for result in json.loads((ROOT / "benchmarks/results/trl_overhead.json").read_text())["results"]:
        assert f"| {result['group_size']} | + {100 * result['step']:.1f} %" in page

"""What the documentation shows is what the repository holds."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_configuration_for_verl_is_shown_as_it_is():
    assert (ROOT / "examples/verl/polychromic.yaml").read_text() in (ROOT / "docs/verl.md").read_text()

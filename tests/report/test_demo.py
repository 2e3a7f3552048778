"""The demo from a policy to its report, in small."""

import pytest

from polychromic.cli import main
from polychromic.demo import DEMO, USUAL, parts


def test_the_demo_ends_in_a_report_and_plain_words(results):
    printed, out = results["printed"], results["demo"]
    page = (out / "report.html").read_text()
    # The last lines are the headline and where the report is; above them what is clear and what is not.
    *_, headline, path = printed.rstrip().splitlines()
    assert headline.startswith("FourRooms: ")
    assert headline in page
    assert path.endswith(f"Open the report in a browser: {out.resolve() / 'report.html'}")
    for part in (
        "\nFourRooms\n",
        "  Before fine-tuning: pretrained ",
        "pretrained, best temperature (",
        "Means over 4 configurations with 95 % intervals",
    ):
        assert part in printed
    for label in ('"pretrained"', '"pretrained, best temperature', '"PPO"', '"Poly-PPO"'):
        assert f'"label":{label}' in page
    assert "fourrooms" in (out / "tables.md").read_text()


def test_what_it_plays_can_be_changed(results):
    assert parts() == list(DEMO)
    (part,) = parts(str(results["policy"]))
    assert part.policy == str(results["policy"])
    assert part.settings == USUAL.settings
    assert parts("triangle") == [DEMO[0]]


@pytest.mark.parametrize("option", ["--iterations", "--attempts", "--seed"])
def test_negative_numbers_are_one_line(tmp_path, capsys, option):
    assert main(["demo", option, "-1", "--out", str(tmp_path / "demo")]) == 2
    error = capsys.readouterr().err
    assert f"{option[2:]} is -1" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "demo").exists()


def test_an_unknown_policy_is_one_line(tmp_path, capsys):
    assert main(["demo", "--policy", "nobody", "--out", str(tmp_path / "demo")]) == 2
    assert "policy is 'nobody'" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()

"""`polychromic check-grid`: what it refuses before it plays, and when it ends with 1."""

import json
import pickle

import pytest

from polychromic.cli import main
from polychromic.envs.grid import command as check
from polychromic.envs.grid.differential import Tally
from polychromic.envs.grid.tasks import NotCovered

LEVEL = "BabyAI-GoToRedBallGrey-v0"


@pytest.fixture
def results(tmp_path):
    """A file of a run whose bot gave up: all rounds are played, one mission is solved."""
    path = tmp_path / "results.json"
    check._write(path, {LEVEL: (30, Tally(steps=7, episodes=1, bot_solved=1))})
    return path


def refused(capsys, *arguments):
    """The one line on stderr."""
    assert main(["check-grid", *map(str, arguments)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return shown.err


def test_the_refusal_of_a_level_travels_between_processes():
    error = pickle.loads(pickle.dumps(NotCovered("Some-v0", "it moves")))
    assert isinstance(error, NotCovered)
    assert "does not cover Some-v0: it moves" in str(error)


def test_a_level_that_is_not_covered_is_refused_before_anything_is_played(capsys):
    assert "does not cover MiniGrid-Dynamic-Obstacles-5x5-v0" in refused(capsys, "MiniGrid-Dynamic-Obstacles-5x5-v0")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{broken", "cannot be read"),
        ("[]", "does not name its minigrid"),
        ('{"BabyAI-GoTo-v0": {"rounds": 1}}', "does not name its minigrid"),
    ],
)
def test_a_file_that_holds_no_results_is_refused_and_kept(tmp_path, capsys, text, words):
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    assert words in refused(capsys, LEVEL, "--out", path)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(minigrid="0.1"), "was made with minigrid 0.1"),
        (lambda data: data.update(engine="abc"), "was made with engine abc"),
        (lambda data: data.update(levels=[]), "incomplete results"),
        (lambda data: data["levels"][LEVEL].pop("steps"), "incomplete results (KeyError: 'steps')"),
        (lambda data: data["levels"][LEVEL].update(rounds="2"), "rounds is '2'"),
        (lambda data: data["levels"][LEVEL].update(forks=3), "incomplete results"),
        (lambda data: data["levels"][LEVEL].update(rounds=-2), "incomplete results (ValueError: rounds is -2)"),
    ],
)
def test_results_of_another_engine_or_with_holes_are_refused(results, capsys, change, words):
    data = json.loads(results.read_text(encoding="utf-8"))
    change(data)
    results.write_text(json.dumps(data), encoding="utf-8")
    assert words in refused(capsys, LEVEL, "--out", results)


def test_a_place_that_cannot_be_written_is_refused(tmp_path, capsys):
    assert "cannot be written" in refused(capsys, LEVEL, "--out", tmp_path / "missing" / "results.json")
    assert "cannot be read" in refused(capsys, LEVEL, "--out", tmp_path)


def test_levels_that_fell_short_are_named_and_end_with_1(results, capsys):
    arguments = [LEVEL, "--out", str(results), "--processes", "1"]
    assert main(["check-grid", *arguments, "--bot-missions", "2"]) == 1
    assert f"fewer than 2 missions solved by the bot: {LEVEL} (1)" in capsys.readouterr().out
    assert main(["check-grid", *arguments, "--bot-missions", "1"]) == 0
    assert check._read(results)[LEVEL] == (30, Tally(steps=7, episodes=1, bot_solved=1))

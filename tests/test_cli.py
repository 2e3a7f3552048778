import subprocess
import sys

import pytest

from polychromic.cli import COMMANDS, main


def test_no_arguments_show_the_overview(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("polychromic 0.")


@pytest.mark.parametrize(
    ("typed", "hint"), [("teory", "did you mean 'theory'?"), ("xyzzy", f"choose from {next(iter(COMMANDS))}")]
)
def test_an_unknown_command_gets_one_line(capsys, typed, hint):
    assert main([typed]) == 2
    captured = capsys.readouterr()
    assert hint in captured.err
    assert captured.err.count("\n") == 1


def test_a_users_mistake_gets_one_line_and_no_traceback(tmp_path, capsys):
    occupied = tmp_path / "file"
    occupied.write_text("kept")
    assert main(["theory", "--out", str(occupied / "below")]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("polychromic theory: out: cannot write to")
    assert captured.err.count("\n") == 1
    assert occupied.read_text() == "kept"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    shown = subprocess.run(
        [sys.executable, "-m", "polychromic.cli", name, "--help"], capture_output=True, text=True, check=True
    )
    assert f"polychromic {name}" in shown.stdout


def test_the_command_that_left_says_where_it_is(capsys):
    assert main(["reproduce", "table1"]) == 2
    shown = capsys.readouterr().err
    assert "python -m reproduction" in shown
    assert shown.count("\n") == 1

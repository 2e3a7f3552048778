"""`polychromic check-env`, and the page that explains it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import faulty_envs
import pytest

from polychromic.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "own-environment.md").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def test_the_output_on_the_page_is_the_output(capsys):
    assert main(["check-env", "CartPole-v1"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.strip("\n").split("\n")]
    assert "\n".join(lines) in PAGE


def test_the_code_on_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert sum(bool(line.strip()) for line in blocks[0].split("\n")) <= 20
    names = {}
    # The first block fine-tunes; tests/test_docs.py runs it, and all others.
    first = next(number for number, block in enumerate(blocks) if "class Corridor" in block)
    last = next(number for number, block in enumerate(blocks) if "vines = state" in block)
    exec(compile("\n".join(blocks[first : last + 1]), "own-environment.md", "exec"), names)
    assert names["world"].observe(names["vines"])["observation"].shape == (8, 1)
    assert len(set(names["world"].places(names["vines"]).tolist())) == 2


def test_a_function_of_a_module_and_a_replay(capsys):
    assert main(["check-env", "faulty_envs:ConstructorOnly", "--seeds", "3", "4", "--steps", "12"]) == 0
    out = capsys.readouterr().out
    assert "forked by copy" in out
    assert "EzPickle" in out
    assert "can be forked by replaying its actions from the seed" in out


def test_the_projects_own_ids_in_a_fresh_process():
    command = [sys.executable, "-m", "polychromic.cli", "check-env", "polychromic/fourrooms-v0", "--steps", "4"]
    shown = subprocess.run([*command, "--seeds", "0"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "can be forked by copying" in shown.stdout


def test_a_world_is_named_with_its_way_of_forking(capsys):
    assert main(["check-env", "faulty_envs:grid_world", "--steps", "4"]) == 0
    assert "GridWorld, forked by state[rows]" in capsys.readouterr().out


def test_long_texts_need_their_length(capsys):
    assert main(["check-env", "faulty_envs:Talking", "--steps", "4", "--text-length", "300"]) == 0
    assert "can be forked by copying" in capsys.readouterr().out


def test_failure_says_what_to_do_and_ends_with_1(capsys):
    assert main(["check-env", "faulty_envs:GlobalNumpy"]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out
    assert "What to do" in out
    assert "cannot be forked faithfully yet" in out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CartPole-v7", "did you mean 'CartPole-v1'?"),
        ("BabyAI-GoToo-v0", "did you mean 'BabyAI-GoTo-v0'?"),
        ("no_such_module:make", "module 'no_such_module' cannot be imported"),
        ("broken_syntax:make", "module 'broken_syntax' cannot be imported (SyntaxError"),
        ("raises_at_import:make", "module 'raises_at_import' cannot be imported (RuntimeError: one two)"),
        (":f", "module '' cannot be imported"),
        ("faulty_envs:Wolk", "did you mean 'Walk'?"),
        ("own_makers:nope", "registers no such id; it defines make_it"),
        ("faulty_envs:TupleWalk", "it must be Discrete, MultiDiscrete, MultiBinary or a Box of floats"),
        ("faulty_envs:Talking", "give text_length=300 or more"),
    ],
)
def test_unknown_names_get_one_line_and_2(name, words, capsys, tmp_path, monkeypatch):
    (tmp_path / "broken_syntax.py").write_text("def f(:\n", encoding="utf-8")
    (tmp_path / "raises_at_import.py").write_text("raise RuntimeError('one\\ntwo')\n", encoding="utf-8")
    makers = "import numpy as np\nfrom copy import copy as nop\nnoop = 3\ndef make_it(): ...\n"
    (tmp_path / "own_makers.py").write_text(makers, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["check-env", name]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("Box2D") is not None, reason="box2d is installed")
def test_a_missing_package_is_named(capsys):
    assert main(["check-env", "LunarLander-v3"]) == 2
    assert "box2d" in capsys.readouterr().err.lower()


def test_an_environment_that_fails_by_itself(capsys):
    assert issubclass(faulty_envs.Failing, faulty_envs.Walk)
    assert main(["check-env", "faulty_envs:Failing"]) == 2
    assert "fails without any fork" in capsys.readouterr().err

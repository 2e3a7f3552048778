"""A table of the paper from cells to page, on a scale of seconds."""

from dataclasses import replace

from reproduction.__main__ import Arguments, reproduce
from reproduction.plans import QUICK, TASKS


def test_a_table_is_made_and_made_again_from_the_same_cells(tmp_path, capsys):
    scale = replace(
        QUICK,
        tasks={"fourrooms": replace(TASKS["fourrooms"], lengths={"tables": 1, "study": 1})},
        attempts=2,
        rollouts=1,
        points=1,
        perturbed=True,
        settings={"budget": 6, "forks_per_rollout": 0},
    )
    given = Arguments(
        "tables", quick=True, only=("chosen",), out=tmp_path / "cells", results=tmp_path / "results", workers=1
    )
    assert reproduce(given, scale) == 0
    assert "7 of 7 cells to run: about" in capsys.readouterr().out
    page = (tmp_path / "results" / "results-tables.md").read_text()
    assert "| pretrained |" in page
    assert "89.2" in page  # the paper's PPO
    assert "perturbed starts %" in page
    assert "pass@2 %" in page
    assert reproduce(given, scale) == 0
    assert "0 of 7 cells to run" in capsys.readouterr().out
    # The study shares cells with the tables: its base policy, and PPO and Poly-PPO, which are as long here.
    assert reproduce(replace(given, what="study", only=("reference",), estimate_only=True), scale) == 0
    assert "0 of 3 cells to run" in capsys.readouterr().out

"""Sweeps on a real Ray cluster of two workers, and on the local engine, whose workers are killed ten times."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_tools import Killer, attempts, results

from polychromic.cli import main
from polychromic.sweep.cells import find_cells
from torture import clusters

KILLS, CHECKPOINT_EVERY = 10, 5
TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}


def check_disturbed(folder, killer, calm):
    """Every result as if nothing had happened, and as many attempts more as there were kills."""
    assert len(killer.killed) == KILLS
    assert any(lines % CHECKPOINT_EVERY for lines in killer.lines), killer.lines
    assert results(folder) == calm
    begun = sum("began" in line for cell in find_cells(folder) for line in attempts(cell))
    assert begun == 24 + KILLS


@pytest.mark.parametrize("engine", ["ray", "local"])
def test_ten_killed_workers_change_nothing(engine, choices, calm, tmp_path, capsys):
    home = tmp_path / "home"
    home.mkdir()
    sweep = tmp_path / "sweep"
    command = ["sweep", *choices, "--engine", engine, "--workers", "2", "--retries", "20", "--out", str(sweep)]
    # In a process of its own, with a home of its own: Ray must leave nothing there.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    with Killer(sweep, kills=KILLS, pause=2.0) as killer:
        done = subprocess.run(
            [sys.executable, "-m", "polychromic.cli", *command],
            env={**environment, **TERMINAL, "HOME": str(home)},
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert "24 of 24 cells done" in done.stdout
    assert "24 cells: 24 done" in done.stderr  # the last picture of the live table, drawn when the cluster is gone
    check_disturbed(sweep, killer, calm)
    assert not list(home.rglob("*token*"))
    assert main(["sweep", "status", str(sweep)]) == 0
    assert "24 cells: 24 done" in capsys.readouterr().out


def test_a_cluster_that_is_not_there_costs_one_line(choices, tmp_path, capsys):
    command = ["sweep", *choices, "--engine", "ray", "--ray-address", "127.0.0.1:1", "--out", str(tmp_path)]
    assert main(command) == 2
    shown = capsys.readouterr().err
    assert "ray_address is '127.0.0.1:1', where no cluster answers" in shown
    assert shown.count("\n") == 1


def test_a_sweep_without_its_cluster_ends_and_resumes():
    """The raylet is killed amid the runs: the sweep does not wait for it for ever, and nothing is lost."""
    told = clusters.disturb(Path(sys.executable), rounds=1, victims=("the raylet",))
    assert told["kills"] == {"the raylet": 1}
    assert not told["bad"]
    assert told["ends"] == {"ended with 1": 1}

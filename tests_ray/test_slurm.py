"""Sweeps through submitit: its own executor on this machine runs the same jobs that Slurm would."""

from sweep_tools import Killer, attempts, results

from polychromic.cli import main
from polychromic.sweep.cells import find_cells

LOCAL = ["--engine", "slurm", "--slurm", "cluster=local", "--workers", "2"]


def test_jobs_end_in_the_same_results_even_if_one_is_killed(choices, calm, tmp_path, capsys):
    few = [*choices, "--seeds", "0", "1"]
    with Killer(tmp_path, kills=1, pause=1.0) as killer:
        assert main(["sweep", *few, *LOCAL, "--out", str(tmp_path)]) == 0
    assert "4 of 4 cells done" in capsys.readouterr().out
    assert len(killer.killed) == 1
    found = results(tmp_path)
    assert found == {name: calm[name] for name in found}
    assert len(found) == 4 * 9
    begun = sum("began" in line for cell in find_cells(tmp_path) for line in attempts(cell))
    assert begun == 5


def test_settings_that_submitit_does_not_know_cost_one_line(choices, tmp_path, capsys):
    command = ["sweep", *choices, *LOCAL, "--slurm", "nonsense=3", "--out", str(tmp_path)]
    assert main(command) == 2
    shown = capsys.readouterr().err
    assert "nonsense" in shown
    assert shown.count("\n") == 1

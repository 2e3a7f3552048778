"""Sweeps through submitit: its own executor on this machine runs the same jobs that Slurm would."""

import os

import pytest
from sweep_tools import Killer, attempts, results

from polychromic.cli import main
from polychromic.sweep import slurm_engine
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


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Slurm's commands as far as a queue goes: jobs are taken and never run, unless a file `refuse` is there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    said = "sbatch: error: QOSMaxSubmitJobPerUserLimit\\nsbatch: error: Batch job submission failed"
    scripts = {
        "srun": "exit 0",
        "sacct": 'echo "JobID|State|NodeList"',
        "scancel": f"echo $* >> {folder}/cancelled",
        "sbatch": f'[ -e {folder}/refuse ] && {{ printf "{said}\\n" >&2; exit 1; }}\n'
        f'echo >> {folder}/taken; echo "Submitted batch job $(wc -l < {folder}/taken)"',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_a_refusal_of_the_first_job_costs_one_line(slurm, choices, tmp_path, capsys):
    (slurm / "refuse").touch()
    assert main(["sweep", *choices, "--engine", "slurm", "--out", str(tmp_path / "sweep")]) == 2
    shown = capsys.readouterr().err
    assert shown == "polychromic sweep: slurm: the first job was refused: sbatch: error: QOSMaxSubmitJobPerUserLimit\n"


def test_later_refusals_are_waited_for_and_cancel_nothing(slurm, tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_engine, "FIRST_WAIT", 0.05)
    engine = slurm_engine.SlurmEngine(tmp_path)
    first, second, third = (tmp_path / name for name in "123")
    engine.start(first)
    (slurm / "refuse").touch()
    engine.start(second)
    assert list(engine.jobs) == [first]
    assert engine.free() == 0
    while engine.refusals < 3:
        assert engine.finished(0.05) == []
    (slurm / "refuse").unlink()
    while engine.refused:
        assert engine.finished(0.05) == []
    assert list(engine.jobs) == [first, second]
    assert engine.free() > 0
    assert engine.refusals == 0
    # Nobody waits for ever.
    monkeypatch.setattr(slurm_engine, "MOST_REFUSALS", 1)
    (slurm / "refuse").touch()
    engine.start(third)
    while not (ended := engine.finished(0.05)):
        pass
    ((folder, outcome),) = ended
    assert (folder, outcome.state, outcome.hopeless) == (third, "failed", True)
    assert "Slurm refused the job 2 times: sbatch: error: QOSMax" in outcome.message
    assert not (slurm / "cancelled").exists()
    engine.close()
    assert (slurm / "cancelled").read_text().split() == ["1", "2"]

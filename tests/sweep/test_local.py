"""The local engine with real processes that are killed, stopped and started again."""

import io
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from sweep_tools import CHOICES, TINY, Killer, attempts, holders, results

from polychromic.cli import main
from polychromic.sweep.cells import find_cells
from polychromic.sweep.progress import Status, read_status, seconds_left, totals

PATIENCE = 300  # seconds; a busy machine must not turn into a failure


def until(true, process=None):
    """Wait for something to become true."""
    give_up = time.monotonic() + PATIENCE
    while not (found := true()):
        assert time.monotonic() < give_up
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found


def test_killed_workers_change_nothing(calm, policy_file, tmp_path, capsys):
    with Killer(tmp_path, kills=3, pause=1.0) as killer:
        choices = ["--policy", str(policy_file), "--out", str(tmp_path), "--workers", "2", "--retries", "20"]
        assert main(["sweep", *TINY, *choices]) == 0
    assert killer.killed
    assert results(tmp_path) == results(calm)
    history = [attempts(folder) for folder in find_cells(tmp_path)]
    begun = sum("began" in line for lines in history for line in lines)
    assert begun == 6 + len(killer.killed)
    assert f"{len(killer.killed)} attempts repeated" in capsys.readouterr().out
    # All is done: nothing is begun again.
    assert main(["sweep", "--out", str(tmp_path)]) == 0
    assert [attempts(folder) for folder in find_cells(tmp_path)] == history


def test_ctrl_c_ends_the_workers_and_the_cell_can_go_on(policy_file, tmp_path, capsys):
    endless = [
        "--seeds",
        "0",
        "--set",
        "iterations=1000000",
        "--set",
        "checkpoint_every=1",
        "--set",
        "evaluate_every=0",
    ]
    command = [sys.executable, "-m", "polychromic.cli", "sweep", *CHOICES, *endless]
    command += ["--methods", "ppo", "--policy", str(policy_file), "--out", str(tmp_path), "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sweep:
        try:
            (cell,) = until(lambda: tmp_path.exists() and list(tmp_path.glob("*/cell.json")), sweep)
            until((cell.parent / "checkpoint.safetensors").exists, sweep)
            (worker,) = holders(tmp_path)
            assert main(["sweep", "status", str(tmp_path)]) == 0
            shown = capsys.readouterr().out
            assert "1 running" in shown
            assert "/1000000" in shown
            # Processes that a shell put into the background ignore SIGINT, and so do theirs.
            ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            sweep.send_signal(signal.SIGTERM if ignored else signal.SIGINT)
            _, said = sweep.communicate(timeout=PATIENCE)
        finally:
            sweep.kill()
    assert sweep.returncode == 130
    assert "stopped: 1 cells: 1 interrupted" in said
    assert "nothing is lost; to go on: polychromic sweep --tasks fourrooms" in said
    assert "Traceback" not in said
    assert not holders(tmp_path)
    assert not _alive(worker)
    assert read_status(cell.parent).state == "interrupted"


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_live_table_shows_every_cell_and_what_is_left(calm, tmp_path):
    from polychromic.sweep.command import _table
    from polychromic.sweep.drive import Summary
    from polychromic.sweep.local import LocalEngine

    shutil.copytree(calm, tmp_path / "sweep")
    done, waiting, failed, *others = find_cells(tmp_path / "sweep")
    for folder in (waiting, failed):
        (folder / "figures.json").unlink()
    (waiting / "attempts.jsonl").unlink()
    (failed / "attempts.jsonl").write_text('{"began": 1}\n{"ended": 2, "state": "failed", "message": "why\\nmore"}\n')
    console = Console(force_terminal=True, file=io.StringIO(), width=120, height=40)
    with _table(console, [done, waiting, failed, *others], LocalEngine(tmp_path, 1)) as watch:
        watch(Summary())
    shown = console.file.getvalue()
    for folder in (done, waiting, failed):
        assert folder.name in shown
    assert "why" in shown
    assert "6 cells: 1 failed, 1 waiting, 4 done, about" in shown


def test_the_time_left_follows_from_cells_of_the_same_kind():
    def cell(kind, state, iteration, pace=None, scoring=None):
        return Status("x", kind, state, iteration, 100, iteration_seconds=pace, evaluation_seconds=scoring)

    slow, fast = ("goto", "poly-ppo"), ("goto", "ppo")
    assert seconds_left([cell(slow, "waiting", 0)], 2) is None
    known = [cell(slow, "done", 100, 3.0, 10.0), cell(fast, "done", 100, 1.0, 20.0)]
    assert seconds_left(known, 2) == 0
    # 100 · 3 + 10, and 50 · 1 + 20, in two slots.
    assert seconds_left([*known, cell(slow, "waiting", 0), cell(fast, "running", 50)], 2) == (310 + 70) / 2
    # Of another method: the mean of its task.
    assert seconds_left([*known, cell(("goto", "grpo"), "waiting", 0)], 1) == 200 + 15
    assert totals([*known, cell(fast, "running", 50)], 1) == "3 cells: 1 running, 2 done, about 70 s left"

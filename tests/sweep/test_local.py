"""The local engine with real processes that are killed, stopped and started again."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from sweep_tools import CHOICES, TINY, Killer, attempts, holders, results, without_checksum

from polychromic.cli import main
from polychromic.files import write_json
from polychromic.sweep.cells import find_cells, make_cells, write_cells
from polychromic.sweep.drive import drive
from polychromic.sweep.local import _signal_name, available_cores
from polychromic.sweep.progress import Status, differing, read_status, seconds_left, show, totals
from polychromic.sweep.run_cell import Outcome, note

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
    assert all(killer.lines)  # amid iterations
    assert results(tmp_path) == results(calm)
    history = [attempts(folder) for folder in find_cells(tmp_path)]
    begun = sum("began" in line for lines in history for line in lines)
    assert begun == 6 + len(killer.killed)
    assert f"{len(killer.killed)} retries" in capsys.readouterr().out
    # All is done: nothing is begun again, whatever it was made with.
    capsys.readouterr()
    config = find_cells(tmp_path)[0] / "config.json"
    write_json(config, without_checksum(re.sub('"jax": "[^"]*"', '"jax": "0.0.1"', config.read_text())))
    assert main(["sweep", "--out", str(tmp_path)]) == 0
    assert [attempts(folder) for folder in find_cells(tmp_path)] == history
    told = "done cells that were made with other versions are kept: 1 with jax 0.0.1\n"
    assert capsys.readouterr().err.startswith(told)


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
    assert "nothing is lost; to resume: polychromic sweep --tasks fourrooms" in said
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
    from polychromic.sweep.drive import Summary
    from polychromic.sweep.local import LocalEngine
    from polychromic.sweep.run import _table

    shutil.copytree(calm, tmp_path / "sweep")
    done, waiting, failed, *others = find_cells(tmp_path / "sweep")
    for folder in (waiting, failed):
        (folder / "figures.json").unlink()
    (waiting / "attempts.jsonl").unlink()
    (failed / "attempts.jsonl").write_text('{"began": 1}\n{"ended": 2, "state": "failed", "message": "why\\nmore"}\n')
    console = Console(force_terminal=True, file=io.StringIO(), width=120, height=40)
    with _table(console, [done, waiting, failed, *others], LocalEngine(1)) as watch:
        watch(Summary())
    shown = console.file.getvalue()
    for folder in (done, waiting, failed):
        assert folder.name in shown
    assert "why" in shown
    assert "6 cells: 1 failed, 1 waiting, 4 done, about" in shown


def test_a_table_of_many_cells_leaves_the_cores_to_the_workers(calm, monkeypatch):
    from polychromic.sweep import progress, run
    from polychromic.sweep.drive import Summary
    from polychromic.sweep.local import LocalEngine

    folders = find_cells(calm)
    before = [read_status(folder) for folder in folders]
    monkeypatch.setattr(progress, "read_cell", None)  # what does not change is not read again
    assert [read_status(folder) for folder in folders] == before

    drawn = []
    monkeypatch.setattr(run, "show", lambda *_, **__: time.sleep(0.06) or drawn.append(1) or "")
    console = Console(force_terminal=True, file=io.StringIO(), width=120, height=40)
    with run._table(console, folders, LocalEngine(1)) as watch:
        watch(Summary())
        time.sleep(1.1)  # drawing took more than a twentieth of that
        watch(Summary())
        assert len(drawn) == 1
    assert len(drawn) == 2  # the last one always


def test_a_table_tells_what_cells_of_a_kind_differ_in_and_what_it_leaves_out():
    def cell(method, seed, choices, **more):
        return Status(f"goto-{method}-{seed}", ("goto", method), "waiting", 0, 9, choices=choices, **more)

    cells = [
        cell("ppo", 0, {"kl_coefficient": 0.1, "window": 5}),
        cell("ppo", 1, {"kl_coefficient": 0.01, "window": 5}, message="[red]why " * 20),
        cell("grpo", 0, {"kl_coefficient": 0.2, "window": 5}),
    ]
    assert differing(cells) == ["kl_coefficient=0.1", "kl_coefficient=0.01", ""]
    console = Console(file=io.StringIO(), width=80)
    console.print(show(cells, slots=1))
    lines = console.file.getvalue().splitlines()
    assert "kl_coefficient=0.1" in lines[1]
    assert "kl_coefficient=0.01: [red]why" in lines[2]
    assert len(lines) == 5  # nothing wraps
    console.print(show(cells, slots=1, rows=1))
    assert "… and 2 more" in console.file.getvalue()


def test_the_pace_leaves_out_what_starts_take(calm, tmp_path):
    shutil.copytree(calm, tmp_path / "sweep")
    folder = find_cells(tmp_path / "sweep")[0]
    timing = folder / "timing.jsonl"
    assert [line.get("start", False) for line in map(json.loads, timing.read_text().splitlines())] == [True] + [
        False
    ] * 3

    def pace(*lines):
        timing.write_text("".join(json.dumps({"seconds": seconds, **more}) + "\n" for seconds, more in lines))
        return read_status(folder).iteration_seconds

    start = {"start": True}
    assert pace((60.0, start), (1.0, {}), (50.0, start), (2.0, {})) == 1.5
    assert pace((9.0, start)) == 9.0  # of a cell that is done nothing better is known
    (folder / "figures.json").unlink()
    assert pace((9.0, start)) is None
    assert pace((60.0, start), *[(5.0, {})] * 10, *[(1.0, {})] * 50) == 1.0


class Losing:
    """An engine whose workers are lost after some iterations each."""

    slots = 1

    def __init__(self, reached):
        self.reached, self.folder, self.states = list(reached), None, []

    def free(self):
        return int(self.folder is None)

    def start(self, folder):
        self.states.append(read_status(folder).state)
        self.folder = folder

    def finished(self, _):
        folder, self.folder = self.folder, None
        (folder / "metrics.jsonl").write_text(json.dumps({"iteration": self.reached.pop(0)}) + "\n")
        note(folder, {"ended": 1, "state": "error", "message": "lost"})
        return [(folder, Outcome("failed", "lost"))]

    def close(self):
        pass


def test_a_cell_that_gets_further_is_tried_again_and_again(tmp_path):
    (cell,) = write_cells(tmp_path, make_cells(["goto"], ["ppo"], [0]))
    engine = Losing([3, 8, 20, 20, 19])
    summary = drive(engine, [cell], retries=2, watch=lambda _: None)
    # 3, 8 and 20 are each further than ever; 20 again and 19 are the two repetitions of the last.
    assert engine.reached == []
    assert summary.failed == {cell: "lost"}
    assert engine.states == ["waiting"] + ["interrupted"] * 4  # while another attempt is to come
    assert read_status(cell).state == "failed"


PINNED = """
import os, sys
from polychromic.sweep.worker import pin_to_free_core
os.sched_setaffinity(0, set(map(int, sys.argv[1:])))
held = pin_to_free_core()
print(*sorted(os.sched_getaffinity(0)), flush=True)
sys.stdin.read()
"""


def test_workers_of_all_sweeps_share_the_cores(tmp_path):
    cores = [str(core) for core in available_cores()[:2]]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def worker():
        command = [sys.executable, "-c", PINNED, *cores]
        return subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment)

    started = [worker()]
    try:
        found = [started[0].stdout.readline().split()]
        for _ in cores:
            started.append(worker())
            found.append(started[-1].stdout.readline().split())
        assert found == [*([core] for core in cores), cores]  # none is left for the last
        started[0].kill()
        started[0].wait()
        started.append(worker())
        assert started[-1].stdout.readline().split() == cores[:1]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def test_a_worker_may_be_killed_by_any_signal():
    assert _signal_name(9) == "SIGKILL"
    assert _signal_name(40) == "signal 40"


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

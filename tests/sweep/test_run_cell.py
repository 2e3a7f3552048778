"""One cell at a time: its lock, its failures, a full disk."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_tools import SETTINGS, attempts, holders, results, without_checksum

from polychromic.files import write_json
from polychromic.finetuning.run import Run
from polychromic.sweep.cells import Evaluation, is_done, make_cells, write_cells
from polychromic.sweep.lock import holder
from polychromic.sweep.progress import read_status
from polychromic.sweep.run_cell import _failure, _output_to, note, run_cell
from polychromic.trust import Trust

HOLD = "import sys, time, pathlib\nfrom polychromic.sweep.lock import holding\n"
HOLD += "with holding(pathlib.Path(sys.argv[1])) as held:\n print(held, flush=True)\n time.sleep(600)"


@pytest.fixture
def cell(tmp_path, policy_file):
    """The folder of a cell that the calm sweep has too."""
    (folder,) = write_cells(tmp_path / "sweep", _cells(policy_file))
    return folder


def _cells(policy_file, **changes):
    settings = {**SETTINGS, **changes}
    evaluation = Evaluation(attempts=8)
    return make_cells(["fourrooms"], ["ppo"], [0], settings=settings, policy=str(policy_file), evaluation=evaluation)


def test_a_lock_dies_with_its_process_even_if_that_is_killed(cell):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(cell)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "True\n"
            assert holder(cell)["pid"] == process.pid
            assert read_status(cell).state == "running"
            assert run_cell(cell).state == "busy"
            assert not (cell / "config.json").exists()
        finally:
            process.send_signal(signal.SIGKILL)
    assert holder(cell) is None
    assert run_cell(cell).state == "done"
    assert read_status(cell).state == "done"


def test_a_holder_elsewhere_is_believed_as_long_as_it_touches_the_file(cell):
    lock = cell / "cell.lock"
    lock.write_text('{"host": "another machine", "pid": 1, "process": "5"}')
    assert holder(cell)["host"] == "another machine"
    long_ago = time.time() - 100
    os.utime(lock, (long_ago, long_ago))
    assert holder(cell) is None
    # A number that another process has by now does not count.
    import socket

    lock.write_text(f'{{"host": "{socket.gethostname()}", "pid": {os.getpid()}, "process": "5"}}')
    assert holder(cell) is None


def test_a_cell_ends_as_the_same_one_of_a_sweep_and_is_then_left_alone(cell, calm):
    # What kills have left.
    left = [cell / f".{name}.abc.partial" for name in ("cell.json", "figures.json", "done.json", "evaluation.json")]
    for path in left:
        path.touch()
    before = list(sys.argv)
    assert run_cell(cell).state == "done"
    assert sys.argv == before
    assert not list(cell.glob(".*.partial"))
    assert len(attempts(cell)) == 2
    found, expected = results(cell.parent), results(calm)
    assert found == {name: expected[name] for name in found}
    assert run_cell(cell).state == "done"
    assert len(attempts(cell)) == 2
    # An evaluation that was damaged since is made again.
    evaluation = cell / "evaluation.json"
    evaluation.write_text(evaluation.read_text().replace('"attempts":8', '"attempts":9'))
    assert is_done(cell)
    assert not is_done(cell, thorough=True)
    (cell / "evaluation_cpu_seconds.json").write_text("[garbage")  # which no result needs
    assert run_cell(cell).state == "done"
    assert results(cell.parent) == found
    status = read_status(cell)
    assert (status.iteration, status.iterations, status.tries) == (4, 4, 2)
    assert status.success is not None
    assert not holders(cell.parent)
    for garbage in ("{}", '{"task": 3}', "[]", "nothing"):
        (cell / "figures.json").write_text(garbage)
        assert not is_done(cell)


def test_what_went_wrong_is_told_with_the_last_lines(tmp_path, policy_file):
    (diverging,) = write_cells(
        tmp_path, _cells(policy_file, actor_learning_rate=1e38, critic_learning_rate=1e-4, max_grad_norm=1e30)
    )
    outcome = run_cell(diverging)
    # It would be said again at the next attempt.
    assert (outcome.state, outcome.hopeless, outcome.kind) == ("failed", True, "diverged")
    assert "no longer finite" in outcome.message
    (broken,) = write_cells(tmp_path, _broken(policy_file))
    assert run_cell(broken).kind == "untrusted"  # it names a function, and nobody has consented
    (broken / "attempts.jsonl").unlink()
    outcome = run_cell(broken, Trust(names=frozenset({"builtins:len"})))
    assert (outcome.hopeless, outcome.kind) == (False, "crash")
    assert "TypeError" in outcome.message.splitlines()[0]
    assert "Traceback" in (broken / "log.txt").read_text()
    assert outcome.message.splitlines()[-1] == (broken / "log.txt").read_text().splitlines()[-1]
    for folder in (diverging, broken):
        # An attempt does not know whether the cell is tried again.
        assert read_status(folder).state == "interrupted"
        assert read_status(folder).message
        assert [sorted(line) for line in attempts(folder)] == [
            ["began", "commit", "pid"],
            ["ended", "kind", "message", "state"],
        ]


def _broken(policy_file):
    """A fork rule that fails."""
    settings = {**SETTINGS, "fork_rule": "builtins:len"}
    return make_cells(["fourrooms"], ["poly-ppo"], [0], settings=settings, policy=str(policy_file))


KILLED_WRITING = """
import os, pathlib, signal, sys
from polychromic.finetuning.run import Run
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
Run(pathlib.Path(sys.argv[1]), {"config": {}, "policy": "x"})
"""


def test_a_kill_while_a_run_is_described_does_not_spoil_its_folder(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED_WRITING, str(tmp_path)])
    assert done.returncode == -signal.SIGKILL
    assert [path.suffix for path in tmp_path.glob(".config.json.*")] == [".partial"]
    with Run(tmp_path, {"config": {}, "policy": "x"}):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "config.json"]


def test_a_policy_of_another_task_is_refused_in_the_cell_too(tmp_path, policy_file):
    cells = make_cells(["fourrooms"], ["pretrained"], [0], policy=str(policy_file))
    (cell,) = write_cells(tmp_path, cells)
    write_json(cell / "cell.json", without_checksum((cell / "cell.json").read_text().replace('"fourrooms"', '"goto"')))
    outcome = run_cell(cell)
    assert (outcome.state, outcome.hopeless) == ("failed", True)
    assert "made for MiniGrid-FourRooms-v0; it cannot be used for the task goto" in outcome.message


def test_a_cell_that_its_name_no_longer_describes_is_not_begun(cell, policy_file):
    described = (cell / "cell.json").read_text()
    write_json(cell / "cell.json", without_checksum(described.replace(str(policy_file), "fourrooms")))
    outcome = run_cell(cell)
    assert (outcome.state, outcome.hopeless) == ("failed", True)
    assert "was made with another policy" in outcome.message
    assert not (cell / "config.json").exists()


def test_only_what_happened_in_its_folder_is_told_of_it(tmp_path):
    for name in (None, str(tmp_path / "metrics.jsonl")):
        outcome = _failure(tmp_path, PermissionError(errno.EACCES, "Permission denied", name))
        assert outcome.hopeless
        assert "make the folder writable" in outcome.message
    outcome = _failure(tmp_path, PermissionError(errno.EACCES, "Permission denied", "/elsewhere/policy"))
    assert not outcome.hopeless
    assert outcome.message.startswith("PermissionError: [Errno 13] Permission denied: '/elsewhere/policy'")


def test_a_torn_line_of_the_history_costs_only_itself(cell):
    (cell / "attempts.jsonl").write_text('{"began": 1, "pid": 2}\n{"ended": 3, "sta')
    note(cell, {"began": 4, "pid": 5})
    assert read_status(cell).tries == 2


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of `size` bytes; a machine on which none can be mounted skips, and says so."""
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True
        ).returncode
    ):
        pytest.skip("no right to mount a file system here: full and read-only disks are not tested")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def _remount(folder, how):
    subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, policy_file, calm):
    disk = tmp_path / "disk"
    disk.mkdir()
    # Room for the first checkpoint but not for the second beside it.
    with small_disk(disk, 600_000):
        (cell,) = write_cells(disk, _cells(policy_file))
        outcome = run_cell(cell)
        assert (outcome.state, outcome.hopeless) == ("failed", True)
        assert "No space left on device" in outcome.message
        assert "free some space" in outcome.message
        assert (cell / "checkpoint.safetensors").exists()
        assert not list(cell.glob(".checkpoint*"))
        _remount(disk, "size=4000000")
        assert run_cell(cell).state == "done"
        found, expected = results(disk), results(calm)
        assert found == {name: expected[name] for name in found}


def test_what_a_full_disk_keeps_out_of_the_log_does_not_come_up_elsewhere(capfd):
    with _output_to(Path("/dev/full")):
        for stream in (sys.stdout, sys.stderr):
            with pytest.raises(OSError, match="No space left"):
                print("Traceback", file=stream)
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_becomes_read_only_is_told_and_loses_nothing(tmp_path, policy_file):
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, 4_000_000):
        (cell,) = write_cells(disk, _cells(policy_file))
        _remount(disk, "ro")
        before = sorted(path.name for path in Path(cell).iterdir())
        outcome = run_cell(cell)
        assert (outcome.state, outcome.hopeless) == ("failed", True)
        assert "Read-only file system" in outcome.message
        assert sorted(path.name for path in Path(cell).iterdir()) == before

"""Two sweeps on the same folder at the same time, one of which is killed."""

import signal
import subprocess
import sys
import time

from sweep_tools import attempts, holders, results

from polychromic.sweep.cells import find_cells


def test_two_sweeps_share_the_cells_and_one_takes_over_from_the_other(choices, calm, tmp_path):
    few = [*choices, "--seeds", "0-5"]
    command = [sys.executable, "-m", "polychromic.cli", "sweep", *few, "--workers", "1", "--out", str(tmp_path)]
    first, second = (subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in "12")
    with first, second:
        while len(set(holders(tmp_path))) < 2:
            assert first.poll() is None
            assert second.poll() is None
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        said = second.communicate(timeout=600)
        first.communicate()
    assert second.returncode == 0, said
    assert "12 of 12 cells done" in said[0]
    found = results(tmp_path)
    assert found == {name: calm[name] for name in found}
    for cell in find_cells(tmp_path):
        history = attempts(cell)
        # Every attempt but a killed one ended before the next began.
        assert sum("ended" in line for line in history) == 1
        assert "ended" in history[-1]
        assert sum("began" in line for line in history) <= 2
    assert sum("began" in line for cell in find_cells(tmp_path) for line in attempts(cell)) in (12, 13)
    assert not holders(tmp_path)

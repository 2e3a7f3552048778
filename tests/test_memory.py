"""Freed memory is kept: allocating the same blocks again touches no new pages."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, numpy
from polychromic.memory import keep_freed_memory
if {keep}: keep_freed_memory()
for _ in range(3): [numpy.ones(3_000_000) for _ in range(4)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10): [numpy.ones(3_000_000) for _ in range(4)]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
def test_blocks_are_used_again():
    def faults(keep):
        done = subprocess.run([sys.executable, "-c", PROGRAM.format(keep=keep)], capture_output=True, check=True)
        return int(done.stdout)

    assert faults(True) < 2000
    assert faults(True) < faults(False) / 10

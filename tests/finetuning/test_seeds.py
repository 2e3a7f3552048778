"""Several seeds at once, sharded over devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_worlds import cross, table_policy

from polychromic import UserError, finetune_seeds

HERE = Path(__file__).parent


@pytest.mark.slow
def test_seeds_on_two_devices_are_what_they_are_alone(tmp_path):
    # The number of virtual devices is settled when JAX starts.
    flags = "--xla_force_host_platform_device_count=2 --xla_cpu_multi_thread_eigen=false"
    environment = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / "two_devices.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "equal", done.stderr


@pytest.mark.parametrize("seeds", [(), (1, 1)])
def test_seeds_must_be_different(seeds, tmp_path):
    world = cross()
    with pytest.raises(UserError, match="seeds is"):
        finetune_seeds(world, table_policy(world), seeds=seeds, out=tmp_path / "runs", method="ppo")
    assert not (tmp_path / "runs").exists()

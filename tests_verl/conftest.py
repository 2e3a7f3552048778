"""verl imported without its warnings, and a local Ray with verl's TransferQueue."""

import os
import sys
import warnings
from pathlib import Path

# A cluster of this machine alone, for the length of the tests: no statistics sent, no token kept.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
os.environ["RAY_raylet_start_wait_time_s"] = "300"  # noqa: SIM112 - on a machine with other work to do

import pytest

sys.path.insert(0, str(Path(__file__).parent))

with warnings.catch_warnings():
    # verl warns of every engine that is not there, and uses names that Ray has deprecated.
    warnings.simplefilter("ignore")
    import verl.trainer.ppo.v1  # noqa: F401


@pytest.fixture(scope="session")
def transfer_queue():
    import ray
    import transfer_queue as tq
    from omegaconf import OmegaConf

    # The queue's controller and storage units each reserve a CPU; reserved is not used.
    ray.init(num_cpus=8, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    tq.init(OmegaConf.create({}))
    yield tq
    tq.close()
    ray.shutdown()

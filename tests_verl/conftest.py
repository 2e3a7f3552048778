"""Settings of verl's own, small data, and a local Ray with verl's TransferQueue."""

import os

# Ray would otherwise look for other machines, and report statistics.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"

import pytest


@pytest.fixture(scope="session")
def transfer_queue():
    import ray
    import transfer_queue as tq
    from omegaconf import OmegaConf

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    tq.init(OmegaConf.create({}))
    yield tq
    tq.close()
    ray.shutdown()

"""A few FourRooms demonstrations that several tests read."""

import pytest

from polychromic.pretrain.record import Recording, record_demonstrations


@pytest.fixture(scope="session")
def fourrooms(tmp_path_factory):
    out = tmp_path_factory.mktemp("demos") / "fourrooms.npz"
    return record_demonstrations(Recording("fourrooms", 60), out, workers=1)

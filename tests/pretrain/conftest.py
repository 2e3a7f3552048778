"""FourRooms demonstrations that several tests read."""

import pytest

from polychromic.pretrain.demonstrations import first_episodes
from polychromic.tasks.grids.record import Recording, record_demonstrations


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The file of a recording that nothing disturbed, and its 250 episodes (the fewest that give 50 test levels)."""
    out = tmp_path_factory.mktemp("demos") / "fourrooms.npz"
    return out, record_demonstrations(Recording("fourrooms", 250), out, workers=1)


@pytest.fixture(scope="session")
def fourrooms(recorded):
    return first_episodes(recorded[1], 60)

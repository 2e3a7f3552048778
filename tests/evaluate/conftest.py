"""FourRooms and a policy that several tests evaluate."""

import pytest

import polychromic
from walkers import walker


@pytest.fixture(scope="session")
def fourrooms():
    return polychromic.make("fourrooms", seeds=range(12))


@pytest.fixture(scope="session")
def saved(fourrooms):
    return walker(fourrooms)

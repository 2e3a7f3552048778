"""FourRooms and a policy that several tests evaluate."""

import pytest

import polychromic
from polychromic.policies.files import save_policy
from walkers import walker


@pytest.fixture(scope="session")
def fourrooms():
    return polychromic.make("fourrooms", seeds=range(12))


@pytest.fixture(scope="session")
def saved(fourrooms):
    return walker(fourrooms)


@pytest.fixture(scope="session")
def policy_file(saved, tmp_path_factory):
    path = tmp_path_factory.mktemp("policies") / "walker.safetensors"
    save_policy(path, saved.policy, saved.params, saved.info)
    return path

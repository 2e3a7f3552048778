"""Sweeps of tiny runs: a walker on four FourRooms, four iterations of twenty trajectories."""

import contextlib
import io

import pytest
from sweep_tools import TINY

import polychromic
from polychromic.cli import main
from polychromic.policies.files import save_policy
from walkers import walker


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory):
    """The walker as a file."""
    path = tmp_path_factory.mktemp("policy") / "walker.safetensors"
    saved = walker(polychromic.make("fourrooms", seeds=range(4)))
    save_policy(path, saved.policy, saved.params, saved.info)
    return path


@pytest.fixture(scope="session")
def calm(policy_file, tmp_path_factory):
    """An undisturbed sweep of six cells on one worker."""
    folder = tmp_path_factory.mktemp("calm")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main(["sweep", *TINY, "--policy", str(policy_file), "--out", str(folder), "--workers", "1"])
    assert code == 0
    assert "6 of 6 cells done" in printed.getvalue()
    return folder

"""What the tests of sweeps have too, and a calm sweep of 24 cells to compare with."""

import contextlib
import io

import pytest
from sweep_tools import CHOICES, results

import polychromic
from polychromic.cli import main
from polychromic.policies.files import save_policy
from walkers import walker

# Long enough that kills amid iterations fall between checkpoints too.
CHECKPOINT_EVERY = 5
LONGER = ["--set", "iterations=12", "--set", f"checkpoint_every={CHECKPOINT_EVERY}"]
TWENTY_FOUR = [*CHOICES, *LONGER, "--seeds", "0-11"]


@pytest.fixture(scope="session")
def choices(tmp_path_factory):
    """The arguments of a sweep of 24 cells."""
    path = tmp_path_factory.mktemp("policy") / "walker.safetensors"
    saved = walker(polychromic.make("fourrooms", seeds=range(4)))
    save_policy(path, saved.policy, saved.params, saved.info)
    return [*TWENTY_FOUR, "--policy", str(path)]


@pytest.fixture(scope="session")
def calm(choices, tmp_path_factory):
    """The results of an undisturbed local sweep of 24 cells, by file."""
    folder = tmp_path_factory.mktemp("calm")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["sweep", *choices, "--out", str(folder), "--workers", "2"]) == 0
    return results(folder)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Compiled code that the sweeps share; every process that is killed would have to compile again otherwise."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(autouse=True)
def shared_code(compiled, monkeypatch):
    """All sweeps here use it."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(compiled))

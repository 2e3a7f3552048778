"""What the tests share: the tiny Llama of the example, a task, and a trainer that writes down what it did."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "language_model"))
sys.path.insert(0, str(Path(__file__).parent))


def pytest_addoption(parser):
    parser.addoption("--trl", help="the version of TRL that these tests are meant to run against")


def pytest_configure(config):
    import trl

    wanted = config.getoption("--trl")
    if wanted not in (None, trl.__version__):
        raise pytest.UsageError(f"TRL {trl.__version__} is installed, not {wanted}")


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")

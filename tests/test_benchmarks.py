"""The measurements are run by hand; what they import must not go away meanwhile."""

import importlib
import pkgutil
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# These need environments of their own.
PEERS = {"stable_baselines", "trl_overhead"}
NAMES = sorted(module.name for module in pkgutil.iter_modules([str(BENCHMARKS)]) if module.name not in PEERS)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_benchmark_imports_is_there(name, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS.parent)
    importlib.import_module(f"benchmarks.{name}")

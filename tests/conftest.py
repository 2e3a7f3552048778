"""Settings for all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine must not turn a slow example into a failure.
settings.register_profile("polychromic", deadline=None)
settings.load_profile("polychromic")


def pytest_collection_modifyitems(items):
    """With `-n 2 --dist loadgroup` the tests of one folder stay in one process and share what they set up."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(Path(item.fspath).parent.name))

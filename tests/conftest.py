"""Settings for all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine must not turn a slow example into a failure.
settings.register_profile("polychromic", deadline=None)
settings.load_profile("polychromic")


def pytest_collection_modifyitems(items):
    """With `-n 2 --dist loadgroup` a file stays in one process, and so does a folder that has something to share."""
    for item in items:
        folder = item.path.parent
        shared = folder != Path(__file__).parent and (folder / "conftest.py").exists()
        item.add_marker(pytest.mark.xdist_group(folder.name if shared else item.path.stem))

"""Settings for all tests."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine must not turn a slow example into a failure.
settings.register_profile("polychromic", deadline=None)
settings.load_profile("polychromic")

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

COMPILED = pytest.StashKey[tempfile.TemporaryDirectory]()


def pytest_configure(config):
    """What this process has compiled serves those that its tests start, and the other way round.

    Compiling is most of what tiny runs cost. JAX reads these when it is imported, which is later. Processes of
    pytest-xdist have a folder each: JAX warns of a file that another one is just writing, and warnings are errors here.
    """
    config.stash[COMPILED] = tempfile.TemporaryDirectory(prefix="compiled-", ignore_cleanup_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = config.stash[COMPILED].name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"  # part of what compiled code is kept under


def pytest_unconfigure(config):
    """Without waiting for the end of the process, which would warn."""
    if COMPILED in config.stash:
        config.stash[COMPILED].cleanup()


def pytest_collection_modifyitems(items):
    """With `-n 2 --dist loadgroup` a file stays in one process, and so does a folder that has something to share."""
    for item in items:
        folder = item.path.parent
        shared = folder != Path(__file__).parent and (folder / "conftest.py").exists()
        item.add_marker(pytest.mark.xdist_group(folder.name if shared else item.path.stem))


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; a machine without one skips, and says so."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine: pages are not tested in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: make browser")
    with playwright.sync_playwright() as driver:
        # Playwright gives every launch a fresh profile.
        opened = driver.chromium.launch(executable_path=program, headless=True, args=list(FLAGS))
        yield opened
        opened.close()

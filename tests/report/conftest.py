"""Real runs, made by a small demo on FourRooms and evaluated with perturbed starts; a real browser to see them in."""

import contextlib
import io
import json
import shutil

import pytest
from nasty import NASTY

import polychromic
from polychromic.cli import main
from polychromic.policies.files import save_policy
from walkers import walker

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """Paths by name: policy, demo, its runs ppo and poly-ppo, base (an evaluation); printed: what the demo printed."""
    folder = tmp_path_factory.mktemp("report")
    world = polychromic.make("fourrooms", seeds=range(4))
    saved = walker(world)
    found = {"policy": folder / "walker.safetensors", "base": folder / "base.json", "demo": folder / "demo"}
    save_policy(found["policy"], saved.policy, saved.params, saved.info)
    small = ["--iterations", "2", "--configurations-per-iteration", "1", "--attempts", "8"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["demo", "--policy", str(found["policy"]), "--out", str(found["demo"]), *small]) == 0
    found["printed"] = printed.getvalue()
    options = ["--attempts", "16", "--perturbed"]
    sweep = ["--temperatures", "1.0", "0.5"]
    assert main(["evaluate", str(found["policy"]), *options, *sweep, "--out", str(found["base"])]) == 0
    for method in ("ppo", "poly-ppo"):
        found[method] = found["demo"] / f"fourrooms-{method}-0"
        assert main(["evaluate", str(found[method]), *options, "--pretrained", str(found["policy"])]) == 0
    evaluation = json.loads(found["base"].read_text())
    evaluation["missions"][1] = NASTY
    del evaluation["checksum"]
    found["base"].write_text(json.dumps(evaluation))
    return found


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium; a machine without one skips, and says so."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine: the report is not tested in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: make browser")
    with playwright.sync_playwright() as driver:
        # Playwright gives every launch a fresh profile.
        opened = driver.chromium.launch(executable_path=program, headless=True, args=list(FLAGS))
        yield opened
        opened.close()

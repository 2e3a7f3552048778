"""Real runs, small: a base policy with a sweep, PPO and Poly-PPO on FourRooms; and a real browser to look at them."""

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
    """Paths by name: base (an evaluation), ppo and poly-ppo (runs, evaluated), policy."""
    folder = tmp_path_factory.mktemp("report")
    world = polychromic.make("fourrooms", seeds=range(4))
    saved = walker(world)
    found = {"policy": folder / "walker.safetensors", "base": folder / "base.json"}
    save_policy(found["policy"], saved.policy, saved.params, saved.info)
    options = ["--attempts", "16", "--perturbed"]
    sweep = ["--temperatures", "1.0", "0.5"]
    assert main(["evaluate", str(found["policy"]), *options, *sweep, "--out", str(found["base"])]) == 0
    small = {"iterations": 2, "evaluate_every": 1, "evaluation_rollouts": 4}
    sizes = {"ppo": {"budget": 8}, "poly-ppo": {"budget": 36, "rollouts_per_state": 4, "set_size": 2}}
    for method, settings in sizes.items():
        found[method] = folder / method
        polychromic.finetune(world, saved, method=method, out=found[method], **small, **settings)
        assert main(["evaluate", str(found[method]), *options, "--pretrained", str(found["policy"])]) == 0
    evaluation = json.loads(found["base"].read_text())
    evaluation["missions"][1] = NASTY
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

"""Real runs, made by a small demo on FourRooms and evaluated with perturbed starts.

There is one page of each kind, made when the first test asks for it: a grid, triangles, an own environment.
"""

import contextlib
import io
import json

import gymnasium
import numpy as np
import pytest
from nasty import NASTY

import polychromic
from polychromic.cli import main
from polychromic.policies.files import save_policy
from walkers import walker


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
def grid_page(results, tmp_path_factory):
    """A page of FourRooms, with names that would be markup and a run that does not exist."""
    path = tmp_path_factory.mktemp("grid") / "report.html"
    runs = [results["base"], results["ppo"], results["poly-ppo"], path.parent / "missing"]
    polychromic.write_report(runs, path, title="a <i>title</i> @DATA@", summary=["<u>in words</u>"])
    return path


def evaluated(world, policy, path, method, temperature=1.0, **choices):
    """An evaluation as that of a run of a method: the policy at a temperature stands for what training made of it."""
    found = polychromic.evaluate_policy(world, policy, temperature=temperature, **choices)
    found["policy"]["method"] = method
    found["result"]["temperature"] = 1.0
    path.write_text(json.dumps(found))
    return path


@pytest.fixture(scope="session")
def triangle_page(tmp_path_factory):
    """A page of triangle discovery: the shipped policy, and colder, where it names few triangles."""
    folder = tmp_path_factory.mktemp("triangle")
    world, policy = polychromic.make("triangle", seeds=[0, 1]), polychromic.load_policy("triangle")
    runs = [
        evaluated(world, policy, folder / "base.json", "pretrained", temperatures=(0.4,), attempts=60, scan_attempts=2),
        evaluated(world, policy, folder / "ppo.json", "ppo", 0.01, attempts=60),
        evaluated(world, policy, folder / "poly-ppo.json", "poly-ppo", 0.3, attempts=60),
    ]
    polychromic.write_report(runs, folder / "report.html", title="triangles")
    return folder / "report.html"


@pytest.fixture(scope="session")
def own_page(tmp_path_factory):
    """A page of someone's Gymnasium environment, which draws itself and does not say what success is."""
    folder = tmp_path_factory.mktemp("own")
    make_env = lambda: gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=12)  # noqa: E731
    world = polychromic.from_gymnasium(make_env, range(5), place=lambda env: int(env.unwrapped.s))
    world.task, world.can_draw = "frozen-lake", True

    def picture(state, row=0, **_options):
        image = np.full((4, 4, 3), 200, np.uint8)
        image[divmod(world.places(state)[row], 4)] = (200, 0, 0)
        return image.repeat(16, axis=0).repeat(16, axis=1)

    world.picture = picture
    policy = polychromic.policy_for(world)
    runs = [
        evaluated(world, policy, folder / f"{method}.json", method, temperature, attempts=6)
        for method, temperature in (("pretrained", 1.0), ("ppo", 0.0), ("poly-ppo", 1.0))
    ]
    polychromic.write_report(runs, folder / "report.html", title="FrozenLake")
    return folder / "report.html"

"""The picture of the effect: the triangles of one graph that the pretrained policy, PPO and Poly-PPO name.

python -m reproduction.effect --runs ppo runs/ppo poly-ppo runs/poly   # play, write the JSON, draw
python -m reproduction.effect                                          # draw again from the JSON
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

import polychromic
from polychromic.errors import UserError
from polychromic.files import read_json, write_json
from polychromic.finetuning.attempts import attempt_all
from polychromic.policies.files import SavedPolicy
from polychromic.policies.inference import Evaluator
from polychromic.tasks.triangle.answers import read_answers
from polychromic.tasks.triangle.graphs import NUM_NODES, graph_of
from reproduction.draw import save

FOLDER = Path("docs/figures")
TITLES = {"pretrained": "pretrained", "ppo": "PPO", "poly-ppo": "Poly-PPO"}
GRAPH, ATTEMPTS, SEED = 0, 1000, 0
GOLDEN = (5**0.5 - 1) / 2
TEXT = "#6e7781"  # readable on white and on black


def named_triangles(saved: SavedPolicy) -> dict[str, Any]:
    """What a policy answers in 1,000 attempts: how many are right, and which distinct triangles they name."""
    world = polychromic.make("triangle", seeds=[GRAPH])
    evaluator = Evaluator(saved.policy, saved.params, world.tables())
    played = attempt_all(evaluator, world, np.random.default_rng(SEED), attempts=ATTEMPTS)
    graph = graph_of(GRAPH)
    named = read_answers(graph, played.actions)
    numbers = np.unique(named.numbers[named.valid])
    nodes = np.stack(np.unravel_index(numbers, (NUM_NODES,) * 3), axis=1)
    return {"validity": float(named.valid.mean()), "triangles": nodes.tolist()}


def effect_figure(found: Mapping[str, Mapping[str, Any]]) -> Picture:
    """A circle of nodes for each policy, with the triangles it names."""
    picture = Picture(figsize=(10.5, 4.1), layout="constrained", facecolor="none")
    for axes, (name, policy) in zip(picture.subplots(1, len(found)), found.items(), strict=True):
        _draw(axes, policy["triangles"])
        count = len(policy["triangles"])
        title = f"{TITLES[name]}: {count} triangle{'s' if count != 1 else ''}"
        axes.set_title(title, fontsize=13, fontweight="bold", color=TEXT)
        axes.set_xlabel(f"{100 * policy['validity']:.1f} % of 1,000 attempts are right", fontsize=11, color=TEXT)
    return picture


def _draw(axes: Axes, triangles: Sequence[Sequence[int]]) -> None:
    angles = 2 * np.pi * np.arange(NUM_NODES) / NUM_NODES
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    axes.plot(*circle.T, color="#9ca3af", linewidth=0.8)
    fill, width = min(0.3, 4 / max(len(triangles), 1)), 0.6 + 1.4 / max(len(triangles), 1)  # few of them must be seen
    for number, nodes in enumerate(triangles):
        colour = colormaps["turbo"](0.08 + 0.84 * (number * GOLDEN % 1))[:3]  # neighbours in number differ in colour
        axes.fill(*circle[list(nodes)].T, facecolor=(*colour, fill), edgecolor=(*colour, 0.7), linewidth=width)
    axes.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), xticks=[], yticks=[], aspect="equal", facecolor="none")
    axes.spines[:].set_visible(False)


def effect(*, runs: dict[str, Path] | None = None, folder: Path = FOLDER) -> None:
    """Play runs and write what they named, or draw what was written.

    Args:
        runs: run directories by method, `ppo runs/ppo poly-ppo runs/poly`; without any, the JSON is drawn again.
        folder: where triangles.json and triangles.svg are.
    """
    path = folder / "triangles.json"
    if runs:
        if set(runs) != {"ppo", "poly-ppo"}:
            raise UserError(f"runs is {', '.join(runs)}; it must name ppo and poly-ppo")
        policies = {"pretrained": polychromic.load_policy("triangle")} | {
            name: polychromic.load_policy(runs[name] / "policy.safetensors") for name in ("ppo", "poly-ppo")
        }
        made = {"graph": GRAPH, "attempts": ATTEMPTS, "seed": SEED, "version": polychromic.__version__}
        found = {name: named_triangles(saved) for name, saved in policies.items()}
        write_json(path, made | {"policies": found}, indent=None)
    save(effect_figure(read_json(path)["policies"]), folder / "triangles.svg")


if __name__ == "__main__":
    try:
        tyro.cli(effect, prog="python -m reproduction.effect")
    except UserError as error:
        sys.exit(f"reproduction.effect: {error}")

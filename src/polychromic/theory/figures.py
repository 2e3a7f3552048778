"""The theory lab's two figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from polychromic.theory import claims, dynamics
from polychromic.theory.collapse import DRAWS, MOST_SET_SIZE, Bandit

# One colour per method wherever it appears, as in reports (page.css); readable by colour-blind readers.
GREY, GREEN, BLUE = "#6b7480", "#00856a", "#0072b2"
ORANGES = ("#f5a36b", "#d55e00", "#7a3500")


def scaffold_figure() -> Figure:
    """Scaffold values of homogeneous and heterogeneous sets over the probability that the policy gives them."""
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, set_size in zip(ORANGES, (2, 3, 5), strict=True):
        probability = np.linspace(0.005, 0.995, 120)
        values = [claims.homogeneous_scaffold(float(p), set_size) for p in probability]
        left.plot(probability, values, color=colour, label=f"n = {set_size}")
        left.axvline((set_size - 1) / set_size, color=colour, linestyle=":", linewidth=1)
    _labels(left, "Homogeneous set {a, …, a}, a right", "p = π(a)", "scaffold value Λ")
    left.text(0.02, 0.28, "dotted: (n − 1)/n", transform=left.transAxes, fontsize=8, color=GREY)
    for colour, (set_size, num_right) in zip(ORANGES, ((2, 2), (3, 3), (4, 4)), strict=True):
        probability = np.linspace(0.01, 0.99, 60)
        values = [claims.heterogeneous_scaffold(float(p), set_size, num_right) for p in probability]
        right.plot(probability, values, color=colour, label=f"n = {set_size}, all right")
    _labels(right, "Heterogeneous set of n distinct right actions", "p = π(all of them)", "scaffold value Λ")
    for axes in (left, right):
        axes.axhline(0, color="black", linewidth=0.8)
        axes.legend(frameon=False)
    return figure


def bandit_curves(bandit: Bandit) -> list[dynamics.Curve]:
    """Exact training of a bandit under every method, with sets of half, once and twice its set size."""
    sizes = {max(bandit.set_size // 2, 1), bandit.set_size, min(2 * bandit.set_size, MOST_SET_SIZE)}
    return [
        bandit.train(dynamics.REINFORCE),
        bandit.train(dynamics.PPO),
        *(replace(bandit, set_size=size).train(dynamics.POLYCHROMIC) for size in sorted(sizes)),
    ]


def bandit_figure(bandit: Bandit, curves: list[dynamics.Curve]) -> Figure:
    """Success, entropy and distinct right arms over training."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    colours = (GREEN, BLUE, *ORANGES)
    for curve, colour in zip(curves, colours, strict=False):
        steps = np.arange(1, len(curve.success) + 1)  # from 1, for the logarithmic axis
        style = "-" if "poly" in curve.name else "--"
        for axes, values in zip(panels, (curve.success, curve.entropy, curve.distinct_right), strict=True):
            axes.plot(steps, values, style, color=colour, label=curve.name)
    titles = ("Success", "Policy entropy (nats)", f"Distinct right arms in {DRAWS} draws (of {bandit.right})")
    for axes, title in zip(panels, titles, strict=True):
        _labels(axes, title, "exact gradient steps", "")
        axes.set_xscale("log")
        axes.set_xlim(1, len(curves[0].success))
        axes.set_ylim(bottom=0)
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure as PNG (to look at) and SVG (to put into a page); the same bytes for the same figure."""
    written = []
    for suffix, metadata in ((".png", None), (".svg", {"Date": None})):
        target = path.with_suffix(suffix)
        with rc_context({"svg.hashsalt": "polychromic"}):
            figure.savefig(target, dpi=160, metadata=metadata)
        written.append(target)
    return written


def _labels(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)

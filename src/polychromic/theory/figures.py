"""The theory lab's two figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from polychromic.theory import claims, dynamics

# One colour per method wherever it appears; readable in grey and by colour-blind readers.
GREY, RED = "#6b7280", "#cb181d"
BLUES = ("#6baed6", "#2171b5", "#08306b")


def scaffold_figure() -> Figure:
    """Scaffold values of homogeneous and heterogeneous sets over the probability that the policy gives them."""
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for colour, set_size in zip(BLUES, (2, 3, 5), strict=True):
        probability = np.linspace(0.005, 0.995, 120)
        values = [claims.homogeneous_scaffold(float(p), set_size) for p in probability]
        left.plot(probability, values, color=colour, label=f"n = {set_size}")
        left.axvline((set_size - 1) / set_size, color=colour, linestyle=":", linewidth=1)
    _labels(left, "Homogeneous set {a, …, a}, a right", "p = π(a)", "scaffold value Λ")
    left.text(0.02, 0.28, "dotted: (n − 1)/n", transform=left.transAxes, fontsize=8, color=GREY)
    for colour, (set_size, num_right) in zip(BLUES, ((2, 2), (3, 3), (4, 4)), strict=True):
        probability = np.linspace(0.01, 0.99, 60)
        values = [claims.heterogeneous_scaffold(float(p), set_size, num_right) for p in probability]
        right.plot(probability, values, color=colour, label=f"n = {set_size}, all right")
    _labels(right, "Heterogeneous set of n distinct right actions", "p = π(all of them)", "scaffold value Λ")
    for axes in (left, right):
        axes.axhline(0, color="black", linewidth=0.8)
        axes.legend(frameon=False)
    return figure


def bandit_curves(num_steps: int = 2000) -> list[dynamics.Curve]:
    """Exact training of a bandit with 5 right arms of 10, from an uneven policy, under every method."""
    logits = np.array([2.0, 1.2, 0.6, 0.0, -0.6, 1.5, 1.0, 0.5, 0.2, 0.0])
    rewards = np.array([1.0] * 5 + [0.0] * 5)
    methods: list[tuple[str, dynamics.Update]] = [
        ("REINFORCE", dynamics.reinforce_update),
        ("PPO-style", dynamics.ppo_update),
        *((f"polychromic, n = {n}", dynamics.polychromic_update(n)) for n in (2, 4, 8)),
    ]
    return [
        dynamics.train(name, update, logits, rewards, num_steps=num_steps, step_size=0.2, draws=16)
        for name, update in methods
    ]


def bandit_figure(curves: list[dynamics.Curve]) -> Figure:
    """Success, entropy and distinct right arms over training."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    panels = figure.subplots(1, 3)
    colours = (GREY, RED, *BLUES)
    for curve, colour in zip(curves, colours, strict=True):
        steps = np.arange(1, len(curve.success) + 1)  # from 1, for the logarithmic axis
        style = "-" if "poly" in curve.name else "--"
        for axes, values in zip(panels, (curve.success, curve.entropy, curve.distinct_right), strict=True):
            axes.plot(steps, values, style, color=colour, label=curve.name)
    titles = ("Success", "Policy entropy (nats)", "Distinct right arms in 16 draws (of 5)")
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

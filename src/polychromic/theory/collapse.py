"""Who collapses? A bandit to train by every method, as a picture in a terminal and as a page with sliders."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib import resources

import numpy as np

from polychromic.core.checks import Floats, real_number, whole_number
from polychromic.theory import dynamics

# Arms that `distinct right arms` is counted in, in the terminal, on the page and in the figure.
DRAWS = 16
# What the page's sliders reach.
MOST_ARMS, MOST_STEPS, MOST_SET_SIZE, MOST_UNEVENNESS, MOST_STEP_SIZE = 20, 5000, 16, 3.0, 1.0
BAR_WIDTH = 8
EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class Bandit:
    """A bandit and how it is trained."""

    arms: int = 10
    right: int = 5
    set_size: int = 4
    unevenness: float = 1.0
    steps: int = 2000
    step_size: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what the page could not show."""
        whole_number("arms", self.arms, at_least=2, at_most=MOST_ARMS)
        whole_number("right", self.right, at_least=1, at_most=self.arms, why=f"there are {self.arms} arms")
        whole_number("set_size", self.set_size, at_least=1, at_most=MOST_SET_SIZE)
        whole_number("steps", self.steps, at_least=1, at_most=MOST_STEPS)
        real_number("unevenness", self.unevenness, 0, MOST_UNEVENNESS)
        real_number("step_size", self.step_size, 0, MOST_STEP_SIZE)

    def train(self, method: str, *, rollouts: int = 0, seed: int = 0) -> dynamics.Curve:
        """The curve of a method: by exact gradients, or from `rollouts` draws a step."""
        return dynamics.train(
            self.name_of(method),
            dynamics.from_draws(method, self.set_size, rollouts, seed)
            if rollouts
            else dynamics.exact(method, self.set_size),
            dynamics.uneven_start(self.arms, self.right, self.unevenness),
            dynamics.right_first(self.arms, self.right),
            num_steps=self.steps,
            step_size=self.step_size,
            draws=DRAWS,
        )

    def name_of(self, method: str) -> str:
        """What a method is called in figures and tables."""
        names = {
            dynamics.REINFORCE: "REINFORCE",
            dynamics.PPO: "PPO-style",
            dynamics.POLYCHROMIC: f"polychromic, n = {self.set_size}",
        }
        return names[method]


def picture(bandit: Bandit, curves: list[dynamics.Curve]) -> list[str]:
    """A line for each arm: its probability at the start and at the end of every curve, as bars."""
    columns = {"start": curves[0].policy[0], **{_short(curve.name): curve.policy[-1] for curve in curves}}
    width = BAR_WIDTH + 8
    lines = ["  arm   " + "".join(f"{name:<{width}}" for name in columns).rstrip()]
    for arm in range(bandit.arms):
        mark = "●" if arm < bandit.right else "○"
        cells = (f"{_bar(policy[arm])} {policy[arm]:.3f}" for policy in columns.values())
        lines.append(f"{mark} {arm + 1:>3}   " + "".join(f"{cell:<{width}}" for cell in cells).rstrip())
    return lines


def _short(name: str) -> str:
    return name.replace("polychromic, n = ", "sets of ")


def _bar(share: float) -> str:
    whole, eighth = divmod(round(float(share) * BAR_WIDTH * 8), 8)
    drawn = EIGHTHS[8] * whole + (EIGHTHS[eighth] if eighth else "")
    return f"{drawn:<{BAR_WIDTH}}"


def summary(bandit: Bandit, curves: list[dynamics.Curve]) -> list[str]:
    """A line for each method: success, right arms kept, and where its mass is."""
    width = max(len(curve.name) for curve in curves)
    return [
        f"{curve.name:<{width}}  success {curve.success[0]:.3f} → {curve.success[-1]:.3f}, right arms in {DRAWS} draws "
        f"{curve.distinct_right[0]:.1f} → {curve.distinct_right[-1]:.1f} of {bandit.right}. {verdict(bandit, curve)}"
        for curve in curves
    ]


def verdict(bandit: Bandit, curve: dynamics.Curve) -> str:
    """In words, where a curve ends: on one arm, on several, or on wrong ones too."""
    end: Floats = curve.policy[-1]
    top = int(np.argmax(end))
    if end[top] > 0.9:
        return f"It ends on arm {top + 1}."
    if curve.success[-1] < 0.9:
        return f"It spends {1 - curve.success[-1]:.0%} on wrong arms."
    kept = int((end[: bandit.right] > 0.5 / bandit.right).sum())
    return f"It keeps {kept} of {bandit.right} right arms."


def page(bandit: Bandit) -> str:
    """The page with sliders, which opens with this bandit."""
    template = (resources.files("polychromic.theory") / "bandit.html").read_text(encoding="utf-8")
    limits = {
        "arms": MOST_ARMS,
        "set_size": MOST_SET_SIZE,
        "unevenness": MOST_UNEVENNESS,
        "steps": MOST_STEPS,
        "step_size": MOST_STEP_SIZE,
    }
    return template.replace("@OPEN@", json.dumps({"bandit": asdict(bandit), "limits": limits, "draws": DRAWS}))

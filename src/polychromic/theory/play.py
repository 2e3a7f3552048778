"""`polychromic bandit`: train a small bandit, see who collapses, and get a page to play with."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rich.console import Console

from polychromic.core.checks import whole_number
from polychromic.errors import UserError
from polychromic.files import write_text
from polychromic.theory import dynamics
from polychromic.theory.collapse import Bandit, page, picture, summary


def play(
    *,
    arms: int = 10,
    right: int = 5,
    set_size: int = 4,
    method: tuple[Literal["reinforce", "ppo", "polychromic"], ...] = ("reinforce", "ppo", "polychromic"),
    unevenness: float = 1.0,
    steps: int = 2000,
    step_size: float = 0.2,
    rollouts: int = 0,
    seed: int = 0,
    out: Path = Path("bandit.html"),
) -> int:
    """Train a bandit with several right arms, see which methods collapse, and write a page with sliders.

    Every method follows the exact gradient of its own objective: nothing is sampled unless you give --rollouts. The
    page computes the same in the browser; it is one file and needs no server.

    Args:
        arms: number of arms.
        right: how many of them pay 1; the others pay 0.
        set_size: n, how many draws the polychromic objective scores together.
        method: which methods to train.
        unevenness: logits of the right arms start between this and minus this; 0 is a tie.
        steps: gradient steps.
        step_size: of a gradient step.
        rollouts: draws a step to estimate the gradient from, as training does; 0 is the exact gradient.
        seed: of these draws.
        out: the page to write.
    """
    bandit = Bandit(arms, right, set_size, unevenness, steps, step_size)
    if not method:
        raise UserError(f"method is empty; choose from {', '.join(dynamics.METHODS)}")
    _check_rollouts(rollouts, set_size, method)
    whole_number("seed", seed, at_least=0)
    curves = [bandit.train(name, rollouts=rollouts, seed=seed) for name in dict.fromkeys(method)]
    console = Console(highlight=False)
    how = f"{rollouts} draws a step, seed {seed}" if rollouts else "exact gradients"
    console.print(f"{arms} arms, {right} of them right (●). The policy after {steps:,} steps, {how}:\n", soft_wrap=True)
    for line in picture(bandit, curves):
        console.print(line, soft_wrap=True)
    console.print()
    for line in summary(bandit, curves):
        console.print(line, soft_wrap=True)
    try:
        write_text(out, page(bandit))
    except OSError as error:
        raise UserError(f"out: cannot write {out} ({error.strerror}); give a file that can be written") from error
    console.print(
        f"\nwritten: {out} (the same with sliders{', by exact gradients' if rollouts else ''})", soft_wrap=True
    )
    return 0


def _check_rollouts(rollouts: int, set_size: int, method: tuple[str, ...]) -> None:
    whole_number("rollouts", rollouts, at_least=0)
    if not rollouts:
        return
    least = 1 + (set_size if dynamics.POLYCHROMIC in method else 1)
    whole_number("rollouts", rollouts, at_least=least, why="a single set would be its own baseline; 0 is exact")

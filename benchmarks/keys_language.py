"""What does the wrong key cost? Keys of the task 'chains', whose prompts have one right number and many ways to it.

    .venv-trl/bin/python -m benchmarks.keys_language --out benchmarks/results/keys_language.json

The loop, the model and the budget of `vines_language`, with groups of 16 and all sets of 4:

    stock          rewards minus the mean of their group
    calculations   the key sees the calculations that are written out
    text           the key sees the whole text
    last number    the key sees the number at the end, of which one alone is right
    wrong alike    the same, but all wrong answers count as one
    calculations, never different    'calculations', but a wrong answer counts as the most common right one
    calculations, graded             the same, and a set of equal answers has diversity 1/4, not 0
    last number, graded              'last number' in the same way
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.vines_language import SET_SIZE, compare
from polychromic.integrations.answers import Likeness, label_codes
from polychromic.integrations.group_sets import SetSettings, group_advantages
from polychromic.integrations.keys import calculations, last_number


def stock(rewards: Sequence[float], texts: Sequence[str], size: int) -> Any:  # noqa: ARG001
    """GRPO's advantages without scaling."""
    groups = np.reshape(rewards, (-1, size))
    return (groups - groups.mean(axis=1, keepdims=True)).reshape(-1)


def by_key(key: Callable[[str], Hashable], wrong_answers: str = "compared", homogeneous_zero: bool = True) -> Any:
    """Advantages of sets under a key."""
    settings = SetSettings(set_size=SET_SIZE, homogeneous_zero=homogeneous_zero)

    def advantages(rewards: Sequence[float], texts: Sequence[str], size: int) -> Any:
        labels = label_codes([[key(text) for text in texts]]).reshape(-1, size)
        returns = np.reshape(np.asarray(rewards, float), (-1, size))
        likeness = Likeness(labels, None).of_wrong(returns >= 1, wrong_answers)
        return group_advantages(returns, likeness, settings, 0).reshape(-1)

    return advantages


ARMS = {
    "stock": stock,
    "calculations": by_key(calculations),
    "text": by_key(str),
    "last number": by_key(last_number),
    "wrong alike": by_key(last_number, "alike"),
    "calculations, never different": by_key(calculations, "never-different"),
    "calculations, graded": by_key(calculations, "never-different", homogeneous_zero=False),
    "last number, graded": by_key(last_number, "never-different", homogeneous_zero=False),
}


def main(out: Path, seeds: tuple[int, ...] = (0, 1, 2), tokens: int = 350_000) -> None:
    """Train under every key from the same weights, seed by seed."""
    compare(out, seeds, tokens, {name: {"advantages_of": advantages} for name, advantages in ARMS.items()})


if __name__ == "__main__":
    tyro.cli(main)

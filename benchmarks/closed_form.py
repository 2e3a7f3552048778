"""Exact advantages over all subsets: the closed form against enumeration, as one would write it by hand.

    python -m benchmarks.closed_form [--out FILE]

Prints a table and writes it as JSON.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from polychromic import polychromic_advantages


def enumerated(returns: np.ndarray, labels: np.ndarray, set_size: int) -> np.ndarray:
    """The average over all subsets, written plainly: the formula per subset, on plain arrays."""
    sets = [list(members) for members in combinations(range(len(returns)), set_size)]
    scores = []
    for members in sets:
        distinct = len(set(labels[members].tolist()))
        diversity = 0.0 if distinct == 1 else distinct / set_size
        scores.append(returns[members].mean() * diversity)
    mean = np.mean(scores)
    advantages = np.zeros(len(returns))
    for members, score in zip(sets, scores, strict=True):
        advantages[members] += score - mean
    return advantages * len(returns) / (len(sets) * set_size)


def enumerated_tuned(returns: np.ndarray, labels: np.ndarray, set_size: int) -> np.ndarray:
    """The same with every NumPy call taken out of the loops, as one would write it for speed."""
    reward, label = returns.tolist(), labels.tolist()
    sets = list(combinations(range(len(reward)), set_size))
    scores = []
    for members in sets:
        distinct = len({label[i] for i in members})
        scores.append(0.0 if distinct == 1 else sum(reward[i] for i in members) * distinct / set_size**2)
    mean = sum(scores) / len(scores)
    advantages = [0.0] * len(reward)
    for members, score in zip(sets, scores, strict=True):
        for i in members:
            advantages[i] += score - mean
    return np.array(advantages) * len(reward) / (len(sets) * set_size)


def best_time(function: Callable[[], object], repeats: int = 7, at_least: float = 0.02) -> float:
    """Seconds per call: the best of several rounds, each long enough to time."""
    function()
    start = time.perf_counter()
    function()
    loops = max(1, int(at_least / max(time.perf_counter() - start, 1e-9)))
    rounds = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(loops):
            function()
        rounds.append((time.perf_counter() - start) / loops)
    return min(rounds)


def import_seconds() -> float:
    """`import polychromic` in a fresh interpreter, minus the interpreter's own startup."""

    def run(code: str) -> float:
        return best_time(lambda: subprocess.run([sys.executable, "-c", code], check=True), repeats=5, at_least=0.0)

    return run("import polychromic") - run("pass")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/closed_form.json"))
    out = parser.parse_args().out
    rng = np.random.default_rng(0)
    rows = []
    for groups, num_rollouts, set_size, compare in (
        (1, 8, 4, True),
        (1, 12, 6, True),
        (1, 16, 8, True),
        (1024, 8, 4, False),
        (1, 64, 8, False),
        (1, 136, 64, False),
        (1, 256, 16, False),
    ):
        returns = rng.random((groups, num_rollouts))
        labels = rng.integers(0, max(2, num_rollouts // 3), (groups, num_rollouts))
        contenders = {"closed_form": lambda r=returns, ls=labels, n=set_size: polychromic_advantages(r, ls, set_size=n)}
        if compare:
            for name, function in (("enumeration", enumerated), ("tuned_enumeration", enumerated_tuned)):
                contenders[name] = lambda f=function, r=returns[0], ls=labels[0], n=set_size: f(r, ls, n)
                assert np.abs(contenders[name]() - contenders["closed_form"]()[0]).max() < 1e-12
        # Take turns, so that a busy moment of the machine hits all of them; the best round of each counts.
        seconds = dict.fromkeys(contenders, float("inf"))
        for _ in range(5):
            for name, function in contenders.items():
                seconds[name] = min(seconds[name], best_time(function, repeats=5))
        rows.append(
            {
                "groups": groups,
                "num_rollouts": num_rollouts,
                "set_size": set_size,
                "subsets_per_group": comb(num_rollouts, set_size),
                **{f"{name}_ms": value * 1e3 for name, value in seconds.items()},
            }
        )
    table = Table(title="Exact polychromic advantages over all subsets", padding=(0, 0))
    for column in ("groups", "N", "n", "subsets", "closed form", "itertools", "ratio", "tuned", "ratio"):
        table.add_column(column, justify="right")
    for row in rows:
        cells = [str(row["groups"]), str(row["num_rollouts"]), str(row["set_size"]), f"{row['subsets_per_group']:.3g}"]
        cells.append(f"{row['closed_form_ms']:.3f} ms")
        for name in ("enumeration_ms", "tuned_enumeration_ms"):
            cells += (
                [f"{row[name]:.1f} ms", f"{row[name] / row['closed_form_ms']:.0f} ×"] if name in row else ["–", "–"]
            )
        table.add_row(*cells)
    import_time = import_seconds()
    Console().print(table)
    Console().print(f"import polychromic: {import_time:.2f} s")
    result = {
        "command": "python -m benchmarks.closed_form",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "rows": rows,
        "import_seconds": import_time,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {out}")


if __name__ == "__main__":
    main()

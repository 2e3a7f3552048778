"""The outcome of a comparison in sentences, with the numbers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polychromic.core.intervals import mean_interval
from polychromic.core.metrics import pass_at_k

Gap = tuple[float, float, float]  # mean, low, high


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> tuple[Gap, Gap, Gap]:
    """`first` minus `second` (two `result`s on the same configurations), paired by configuration: mean, low, high.

    For success in one attempt, success in as many attempts as both have, and distinct strategies.
    """
    most = min(first["attempts"], second["attempts"])
    ks = np.array([1, most])
    curves = [pass_at_k(each["attempts"], each["configurations"]["successes"], ks) for each in (first, second)]
    distinct = [np.array(each["configurations"]["distinct_strategies"]) for each in (first, second)]
    gaps = (curves[0][:, 0] - curves[1][:, 0], curves[0][:, 1] - curves[1][:, 1], distinct[0] - distinct[1])
    single, many, kinds = (
        (float(mean), float(low), float(high)) for mean, low, high in (mean_interval(gap) for gap in gaps)
    )
    return single, many, kinds


def in_words(
    results: Mapping[str, Mapping[str, Any]], base: str, first: str, second: str, *, strategies: str = "strategies"
) -> list[str]:
    """Sentences about two methods and the policy that both started from.

    results: `result` by name; base, first, second: names of the three that are compared; strategies: the name of
    strategies.
    """
    lines = []
    for name, result in results.items():
        curve = result["pass_at_k"]["mean"]
        lines.append(
            f"{name}: solves {100 * result['success']['mean']:.1f} % of its attempts and "
            f"{100 * curve[-1]:.1f} % of the configurations within {len(curve)} attempts, "
            f"with {result['distinct_strategies']['mean']:.1f} distinct {strategies} a configuration."
        )
    lines.append(_coverage(results, base, (first, second)))
    for name in (first, second):
        _, _, gap = differences(results[name], results[base])
        lines.append(f"Distinct {strategies}: {_moved(name, base, gap)}.")
    most = min(results[name]["attempts"] for name in (first, second))
    names = ("One attempt", f"{most} attempts", f"Distinct {strategies}")
    for name, gap in zip(names, differences(results[second], results[first]), strict=True):
        scale, unit = (1.0, "") if name == names[-1] else (100.0, " points")
        mean, low, high = (scale * part for part in gap)
        verdict = f"{second if mean > 0 else first} is ahead" if _clear(gap) else "no clear difference"
        lines.append(f"{name}: {verdict} ({second} minus {first}: {mean:+.1f}{unit} [{low:+.1f}, {high:+.1f}]).")
    lines.append("Intervals are 95 %, over configurations; this is one seed of each method.")
    return lines


def _coverage(results: Mapping[str, Mapping[str, Any]], base: str, names: tuple[str, ...]) -> str:
    """What each method kept of what the base policy solved. Counts, not a claim: rare successes depend on chance."""
    solved = {name: np.array(results[name]["configurations"]["successes"]) > 0 for name in (base, *names)}
    before = int(solved[base].sum())
    kept = [
        f"{name} kept {int((solved[name] & solved[base]).sum())} and added {int((solved[name] & ~solved[base]).sum())}"
        for name in names
    ]
    return f"Coverage: of the {before} configurations that {base} solved at least once, {'; '.join(kept)}."


def _clear(gap: Gap) -> bool:
    _, low, high = gap
    return low > 0 or high < 0


def _moved(name: str, base: str, gap: Gap) -> str:
    mean, low, high = gap
    if not _clear(gap):
        return f"no clear change from {base} to {name} ({mean:+.1f} [{low:+.1f}, {high:+.1f}])"
    near, far = sorted((abs(low), abs(high)))
    return f"{name} {'lost' if mean < 0 else 'gained'} {abs(mean):.1f} [{near:.1f}, {far:.1f}] beside {base}"

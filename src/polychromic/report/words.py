"""What a comparison shows, in plain words, with the figures it was read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polychromic.core.metrics import pass_at_k
from polychromic.evaluate.scores import mean_interval

MEASURES = ("one attempt", "{k} attempts", "distinct room sets")


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[float, float, float]]:
    """`one` minus `other` (two `result`s on the same configurations), paired by configuration: mean, low, high."""
    most = min(one["attempts"], other["attempts"])
    ks = np.array([1, most])
    curves = [pass_at_k(each["attempts"], each["configurations"]["successes"], ks) for each in (one, other)]
    distinct = [np.array(each["configurations"]["distinct_strategies"]) for each in (one, other)]
    gaps = (curves[0][:, 0] - curves[1][:, 0], curves[0][:, 1] - curves[1][:, 1], distinct[0] - distinct[1])
    names = (MEASURES[0], MEASURES[1].format(k=most), MEASURES[2])
    found = {}
    for name, gap in zip(names, gaps, strict=True):
        mean, low, high = mean_interval(gap)
        found[name] = (float(mean), float(low), float(high))
    return found


def in_words(results: Mapping[str, Mapping[str, Any]], base: str, first: str, second: str) -> list[str]:
    """Sentences about two methods and the policy that both began with.

    results: `result` by name; base, first, second: names of the three that are compared.
    """
    lines = []
    for name, result in results.items():
        curve = result["pass_at_k"]["mean"]
        lines.append(
            f"{name}: solves {100 * result['success']['mean']:.1f} % of its attempts and "
            f"{100 * curve[-1]:.1f} % of the configurations within {len(curve)} attempts, "
            f"with {result['distinct_strategies']['mean']:.1f} distinct room sets a configuration."
        )
    for name in (first, second):
        kept = differences(results[name], results[base])["distinct room sets"]
        lines.append(f"Fine-tuning with {name} {_moved(kept)} distinct room sets, compared with {base}.")
    for name, (mean, low, high) in differences(results[second], results[first]).items():
        scale, unit = (1.0, "") if name == MEASURES[2] else (100.0, " points")
        ahead = second if mean > 0 else first
        interval = f"{scale * mean:+.1f}{unit} [{scale * low:+.1f}, {scale * high:+.1f}]"
        if low > 0 or high < 0:
            lines.append(f"{name.capitalize()}: {ahead} is ahead ({second} minus {first}: {interval}).")
        else:
            lines.append(f"{name.capitalize()}: no clear difference ({second} minus {first}: {interval}).")
    lines.append("Intervals are 95 %, over configurations; this is one seed of each method.")
    return lines


def _moved(gap: tuple[float, float, float]) -> str:
    mean, low, high = gap
    if low <= 0 <= high:
        return f"changed little ({mean:+.1f} [{low:+.1f}, {high:+.1f}]) in the number of"
    near, far = sorted((abs(low), abs(high)))
    return f"{'lost' if mean < 0 else 'gained'} {abs(mean):.1f} [{near:.1f}, {far:.1f}]"

"""The results as a table and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAMES = {"fourrooms": "FourRooms", "goto": "GoTo", "bosslevel": "BossLevel"}


def rate(results: dict[str, Any], contender: str, task: str, worlds: int) -> float | None:
    """Counts per second of one case, None where it was not measured."""
    for entry in results["rates"]:
        if (entry["contender"], entry["task"], entry["worlds"]) == (contender, task, worlds):
            return float(entry["per_second"])
    return None


def table(results: dict[str, Any]) -> str:
    """Markdown: steps per second, ratios, forks and first calls."""
    lines = ["| steps per second | " + " | ".join(NAMES.values()) + " |", "|---|" + "---|" * len(NAMES)]
    rows = [
        ("polychromic", 136),
        ("polychromic", 1024),
        ("polychromic, codes", 136),
        ("polychromic, codes", 1024),
        ("minigrid", 1),
        ("EnvPool", 136),
        ("EnvPool", 1024),
        ("NAVIX", 136),
        ("XLand-MiniGrid", 136),
    ]
    for contender, worlds in rows:
        cells = [rate(results, contender, task, worlds) for task in NAMES]
        shown = ["–" if cell is None else f"{cell:,.0f}" for cell in cells]
        lines.append(f"| {contender}, {worlds} world{'s' * (worlds > 1)} | " + " | ".join(shown) + " |")
    for peer, own, other in (("minigrid", 136, 1), ("EnvPool", 136, 136), ("EnvPool", 1024, 1024)):
        ratios = [_ratio(results, task, own, peer, other) for task in NAMES]
        lines.append(f"| **× {peer}** at {own} worlds | " + " | ".join(f"**{r:,.0f}**" for r in ratios) + " |")
    lines += ["", "| copying a state | " + " | ".join(NAMES.values()) + " |", "|---|" + "---|" * len(NAMES)]
    for worlds in (136, 1024):
        cells = [1e9 / (rate(results, "polychromic, fork", task, worlds) or 1) for task in NAMES]
        lines.append(f"| polychromic, {worlds} rows, ns a row | " + " | ".join(f"{cell:.0f}" for cell in cells) + " |")
    copies = [1e9 / (rate(results, "minigrid, fork", task, 1) or 1) for task in NAMES]
    lines.append("| deepcopy of minigrid, ns | " + " | ".join(f"{cell:,.0f}" for cell in copies) + " |")
    cheaper = [
        copy * (rate(results, "polychromic, fork", task, 136) or 0) / 1e9
        for copy, task in zip(copies, NAMES, strict=True)
    ]
    lines.append("| **times cheaper** at 136 | " + " | ".join(f"**{cell:,.0f}**" for cell in cheaper) + " |")
    first = results["first_call_seconds"]
    lines += ["", f"First call: {first['cold']:.1f} s cold, {first['cached']:.2f} s with numba's cache."]
    return "\n".join(lines)


def _ratio(results: dict[str, Any], task: str, worlds: int, peer: str, peer_worlds: int) -> float:
    own, other = rate(results, "polychromic", task, worlds), rate(results, peer, task, peer_worlds)
    return (own or 0.0) / (other or float("inf"))


def plot(results: dict[str, Any], path: Path) -> None:
    """Steps per second of every contender, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    bars = [
        ("polychromic", 1024),
        ("polychromic", 136),
        ("EnvPool", 136),
        ("XLand-MiniGrid", 136),
        ("NAVIX", 136),
        ("minigrid", 1),
    ]
    figure, axes = plt.subplots(1, len(NAMES), figsize=(10, 2.8), sharex=True, sharey=True, layout="constrained")
    for axis, (task, name) in zip(axes, NAMES.items(), strict=True):
        rates = [rate(results, contender, task, worlds) for contender, worlds in bars]
        labels = [f"{contender} ({worlds})" for contender, worlds in bars]
        colours = ["#5e35b1" if contender == "polychromic" else "#9e9e9e" for contender, _ in bars]
        axis.barh(labels, [value or 0 for value in rates], color=colours)
        for place, value in enumerate(rates):
            text = "not available" if value is None else f"{value:,.0f}"
            axis.annotate(
                text, (value or 1e3, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7
            )
        axis.set(title=name, xscale="log", xlim=(1e3, 1e8), xlabel="steps per second")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)

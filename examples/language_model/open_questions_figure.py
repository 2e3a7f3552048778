"""Draw what `open_questions.py` has found: the words that the model gives, by method.

python examples/language_model/open_questions_figure.py demo-llm/results.json demo-llm/answers.svg
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NAMES = {"before": "before training", "grpo": "stock GRPO", "polychromic": "polychromic"}
COLOURS = {"before": "#b8b8b8", "grpo": "#7f7f7f", "polychromic": "#d6336c"}
MOST_BARS = 16


def shares(run: dict[str, Any], question: str) -> tuple[float, int]:
    """Success and the number of different right answers."""
    given = run["answers"][question]
    right = sum(given["right"].values())
    return right / (right + len(given["wrong"])), len(given["right"])


def table(results: dict[str, Any]) -> str:
    """Means over seeds by question and method, and over questions."""
    questions, lines = results["settings"]["questions"], []
    methods = list(dict.fromkeys(run["method"] for run in results["runs"]))
    lines.append("| question | | success | different right answers |\n|---|---|---|---|")
    for question in [*questions, "mean"]:
        for method in methods:
            runs = [run for run in results["runs"] if run["method"] == method]
            asked = questions if question == "mean" else [question]
            pairs = [shares(run, one) for run in runs for one in asked]
            success, different = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
            lines.append(f"| {question} | {NAMES[method]} | {success:.2f} | {different:.1f} |")
    return "\n".join(lines)


def main(results: Annotated[Path, tyro.conf.Positional], out: Annotated[Path, tyro.conf.Positional]) -> None:
    """A column for each question, a row for each method, a bar for each word; the table goes to the terminal."""
    stored = json.loads(results.read_text())
    questions, attempts = stored["settings"]["questions"], stored["settings"]["eval_completions"]
    methods = [method for method in NAMES if any(run["method"] == method for run in stored["runs"])]
    plt.rcParams["svg.hashsalt"] = "polychromic"  # the same file every time
    plt.rcParams["svg.fonttype"] = "none"
    figure, axes = plt.subplots(
        len(methods),
        len(questions),
        figsize=(4 * len(questions), 3.1 * len(methods)),
        squeeze=False,
        layout="constrained",
    )
    for row, method in zip(axes, methods, strict=True):
        runs = [run for run in stored["runs"] if run["method"] == method]
        for axis, question in zip(row, questions, strict=True):
            words: Counter[str] = Counter()
            for run in runs:
                words.update(run["answers"][question]["right"])
            pairs = [shares(run, question) for run in runs]
            success, different = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
            shown = words.most_common(MOST_BARS)
            left = len(words) - len(shown)
            height = [100 * count / (attempts * len(runs)) for _, count in shown]
            axis.barh(range(len(shown)), height, color=COLOURS[method])
            axis.set_yticks(range(len(shown)), [word for word, _ in shown], fontsize=8)
            axis.set_ylim(MOST_BARS - 0.4, -0.6)
            axis.set_xlim(0, 100)
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(axis="y", length=0)
            axis.set_title(
                f"{NAMES[method]}: {success:.0%} right, {different:.3g} different",
                fontsize=10,
                color="black",
                loc="left",
            )
            if left:
                axis.text(99, MOST_BARS - 1, f"and {left} more", ha="right", va="center", fontsize=8, color="#555555")
            if row is axes[0]:
                article = "an" if question[0] in "aeiou" else "a"
                axis.annotate(
                    f"“Name {article} {question}.”",
                    (0.5, 1.16),
                    xycoords="axes fraction",
                    ha="center",
                    fontsize=12,
                    weight="bold",
                )
            if row is axes[-1]:
                axis.set_xlabel("% of answers")
    figure.savefig(out, metadata={"Date": None})
    figure.savefig(out.with_suffix(".png"), dpi=110)
    print(table(stored))


if __name__ == "__main__":
    tyro.cli(main)

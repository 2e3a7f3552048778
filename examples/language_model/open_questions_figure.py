"""Draw what `open_questions.py` has found: the words that the model gives, by method.

python examples/language_model/open_questions_figure.py demo-llm/results.json demo-llm/answers.svg
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import matplotlib
import numpy as np
import tyro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

NAMES = {"before": "before training", "grpo": "stock GRPO", "polychromic": "polychromic"}
COLOURS = {"before": "#b8b8b8", "grpo": "#7f7f7f", "polychromic": "#d6336c"}
MOST_BARS = 16


Given = dict[str, dict[str, Any]]  # answers by question


def shares(given: Given, question: str) -> tuple[float, int]:
    """Success and the number of different right answers."""
    right = sum(given[question]["right"].values())
    return right / (right + len(given[question]["wrong"])), len(given[question]["right"])


def means(runs: Sequence[Given], questions: Sequence[str]) -> tuple[float, float]:
    """Success and different right answers, means over runs and questions."""
    pairs = [shares(given, question) for given in runs for question in questions]
    success, different = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
    return success, different


def table(results: dict[str, Any]) -> str:
    """Means over seeds by question and method, and over questions; last what other temperatures make of them."""
    questions = results["settings"]["questions"]
    by_method = {method: [run for run in results["runs"] if run["method"] == method] for method in NAMES}
    lines = ["| question | | success | different right answers |\n|---|---|---|---|"]
    for question in [*questions, "mean"]:
        asked = questions if question == "mean" else [question]
        for method, runs in by_method.items():
            if runs:
                success, different = means([run["answers"] for run in runs], asked)
                lines.append(f"| {question} | {NAMES[method]} | {success:.2f} | {different:.1f} |")
    for method, runs in by_method.items():
        for temperature in runs[0]["temperatures"] if runs else ():
            success, different = means([run["temperatures"][temperature] for run in runs], questions)
            lines.append(f"| mean | {NAMES[method]}, temperature {temperature} | {success:.2f} | {different:.1f} |")
    return "\n".join(lines)


def equal_success(results: dict[str, Any]) -> str | None:
    """The highest temperature below 1 at which polychromic training is right as often as stock GRPO at 1; if any is."""
    questions = results["settings"]["questions"]
    stock = [run["answers"] for run in results["runs"] if run["method"] == "grpo"]
    sets = [run["temperatures"] for run in results["runs"] if run["method"] == "polychromic"]
    if not stock or not sets:
        return None
    goal, _ = means(stock, questions)
    cooler = [other for other in sets[0] if float(other) < 1]
    reached = [other for other in cooler if means([run[other] for run in sets], questions)[0] >= goal]
    return max(reached, key=float, default=None)


def rows(results: dict[str, Any]) -> list[tuple[str, str, Given]]:
    """Name, method and answers of each row of the picture, all of the first seed."""
    first = {run["method"]: run for run in reversed(results["runs"])}
    found = [(NAMES[method], method, first[method]["answers"]) for method in NAMES if method in first]
    if (temperature := equal_success(results)) is not None:
        cooler = first["polychromic"]["temperatures"][temperature]
        found.append(("polychromic, cooler", "polychromic", cooler))
    return found


def main(results: Annotated[Path, tyro.conf.Positional], out: Annotated[Path, tyro.conf.Positional]) -> None:
    """A column for each question, a row for each method, a bar for each word of the first seed; prints the table.

    If polychromic training has stock GRPO's success at a lower temperature, that is the last row.
    """
    stored = json.loads(results.read_text())
    questions, attempts = stored["settings"]["questions"], stored["settings"]["eval_completions"]
    drawn, temperature = rows(stored), equal_success(stored)
    note = "" if temperature is None else f"; cooler: temperature {temperature}"
    seed = next(run["seed"] for run in stored["runs"] if run["method"] == drawn[-1][1])
    plt.rcParams["svg.hashsalt"] = "polychromic"  # the same file every time
    plt.rcParams["svg.fonttype"] = "none"
    figure = plt.figure(figsize=(4 * len(questions), 2.7 * len(drawn) + 0.4), layout="constrained")
    columns = np.atleast_1d(figure.subfigures(1, len(questions)))
    for column, question in zip(columns, questions, strict=True):
        article = "an" if question[0] in "aeiou" else "a"
        column.suptitle(f"“Name {article} {question}:”", fontsize=13, weight="bold")
        for axis, row in zip(column.subplots(len(drawn), 1, squeeze=False)[:, 0], drawn, strict=True):
            _bars(axis, *row, question, attempts)
        axis.set_xlabel(f"% of {attempts} answers, seed {seed}" + note)
    figure.savefig(out, metadata={"Date": None})
    figure.savefig(out.with_suffix(".png"), dpi=110)
    print(table(stored))


def _bars(axis: Any, name: str, method: str, given: Given, question: str, attempts: int) -> None:
    words = Counter(given[question]["right"]).most_common()
    shown, left = words[:MOST_BARS], len(words[MOST_BARS:])
    axis.barh(range(len(shown)), [100 * count / attempts for _, count in shown], color=COLOURS[method])
    axis.set_yticks(range(len(shown)), [word for word, _ in shown], fontsize=8)
    axis.set(ylim=(MOST_BARS - 0.4, -0.6), xlim=(0, 100))
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    success, different = shares(given, question)
    axis.set_title(
        f"{name}: {success:.0%} right, {different} different word{'s' * (different > 1)}", fontsize=10, loc="left"
    )
    if left:
        axis.text(99, MOST_BARS - 1, f"and {left} more", ha="right", va="center", fontsize=8, color="#555555")


if __name__ == "__main__":
    tyro.cli(main)

"""Does fine-tuning with sets keep a policy creative? Triangle discovery, several methods, several seeds, one command.

    python -m benchmarks.triangle_study [--seeds 3] [--iterations 100] [--only sets-64 ppo]

Every run is kept in runs/triangle-study and goes on where it was; results and figure are written after every run, to
docs/figures/triangle.json and triangle.svg, and the table between its marks in docs/triangle.md. Runs that are in the
results are not repeated. Two processes may share the work.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import polychromic as poly
from polychromic.files import lock_file, write_text
from polychromic.finetuning.attempts import attempt_all
from polychromic.finetuning.config import Config, make_config
from polychromic.policies.inference import Evaluator
from polychromic.policies.tensors import parameters_hash
from polychromic.tasks.triangle.discoveries import at_k, discoveries

ROOT = Path(__file__).parent.parent
RESULTS, FIGURE = ROOT / "docs/figures/triangle.json", ROOT / "docs/figures/triangle.svg"
PAGE, MARKS = ROOT / "docs/triangle.md", ("<!-- study -->", "<!-- end of study -->")

ATTEMPTS = 1000
BASE_TEMPERATURES = (
    1.0,
    0.8,
    0.6,
    0.5,
    0.4,
    0.3,
    0.2,
    0.15,
    0.12,
    0.1,
    0.07,
)  # new ones at the end: each has its draws
TEMPERATURES = (1.0, 0.9, 0.8, 1.25, 1.5, 2.0, 0.6, 0.4, 0.2)
MATCHED_VALIDITY = 0.85
# Larger minibatches than the paper's 64 and larger learning rates than its 1e-5 and 1e-4: a hundred iterations suffice.
COMMON = {
    "configurations_per_iteration": 3,
    "minibatch_size": 288,  # steps, that is 32 sequences
    "actor_learning_rate": 1e-4,
    "critic_learning_rate": 1e-3,
    "evaluate_every": 0,
    "evaluation_rollouts": 64,
    "checkpoint_every": 10,
}
ONE_GROUP = {"rollouts_per_state": 0, "forks_per_rollout": 0, "num_sets": 0, "window": -1}
# In the order in which they are run, every seed of one before the next.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("ppo", {}),
    "sets-64": ("poly-ppo", {**ONE_GROUP, "set_size": 64}),
    "poly-ppo": ("poly-ppo", {}),
    "reinforce": ("reinforce", {}),
    "sets-16": ("poly-ppo", {**ONE_GROUP, "set_size": 16}),
    "ppo-entropy": ("ppo", {"entropy_coefficient": 0.02}),
    "sets-32": ("poly-ppo", {**ONE_GROUP, "set_size": 32}),
    "sets-4": ("poly-ppo", {**ONE_GROUP, "set_size": 4}),
    "sets-128": ("poly-ppo", {**ONE_GROUP, "set_size": 128}),
    "ppo-ucb": ("ppo-ucb", {}),
    "reinforce-ucb": ("reinforce-ucb", {}),
    "poly-ppo-ucb": ("poly-ppo-ucb", {}),
}
NAMES = {
    "base": "pretrained",
    "reinforce": "REINFORCE",
    "reinforce-ucb": "REINFORCE with UCB",
    "ppo": "PPO",
    "ppo-ucb": "PPO with UCB",
    "ppo-entropy": "PPO with an entropy bonus of 0.02",
    "poly-ppo": "Poly-PPO, vines (N = 8, n = 4, W = 0)",
    "poly-ppo-ucb": "Poly-PPO, vines, with UCB",
    "sets-4": "Poly-PPO, one group of 136, n = 4",
    "sets-16": "Poly-PPO, one group of 136, n = 16",
    "sets-32": "Poly-PPO, one group of 136, n = 32",
    "sets-64": "Poly-PPO, one group of 136, n = 64",
    "sets-128": "Poly-PPO, one group of 136, n = 128",
}


def config_of(name: str, seed: int, iterations: int) -> Config:
    """The settings of one run."""
    method, changes = RUNS[name]
    return make_config(method, "triangle", **{**COMMON, "iterations": iterations, "seed": seed, **changes})


def score(
    world: Any, saved: Any, temperatures: Sequence[float], seed: int, before: Sequence[dict[str, float]] = ()
) -> list[dict[str, float]]:
    """Strict figures of a policy, a dict per temperature: means over graphs. What was scored before is kept."""
    evaluator = Evaluator(saved.policy, saved.params)
    scored = {point["temperature"]: point for point in before}
    points = []
    for number, temperature in enumerate(temperatures):
        if temperature in scored:
            points.append(scored[temperature])
            continue
        rng = np.random.default_rng([seed, 5, number])
        attempts = attempt_all(evaluator, world, rng, attempts=ATTEMPTS, temperature=temperature)
        found = discoveries(attempts, world.seeds)
        points.append(
            {
                "temperature": temperature,
                "validity": float(np.mean(found["strict"]["validity"])),
                "distinct_of_100": round(at_k(found, "diff_at_k", 100), 2),
                "distinct_of_1000": round(at_k(found, "diff_at_k", ATTEMPTS), 2),
                "creative_of_100": round(at_k(found, "creative_at_k", 100), 3),
                "creative_of_1000": round(at_k(found, "creative_at_k", ATTEMPTS), 2),
                "creativity_pass_at_100": round(at_k(found, "creativity_pass_at_k", 100), 4),
            }
        )
    return points


def at_temperature(points: Sequence[Mapping[str, float]], temperature: float) -> Mapping[str, float]:
    """The figures at one temperature."""
    return next(point for point in points if point["temperature"] == temperature)


def at_validity(points: Sequence[Mapping[str, float]], validity: float, name: str) -> float | None:
    """A figure where temperature would make the validity this, between the nearest two points; None outside them."""
    ordered = sorted(points, key=lambda point: point["validity"])
    found = [point["validity"] for point in ordered]
    if not found[0] <= validity <= found[-1]:
        return None
    return float(np.interp(validity, found, [point[name] for point in ordered]))


def means(runs: Sequence[Mapping[str, Any]], temperature: float = 1.0) -> dict[str, Any]:
    """Over the seeds of one method: mean, lowest and highest of each figure at a temperature, and matched figures."""
    ones = [at_temperature(run["points"], temperature) for run in runs]
    found: dict[str, Any] = {
        name: [float(pick([one[name] for one in ones])) for pick in (np.mean, np.min, np.max)] for name in ones[0]
    }
    matched = [at_validity(run["points"], MATCHED_VALIDITY, "distinct_of_1000") for run in runs]
    reached = [value for value in matched if value is not None]
    found["matched"] = float(np.mean(reached)) if len(reached) == len(matched) else None
    return found


def table(results: Mapping[str, Any]) -> str:
    """The table of the documentation."""
    lines = [
        "| policy | runs | validity | distinct of 100 | distinct of 1,000 | creative of 100 | creative of 1,000 "
        f"| distinct of 1,000 at validity {MATCHED_VALIDITY} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [(name, label, 1.0) for name, label in NAMES.items()]
    base = next((run["points"] for run in results["runs"] if run["name"] == "base"), None)
    if base:
        best = max(base, key=lambda point: point["distinct_of_1000"])["temperature"]
        rows.insert(1, ("base", f"pretrained, at the temperature with the most distinct ones, {best:g}", best))
    for name, label, temperature in rows:
        runs = [run for run in results["runs"] if run["name"] == name]
        if not runs:
            continue
        found = means(runs, temperature)

        def shown(figure: str, digits: int, found: dict[str, Any] = found, many: bool = len(runs) > 1) -> str:
            mean, low, high = (f"{value:.{digits}f}" for value in found[figure])
            return f"{mean} ({low}–{high})" if many else mean

        matched = "–" if found["matched"] is None else f"{found['matched']:.0f}"
        lines.append(
            f"| {label} | {len(runs)} | {shown('validity', 3)} | {shown('distinct_of_100', 1)} "
            f"| {shown('distinct_of_1000', 0)} | {shown('creative_of_100', 2)} | {shown('creative_of_1000', 1)} "
            f"| {matched} |"
        )
    return "\n".join(lines)


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Validity against diversity, each method along its temperatures."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "polychromic"
    figure, axes = plt.subplots(figsize=(10, 5))
    for number, (name, label) in enumerate(NAMES.items()):
        runs = [run for run in results["runs"] if run["name"] == name]
        if not runs:
            continue
        colour = plt.get_cmap("tab20")(number)
        tried = [{point["temperature"] for point in run["points"]} for run in runs]
        temperatures = sorted(set.intersection(*tried))
        curve = sorted(
            tuple(
                np.mean([at_temperature(run["points"], temperature)[axis] for run in runs])
                for axis in ("validity", "distinct_of_1000")
            )
            for temperature in temperatures
        )
        axes.plot(*zip(*curve, strict=True), "-", color=colour, linewidth=1, alpha=0.6)
        ones = [at_temperature(run["points"], 1.0) for run in runs]
        axes.plot(
            [one["validity"] for one in ones],
            [one["distinct_of_1000"] for one in ones],
            "s" if name == "base" else "o",
            color=colour,
            label=label,
        )
    axes.axvline(MATCHED_VALIDITY, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="validity", ylabel="distinct triangles of 1,000 attempts", xlim=(0, 1.02), ylim=(0, None))
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    axes.set_title("Marks: each run at temperature 1. Lines: other temperatures, mean of the runs.", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def known(about: Mapping[str, Any]) -> dict[str, Any]:
    """The results so far; those of another policy or other settings are never overwritten."""
    if not RESULTS.exists():
        return {**about, "runs": []}
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name, value in about.items():
        if found.get(name) != value:
            raise SystemExit(f"{RESULTS} has {name} = {found.get(name)}, this run has {value}; move the file away")
    return found


def add(about: Mapping[str, Any], run: Mapping[str, Any], folder: Path) -> None:
    """Add a run to the results, one process at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with lock_file(folder / ".lock", wait=True):
        results = known(about)
        others = [one for one in results["runs"] if (one["name"], one["seed"]) != (run["name"], run["seed"])]
        order = {name: number for number, name in enumerate(NAMES)}
        write({**results, "runs": sorted([*others, run], key=lambda one: (order[one["name"]], one["seed"]))})


def write(results: dict[str, Any]) -> None:
    """Results, figure, and the table in the documentation."""
    write_text(RESULTS, json.dumps(results, indent=1) + "\n")
    draw(results, FIGURE)
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
    write_text(PAGE, f"{before}{MARKS[0]}\n{table(results)}\n{MARKS[1]}{after}")


def main() -> None:
    """Everything that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--out", type=Path, default=Path("runs/triangle-study"))
    chosen = parser.parse_args()
    saved = poly.load_policy("triangle")
    world = poly.make("triangle", seeds=saved.info.configurations)
    about = {
        "policy": parameters_hash(saved.params),
        "iterations": chosen.iterations,
        "attempts": ATTEMPTS,
        "settings": COMMON,
    }
    wanted = [("base", 0), *((name, seed) for seed in range(chosen.seeds) for name in chosen.only)]
    for name, seed in wanted:
        temperatures = BASE_TEMPERATURES if name == "base" else TEMPERATURES
        rows = [run for run in known(about)["runs"] if (run["name"], run["seed"]) == (name, seed)]
        before = rows[0]["points"] if rows else []
        if len(before) == len(temperatures):
            continue
        policy = saved
        if name != "base":
            folder = chosen.out / f"{name}-{seed}-{chosen.iterations}"
            finished = folder / "policy.safetensors"
            if not finished.exists():
                poly.finetune(world, saved, config_of(name, seed, chosen.iterations), out=folder)
            policy = poly.load_policy(finished)
        points = score(world, policy, temperatures, seed, before)
        add(about, {"name": name, "seed": seed, "points": points}, chosen.out)
        print(f"{name}, seed {seed}: {points[0]}", flush=True)
    write(known(about))


if __name__ == "__main__":
    main()

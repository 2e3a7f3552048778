"""`polychromic pretrain triangle`: sequences from ten graphs, a Transformer that learns them, its scores on three."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import TextColumn

from polychromic.files import alone_in, write_json
from polychromic.finetuning.attempts import attempt_all
from polychromic.policies.files import PolicyInfo, save_policy
from polychromic.policies.inference import Evaluator
from polychromic.policies.networks import build_policy
from polychromic.pretrain.progress import progress_bar
from polychromic.pretrain.sequences import Corpus, SequenceCloning, learn_sequences
from polychromic.tasks.triangle import answers as triangle
from polychromic.tasks.triangle.discoveries import discoveries, in_words
from polychromic.tasks.triangle.graphs import graph_of

GRAPHS = tuple(range(triangle.NUM_GRAPHS))  # pretrained on
CONFIGURATIONS = (0, 1, 2)  # of these, fine-tuned and scored on
ATTEMPTS = 1000
PROMPT = len(triangle.prompt(0))
NETWORK = {
    "network": "transformer",
    "num_tokens": triangle.NUM_TOKENS,
    "context": PROMPT + triangle.ANSWER_LENGTH,
    "width": 128,
    "layers": 2,
    "heads": 4,
}


def corpora_of(graphs: Sequence[int] = GRAPHS) -> tuple[Corpus, Corpus]:
    """The samples of these graphs as sequences: triangles of 11 tokens and edges of 8."""
    parts: dict[str, list[Any]] = {kind: [] for kind in triangle.KINDS}
    for number in graphs:
        graph = graph_of(number)
        answers = {
            "tri:": triangle.triangle_answers(graph.triangle_samples),
            "edge:": triangle.edge_answers(graph.edge_samples),
        }
        for kind, of_kind in answers.items():
            prompts = np.tile(np.array(triangle.prompt(number, kind), np.int32), (len(of_kind), 1))
            parts[kind].append(np.concatenate([prompts, of_kind], axis=1))
    return Corpus(np.concatenate(parts["tri:"]), PROMPT), Corpus(np.concatenate(parts["edge:"]), PROMPT)


def make_triangle_policy(
    task: str,
    *,
    out: Path,
    command: str = "",
    network: Mapping[str, Any] | None = None,
    steps: int | None = None,
    learning_rate: float | None = None,
    seed: int | None = None,
) -> str:
    """Sequences, training, scores; writes OUT/TASK and returns a summary line.

    None takes the default of `SequenceCloning`. command: the command that repeats it, for the files.
    """
    given: dict[str, Any] = {"steps": steps, "learning_rate": learning_rate, "seed": seed}
    settings = SequenceCloning(**{name: value for name, value in given.items() if value is not None})
    started = time.process_time()
    folder = out / task
    policy = build_policy({**NETWORK, **(network or {})})
    with alone_in(folder):
        with progress_bar(TextColumn("{task.fields[loss]}")) as bar:
            line = bar.add_task(f"{task}: steps", total=settings.steps, loss="")

            def show(steps: int, loss: float) -> None:
                bar.update(line, completed=steps, loss=f"loss {loss:.3f}")

            params, losses = learn_sequences(
                policy, corpora_of(), settings, checkpoint=folder / "checkpoint.safetensors", on_call=show
            )
        world = triangle.triangle_world(CONFIGURATIONS)
        attempts = attempt_all(Evaluator(policy, params), world, np.random.default_rng(0), attempts=ATTEMPTS)
        metrics = discoveries(attempts, CONFIGURATIONS)
        report = {
            "command": command,
            "graphs": list(GRAPHS),
            "settings": dataclasses.asdict(settings),
            "loss": float(losses[-1]),
            "scores": {
                "success": float(np.mean(metrics["strict"]["validity"])),
                "validity": metrics["strict"]["validity"],
                "distinct_of_1000": metrics["strict"]["distinct"],
                "creative_of_1000": metrics["strict"]["creative"],
                "undiscovered": metrics["ceiling"]["undiscovered"],
                "attempts": ATTEMPTS,
                "temperature": 1.0,
            },
            "versions": {
                **{package: version(package) for package in ("polychromic", "jax", "numpy")},
                "python": platform.python_version(),
            },
        }
        info = PolicyInfo(task="triangle", vocabulary=triangle.VOCABULARY, configurations=CONFIGURATIONS, made=report)
        save_policy(folder / "policy.safetensors", policy, params, info)
        curve = {"losses": losses.tolist(), "cpu_seconds": time.process_time() - started}
        write_json(folder / "report.json", {**report, **curve})
        return f"{task}: {in_words(metrics)}; {folder}/policy.safetensors"

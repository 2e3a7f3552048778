"""What the polychromic reward costs of a GRPO step, beside stock GRPO on the same model in the same run.

    .venv-trl/bin/python -m benchmarks.trl_overhead --out benchmarks/results/trl_overhead.json

Two figures per group size. `reward`: the time inside `PolychromicReward`, less that of the user's own reward function,
as a share of a step. `step`: the median step of a polychromic run over that of a stock run, less 1; runs of both kinds
alternate. Time is that of the processor (one thread), which other programs disturb least. The model is the tiny Llama
of the example: no step is shorter, so no share is larger.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import tyro
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from polychromic.integrations.trl import PolychromicReward, check_grpo_trainer, polychromic_grpo_config

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "language_model"))
from tasks import chains
from tiny_llama import character_tokenizer, tiny_llama


class Timed:
    """Adds up the seconds spent in a function."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds, self.__name__ = function, 0.0, "timed"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - start


class TimedReward(PolychromicReward):
    """A polychromic reward that adds up the seconds spent in itself, its user's reward function left out."""

    seconds = 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before, start = self.reward_fn.seconds, time.process_time()
        try:
            return super().__call__(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - start - (self.reward_fn.seconds - before)


class Steps(TrainerCallback):
    """The seconds of every step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.start = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.process_time() - self.start)


def run(kind: str, group_size: int, batch_size: int, steps: int) -> tuple[list[float], float]:
    """Seconds of each step, and of the polychromic part of all of them."""
    task, tokenizer, clock = chains(), character_tokenizer(), Steps()
    reward_fn = Timed(
        lambda prompts, completions, **_: [
            float(task.is_right(*pair)) for pair in zip(prompts, completions, strict=True)
        ]
    )
    reward = TimedReward(reward_fn, key=task.answer)
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {
            "output_dir": folder,
            "max_steps": steps,
            "per_device_train_batch_size": batch_size,
            "num_generations": group_size,
            "max_completion_length": task.max_tokens,
            "scale_rewards": "none",
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "save_strategy": "no",
            "logging_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
        }
        trainer = GRPOTrainer(
            model=tiny_llama(tokenizer, 0),
            reward_funcs=reward.funcs if kind == "polychromic" else [reward_fn],
            args=polychromic_grpo_config(**settings) if kind == "polychromic" else GRPOConfig(**settings),
            train_dataset=Dataset.from_dict({"prompt": task.prompts * 100}),
            processing_class=tokenizer,
            callbacks=[clock],
        )
        if kind == "polychromic":
            check_grpo_trainer(trainer)
        trainer.train()
    return clock.seconds, reward.seconds


def main(out: Path, batch_size: int = 64, steps: int = 22, rounds: int = 6) -> None:
    """Measure groups of 8 and of 64, and write the figures to `out`."""
    torch.set_num_threads(1)
    results = []
    for group_size in (8, 64):
        step_seconds: dict[str, list[float]] = {"stock": [], "polychromic": []}
        inside, total = 0.0, 0.0
        for _ in range(rounds):
            for kind in step_seconds:
                seconds, reward_seconds = run(kind, group_size, batch_size, steps)
                step_seconds[kind] += seconds[2:]  # the first steps warm caches
                if kind == "polychromic":
                    inside, total = inside + reward_seconds, total + sum(seconds)
        medians = {kind: statistics.median(seconds) for kind, seconds in step_seconds.items()}
        results.append(
            {
                "group_size": group_size,
                "batch_size": batch_size,
                "reward": round(inside / total, 5),
                "step": round(medians["polychromic"] / medians["stock"] - 1, 4),
                "milliseconds": {kind: round(1000 * seconds, 2) for kind, seconds in medians.items()},
                "reward_milliseconds": round(1000 * inside / (steps * rounds), 3),
            }
        )
        print(results[-1], flush=True)
    out.write_text(json.dumps({"steps": steps, "rounds": rounds, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)

"""What the polychromic reward costs of a GRPO step, beside stock GRPO on the same model in the same run.

    .venv-trl/bin/python -m benchmarks.trl_overhead --out benchmarks/results/trl_overhead.json

One trainer takes stock and polychromic steps by turns, each pair in the other order than the one before. `step` is the
median of the differences within pairs, over the median stock step, with a 95 % bootstrap interval over pairs: all that
the adapter adds, TRL's own bookkeeping for it included. `reward` is the time inside `PolychromicReward`, minus that of
the user's own reward function, over the same. Time is processor time (one thread), which other programs disturb the
least. The model is the tiny Llama of the example: no step is shorter, so no share is larger.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOTrainer

from polychromic.integrations.trl import PolychromicReward, check_grpo_trainer, polychromic_grpo_config

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "language_model"))
from tasks import chains
from tiny_llama import character_tokenizer, tiny_llama


class Timed:
    """Adds up the seconds spent in a function."""

    def __init__(self, function: Any, name: str) -> None:
        self.function, self.seconds, self.__name__ = function, 0.0, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - start


class InTurn(TrainerCallback):
    """Gives the trainer the stock reward and the polychromic ones in turn, and times its steps."""

    def __init__(self, stock: Any, polychromic: list[Any]) -> None:
        self.kinds = {"stock": ([stock], [1.0]), "polychromic": (polychromic, [1.0, 0.0])}
        self.seconds: dict[str, list[float]] = {kind: [] for kind in self.kinds}
        self.trainer: Any = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self.kind = list(self.kinds)[state.global_step % 4 in (1, 2)]
        functions, weights = self.kinds[self.kind]
        self.trainer.reward_funcs = functions
        self.trainer.reward_func_names = [function.__name__ for function in functions]
        self.trainer.reward_processing_classes = [None] * len(functions)
        self.trainer.reward_weights = torch.tensor(weights)
        self.start = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds[self.kind].append(time.process_time() - self.start)


def measure(group_size: int, batch_size: int, pairs: int) -> dict[str, Any]:
    """`pairs` stock and `pairs` polychromic steps, in turn."""
    task, tokenizer = chains(), character_tokenizer()
    users = Timed(
        lambda prompts, completions, **_: [
            float(task.is_right(*pair)) for pair in zip(prompts, completions, strict=True)
        ],
        "is_right",
    )
    reward = PolychromicReward(users, key=task.answer)
    timed = Timed(reward, "polychromic")
    clock = InTurn(users.function, [timed, reward.raw])
    clock.kinds["stock"][0][0].__name__ = "is_right"
    with tempfile.TemporaryDirectory() as folder:
        clock.trainer = GRPOTrainer(
            model=tiny_llama(tokenizer, 0),
            reward_funcs=reward.funcs,
            args=polychromic_grpo_config(
                output_dir=folder,
                max_steps=2 * pairs,
                per_device_train_batch_size=batch_size,
                num_generations=group_size,
                max_completion_length=task.max_tokens,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                save_strategy="no",
                logging_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"prompt": task.prompts * 100}),
            processing_class=tokenizer,
            callbacks=[clock],
        )
        check_grpo_trainer(clock.trainer).train()
    # The first steps warm caches.
    stock, polychromic = (np.array(clock.seconds[kind][4:]) for kind in clock.kinds)
    low, high = interval(stock, polychromic)
    return {
        "group_size": group_size,
        "batch_size": batch_size,
        "step": round(share(stock, polychromic), 4),
        "step_interval": [round(low, 4), round(high, 4)],
        "reward": round((timed.seconds - users.seconds) / pairs / float(np.median(stock)), 4),
        "stock_step_milliseconds": round(1000 * float(np.median(stock)), 2),
        "added_milliseconds": round(1000 * float(np.median(polychromic - stock)), 2),
    }


def share(stock: Any, polychromic: Any) -> float:
    """The median difference within pairs, over the median stock step."""
    return float(np.median(polychromic - stock) / np.median(stock))


def interval(stock: Any, polychromic: Any, draws: int = 2000) -> tuple[float, float]:
    """The middle 95 % of `share` over pairs drawn with replacement."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(stock), size=(draws, len(stock)))
    low, high = np.quantile([share(stock[rows], polychromic[rows]) for rows in chosen], [0.025, 0.975])
    return float(low), float(high)


def main(out: Path, batch_size: int = 64, pairs: int = 400) -> None:
    """Measure groups of 8 and of 64, and write the metrics to `out`."""
    torch.set_num_threads(1)
    results = []
    for group_size in (8, 64):
        results.append(measure(group_size, batch_size, pairs))
        print(results[-1], flush=True)
    out.write_text(json.dumps({"pairs": pairs, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)

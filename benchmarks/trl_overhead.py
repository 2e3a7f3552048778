"""What the polychromic reward costs of a GRPO step, beside stock GRPO on the same model in the same run.

    .venv-trl/bin/python -m benchmarks.trl_overhead --out benchmarks/results/trl_overhead.json

One trainer takes stock and polychromic steps by turns, each pair in the other order than the one before. Of each step,
the whole is timed and the part from the end of generation to the advantages, in which everything happens that the
adapter adds: rewards, keys, sets, metrics, and TRL's own bookkeeping for them.

    scoring    the median difference of that part within pairs, over the median stock step
    step       the same of the whole step, in which generation and the update, equal in both, are noise

Both with a 95 % bootstrap interval over pairs. Time is processor time (one thread), which other programs disturb the
least. The model is the tiny Llama of the example, pretrained as there: no step is shorter, so no share is larger.
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

from polychromic.integrations.trl import PolychromicReward, check_trainer, polychromic_grpo_config

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "language_model"))
from tasks import chains
from tiny_llama import character_tokenizer, pretrain, tiny_llama


class InTurn(TrainerCallback):
    """Gives the trainer the stock reward and the polychromic ones in turn, and times its steps."""

    def __init__(self, stock: Any, polychromic: list[Any]) -> None:
        self.kinds = {"stock": ([stock], [1.0]), "polychromic": (polychromic, [1.0, 0.0])}
        self.seconds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in self.kinds}

    def watch(self, trainer: Any) -> None:
        """Note when the trainer has generated, and when it has advantages."""
        self.trainer = trainer
        generate, score = trainer._generate, trainer._generate_and_score_completions

        def generate_and_note(*args: Any, **kwargs: Any) -> Any:
            found = generate(*args, **kwargs)
            self.generated = time.process_time()
            return found

        def score_and_note(*args: Any, **kwargs: Any) -> Any:
            found = score(*args, **kwargs)
            self.scoring = time.process_time() - self.generated
            return found

        trainer._generate, trainer._generate_and_score_completions = generate_and_note, score_and_note

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        self.kind = list(self.kinds)[state.global_step % 4 in (1, 2)]
        functions, weights = self.kinds[self.kind]
        self.trainer.reward_funcs = functions
        self.trainer.reward_func_names = [function.__name__ for function in functions]
        self.trainer.reward_processing_classes = [None] * len(functions)
        self.trainer.reward_weights = torch.tensor(weights)
        self.start = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds[self.kind].append((time.process_time() - self.start, self.scoring))


def measure(group_size: int, batch_size: int, pairs: int) -> dict[str, Any]:
    """`pairs` stock and `pairs` polychromic steps, in turn."""
    task, tokenizer = chains(), character_tokenizer()
    model = tiny_llama(tokenizer, 0)
    pretrain(model, tokenizer, task.pretraining, steps=task.pretraining_steps)

    def is_right(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [float(task.is_right(*pair)) for pair in zip(prompts, completions, strict=True)]

    reward = PolychromicReward(is_right, key=task.answer)
    clock = InTurn(is_right, reward.funcs)
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
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
        clock.watch(check_trainer(trainer))
        trainer.train()
    # Pairs, step or scoring; the first pairs warm caches.
    stock, polychromic = (np.array(clock.seconds[kind][4:]) for kind in clock.kinds)
    found: dict[str, Any] = {"group_size": group_size, "batch_size": batch_size}
    for place, name in ((1, "scoring"), (0, "step")):
        added = polychromic[:, place] - stock[:, place]
        found[name] = round(share(added, stock[:, 0]), 4)
        found[f"{name}_interval"] = [round(bound, 4) for bound in interval(added, stock[:, 0])]
    found["stock_step_milliseconds"] = round(1000 * float(np.median(stock[:, 0])), 2)
    found["added_milliseconds"] = round(1000 * float(np.median(polychromic[:, 1] - stock[:, 1])), 2)
    return found


def share(added: Any, stock: Any) -> float:
    """The median of what was added, over the median stock step."""
    return float(np.median(added) / np.median(stock))


def interval(added: Any, stock: Any, draws: int = 2000) -> tuple[float, float]:
    """The middle 95 % of `share` over pairs drawn with replacement."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(stock), size=(draws, len(stock)))
    low, high = np.quantile([share(added[rows], stock[rows]) for rows in chosen], [0.025, 0.975])
    return float(low), float(high)


def main(out: Path, batch_size: int = 64, pairs: int = 200) -> None:
    """Measure groups of 8 and of 64, and write the metrics to `out`."""
    torch.set_num_threads(1)
    results = []
    for group_size in (8, 64):
        results.append(measure(group_size, batch_size, pairs))
        print(results[-1], flush=True)
    out.write_text(json.dumps({"pairs": pairs, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)

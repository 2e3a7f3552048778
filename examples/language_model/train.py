"""Stock GRPO against polychromic GRPO on two small tasks: who keeps several right answers?

    python examples/language_model/train.py --out results.json

Every run is the same but for the reward function: model, prompts, steps, learning rate, loss. Finished runs are kept
in the output file, so the command may be interrupted and given again.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import tyro
from datasets import Dataset
from tasks import TASKS, Task
from tiny_llama import character_tokenizer, pretrain, tiny_llama
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from polychromic.integrations.trl import PolychromicReward, check_trainer, polychromic_grpo_config


@dataclass(frozen=True)
class Settings:
    """What a run is made of.

    Attributes:
        num_generations: completions of a prompt, a group.
        batch_size: completions a step.
        set_size: completions of a set, for the polychromic runs.
        eval_every: steps between evaluations.
        eval_completions: sampled for every prompt in an evaluation.
    """

    num_generations: int = 16
    batch_size: int = 128
    set_size: int = 6
    eval_every: int = 50
    eval_completions: int = 64


def train(task_name: str, method: str, seed: int, settings: Settings) -> list[dict[str, float]]:
    """One run; its evaluations, first before training."""
    task = TASKS[task_name]()
    tokenizer = character_tokenizer()
    model = tiny_llama(tokenizer, seed)
    model.load_state_dict(pretrained(task_name, seed))

    def reward_fn(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [float(task.is_right(*pair)) for pair in zip(prompts, completions, strict=True)]

    with tempfile.TemporaryDirectory() as folder:
        arguments: dict[str, Any] = {
            "output_dir": folder,
            "max_steps": task.steps,
            "per_device_train_batch_size": settings.batch_size,
            "num_generations": settings.num_generations,
            "learning_rate": task.learning_rate,
            "lr_scheduler_type": "constant",
            "max_completion_length": task.max_tokens,
            "loss_type": "dr_grpo",
            "scale_rewards": "none",
            "beta": 0.0,
            "seed": seed,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "save_strategy": "no",
            "logging_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
        }
        if method == "polychromic":
            reward = PolychromicReward(reward_fn, key=task.answer, set_size=settings.set_size)
            functions, config = reward.funcs, polychromic_grpo_config(**arguments)
        else:
            functions, config = [reward_fn], GRPOConfig(**arguments)
        evaluation = Evaluation(task, tokenizer, settings)
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=functions,
            args=config,
            # More rows than an epoch needs: every step then has prompts of its own.
            train_dataset=Dataset.from_dict({"prompt": task.prompts * 100}),
            processing_class=tokenizer,
            callbacks=[evaluation],
        )
        if method == "polychromic":
            check_trainer(trainer)
        trainer.train()
    return evaluation.curve


@cache
def pretrained(task_name: str, seed: int) -> dict[str, torch.Tensor]:
    """The weights from which both methods start."""
    task, tokenizer = TASKS[task_name](), character_tokenizer()
    model = tiny_llama(tokenizer, seed)
    pretrain(model, tokenizer, task.pretraining, steps=task.pretraining_steps)
    return model.state_dict()


class Evaluation(TrainerCallback):
    """Samples completions of every prompt now and then; counts right and distinct right ones."""

    def __init__(self, task: Task, tokenizer: Any, settings: Settings) -> None:
        self.task, self.tokenizer, self.settings = task, tokenizer, settings
        self.curve: list[dict[str, float]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        self.curve.append({"step": 0, **self.measure(model)})

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        if state.global_step % self.settings.eval_every == 0:
            self.curve.append({"step": state.global_step, **self.measure(model)})

    def measure(self, model: Any) -> dict[str, float]:
        """Share of right completions, and distinct right answers to a prompt, both means over prompts."""
        count = self.settings.eval_completions
        prompts = [prompt for prompt in self.task.prompts for _ in range(count)]
        encoded = self.tokenizer(prompts, return_tensors="pt", padding=True)
        # Evaluation must not disturb the training's random numbers.
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            rows = model.generate(
                input_ids=encoded.input_ids,
                attention_mask=encoded.attention_mask,
                max_new_tokens=self.task.max_tokens,
                do_sample=True,
                top_k=0,
            )
        texts = self.tokenizer.batch_decode(rows[:, encoded.input_ids.shape[1] :], skip_special_tokens=True)
        right = [self.task.is_right(*pair) for pair in zip(prompts, texts, strict=True)]
        answers = {
            (prompt, self.task.answer(text)) for prompt, text, good in zip(prompts, texts, right, strict=True) if good
        }
        return {"success": sum(right) / len(right), "distinct_right": len(answers) / len(self.task.prompts)}


def main(
    out: Path,
    tasks: Sequence[str] = tuple(TASKS),
    methods: Sequence[str] = ("grpo", "polychromic"),
    seeds: Sequence[int] = (0, 1, 2),
    settings: Settings = Settings(),  # noqa: B008
) -> None:
    """Train every task with every method and seed, and write the evaluations to `out`."""
    torch.set_num_threads(1)
    results = json.loads(out.read_text()) if out.exists() else {"settings": vars(settings), "runs": []}
    if results["settings"] != vars(settings):
        raise SystemExit(f"{out} holds runs with other settings, {results['settings']}; give another --out")
    for task in tasks:
        for seed in seeds:
            for method in methods:
                name = {"task": task, "method": method, "seed": seed}
                if any(name.items() <= run.items() for run in results["runs"]):
                    continue
                start = time.monotonic()
                curve = train(task, method, seed, settings)
                seconds = round(time.monotonic() - start, 1)
                results["runs"].append({**name, "seconds": seconds, "curve": curve})
                out.write_text(json.dumps(results, indent=1) + "\n")
                print(f"{task} {method} seed {seed}: {curve[-1]} in {seconds} s", flush=True)


if __name__ == "__main__":
    tyro.cli(main)

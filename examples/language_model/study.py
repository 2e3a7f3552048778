"""The language study: which ways of training keep what a pretrained model could do?

    python examples/language_model/study.py --out results/language
    python examples/language_model/study_tables.py results/language

A tiny Llama learns three families of prompts from examples (`families.py`), and is then trained by TRL's unmodified
`GRPOTrainer` in the ways of `study_rows.py`. A cell is a family, a row and a seed; every cell is a file in the output
folder with its settings and what it cost. Cells that are there are kept, so the command may be interrupted and given
again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from datasets import Dataset
from families import FAMILIES, SPLITS, Family, pretraining_texts, splits
from safetensors.torch import load_file, save_file
from study_rows import ROWS, rewards_and_config
from tiny_llama import character_tokenizer, pretrain, tiny_llama
from transformers import TrainerCallback
from transformers.utils import logging
from trl import GRPOTrainer

from polychromic import distinct_at_k, pass_at_k
from polychromic.integrations.trl import PolychromicReward, check_grpo_trainer

# The rows that the claim is about come first, so that an interrupted study has them for every family.
MAIN_ROWS = ("pretrained", "stock", "polychromic-4")
TEMPERATURES = (0.4, 0.6, 0.8, 1.0, 1.25, 1.5)
LARGEST_BATCH = 4096


@dataclass(frozen=True)
class Settings:
    """What a cell is made of, beside its row.

    Attributes:
        width, layers: of the model.
        pretraining_texts, pretraining_steps: of next-token training on right answers, 128 texts a step.
        steps: of reinforcement learning.
        batch_size: completions a step, in every row.
        learning_rate: constant.
        train_prompts, test_prompts: in the split that is trained on, and in each of the two that are not.
        attempts: completions of a prompt in the last evaluation.
        curve_every, curve_attempts: steps between evaluations on the way, and completions of a prompt in them.
    """

    width: int = 80
    layers: int = 2
    pretraining_texts: int = 50_000
    pretraining_steps: int = 1_500
    steps: int = 200
    batch_size: int = 128
    learning_rate: float = 3e-4
    train_prompts: int = 400
    test_prompts: int = 64
    attempts: int = 64
    curve_every: int = 40
    curve_attempts: int = 32


QUICK = Settings(
    pretraining_texts=10_000,
    pretraining_steps=400,
    steps=40,
    test_prompts=16,
    attempts=32,
    curve_every=20,
    curve_attempts=8,
)


def ks(attempts: int) -> list[int]:
    """1, 2, 4, … up to the attempts made."""
    return [2**power for power in range(attempts.bit_length())]


@torch.no_grad()
def complete(model: Any, tokenizer: Any, prompts: Sequence[str], max_tokens: int, temperature: float) -> list[str]:
    """One completion of each prompt."""
    texts: list[str] = []
    for start in range(0, len(prompts), LARGEST_BATCH):
        encoded = tokenizer(list(prompts[start : start + LARGEST_BATCH]), return_tensors="pt", padding=True)
        rows = model.generate(
            input_ids=encoded.input_ids,
            attention_mask=encoded.attention_mask,
            max_new_tokens=max_tokens,
            do_sample=True,
            top_k=0,
            temperature=temperature,
        )
        texts += tokenizer.batch_decode(rows[:, encoded.input_ids.shape[1] :], skip_special_tokens=True)
    return texts


def evaluate(
    model: Any, tokenizer: Any, family: Family, prompts: Sequence[str], attempts: int, temperature: float = 1.0
) -> dict[str, Any]:
    """pass@k and distinct right answers of k attempts, means over prompts; and the successes of every prompt."""
    model.eval()
    with torch.random.fork_rng(devices=[]):  # Evaluation must not disturb the training's random numbers.
        torch.manual_seed(0)
        every = [prompt for prompt in prompts for _ in range(attempts)]
        texts = complete(model, tokenizer, every, family.max_tokens, temperature)
    answers = [family.answer(*pair) for pair in zip(every, texts, strict=True)]
    codes = {answer: code for code, answer in enumerate(dict.fromkeys(answers))}
    labels = np.array([codes[answer] for answer in answers]).reshape(-1, attempts)
    right = np.array([answer is not None for answer in answers]).reshape(-1, attempts)
    successes = right.sum(axis=1)
    numbers = ks(attempts)
    passed = pass_at_k(attempts, successes, numbers).mean(axis=0)
    distinct = distinct_at_k(labels, right, numbers).mean(axis=0)
    return {
        "pass_at_k": {str(k): round(float(value), 4) for k, value in zip(numbers, passed, strict=True)},
        "distinct_right": {str(k): round(float(value), 4) for k, value in zip(numbers, distinct, strict=True)},
        "successes": successes.tolist(),
    }


def pretrained_model(family: Family, seed: int, settings: Settings, folder: Path) -> tuple[Any, Any, dict[str, Any]]:
    """The model from which every row of a seed starts, its tokenizer, and the prompts; trained once, then kept."""
    prompts = splits(family, train=settings.train_prompts, test=settings.test_prompts)
    tokenizer = character_tokenizer(family.characters)
    model = tiny_llama(tokenizer, seed, width=settings.width, layers=settings.layers)
    size = f"{settings.width}x{settings.layers}-{settings.pretraining_texts}-{settings.pretraining_steps}"
    file = folder / f"{family.name}-{size}-{settings.test_prompts}-{seed}.safetensors"
    if file.exists():
        model.load_state_dict(load_file(file))
        return model, tokenizer, prompts
    start = time.process_time()
    held_out = {*prompts["held-out"], *prompts["harder"]}
    texts = pretraining_texts(family, held_out, count=settings.pretraining_texts, seed=seed)
    loss = pretrain(model, tokenizer, texts, steps=settings.pretraining_steps, seed=seed)
    _say(f"{family.name} seed {seed}: pretrained to a loss of {loss:.3f} in {time.process_time() - start:.0f} s of CPU")
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".part{time.time_ns()}")
    save_file(model.state_dict(), part)
    part.replace(file)
    return model, tokenizer, prompts


class Watch(TrainerCallback):
    """Evaluates held-out and harder prompts now and then; keeps the entropy, and the time that evaluation took."""

    def __init__(self, family: Family, tokenizer: Any, prompts: dict[str, Any], settings: Settings) -> None:
        self.family, self.tokenizer, self.prompts, self.settings = family, tokenizer, prompts, settings
        self.curve: list[dict[str, Any]] = []
        self.entropy: list[list[float]] = []
        self.evaluating = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        self.measure(0, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002
        if state.global_step % self.settings.curve_every == 0:
            self.measure(state.global_step, model)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
        if logs and "entropy" in logs and "train_runtime" not in logs:
            self.entropy.append([state.global_step, round(float(logs["entropy"]), 4)])

    def measure(self, step: int, model: Any) -> None:
        start = time.process_time()
        point: dict[str, Any] = {"step": step}
        for split in SPLITS[1:]:
            point[split] = evaluate(
                model, self.tokenizer, self.family, self.prompts[split], self.settings.curve_attempts
            )
            del point[split]["successes"]
        self.curve.append(point)
        model.train()
        self.evaluating += time.process_time() - start


def run_cell(family_name: str, row_name: str, seed: int, settings: Settings, cache: Path) -> dict[str, Any]:
    """Train and evaluate one cell."""
    family, row = FAMILIES[family_name], ROWS[row_name]
    model, tokenizer, prompts = pretrained_model(family, seed, settings, cache)
    start, cpu = time.monotonic(), time.process_time()
    watch = Watch(family, tokenizer, prompts, settings)
    if row.objective != "pretrained":
        with tempfile.TemporaryDirectory() as folder:
            arguments: dict[str, Any] = {
                "output_dir": folder,
                "max_steps": settings.steps,
                "per_device_train_batch_size": settings.batch_size,
                "num_generations": row.group_size,
                "learning_rate": settings.learning_rate,
                "lr_scheduler_type": "constant",
                "max_completion_length": family.max_tokens,
                "loss_type": "dr_grpo",
                "beta": row.beta,
                "seed": seed,
                "use_cpu": True,
                "bf16": False,
                "gradient_checkpointing": False,
                "save_strategy": "no",
                "logging_steps": 10,
                "report_to": [],
                "disable_tqdm": True,
            }
            functions, config = rewards_and_config(row, family.answer, model, tokenizer, arguments)
            trainer = GRPOTrainer(
                model=model,
                reward_funcs=functions,
                args=config,
                train_dataset=Dataset.from_dict({"prompt": prompts["train"]}),
                processing_class=tokenizer,
                callbacks=[watch],
            )
            trainer.remove_callback(_printer())
            if isinstance(functions[0], PolychromicReward):
                check_grpo_trainer(trainer)
            trainer.train()
    training = time.process_time() - cpu - watch.evaluating
    scores = {
        split: evaluate(model, tokenizer, family, prompts[split][: settings.test_prompts], settings.attempts)
        for split in SPLITS
    }
    result = {
        "family": family_name,
        "row": row_name,
        "seed": seed,
        "row_settings": asdict(row),
        "settings": asdict(settings),
        "scores": scores,
        "curve": watch.curve,
        "entropy": watch.entropy,
    }
    if row.objective == "pretrained":
        result["temperatures"] = {
            str(temperature): {
                split: evaluate(
                    model, tokenizer, family, prompts[split][: settings.test_prompts], settings.attempts, temperature
                )
                for split in SPLITS
            }
            for temperature in TEMPERATURES
        }
    return result | {
        "training_cpu_seconds": round(training, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "seconds": round(time.monotonic() - start, 1),
    }


def _printer() -> type[TrainerCallback]:
    from transformers.trainer_callback import PrinterCallback

    return PrinterCallback


def _say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def cells(families: Sequence[str], rows: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, str, int]]:
    """In order of importance."""
    main = [row for row in rows if row in MAIN_ROWS]
    rest = [row for row in rows if row not in MAIN_ROWS]
    first = [(family, row, seed) for family in families for seed in seeds for row in main]
    return first + [(family, row, seed) for row in rest for family in families for seed in seeds]


def main(
    out: Path = Path("results/language"),
    families: Sequence[str] = tuple(FAMILIES),
    rows: Sequence[str] = tuple(ROWS),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    quick: bool = False,
    cache: Path = Path("runs/language-study"),
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings(),  # noqa: B008
) -> None:
    """Run the cells that are missing in `out`.

    Args:
        out: where the results go, a file a cell.
        families: of `families.py`.
        rows: of `study_rows.py`.
        seeds: of the weights, the pretraining and the training.
        quick: the main rows on one seed with a tenth of the work, to see it run.
        cache: where pretrained models are kept.
        settings: of every cell.
    """
    for name, given, known in (("families", families, FAMILIES), ("rows", rows, ROWS)):
        for value in given:
            if value not in known:
                raise SystemExit(f"--{name} has {value!r}; it must be one of {', '.join(known)}")
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    if quick:
        rows, seeds, settings = MAIN_ROWS, seeds[:1], QUICK
    out.mkdir(parents=True, exist_ok=True)
    wanted = cells(families, rows, seeds)
    commit = _commit()
    for number, (family, row, seed) in enumerate(wanted, 1):
        name = f"{number} of {len(wanted)}: {family} {row} seed {seed}"
        file = out / f"{family}-{row}-{seed}.json"
        if file.exists():
            stored = json.loads(file.read_text())
            if (stored["settings"], stored["row_settings"]) != (asdict(settings), asdict(ROWS[row])):
                raise SystemExit(f"{file} is a cell with other settings; give another --out, or remove it")
            continue
        result = run_cell(family, row, seed, settings, cache)
        result["command"] = " ".join(["python", "examples/language_model/study.py", *sys.argv[1:]])
        result["commit"] = commit
        result["packages"] = {package: version(package) for package in ("torch", "transformers", "trl", "polychromic")}
        part = file.with_suffix(".part")
        part.write_text(json.dumps(result) + "\n")
        part.replace(file)
        held_out = result["scores"]["held-out"]
        last = str(settings.attempts)
        _say(
            f"{name}: held-out pass@1 {held_out['pass_at_k']['1']:.3f}, pass@{last} {held_out['pass_at_k'][last]:.3f}, "
            f"{held_out['distinct_right'][last]:.1f} distinct right; harder pass@{last} "
            f"{result['scores']['harder']['pass_at_k'][last]:.3f} ({result['cpu_seconds']:.0f} s of CPU)"
        )


def _commit() -> str:
    try:
        shown = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
        )
    except OSError:
        return "unknown"
    return shown.stdout.strip() or "unknown"


if __name__ == "__main__":
    tyro.cli(main)

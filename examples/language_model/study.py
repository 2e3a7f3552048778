"""The language study: which ways of training keep what a pretrained model could do?

    python examples/language_model/study.py --out results/language
    python -m examples.language_model.study_tables results/language

A tiny Llama learns three families of prompts from examples (`families.py`), and is then trained by TRL's unmodified
`GRPOTrainer` in the ways of `study_rows.py`. First the learning rate is chosen, with a seed and prompts that nothing
else uses: the same rates are tried for stock GRPO and for polychromic sets of 4, constant and annealed, and the other
rows take over the rate of the one they vary. A cell is a family, a row and a seed; every cell is a file in the output
folder with its settings and what it cost. Cells that are there are kept, so the command may be interrupted and given
again.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from datasets import Dataset
from families import FAMILIES, SPLITS, VALIDATION, Family, pretraining_texts, splits
from records import commit, say, store
from safetensors.torch import load_file, save_file
from study_plan import MAIN_ROWS, OTHER_SEEDS, SEEDS, TEMPERATURES, planned_seeds
from study_rows import ROWS, rewards_and_config
from tiny_llama import character_tokenizer, pretrain, tiny_llama
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging
from trl import GRPOTrainer

from polychromic import distinct_at_k, pass_at_k
from polychromic.integrations.trl import PolychromicReward, check_trainer

LARGEST_BATCH = 4096
RATE_NOISE = 0.01  # differences in pass@1 of a single run that say nothing


@dataclass(frozen=True)
class Settings:
    """What a cell is made of, beside its row.

    Attributes:
        width, layers: of the model.
        pretraining_texts, pretraining_steps: of next-token training on right answers, 128 texts a step.
        steps: of reinforcement learning.
        batch_size: completions a step, in every row.
        learning_rates: to choose from (`chosen_rate`); they fall linearly to 0, TRL's default.
        search_seed: of the runs to choose from.
        train_prompts, test_prompts: in the split that is trained on, and in each of the two that are not.
        attempts: completions of a prompt in the last evaluation.
        curve_every, curve_attempts: steps between evaluations on the way, and completions of a prompt in them.
    """

    width: int = 80
    layers: int = 2
    pretraining_texts: int = 100_000
    pretraining_steps: int = 4_000
    steps: int = 600
    batch_size: int = 128
    learning_rates: tuple[float, ...] = (1e-4, 2e-4, 4e-4)
    search_seed: int = 100
    train_prompts: int = 1_000
    test_prompts: int = 64
    attempts: int = 64
    curve_every: int = 100
    curve_attempts: int = 32


QUICK = Settings(
    pretraining_texts=10_000,
    pretraining_steps=400,
    steps=40,
    learning_rates=(2e-4,),
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
    file = folder / f"{family.name}-{size}-{settings.train_prompts}-{settings.test_prompts}-{seed}.safetensors"
    if file.exists():
        model.load_state_dict(load_file(file))
        return model, tokenizer, prompts
    start = time.process_time()
    held_out = {prompt for split, own in prompts.items() if split != "train" for prompt in own}
    texts = pretraining_texts(family, held_out, count=settings.pretraining_texts, seed=seed)
    loss = pretrain(model, tokenizer, texts, steps=settings.pretraining_steps, seed=seed)
    say(f"{family.name} seed {seed}: pretrained to a loss of {loss:.3f} in {time.process_time() - start:.0f} s of CPU")
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


@dataclass(frozen=True)
class Cell:
    """A run: a row of a family with a seed, or, with a learning rate, one of those to choose from."""

    family: str
    row: str
    seed: int
    rate: float | None = None

    @property
    def file(self) -> str:
        """Where its result is, in the output folder."""
        if self.rate is None:
            return f"{self.family}-{self.row}-{self.seed}.json"
        return f"search/{self.family}-{self.row}-{self.rate:g}.json"


def run_cell(cell: Cell, rate: float, settings: Settings, cache: Path) -> dict[str, Any]:
    """Train and evaluate one cell."""
    family, row, searching = FAMILIES[cell.family], ROWS[cell.row], cell.rate is not None
    model, tokenizer, prompts = pretrained_model(family, cell.seed, settings, cache)
    start, cpu = time.monotonic(), time.process_time()
    watch = Watch(family, tokenizer, prompts, settings)
    if row.objective != "pretrained":
        with tempfile.TemporaryDirectory() as folder:
            arguments: dict[str, Any] = {
                "output_dir": folder,
                "max_steps": settings.steps,
                "per_device_train_batch_size": settings.batch_size,
                "num_generations": row.group_size,
                "learning_rate": rate,
                "max_completion_length": family.max_tokens,
                "loss_type": "dr_grpo",
                "beta": row.beta,
                "seed": cell.seed,
                "use_cpu": True,
                "bf16": False,
                "gradient_checkpointing": False,
                "save_strategy": "no",
                "logging_steps": 10,
                "report_to": [],
                "disable_tqdm": True,
            }
            if row.beta:  # the trainer loads what the KL penalty refers to from where the model came from
                model.config._name_or_path = str(Path(folder, "pretrained"))
                model.save_pretrained(model.config._name_or_path)
            functions, config = rewards_and_config(row, family.answer, model, tokenizer, arguments)
            trainer = GRPOTrainer(
                model=model,
                reward_funcs=functions,
                args=config,
                train_dataset=Dataset.from_dict({"prompt": prompts["train"]}),
                processing_class=tokenizer,
                callbacks=[] if searching else [watch],
            )
            trainer.remove_callback(PrinterCallback)
            if isinstance(functions[0], PolychromicReward):
                check_trainer(trainer)
            trainer.train()
    training = time.process_time() - cpu - watch.evaluating

    def scores(names: Sequence[str], temperature: float = 1.0) -> dict[str, Any]:
        chosen = {split: prompts[split][: settings.test_prompts] for split in names}
        return {
            split: evaluate(model, tokenizer, family, own, settings.attempts, temperature)
            for split, own in chosen.items()
        }

    result: dict[str, Any] = {
        **asdict(cell),
        "rate": rate,
        "row_settings": asdict(row),
        "settings": _plain(settings),
        "scores": scores((VALIDATION,) if searching else SPLITS),
        "curve": watch.curve,
        "entropy": watch.entropy,
    }
    if cell.row in MAIN_ROWS and not searching:
        result["temperatures"] = {str(temperature): scores(SPLITS, temperature) for temperature in TEMPERATURES}
    return result | {
        "training_cpu_seconds": round(training, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "seconds": round(time.monotonic() - start, 1),
    }


def chosen_rate(out: Path, family: str, row: str, settings: Settings) -> float:
    """The learning rate for a row, by pass@1 on validation prompts of the row of the search that it refers to.

    The lowest of those within `RATE_NOISE` of the best: one run tells no more, and a low rate changes the model less.
    """
    if len(settings.learning_rates) == 1:
        return settings.learning_rates[0]
    found = {}
    for rate in settings.learning_rates:
        cell = Cell(family, ROWS[row].rate_of, settings.search_seed, rate)
        found[rate] = json.loads((out / cell.file).read_text())["scores"][VALIDATION]["pass_at_k"]["1"]
    return min(rate for rate in found if found[rate] >= max(found.values()) - RATE_NOISE)


def _plain(settings: Settings) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(asdict(settings)))


def stages(families: Sequence[str], rows: Sequence[str], seeds: Sequence[int], settings: Settings) -> list[list[Cell]]:
    """What must be done before what; in each, the most important first."""
    searched = dict.fromkeys(ROWS[row].rate_of for row in rows if row != "pretrained")
    rates = settings.learning_rates if len(settings.learning_rates) > 1 else ()
    # The first cells of a family and seed also train the model that its other cells start from.
    search = [
        Cell(family, row, settings.search_seed, rate) for rate in rates for row in searched for family in families
    ]
    rest = [
        Cell(family, row, seed)
        for seed in seeds[-OTHER_SEEDS:]
        for row in rows
        if row not in MAIN_ROWS and seed in seeds[-planned_seeds(row) :]
        for family in families
    ]
    found = [search[: len(families)], search[len(families) :]]
    main = [row for row in rows if row in MAIN_ROWS]
    for start in range(0, len(seeds), 2):  # whole seeds early, and work for two cores
        pair = seeds[start : start + 2]
        found.append([Cell(family, row, seed) for seed in pair for family in families for row in main[:1]])
        found.append([Cell(family, row, seed) for seed in pair for family in families for row in main[1:]])
    return [*found, rest]


def _run(cell: Cell, out: Path, settings: Settings, cache: Path, command: str) -> str:
    """Run a cell and store its result; returns a line about it."""
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    rate = cell.rate if cell.rate is not None else chosen_rate(out, cell.family, cell.row, settings)
    result = run_cell(cell, rate, settings, cache)
    result |= {"command": command, "commit": commit()}
    result["packages"] = {package: version(package) for package in ("torch", "transformers", "trl", "polychromic")}
    store(out / cell.file, result)
    last = str(settings.attempts)
    told = [
        f"{split} pass@1 {scores['pass_at_k']['1']:.3f}, pass@{last} {scores['pass_at_k'][last]:.3f}, "
        f"{scores['distinct_right'][last]:.1f} distinct"
        for split, scores in result["scores"].items()
        if split != "train"
    ]
    return f"{Path(cell.file).stem}: {'; '.join(told)} ({result['cpu_seconds']:.0f} s of CPU)"


def main(
    out: Path = Path("results/language"),
    families: Sequence[str] = tuple(FAMILIES),
    rows: Sequence[str] = tuple(ROWS),
    seeds: Sequence[int] = SEEDS,
    quick: bool = False,
    processes: int = 2,
    cache: Path = Path("runs/language-study"),
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings(),  # noqa: B008
) -> None:
    """Run the cells that are missing in `out`.

    Args:
        out: where the results go, a file a cell.
        families: of `families.py`.
        rows: of `study_rows.py`.
        seeds: of the weights, the pretraining and the training; rows that the claim is not about have the last five,
            or three (`study_plan.py`).
        quick: the main rows on one seed with a tenth of the work and no search, to see it run.
        processes: cells at the same time, one thread each.
        cache: where pretrained models are kept.
        settings: of every cell.
    """
    for name, given, known in (("families", families, FAMILIES), ("rows", rows, ROWS)):
        for value in given:
            if value not in known:
                raise SystemExit(f"--{name} has {value!r}; it must be one of {', '.join(known)}")
    if settings.search_seed in seeds:
        raise SystemExit(f"--seeds has {settings.search_seed}, the seed of the search; it must be another")
    if quick:
        rows, seeds, settings = MAIN_ROWS, seeds[:1], QUICK
    command = " ".join(["python", "examples/language_model/study.py", *sys.argv[1:]])
    for stage in stages(families, rows, seeds, settings):
        missing = [cell for cell in stage if not _is_done(cell, out, settings)]
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            jobs = [pool.submit(_run, cell, out, settings, cache, command) for cell in missing]
            for number, job in enumerate(as_completed(jobs), 1):
                say(f"{number} of {len(missing)}: {job.result()}")


def _is_done(cell: Cell, out: Path, settings: Settings) -> bool:
    file = out / cell.file
    if not file.exists():
        return False
    stored = json.loads(file.read_text())
    if (stored["settings"], stored["row_settings"]) != (_plain(settings), asdict(ROWS[cell.row])):
        raise SystemExit(f"{file} is a cell with other settings; give another --out, or remove it")
    return True


if __name__ == "__main__":
    tyro.cli(main)

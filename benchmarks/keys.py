"""What a wrong key costs: a task with one right answer, and a key that sees the answer.

    .venv-trl/bin/python -m benchmarks.keys --out benchmarks/results/keys.json

The tiny Llama of the language example learns sums of two digits (`3+4=`, one right answer) in plain PyTorch, from
weights that write any number up to 18. The methods differ in what a set is paid for:

    stock        GRPO, rewards less the mean of their group
    answer       polychromic, the key is the answer: a set is more diverse the more wrong answers it holds
    answer, wrong alike   the same, but all wrong answers count as one
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import tyro

from polychromic import polychromic_advantages

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "language_model"))
from plain_grpo import sample
from tiny_llama import character_tokenizer, pretrain, tiny_llama

PROMPTS = [f"{a}+{b}=" for a in range(1, 9) for b in (2, 5, 7)]
METHODS = ("stock", "answer", "answer, wrong alike")


def train(method: str, seed: int, steps: int) -> float:
    """The share of right answers at the end."""
    tokenizer = character_tokenizer()
    eos, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    model = tiny_llama(tokenizer, seed)
    pretrain(model, tokenizer, [f"{prompt}{answer}" for prompt in PROMPTS for answer in range(19)], steps=200)
    torch.manual_seed(1000 + seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.0)
    prompts = tokenizer(PROMPTS, return_tensors="pt").input_ids
    start = prompts.shape[1]

    def completions(rows: torch.Tensor) -> tuple[torch.Tensor, list[str], np.ndarray]:
        ids = sample(model, prompts[rows], 3, eos, pad)
        texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
        right = [
            text == str(sum(map(int, PROMPTS[row][:-1].split("+")))) for row, text in zip(rows, texts, strict=True)
        ]
        return ids, texts, np.array(right, float)

    for _ in range(steps):
        rows = torch.randint(len(prompts), (8,)).repeat_interleave(16)
        ids, texts, rewards = completions(rows)
        if method == "stock":
            groups = rewards.reshape(8, 16)
            advantages = (groups - groups.mean(axis=1, keepdims=True)).reshape(-1)
        else:
            merged = method == "answer, wrong alike"
            labels = [text if right or not merged else None for text, right in zip(texts, rewards, strict=True)]
            advantages = polychromic_advantages(
                rewards.reshape(8, 16), [labels[i : i + 16] for i in range(0, 128, 16)], set_size=4
            ).reshape(-1)
        # One size for all three, so that they differ in direction alone.
        advantages = torch.tensor(advantages / (advantages.std() + 1e-4), dtype=torch.float32)
        logits = model(ids[:, :-1]).logits[:, start - 1 :]
        chosen = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, start:, None])[..., 0]
        loss = -(advantages[:, None] * chosen * (ids[:, start:] != pad)).sum() / ids[:, start:].numel()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    torch.manual_seed(0)
    return float(completions(torch.arange(len(prompts)).repeat_interleave(32))[2].mean())


def main(out: Path, seeds: tuple[int, ...] = (0, 1, 2), steps: int = 400) -> None:
    """Train with every method and seed, and write the successes to `out`."""
    torch.set_num_threads(1)
    results: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in seeds:
        for method in METHODS:
            results[method].append(round(train(method, seed, steps), 4))
            print(seed, method, results[method][-1], flush=True)
    out.write_text(json.dumps({"steps": steps, "seeds": list(seeds), "success": results}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)

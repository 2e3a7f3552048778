"""Does forking completions at token positions pay? Vines against whole completions, at the same number of tokens.

    .venv-trl/bin/python -m benchmarks.vines_language --out benchmarks/results/vines_language.json

The tiny Llama and the task 'chains' of the language example, in plain PyTorch. Every step has 8 prompts:

    whole        16 completions of each prompt, one group
    vines        8 completions, one group; one of them is cut at a random token, and 8 continuations of that prefix are
                 a second group, whose advantages train the tokens after the cut alone
    uncertain    the same, cut where the model was least certain of the next token

All form all sets of 4 of a group. A run ends when it has sampled its tokens; a prefix that is there already counts
once, so vines take more steps.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

from polychromic import polychromic_advantages

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "language_model"))
from tasks import Task, chains
from tiny_llama import character_tokenizer, pretrain, tiny_llama

TASK, TOKENIZER = chains(), character_tokenizer()
EOS, PAD = TOKENIZER.eos_token_id, TOKENIZER.pad_token_id
NUM_PROMPTS, SET_SIZE = 8, 4
# From the rewards and texts of G groups of N, [G·N], to advantages [G·N].
Advantages = Callable[[Sequence[float], Sequence[str], int], Any]


def of_sets(rewards: Sequence[float], texts: Sequence[str], size: int) -> Any:
    """Polychromic advantages; the key is the two calculations that an answer writes out."""
    groups = np.arange(len(rewards) // size).repeat(size)
    return polychromic_advantages(rewards, list(map(TASK.answer, texts)), group_ids=groups, set_size=SET_SIZE)


@dataclass
class Completions:
    """Token ids [rows, prompt + tokens], the log-probabilities of what was written, and which tokens were sampled."""

    ids: torch.Tensor
    mask: torch.Tensor
    entropy: torch.Tensor


@torch.no_grad()
def sample(model: Any, prompts: torch.Tensor, trunks: torch.Tensor | None = None, cuts: Any = 0) -> Completions:
    """A completion of each prompt; with `trunks`, one that repeats the first `cuts` tokens of its trunk."""
    ids, ended = prompts, torch.zeros(len(prompts), dtype=torch.bool)
    entropies, sampled = [], []
    for position in range(TASK.max_tokens):
        log_probs = torch.log_softmax(model(ids).logits[:, -1], dim=-1)
        token = torch.multinomial(log_probs.exp(), 1)[:, 0]
        forced = torch.as_tensor(position < cuts) & torch.ones_like(ended)
        if trunks is not None:
            token = torch.where(forced, trunks[:, prompts.shape[1] + position], token)
        sampled.append(~ended & ~forced)
        entropies.append(-(log_probs.exp() * log_probs).sum(dim=-1))
        token = torch.where(ended, PAD, token)
        ended |= token == EOS
        ids = torch.cat([ids, token[:, None]], dim=1)
    return Completions(ids, torch.stack(sampled, dim=1).float(), torch.stack(entropies, dim=1))


def continuations(model: Any, roots: Completions, prompts: torch.Tensor, size: int, uncertain: bool) -> Completions:
    """`size` continuations of a prefix of one completion of each group of `size` roots."""
    chosen = torch.arange(0, len(roots.ids), size) + torch.randint(size, (len(roots.ids) // size,))
    lengths = roots.mask[chosen].sum(dim=1).long()
    if uncertain:
        inner = (torch.arange(TASK.max_tokens)[None, :] < lengths[:, None]) & (torch.arange(TASK.max_tokens) > 0)
        cuts = roots.entropy[chosen].masked_fill(~inner, -1.0).argmax(dim=1).clamp(min=1)
    else:
        cuts = 1 + (torch.rand(len(chosen)) * (lengths - 1).clamp(min=1)).long()
    return sample(model, prompts, roots.ids[chosen].repeat_interleave(size, dim=0), cuts.repeat_interleave(size))


def train(
    seed: int, weights: dict[str, Any], tokens: int, method: str = "whole", advantages_of: Advantages = of_sets
) -> dict[str, Any]:
    """One run until `tokens` have been sampled; its evaluation at the end."""
    model = tiny_llama(TOKENIZER, seed)
    model.load_state_dict(weights)
    torch.manual_seed(1000 + seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=TASK.learning_rate, weight_decay=0.0)
    prompts = TOKENIZER(TASK.prompts, return_tensors="pt").input_ids
    start, size = prompts.shape[1], 16 if method == "whole" else 8
    began, sampled, steps = time.process_time(), 0, 0
    while sampled < tokens:
        rows = torch.randint(len(prompts), (NUM_PROMPTS,)).repeat_interleave(size)
        parts = [sample(model, prompts[rows])]
        if method != "whole":
            parts.append(continuations(model, parts[0], prompts[rows], size, method == "uncertain"))
        loss = torch.tensor(0.0)
        for part in parts:
            texts = TOKENIZER.batch_decode(part.ids[:, start:], skip_special_tokens=True)
            rewards = [float(TASK.is_right(TASK.prompts[row], text)) for row, text in zip(rows, texts, strict=True)]
            advantages = torch.as_tensor(np.asarray(advantages_of(rewards, texts, size)), dtype=torch.float32)
            logits = model(part.ids[:, :-1]).logits[:, start - 1 :]
            chosen = torch.log_softmax(logits, dim=-1).gather(-1, part.ids[:, start:, None])[..., 0]
            loss = loss - (advantages[:, None] * chosen * part.mask).sum() / (16 * NUM_PROMPTS * TASK.max_tokens)
            sampled += int(part.mask.sum())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
    seconds = round(time.process_time() - began, 1)
    return {"seed": seed, "tokens": sampled, "steps": steps, "seconds": seconds, **evaluate(model, TASK)}


def evaluate(model: Any, task: Task, count: int = 64) -> dict[str, float]:
    """Success, and distinct right answers among `count` completions of each prompt."""
    torch.manual_seed(0)
    prompts = TOKENIZER(task.prompts, return_tensors="pt").input_ids
    rows = torch.arange(len(prompts)).repeat_interleave(count)
    texts = TOKENIZER.batch_decode(sample(model, prompts[rows]).ids[:, prompts.shape[1] :], skip_special_tokens=True)
    right = [(int(row), task.answer(text)) for row, text in zip(rows, texts, strict=True)
             if task.is_right(task.prompts[row], text)]  # fmt: skip
    return {"success": len(right) / len(texts), "distinct_right": len(set(right)) / len(prompts)}


def pretrained(seed: int) -> dict[str, Any]:
    """The weights from which every method starts."""
    model = tiny_llama(TOKENIZER, seed)
    pretrain(model, TOKENIZER, TASK.pretraining, steps=TASK.pretraining_steps)
    return {name: value.clone() for name, value in model.state_dict().items()}


def compare(out: Path, seeds: Sequence[int], tokens: int, arms: dict[str, dict[str, Any]]) -> None:
    """Every arm from the same weights, seed by seed; what is in `out` already is not run again."""
    torch.set_num_threads(1)
    runs = json.loads(out.read_text())["runs"] if out.exists() else []
    for seed in seeds:
        missing = [name for name in arms if not any((run["arm"], run["seed"]) == (name, seed) for run in runs)]
        weights = pretrained(seed) if missing else {}
        for name in missing:
            runs.append({"arm": name, **train(seed, weights, tokens, **arms[name])})
            print(runs[-1], flush=True)
            out.write_text(
                json.dumps({"task": "chains", "tokens": tokens, "set_size": SET_SIZE, "runs": runs}, indent=1)
            )


def main(out: Path, seeds: tuple[int, ...] = (0, 1, 2, 3, 4), tokens: int = 350_000) -> None:
    """Whole completions and both kinds of vines."""
    compare(out, seeds, tokens, {name: {"method": name} for name in ("whole", "vines", "uncertain")})


if __name__ == "__main__":
    tyro.cli(main)

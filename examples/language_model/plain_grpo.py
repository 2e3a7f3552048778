"""Polychromic advantages in a GRPO loop of one's own: plain PyTorch, no trainer.

    python examples/language_model/plain_grpo.py --method polychromic

The lines that differ from stock GRPO stand between the two rules in `train`.
"""

from __future__ import annotations

import torch
import tyro
from tasks import TASKS
from tiny_llama import character_tokenizer, pretrain, tiny_llama

from polychromic import polychromic_advantages


@torch.no_grad()
def sample(model: torch.nn.Module, prompts: torch.Tensor, max_tokens: int, eos: int, pad: int) -> torch.Tensor:
    """Token ids [rows, prompt + max_tokens], padded after the end."""
    ids, ended = prompts, torch.zeros(len(prompts), dtype=torch.bool)
    for _ in range(max_tokens):
        token = torch.multinomial(torch.softmax(model(ids).logits[:, -1], dim=-1), 1)[:, 0]
        token = torch.where(ended, pad, token)
        ended |= token == eos
        ids = torch.cat([ids, token[:, None]], dim=1)
    return ids


def train(
    task_name: str = "digits",
    method: str = "polychromic",
    seed: int = 0,
    groups: int = 8,
    group_size: int = 16,
    set_size: int = 6,
    eval_every: int = 50,
) -> list[dict[str, float]]:
    """Train a tiny Llama on a task of `tasks.py`, with `--method grpo` or `polychromic`; print how it goes."""
    torch.set_num_threads(1)
    task, tokenizer = TASKS[task_name](), character_tokenizer()
    model = tiny_llama(tokenizer, seed)
    pretrain(model, tokenizer, task.pretraining, steps=task.pretraining_steps)
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.learning_rate, weight_decay=0.0)
    every_prompt = tokenizer(task.prompts, return_tensors="pt").input_ids
    start = every_prompt.shape[1]
    curve = []
    for step in range(task.steps + 1):
        if step % eval_every == 0:
            rows = torch.arange(len(every_prompt)).repeat_interleave(64)
            ids = sample(model, every_prompt[rows], task.max_tokens, tokenizer.eos_token_id, tokenizer.pad_token_id)
            texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
            pairs = [(task.prompts[row], text) for row, text in zip(rows.tolist(), texts, strict=True)]
            right = [(prompt, task.answer(text)) for prompt, text in pairs if task.is_right(prompt, text)]
            distinct = len(set(right)) / len(every_prompt)
            curve.append({"step": step, "success": len(right) / len(pairs), "distinct_right": distinct})
            print({name: round(value, 3) for name, value in curve[-1].items()}, flush=True)

        rows = torch.randint(len(every_prompt), (groups,)).repeat_interleave(group_size)
        ids = sample(model, every_prompt[rows], task.max_tokens, tokenizer.eos_token_id, tokenizer.pad_token_id)
        texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
        rewards = [float(task.is_right(task.prompts[row], text)) for row, text in zip(rows, texts, strict=True)]
        # ----------------------------------------------------------------------------------------------------------
        if method == "polychromic":
            group_ids = torch.arange(groups).repeat_interleave(group_size)
            answers = [task.answer(text) for text in texts]
            advantages = torch.tensor(
                polychromic_advantages(rewards, answers, group_ids=group_ids.numpy(), set_size=set_size),
                dtype=torch.float32,
            )
        # ----------------------------------------------------------------------------------------------------------
        else:
            grouped = torch.tensor(rewards).view(groups, group_size)
            advantages = (grouped - grouped.mean(dim=1, keepdim=True)).flatten()
        logits = model(ids[:, :-1]).logits[:, start - 1 :]
        written = ids[:, start:]
        log_probs = torch.log_softmax(logits, dim=-1).gather(-1, written[..., None])[..., 0]
        mask = (written != tokenizer.pad_token_id).float()
        # One update per batch, so the importance ratio is 1 and its clipping has nothing to do.
        loss = -(advantages[:, None] * log_probs * mask).sum() / mask.numel()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return curve


if __name__ == "__main__":
    tyro.cli(train)

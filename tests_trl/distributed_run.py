"""The runs of test_distributed.py, started by torchrun: what each process saw goes to a file of its own."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import trl
from runs import SharedSampling, digit_share, first_two, make_trainer
from tiny_llama import character_tokenizer, tiny_llama

from polychromic import UserError
from polychromic.integrations.trl import PolychromicReward, check_grpo_trainer

CALLS = {"judge": 0, "equivalent": 0}


def judge(_prompt, completions):
    CALLS["judge"] += 1
    return [first_two(text) for text in completions]


def equivalent(_prompt, first, second):
    CALLS["equivalent"] += 1
    return first_two(first) == first_two(second)


def embed(completions):
    return [[1.0, *(text.count(c) for c in "0123456789")] for text in completions]


def failing_key(completion):
    if torch.distributed.get_rank() == 1:
        raise KeyError("only the second process fails")
    return completion


def failing_judge(_prompt, completions):
    if torch.distributed.get_rank() == 1:
        raise KeyError("only the second process fails")
    return completions


WAYS = {
    "key": {"key": first_two},
    "random": {"key": first_two, "num_sets": 4},
    "judge": {"judge": judge},
    "equivalent": {"equivalent": equivalent},
    "embed": {"embed": embed},
    "threshold": {"embed": embed, "similarity_threshold": 0.6},
    "failing_key": {"key": failing_key},
    "failing_judge": {"judge": failing_judge},
}


def train(way: str, batch_size: int, folder: str) -> dict[str, Any]:
    """What the trainer did, as this process knows it."""
    tokenizer = character_tokenizer()
    model = SharedSampling(tiny_llama(tokenizer, 0).config)
    model.load_state_dict(tiny_llama(tokenizer, 0).state_dict())
    CALLS["judge"] = CALLS["equivalent"] = 0
    record = make_trainer(
        PolychromicReward(digit_share, **WAYS[way]),
        f"{folder}/{way}",
        model=model,
        max_steps=3,
        per_device_train_batch_size=batch_size,
        num_generations=8,
        optim="sgd",
        learning_rate=0.5,
        loss_type="dr_grpo",
        ddp_backend="gloo",
    )
    trainer = check_grpo_trainer(record.trainer)
    try:
        trainer.train()
    except UserError as error:
        return {"error": str(error)}
    figures = [
        {name: value for name, value in entry.items() if name.startswith(("polychromic/", "rewards/"))}
        for entry in trainer.state.log_history
    ]
    weights = {name: value.flatten().tolist() for name, value in model.state_dict().items()}
    return {"steps": record.steps, "figures": figures, "weights": weights, "calls": dict(CALLS)}


def main(batch_size: int, folder: str) -> None:
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    ways = [way for way in WAYS if world > 1 or not way.startswith("failing")]
    results = {"trl": trl.__version__, **{way: train(way, batch_size, folder) for way in ways}}
    Path(folder, f"{rank}-of-{world}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

"""GRPO on 'two numbers that add up to …'. Arguments: a model (a folder, or a name on the hub), where to save, steps."""

import re
import sys

import torch
from datasets import Dataset
from trl import GRPOTrainer

from polychromic.integrations.keys import expression
from polychromic.integrations.trl import PolychromicReward, check_trainer, polychromic_grpo_config


def is_right(completions, target, **_):
    pairs = [re.search(r"(\d+)\s*\+\s*(\d+)", completion) for completion in completions]
    return [float(pair is not None and int(pair[1]) + int(pair[2]) == t) for pair, t in zip(pairs, target, strict=True)]


model, out, steps = sys.argv[1], sys.argv[2], int((sys.argv[3:] or [200])[0])
args = polychromic_grpo_config(
    output_dir=out,
    max_steps=steps,
    num_generations=8,
    max_completion_length=8,
    report_to=[],
    bf16=torch.cuda.is_available(),
    use_cpu=not torch.cuda.is_available(),
)
trainer = GRPOTrainer(
    model,
    reward_funcs=PolychromicReward(is_right, key=expression, wrong_answers="never-different").funcs,
    args=args,
    train_dataset=Dataset.from_list([{"prompt": f"{t}=", "target": t} for t in range(2, 18)]),
)
check_trainer(trainer).train()
trainer.save_model(out)

"""TRL's own loop of tool calls, with a model whose turns are scripted; all else is the trainer's.

Its completions differ in what they ask a tool and in nothing else: all end with the same words.
"""

import itertools
import json
import string
from pathlib import Path

import numpy as np
import pytest
import torch
import trl
from datasets import Dataset
from packaging.version import Version
from runs import Record, arguments, enumerated
from test_brute_force import SGD, SINGLE
from tiny_llama import character_tokenizer, tiny_llama
from tokenizers import Regex, pre_tokenizers
from torch.nn.utils import parameters_to_vector
from trl import GRPOTrainer

from polychromic.integrations.completions import ToolCall
from polychromic.integrations.trl import PolychromicReward, check_trainer, polychromic_grpo_config

pytestmark = pytest.mark.skipif(
    Version(trl.__version__) < Version("1.16"),
    reason="older loops parse calls with jmespath, which is not installed, and bring no chat templates as files",
)


def call(city):
    return f'<tool_call>\n{{"name": "weather", "arguments": {{"city": "{city}", "unit": "C"}}}}\n</tool_call>'


# Per completion: the cities that it asks about, which is what a key should see, and its turns before the last.
GROUPS = [
    [
        (["Paris"], [call("Paris")]),
        (["Oslo"], [call("Oslo")]),
        (["Paris"], ['<tool_call>{"arguments": {"unit": "C", "city": "Paris"}, "name": "weather"}</tool_call>']),
        (["Oslo", "Paris"], [call("Oslo"), call("Paris")]),
        (["Oslo", "Paris"], [call("Oslo") + "\n" + call("Paris")]),
        (["Paris", "Oslo"], [call("Paris"), call("Oslo")]),
        ([], []),
        (["Rome"], [call("Rome")]),
    ],
    [
        (["Rome"], [call("Rome")]),
        (["Rome"], [call("Rome")]),
        (["Paris"], [call("Paris")]),
        (["Atlantis"], [call("Atlantis")]),  # the tool raises an error
        (["Paris"], [call("Paris")]),
        ([], []),
        (["Rome"], [call("Rome")]),
        (["Rome", "Rome"], [call("Rome"), call("Rome")]),
    ],
]
ROWS = [row for group in GROUPS for row in group]
REWARDS = [i * 7 % 16 / 15 for i in range(16)]


def scripted(tokenizer):
    """In the place of the model's `generate`: the next turn of every completion that is not yet at its end."""
    turns = itertools.count()

    def generate(input_ids, **_):
        turn = next(turns)
        texts = [[*before, "Mild."][turn] for _, before in ROWS if len(before) >= turn]
        written = tokenizer([text + tokenizer.eos_token for text in texts], padding=True, padding_side="right")
        return torch.cat([input_ids, torch.tensor(written["input_ids"])], dim=1)

    return generate


def qwen_tokenizer():
    """Single characters, with the chat template of Qwen3, for which TRL knows how calls are parsed."""
    tokenizer = character_tokenizer(string.printable)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>"})
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    return tokenizer


def trained(folder, reward, tool):
    """One step of the real trainer; its record, and how far the weights have moved."""
    tokenizer = qwen_tokenizer()
    model = tiny_llama(tokenizer, 0, width=16, layers=1)
    model.config.max_position_embeddings = 4096
    model.generate = scripted(tokenizer)
    record = Record()
    record.trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward.funcs,
        args=polychromic_grpo_config(**arguments(folder, max_steps=1, max_completion_length=1000, **SGD)),
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": text}] for text in ("Hot?", "Dry?")]}),
        processing_class=tokenizer,
        tools=[tool],
        callbacks=[record],
    )
    before = parameters_to_vector(model.parameters()).detach()
    check_trainer(record.trainer).train()
    return record, float((parameters_to_vector(model.parameters()).detach() - before).abs().max())


@pytest.mark.parametrize("way", ["calls", "text", "judge"])
def test_completions_that_differ_in_tool_arguments_alone(tmp_path, way):
    asked, seen = [], []

    def weather(city: str, unit: str) -> str:
        """
        The weather in a city.

        Args:
            city: The name of the city.
            unit: C or F.
        """
        asked.append(city)
        if city == "Atlantis":
            raise ValueError("no such city")
        return "20 " + unit

    def key(completion):
        seen.append(completion)
        return str(completion) if way == "text" else completion.tool_calls

    def judge(_, completions):
        return [key(completion) for completion in completions]

    ways = {"judge": judge} if way == "judge" else {"key": key}
    record, moved = trained(tmp_path, PolychromicReward(lambda **_: REWARDS, **ways), weather)

    assert sorted(asked) == sorted(city for cities, _ in ROWS for city in cities)
    for completion, (cities, before) in zip(seen, ROWS, strict=True):
        expected = [ToolCall("weather", json.dumps({"city": city, "unit": "C"})) for city in cities]
        assert completion.tool_calls == tuple(expected)
        roles = [message["role"] for message in completion.messages]
        assert (roles.count("assistant"), roles.count("tool")) == (len(before) + 1, len(cities))
        assert completion.endswith("Mild.")

    [step] = record.steps
    labels = [tuple(cities) for cities, _ in ROWS]
    expected = [*enumerated(REWARDS[:8], labels[:8], 4), *enumerated(REWARDS[8:], labels[8:], 4)]
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(step["advantages"], expected, **SINGLE)
    np.testing.assert_allclose(np.sort(step["used_here"]), np.sort(expected), **SINGLE)
    assert moved > 1e-4

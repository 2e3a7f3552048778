"""Keys on texts as models write them."""

import numpy as np
import pytest

from polychromic import kernel_from_embeddings
from polychromic.integrations.answers import Comparison
from polychromic.integrations.completions import Completion, ToolCall
from polychromic.integrations.keys import (
    calculations,
    expression,
    last_number,
    numbers_used,
    python_calls,
    python_tree,
    word_vectors,
)


def test_calculations_tell_ways_to_the_same_number_apart():
    one = "48 / 2 = 24 in May, so 48+24 = 72."
    assert calculations(one) == {"48/2", "48+24"}
    assert calculations("First 48 + 24, as 48÷2 is 24: **72**") == calculations(one)
    assert calculations("1,500 × 1.5 = 2250") == {"1500*1.5"}
    assert calculations("It is 72.") == frozenset()


def test_last_number():
    assert last_number("The answer is 1,250.") == "1250"
    assert last_number("from 3 to -4") == "-4"
    assert last_number("none") is None


@pytest.mark.parametrize(
    "same",
    [
        ["3 * (5 + 2)", "(2+5)*3", "We try (2 + 5) × 3 = 21.", "<answer>3*(5+2)</answer>", "3 * (5 + 2) = 21"],
        ["10 - 3 + 4", "4 + 10 - 3", "(10 - 3) + 4", "10 − (3 − 4)", "First 10+4 = 14, but I mean 10 + (4 - 3)."],
        ["8 / 2 * 3", "3 * 8 / 2", "8 ÷ (2 / 3)"],
        ["1.50 + 2", "2 + 1.5"],
        ["1,000 + 2", "2+1000."],
    ],
)
def test_expressions_that_calculate_the_same_are_the_same(same):
    assert len({expression(text) for text in same}) == 1
    assert expression(same[0]) is not None


def test_expressions_that_calculate_otherwise_differ():
    ways = ["3*(5+2)", "3*5 + 3*2", "3+5+2", "3*5+2", "(3+5)*2", "5-3", "3-5", "6/3", "3/6", "2*2*2", "2*2+2"]
    assert len({expression(way) for way in ways}) == len(ways)


@pytest.mark.parametrize(
    "text", ["", "no idea", "42", "(3 + ", "3 ** 400000", "it is 3/", "2024-", "+".join("(" * 500)]
)
def test_what_is_no_expression_is_none(text):
    assert expression(text) is None
    assert numbers_used(text) is None


def test_numbers_used_ignores_what_is_done_with_them():
    assert numbers_used("3*(5+2) = 21") == numbers_used("2+5-3") == ("2", "3", "5")
    assert numbers_used("3*3+2") == ("2", "3", "3")


LOOP = """Here is a solution:
```python
def total(numbers: list[int]) -> int:
    \"\"\"Adds them up.\"\"\"
    result = 0  # start
    for number in numbers:
        result += number
    return result
```
It runs in linear time."""
SAME_LOOP = "def s(xs):\n  acc = 0\n  for x in xs: acc += x\n  return acc"
BUILT_IN = "```py\ndef total(numbers):\n    return sum(numbers)\n```"
RECURSIVE = "def total(n):\n    return n[0] + total(n[1:]) if n else 0"


def test_programs_differ_by_their_syntax_and_not_by_names_comments_and_types():
    assert python_tree(LOOP) == python_tree(SAME_LOOP)
    assert len({python_tree(text) for text in (LOOP, BUILT_IN, RECURSIVE, "total = sum")}) == 4
    # Names that are not the program's own count: another function is another program.
    assert python_tree("max(x)") != python_tree("min(x)")
    assert python_tree("x.sort()") != python_tree("x.reverse()")
    # The same names in other places are another program.
    assert python_tree("def f(a, b): return a - b") != python_tree("def f(a, b): return b - a")
    assert python_tree("def f(a, b): return a - b") == python_tree("def g(b, a): return b - a")


def test_what_is_no_program_is_none():
    assert python_tree("I would use a loop.") is None
    assert python_calls("def f(:") is None


def test_calls_of_programs():
    assert python_calls(LOOP) == python_calls(SAME_LOOP) == {"For"}
    assert python_calls(BUILT_IN) == {"sum"}
    assert python_calls(RECURSIVE) == {"recursion", "IfExp"}


def test_word_vectors_see_words():
    texts = ["The cat sat on the mat.", "the cat sat on the mat", "Use the quadratic formula.", "Complete the square!"]
    kernel = kernel_from_embeddings(word_vectors(texts))
    assert kernel[0, 1] > 0.85 > 0.5 > kernel[0, 2:].max()
    comparison = Comparison(embed=word_vectors, similarity_threshold=0.8)
    np.testing.assert_array_equal(comparison.likeness([comparison.of_completions(texts)]).labels, [[0, 0, 2, 3]])


# Completions


def weather(city, **changes):
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": city, "unit": "C"}}}
    answer = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "weather", "content": "12 degrees"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is cold."}]},
    ]
    return Completion.of(answer, **changes)


def test_trajectories_that_differ_in_tool_arguments_alone_differ():
    paris, oslo = weather("Paris"), weather("Oslo")
    assert paris != oslo
    assert paris == weather("Paris")
    assert paris.tool_calls == (ToolCall("weather", '{"city": "Paris", "unit": "C"}'),)
    assert "It is cold." in paris
    assert "12 degrees" not in paris
    assert [message["role"] for message in paris.messages] == ["assistant", "tool", "assistant"]


@pytest.mark.parametrize("name", ["reasoning_content", "thinking"])
def test_thoughts_are_part_of_the_text(name):
    """A trainer with a parser hands them over apart; without one, and in verl, they are in the text."""
    completion = Completion.of([{"role": "assistant", "content": "8", name: "3 + 5"}])
    assert completion == "<think>\n3 + 5\n</think>\n8"
    assert Completion.of([{"role": "assistant", "content": "", name: "cut off"}]) != ""


def test_a_completion_of_tool_calls_alone_is_not_empty():
    call = {"name": "search", "arguments": '{"q": "x"}'}
    completion = Completion.of([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert Comparison(key=lambda c: c.tool_calls).of_completions([completion]) == [(ToolCall("search", '{"q": "x"}'),)]


def test_calls_that_the_model_wrote_into_its_text_are_the_same_calls():
    written = 'Let me see. <tool_call>\n{"arguments": {"unit": "C", "city": "Paris"}, "name": "weather"}\n</tool_call>'
    assert Completion(written).tool_calls == weather("Paris").tool_calls
    assert Completion("<tool_call>not json</tool_call>").tool_calls == (ToolCall("", "not json"),)
    for hostile in ('{"function": 5}', "[" * 100_000, '{"name": "f", "arguments": "' + "[" * 100_000 + '"}'):
        assert len(Completion(f"<tool_call>{hostile}</tool_call>").tool_calls) == 1
    assert Completion("<tool_call>" * 100_000).tool_calls == ()
    assert Completion("nothing").tool_calls == ()


def test_keys_see_prompts_and_columns():
    completion = weather("Rome", prompt=[{"role": "user", "content": "?"}], columns={"level": 3})
    assert Comparison(key=lambda c: (c.prompt[0]["content"], c.columns["level"])).of_completions([completion]) == [
        ("?", 3)
    ]
    assert Completion("plain").messages == [{"role": "assistant", "content": "plain"}]


def test_completions_survive_the_way_to_other_processes():
    import pickle

    completion = weather("Rome", prompt="q", columns={"level": 3})
    copy = pickle.loads(pickle.dumps(completion))
    assert copy == completion
    assert (copy.prompt, copy.columns, copy.messages) == ("q", {"level": 3}, completion.messages)

"""The prompts of the language study: their rules by hand, their right answers by brute force. No model is needed."""

from itertools import permutations, product

import families
import pytest
from families import FAMILIES


@pytest.mark.parametrize(
    ("family", "prompt", "completion", "answer"),
    [
        ("countdown", "23578>24:", "3*8", ((1, 3, 8),)),
        ("countdown", "23578>24:", "8*3", ((1, 3, 8),)),  # the order of factors does not count
        ("countdown", "23578>24:", "2+7+3*5", ((1, 2), (1, 3, 5), (1, 7))),
        ("countdown", "23578>24:", "7+5*3+2", ((1, 2), (1, 3, 5), (1, 7))),  # nor that of terms
        ("countdown", "23578>24:", "3*8+2", None),  # another value
        ("countdown", "23578>24:", "2*2*2*3", None),  # 2 is there once
        ("countdown", "23578>24:", "4*6", None),  # numbers that are not there
        ("countdown", "23578>3:", "3", None),  # not an expression
        ("countdown", "23578>24:", "3*8+", None),
        ("countdown", "23578>24:", "-3+27", None),
        ("chains", "7>61:", "*4=28*2=56+5=61", (("*", "4"), ("*", "2"), ("+", "5"))),
        ("chains", "7>61:", "*4=29*2=56+5=61", None),  # a wrong step
        ("chains", "7>61:", "*4=28*2=56+4=60", None),  # not the target
        ("chains", "7>14:", "*2=14", None),  # one step
        ("chains", "7>61:", "*4=28*2=56+5=61+", None),
        ("programs", "3>4,5>6:", "i", "i"),
        ("programs", "3>2,5>4:", "k", "k"),
        ("programs", "3>6,5>10:", "d", "d"),
        ("programs", "3>9,5>15:", "t", "t"),
        ("programs", "3>1,6>3:", "h", "h"),
        ("programs", "3>11,5>17:", "tii", "tii"),
        ("programs", "3>11,5>17:", "itk", "itk"),  # another program with the same results is another answer
        ("programs", "3>4,5>7:", "i", None),  # right for the first pair alone
        ("programs", "3>3,5>5:", "", None),
        ("programs", "3>3,5>5:", "ikikik", None),  # too long
        ("programs", "3>4,5>6:", "q", None),  # not an instruction
    ],
)
def test_answers(family, prompt, completion, answer):
    assert FAMILIES[family].answer(prompt, completion) == answer


def test_right_answers_are_counted_as_by_brute_force():
    numbers = "23358"
    by_target = families.countdown_solutions(numbers)
    written = set()
    for size in (2, 3, 4, 5):
        for chosen in set(permutations(numbers, size)):
            for operations in product("+-*", repeat=size - 1):
                written.add(chosen[0] + "".join(o + n for o, n in zip(operations, chosen[1:], strict=True)))
    for target in (1, 7, 24, 41):
        prompt = f"{numbers}>{target}:"
        found = {families.countdown_answer(prompt, text) for text in written if eval(text) == target}
        assert found == by_target[target]
    for start, target in ((7, 61), (3, 3), (12, 40)):
        first = families.chain_moves(start)
        chains = [a + b + c for a, x in first for b, y in families.chain_moves(x) for c, _ in families.chain_moves(y)]
        right = [chain for chain in chains if families.chain_answer(f"{start}>{target}:", chain) is not None]
        assert families.chains_to(start).get(target, 0) == len(right)
    texts = ["".join(letters) for size in range(1, 6) for letters in product("ikdth", repeat=size)]
    for prompt in ("3>11,5>17:", "2>5,6>17:"):
        right = [text for text in texts if families.program_answer(prompt, text) is not None]
        assert families.count_programs()[prompt] == len(right) > 1


@pytest.mark.parametrize("name", FAMILIES)
def test_prompts_and_pretraining(name):
    family = FAMILIES[name]
    prompts = families.splits(family, train=20, test=8)
    assert families.splits(family, train=20, test=8) == prompts
    assert {split: len(found) for split, found in prompts.items()} == {
        "train": 20,
        "held-out": 8,
        "validation": 8,
        "harder": 8,
    }
    assert len({prompt for found in prompts.values() for prompt in found}) == 44
    held_out = {*prompts["held-out"], *prompts["validation"], *prompts["harder"]}
    texts = families.pretraining_texts(family, held_out, count=300, seed=1)
    assert texts != families.pretraining_texts(family, held_out, count=300, seed=2)
    for text in texts:
        prompt, answer = text.split(":")
        assert family.answer(f"{prompt}:", answer) is not None
        assert f"{prompt}:" not in held_out
        assert len(answer) < family.max_tokens
        assert set(text) <= set(family.characters)

"""Keys on completions as instruction-tuned models write them: which are the same answer, and which are not."""

import itertools
import re
import time
from fractions import Fraction  # noqa: F401, read by `value`

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polychromic.integrations.completions import Completion
from polychromic.integrations.keys import (
    calculations,
    expression,
    last_number,
    numbers_used,
    python_calls,
    python_code,
    python_tree,
    tool_calls,
)

KEYS = (calculations, last_number, expression, numbers_used, python_tree, python_calls, tool_calls)


def check(key, groups):
    """Texts of a group have one key, which is not that of any other group."""
    found = [{key(text) for text in texts} for texts in groups]
    assert [len(keys) for keys in found] == [1] * len(found)
    assert len(set.union(*found)) == len(found)
    return [next(iter(keys)) for keys in found]


# Countdown: make 21 from 3, 5 and 2 (and other puzzles).

BRACKET_TIMES_THREE = [
    r"The expression is \boxed{3 \times (5+2)}.",
    r"\[ 3 \cdot (5 + 2) = 3 \cdot 7 = 21 \]",
    "We can write 3 x (5 + 2) = 21.",
    r"Thus $3 \left( 5 + 2 \right) = 21$.",
    "So the solution is 3(5+2) = 21!",
    "(5 + 2) * 3 = 21. Check: 21 - 0 = 21.",
    "3 * (5 + 2) = 21, found in 3-4 steps.",
    "**Solution**\n\n1. Add 5 and 2: 5 + 2 = 7\n2. Multiply by 3: 7 × 3 = 21\n\n**Answer:** (5 + 2) × 3 = 21",
    "<think>Try 3*5+2 = 17. No. Try 3+5*2 = 13. No. (2+5)*3 = 21, yes!</think>\n<answer> (2 + 5) * 3 </answer>",
    "<think>\n50*3-25*2+1 is too much.\n</think>\n\n<answer>\n3 * (5+2) = 21\n</answer>",
    "<think>I must put it in <answer> </answer> tags: <answer>3*(5+2)</answer></think> Done.",
    r"Step 1: $5 + 2 = 7$. Step 2: $7 \times 3 = 21$."
    + "\n\n"
    + r"$$\boxed{(5+2)\times 3 = 21}$$"
    + "\nCheck: 9+9+3 = 21",
    "Using the numbers [3, 5, 2]: `3 * (5 + 2)` equals 21.",
    "The final answer is: 3 times (5 plus 2). Verification: 5 + 2 + 7 + 7 = 21.",
    "First 3·5 = 15, too small. Then 3·(5+2) = 21 ✓",
    "3 * [5 + 2] = 21",
    "The answer is 21.\n\nVerify:\n3 × (5 + 2) = 3 × 7 = 21",
]
SPREAD_OUT = [
    r"\boxed{3 \times 5 + 3 \times 2}",
    "<think>3*(5+2) = 21</think><answer>3*5 + 3*2</answer>",
    "(3 × 2) + (3 × 5) = 6 + 15 = 21",
]
FRACTIONS = [
    r"$\boxed{\frac{10 + 4}{2} \cdot 3}$",
    r"\( \dfrac{(4+10)}{2} \times 3 = 7 \times 3 = 21 \)",
    "(10 + 4) ÷ 2 × 3 = 21",
    "3 * (10 + 4) / 2",
]
TWO_NUMBERS = [
    "3 * 7 = 21. Check: 21 - 0 = 21.",
    "I get 7 × 3. **Check:**\n21 / 7 = 3",
    "Answer: 7 * 3 (on 2024-12-25)",
]
LARGE = ["1,200 + 50 - 8", r"\boxed{1{,}200 − 8 + 50}", "<answer>50 + 1200 - 8 = 1,242</answer>", "-8 + 1200 + 50"]


def test_expressions_of_countdown():
    found = check(
        expression, [BRACKET_TIMES_THREE, SPREAD_OUT, FRACTIONS, TWO_NUMBERS, LARGE, ["It is 21.", "3-4 steps"]]
    )
    assert found[0] == "3*(5+2)"
    assert found[-1] is None


def test_numbers_of_countdown():
    check(numbers_used, [BRACKET_TIMES_THREE, SPREAD_OUT, FRACTIONS, TWO_NUMBERS, LARGE])


# Word problems: Natalia sold clips to 48 friends in April, and half as many in May.

HALF_THEN_SUM = [
    "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\nNatalia sold 48+24 = <<48+24=72>>72 clips altogether.\n#### 72",
    "**Step 1:** In May she sold $48 \\div 2 = 24$ clips.\n\n**Step 2:** In total: $24 + 48 = 72$.\n\n\\boxed{72}",
    "- April: 48 clips\n- May: 48 ÷ 2 = 24 clips\n- Total: 48 clips + 24 clips = **72 clips**",
    "\\[\n\\frac{48}{2} = 24\n\\]\n\\[\n48 \\text{ clips} + 24 \\text{ clips} = 72\n\\]",
    "<think>Half of 48: 48 / 2 = 24.</think>\n<answer>24 + 48 = 72</answer>",
    "She sold 48 divided by 2 = 24 in May, so 24 plus 48 = 72. It took 2-3 lines.",
]
ONE_AND_A_HALF = ["48 * 1.5 = 72", r"\(1.50 \times 48 = 72\)", "That is 150% × 48 = 72 clips."]
IN_ONE = ["48 + 48/2 = 72", r"Total: $48 + \frac{48}{2} = 72$", "(48/2) + 48 = 72 clips"]
WRONG = ["48 × 2 = 96 and 96 + 48 = 144", r"$48 \times 2 = 96$, so $48 + 96 = \boxed{144}$"]
NOTHING = [
    "The answer is 72.",
    "\\boxed{72}",
    "In 3-4 days, on 2024-05-01, she sold 72.",
    "Pages 10–12 have 2^3 clips.",
]


def test_calculations_of_a_word_problem():
    found = check(calculations, [HALF_THEN_SUM, ONE_AND_A_HALF, IN_ONE, WRONG, NOTHING])
    assert found[0] == {"48/2", "48+24"}
    assert found[-1] == frozenset()


PRICES = [
    "Pens: 5 × $3 = $15. Books: 2 × $12.50 = $25. Altogether $15 + $25 = $40.",
    r"5 \times \$3 = \$15, 12.5 \cdot 2 = 25, and 25 + 15 = 40",
    "5 pens x $3/pen = $15\n2 books x $12.50/book = $25\n$15 + $25 = $40",
    "3 dollars per pen * 5 pens = 15 dollars; 2 * 12.50 = 25; 15 + 25 = 40 dollars",
]
PRICES_IN_ONE = ["5*3 + 2*12.5 = 40", "(2 × $12.50) + (5 × $3) = $40"]


def test_calculations_with_prices_and_units():
    check(calculations, [PRICES, PRICES_IN_ONE])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12+8+5", "12+8+6"),
        ("(3+5)*2", "(3+5)*4"),
        ("5 × $3", "5 × $4"),
        (r"48 \times 2", r"48 \div 2"),
        ("24 - 48", "48 - 24"),
        ("1,200 * 3", "1,300 * 3"),
        ("2 * 2.5", "2 * 5 / 2"),
        ("20% * 50", "20 * 50"),
        ("12 apples + 8 pears + 5 plums = 25", "12 apples + 8 pears + 6 plums = 26"),
    ],
)
def test_calculations_that_differ(one, other):
    assert calculations(one)
    assert calculations(other)
    assert calculations(one) != calculations(other)


def test_of_chains_the_steps_with_both_numbers_are_read():
    assert calculations("*4=28*2=56+5=61") == {"28*2", "56+5"}
    assert calculations("+2=5*3=15") == {"5*3"}


@pytest.mark.parametrize("text", ["2^3 + 4", "3**2 + 1", "sqrt(16) + 2", r"\sqrt{16} + 2 + 3", "7 % 3 + 1", "f(2) * 3"])
def test_what_has_powers_or_functions_is_not_read_in_part(text):
    assert expression(text) is None
    assert calculations(text) == frozenset()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (r"So we get \boxed{1,\!250}. I used 3 steps.", "1250"),
        ("<think>maybe 7</think> <answer>12.50</answer> (of 40 choices)", "12.5"),
        ("The answer is 12. It took 3 steps.", "12"),
        ("48/2 = 24 and 24+48 = 72\n#### 72", "72"),
        ("<answer>none</answer> of 5", "5"),
        ("It falls to −3", "-3"),
        ("10-3", "3"),
    ],
)
def test_last_number_of_the_answer(text, number):
    assert last_number(text) == number


# Programs

PROGRAM = """def first_error(lines):
    import re as regex
    for line in lines:
        try:
            regex.compile(line)
        except ValueError as error:
            return str(error)
    return None
"""
COUNTER = """def counter():
    count = 0
    def add():
        nonlocal count
        count += 1
    return add
"""

LOOP = """def total(numbers):
    result = 0
    for number in numbers:
        result += number
    return result
"""
TYPED_LOOP = """from typing import List

def add(xs: List[int]) -> int:
    '''Adds them up.'''
    out: int
    out = 0  # nothing yet
    for x in xs: out += x
    return out
"""
INDENTED_LOOP = LOOP.replace("\n", "\n   ").replace("result", "r")
ADDS_UP = [
    LOOP,
    f"Here is the function:\n\n```python\n{LOOP}```\n\n**Output:**\n\n```\n6\n15\n```\nIt runs in linear time.",
    f"```\n{TYPED_LOOP}```\nIt prints:\n```\nTotal: 6\n```\nand, without numbers,\n```\nThe total is 0\n```",
    f"<think>\n```python\ndef f(x): return sum(x)\n```\n</think>\n<answer>\n```python3\n{TYPED_LOOP}```\n</answer>",
    f"1. The code:\n\n   ```py\n   {INDENTED_LOOP}```\n\n2. In the shell:\n\n   ```bash\n   python s.py\n   ```\n",
    f"```Python\n{TYPED_LOOP}```\nExample:\n```python\n>>> add([1, 2])\n3\n```",
    f"<think>sum(x) is shorter.</think><answer>{LOOP}</answer>",
    f"```text\nsum of a list\n```\nWith a loop:\n```python\n{LOOP}",
]
BUILT_IN = ["```python\ndef total(xs):\n    return sum(xs)\n```", "```\ndef f(v): return sum(v)\n```\n```\n[1, 2]\n```"]
WITH_NUMPY = [
    "```python\nimport numpy as np\n\ndef total(xs):\n    return np.sum(xs)\n```",
    "```python\nimport numpy\n\ndef f(v):\n    return numpy.sum(v)\n```\nOutput:\n```\n6\n```",
]
WITH_MATH = [
    "from math import fsum\ndef total(xs):\n    return fsum(xs)",
    "from math import fsum as f\ndef g(v):\n    return f(v)",
]
NO_PROGRAM = ["I would use a loop.", "```\nerror: no such file\n```"]


def test_programs():
    found = check(python_tree, [ADDS_UP, BUILT_IN, WITH_NUMPY, WITH_MATH, NO_PROGRAM])
    assert found[-1] is None


def test_calls_of_programs():
    found = check(python_calls, [ADDS_UP, BUILT_IN + WITH_NUMPY, WITH_MATH, NO_PROGRAM])
    assert found[:3] == [{"For"}, {"sum"}, {"fsum"}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x: int = 3", "x = 3"),
        ("def f():\n    x: int\n    x = 3", "def g():\n    y = 3"),
        (PROGRAM, PROGRAM.replace("error", "e").replace("first_e", "fail").replace("regex", "r")),
        (PROGRAM, PROGRAM.replace("regex", "re").replace("re as re", "re")),
        (COUNTER, COUNTER.replace("counter", "f").replace("count", "n").replace("add", "g")),
        ("match a:\n    case [x, *y]: pass", "match a:\n    case [p, *q]: pass"),
        ("class P:\n    x: int\n    y: int", "class Q:\n    a: float\n    b: str"),
    ],
)  # fmt: skip
def test_programs_that_are_the_same(one, other):
    assert python_tree(one) == python_tree(other)
    assert python_tree(one) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x: int = 3", "x: int = 4"),
        ("import numpy as np", "import scipy as np"),
        ("from math import sqrt as f\nf(2)", "from math import exp as f\nf(2)"),
        ("from math import *", "from cmath import *"),
        ("class P:\n    x: int", "class P:\n    x: int\n    y: int"),
        ("try: f()\nexcept ValueError as e: g(e)", "try: f()\nexcept KeyError as e: g(e)"),
    ],
)
def test_programs_that_differ(one, other):
    assert python_tree(one) != python_tree(other)


def test_warnings_about_programs_are_not_shown(recwarn):
    assert python_tree(r"x = '\d'") is not None
    assert not recwarn.list


def test_code_of_a_completion():
    assert python_code("x = 1") == "x = 1"
    assert python_code("<think>x = 1</think>x = 2") == "x = 2"
    assert python_code("```\n42\n```") == "42\n"
    # A wrong answer is not replaced by a draft.
    assert python_tree("```python\nx = 1\n```<answer>```python\nx = \n```</answer>") is None


def test_tool_calls():
    written = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    assert tool_calls(Completion(written)) == Completion(written).tool_calls
    assert tool_calls(written) == Completion(written).tool_calls
    assert len(tool_calls(written)) == 1


# Any text

PIECES = [
    *(
        "1",
        "20",
        "3.5",
        "1,200",
        "x",
        "+",
        "-",
        "−",
        "–",
        "×",
        "*",
        "**",
        "/",
        "=",
        "%",
        "$",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
    ),
    *(r"\boxed{", r"\frac{", r"\times", r"\left(", r"\right)", r"\text{", "\\", " ", "\n", "\0", "\ud800"),
    *("<answer>", "</answer>", "</think>", "answer is", "Check:", "apples", "sqrt"),
    *("```", "```python\n", "def f(a):", "import a as b", "x: int", "e"),
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=40).map("".join)))
def test_any_text_has_a_key(text):
    for key in KEYS:
        hash(key(text))
        hash(key(Completion(text)))


NUMBERS = st.integers(1, 999)
TERMS = st.lists(st.tuples(st.sampled_from("+-"), st.lists(NUMBERS, min_size=1, max_size=3)), min_size=2, max_size=5)


def written(terms, times="*", room=""):
    """A sum of products as a text; the sign of the first one touches it."""
    text = "".join(f"{room}{sign}{room}{times.join(map(str, factors))}" for sign, factors in terms)
    return text.strip().replace(f"{terms[0][0]}{room}", terms[0][0].strip("+"), 1)


@given(TERMS, st.randoms(use_true_random=False))
def test_the_order_of_terms_and_factors_does_not_count(terms, rng):
    shuffled = [(sign, rng.sample(factors, len(factors))) for sign, factors in terms]
    rng.shuffle(shuffled)
    one, other = written(terms), written(shuffled, r" \times ", " ")
    assert expression(one) == expression(other) == expression(f"So: $({other}) = 7$.")
    assert expression(one) is not None
    assert calculations(one) == calculations(other) == {expression(one)}


@given(TERMS, st.data())
def test_another_number_is_another_expression(terms, data):
    at = data.draw(st.integers(0, len(terms) - 1))
    sign, (*factors, last) = terms[at]
    changed = [*terms[:at], (sign, [*factors, last + 1000]), *terms[at + 1 :]]
    assert expression(written(terms)) != expression(written(changed))


def value(text):
    """The value of an expression that this test wrote; None where it divides by 0."""
    try:
        return eval(re.sub(r"\d+", r"Fraction(\g<0>)", text))
    except ZeroDivisionError:
        return None


NESTED = st.recursive(
    NUMBERS.map(str), lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map("({0[0]}{0[1]}{0[2]})".format)
)


@given(NESTED)
def test_the_normal_form_keeps_the_value_and_is_its_own_normal_form(text):
    form = expression(f"{text}+1")
    assert expression(form) == form
    assert value(f"{text}+1") in (None, value(form))


# Long and hostile texts

LONG = 100_000
HOSTILE = [
    "(",
    "1+",
    "1,",
    "1 ab ",
    "a",
    "**",
    "\\",
    r"\boxed{",
    r"\frac{1}{",
    "<answer>",
    "answer:\n",
    "```\n",
    "x = 1\n",
]
MORE_HOSTILE = [
    *(")", "[", "{", "()", "f(", "+", "-", "*", "9", "1*", "-1", "(1+2)*", ",111", "20%", "3-4 days "),
    *("1 ", "x ", "a** ", "1+1 ", "check ", "answer: ", "<answer>no</answer>"),
    *("\n", "\0", r"\boxed{1+2}", r"\frac{", r"\frac{1}{2}+", r"\text{", r"1 \left"),
    *("`", "```", "```python\nx=1\n```\n", "not ", "lambda:", ".a", "</think>"),
]


@pytest.mark.parametrize("piece", [*HOSTILE, *(pytest.param(piece, marks=pytest.mark.slow) for piece in MORE_HOSTILE)])
def test_long_texts_are_read_in_little_time(piece):
    text = "1" + piece * (LONG // len(piece)) + "1"
    for key in (calculations, last_number, expression, python_tree):
        start = time.process_time()
        hash(key(text))
        assert time.process_time() - start < 10


def test_deep_brackets_are_read_up_to_a_limit():
    assert expression("(" * 40 + "1+2" + ")" * 40) == "2+1"
    for depth in (60, 300, 30_000):
        assert expression("(" * depth + "1+2" + ")" * depth) is None
        assert python_tree("(" * depth + "1" + ")" * depth) == (python_tree("1") if depth < 100 else None)
    mixed = "(2*" * 24 + "(1+" * 24 + "+".join(map(str, range(20_000))) + ")" * 48
    start = time.process_time()
    assert expression(mixed) is not None
    assert time.process_time() - start < 10


def test_a_long_completion_is_read_to_its_end():
    thoughts = "".join(f"Try {a}*{b}+{a} = {a * b + a}, no.\n" for a, b in itertools.product(range(60), range(60)))
    assert len(thoughts) > LONG / 2
    assert expression(f"<think>{thoughts}</think><answer>3*(5+2)</answer>") == "3*(5+2)"
    assert len(calculations(thoughts)) == 3600

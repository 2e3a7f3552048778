"""Arithmetic in the text of a language model: from LaTeX, markdown and words to expressions in a normal form.

Three steps, each in time proportional to the text: `plain` rewrites signs, `runs_of` finds numbers and operators in a
row, `normal_form` puts terms and factors in order. Text is read and never run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

# ------------------------------------------------------------------ from LaTeX and markdown to plain signs

NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<!\w)\.[0-9]+"
# A minus after a number, a word or a bracket is no sign.
SIGNED = re.compile(rf"((?<![\w)])-)?({NUMBER})")

SIGNS = {
    **dict.fromkeys("×⋅·∙•∗＊", "*"),
    **dict.fromkeys("÷∕⁄", "/"),
    **dict.fromkeys("−–－", "-"),
    **dict.fromkeys("$€£&", " "),
    **dict.fromkeys("（{", "("),
    **dict.fromkeys("）}", ")"),
    "＋": "+",
    "＝": "=",
}
# Other commands keep their name, so `\sqrt{2}` is `sqrt(2)`.
COMMANDS = {
    **dict.fromkeys(("times", "cdot", "ast"), "*"),
    **dict.fromkeys(("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr"), ""),
    **dict.fromkeys(("boxed", "text", "textbf", "textrm", "mathbf", "mathrm", "mbox", "displaystyle", "quad"), " "),
    "div": "/",
}
OPERATIONS = {"times": "*", "multiplied by": "*", "divided by": "/", "plus": "+", "minus": "-"}


def _fraction(found: re.Match[str]) -> str:
    return f"(({found[1] or found[3]})/({found[2] or found[4]}))"


# One fraction may be inside another, so they are read from the inside to the outside; more than this many are not.
FRACTIONS = 10
FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|([0-9])\s*([0-9]))")

# Up to three words before an operator, as in 5 apples + 2, (5 + 3 pears) * 2, $3/box * 4 or 60 miles per hour * 2.
UNITS = re.compile(
    r"""(?<=[0-9)%])
        (?:[ ]?/?[ ]?[A-Za-z]{2,20}(?![A-Za-z])){1,3}
        (?=(?:[ ]*\))?[ ]*(?:[+*/]|[ ]-[ ])[ ]*[0-9(] | [ ]*\)[ ]*=)""",
    re.VERBOSE,
)


def _dash(found: re.Match[str]) -> str:
    """A long dash that touches two numbers: a range (10–12) or a minus (12–10)."""
    return f"{found[1]}{' to ' if int(found[1]) < int(found[2]) else '-'}{found[2]}"


# Each takes time in proportion to the text: repetitions inside repetitions are bounded.
REWRITES: list[tuple[re.Pattern[str], Any]] = [
    # A backslash that was escaped; elsewhere, two of them end a line.
    (re.compile(r"\\\\(?=[a-zA-Z])"), r"\\"),
    (re.compile(r"\\\\"), "\n"),
    # 1{,}200, 1,\!200 and 1\,200 are 1,200.
    (re.compile(r"(?<=[0-9])(?:\{,\}|,\\!|\\,)(?=[0-9]{3})"), ","),
    (re.compile(r"\\(?:text|textrm|mathrm|mbox)\s*\{[^{}0-9]*\}"), " "),
    *[(FRACTION, _fraction)] * FRACTIONS,
    # In LaTeX, 3 \left( is 3(, a product.
    (re.compile(r"(?<=[0-9)}\]])\s*\\left\s*[(\[]|\\left\s*\["), "("),
    (re.compile(r"\\right\s*\]"), ")"),
    (re.compile(r"\\([a-zA-Z]+)"), lambda found: COMMANDS.get(found[1], f" {found[1]}")),
    (re.compile(r"\\%"), "%"),
    # Marks around formulas, spaces, the dollar.
    (re.compile(r"\\[^\w\s]"), " "),
    (re.compile(r"\b([0-9]{1,9})–([0-9]{1,9})\b"), _dash),
    (re.compile(f"[{''.join(SIGNS)}]"), lambda found: SIGNS[found[0]]),
    # Stars that touch a text on one side alone make it bold; others are a power.
    (re.compile(r"(?<![^\s(:=|])\*{2,3}(?=[^\s*])|(?<=[^\s*])\*{2,3}(?![\w(*-])"), " "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(rf"(?<=\s)({'|'.join(OPERATIONS)})(?= +[0-9(])"), lambda found: OPERATIONS[found[1]]),
    (re.compile(r"(?<=[0-9)\s])[xX](?= *[0-9(])"), "*"),
    (UNITS, ""),
]


def plain(text: str) -> str:
    """A text in which numbers, brackets and + - * / ^ stand for LaTeX, markdown, units and other signs."""
    for pattern, plain in REWRITES:
        text = pattern.sub(plain, text)
    return text


# ------------------------------------------------------------------ from text to expressions

TOKEN = re.compile(
    rf"""(?P<arithmetic>
            (?:{NUMBER})(?:[ ]?%(?![ ]*[0-9(]))?    # a number, or so many percent
          | [-+*/^%()\[\]]
          | [^\W\d_]\w*(?=[(\[])                    # a function; what has one is not read
         )
       | (?P<check>\b(?:check|verif)\w*[\s:*]*)
       | [^\W\d_]\w*
       | (?P<end>\n)
       | \S""",
    re.VERBOSE | re.IGNORECASE,
)
RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9}) ?[^\W\d_]")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\b")


class _Run(NamedTuple):
    """Numbers, operators and brackets in a row, perhaps an expression.

    Attributes:
        tokens: as they are written.
        size: how many of them are numbers.
        checks: whether it comes after `check` or `verify` on the same line.
    """

    tokens: list[str]
    size: int
    checks: bool


def runs_of(text: str) -> list[_Run]:
    """The runs of a plain text, each as long as it can be, that have at least two numbers."""
    found: list[_Run] = []
    stretch: list[re.Match[str]] = []
    checks = False
    for mark in TOKEN.finditer(text + "\n"):
        if mark["arithmetic"]:
            stretch.append(mark)
            continue
        if stretch:
            runs = map(_tokens, _pieces(stretch))
            found += [_Run(tokens, sum(map(is_number, tokens)), checks) for tokens in runs]
            stretch = []
        checks = bool(mark["check"]) or (checks and not mark["end"])
    return [run for run in found if run.size > 1]


def _pieces(stretch: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Cut where a bracket has no partner, as in `2) 3*5`, and where no operator stands between two numbers."""
    alone = _alone(stretch)
    piece: list[re.Match[str]] = []
    for index, mark in enumerate(stretch):
        if piece and (index in alone or (_next_to(piece[-1], mark) and not _multiplies(piece[-1], mark))):
            yield piece
            piece = []
        if index not in alone:
            piece.append(mark)
    if piece:
        yield piece


def _alone(stretch: list[re.Match[str]]) -> set[int]:
    """Where the brackets without a partner are."""
    waiting: list[int] = []
    alone: set[int] = set()
    for index, mark in enumerate(stretch):
        if mark[0] in "([":
            waiting.append(index)
        elif mark[0] in ")]":
            if waiting:
                waiting.pop()
            else:
                alone.add(index)
    return alone | set(waiting)


def _next_to(before: re.Match[str], mark: re.Match[str]) -> bool:
    """Whether a number or bracket ends and another one begins, without an operator between them."""
    return (before[0] in ")]" or is_number(before[0])) and (mark[0] in "([" or is_number(mark[0]))


def _multiplies(before: re.Match[str], mark: re.Match[str]) -> bool:
    """Whether a bracket touches the number or bracket before it, as in `3(5+2)`."""
    return _next_to(before, mark) and mark[0] == "(" and before.end() == mark.start()


def _tokens(piece: list[re.Match[str]]) -> list[str]:
    """The tokens of a piece without operators at its ends; none if it is a range or a date."""
    piece = list(itertools.dropwhile(_leads, piece))
    while piece and piece[-1][0] in "+-*/":
        piece.pop()
    if not piece or _is_range(piece):
        return []
    tokens = [piece[0][0]]
    for before, mark in itertools.pairwise(piece):
        tokens += ["*", mark[0]] if _multiplies(before, mark) else [mark[0]]
    return tokens


def _leads(mark: re.Match[str]) -> bool:
    """Whether an operator at the beginning has nothing to work on: a bullet, a dash, the rest of what was not read."""
    if mark[0] != "-":
        return mark[0] in "+*/"
    # A minus is a sign where it touches what comes after it and no word before it.
    text, start, end = mark.string, mark.start(), mark.end()
    return text[end].isspace() or text[max(start - 1, 0) : start].isalnum()


def _is_range(piece: list[re.Match[str]]) -> bool:
    """Whether it is a range (`3-4 days`, where the second number is larger) or a date."""
    text, start = piece[0].string, piece[0].start()
    between = RANGE.match(text, start)
    return bool(DATE.match(text, start) or (between and len(piece) == 3 and int(between[1]) < int(between[2])))


def is_number(token: str) -> bool:
    return token[0] in ".0123456789"


def plain_number(text: str) -> str:
    """A number without commas, percent signs and zeros that change nothing."""
    whole, _, rest = text.replace(",", "").rstrip("% ").partition(".")
    if text.endswith("%"):
        whole = whole.zfill(3)
        whole, rest = whole[:-2], whole[-2:] + rest
    return ".".join(filter(None, (whole.lstrip("0") or "0", rest.rstrip("0"))))


# ------------------------------------------------------------------ the normal form of an expression

# A term is a product with its sign: whether it is taken away, and its factors, each with whether it divides.
_Term = tuple[bool, list[tuple[bool, str]]]
MAX_DEPTH = 50  # of brackets; it bounds the time that a hostile text takes


class _Sum:
    """A sum that is being read: its terms so far, and the sign and factors of the next one."""

    def __init__(self) -> None:
        self.terms: list[_Term] = []
        self.begin(False)

    def begin(self, negative: bool) -> None:
        self.negative = negative
        self.divides = False
        self.factors: list[tuple[bool, str | list[_Term]]] = []

    def take(self, value: str | list[_Term]) -> None:
        """A factor: a number, or the terms of a sum in brackets. The factors of a product in brackets are its own."""
        if isinstance(value, list) and len(value) == 1:
            [(negative, factors)] = value
            self.negative ^= negative
            self.factors += [(self.divides ^ divides, factor) for divides, factor in factors]
        else:
            self.factors.append((self.divides, value))

    def end(self) -> None:
        """The term is complete. The terms of a sum in brackets that is no factor are its own."""
        match self.factors:
            case [(False, list(terms))]:
                self.terms += [(self.negative ^ negative, factors) for negative, factors in terms]
            case factors:
                named = [(divides, f if isinstance(f, str) else f"({_written(f)})") for divides, f in factors]
                self.terms.append((self.negative, named))


def normal_form(tokens: Sequence[str]) -> str | None:
    """An expression with terms and factors in order and without brackets that change nothing; None if it is none."""
    waiting = [_Sum()]
    complete = False  # whether the last token ends a number or a bracket
    for token in tokens:
        current = waiting[-1]
        if complete and token in ")]" and len(waiting) > 1:
            current.end()
            waiting.pop()
            waiting[-1].take(current.terms)
        elif complete and token in "+-*/":
            if token in "+-":
                current.end()
                current.begin(token == "-")
            else:
                current.divides = token == "/"
            complete = False
        elif not complete and is_number(token):
            current.take(plain_number(token))
            complete = True
        elif not complete and token in "+-":
            current.negative ^= token == "-"
        elif not complete and token in "([" and len(waiting) <= MAX_DEPTH:
            waiting.append(_Sum())
        else:
            return None
    if not complete or len(waiting) > 1:
        return None
    waiting[0].end()
    return _written(waiting[0].terms)


def _written(terms: list[_Term]) -> str:
    return _joined([(negative, _joined(factors, "*/")) for negative, factors in terms], "+-")


def _joined(parts: list[tuple[bool, str]], signs: str) -> str:
    """With a sign before each part their order can be any: + before -, * before /, then by their text, backwards."""
    ordered = sorted(sorted(parts, key=lambda part: part[1], reverse=True), key=lambda part: part[0])
    return "".join(signs[inverse] + text for inverse, text in ordered).removeprefix(signs[0])

"""When two completions of a group count as the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def labels(answers: Sequence[Hashable | None]) -> list[Hashable | None]:
    """Right answers by what they are; wrong ones (None) count as the group's most common right answer.

    A wrong answer then never makes a set more diverse, so being wrong is never paid as being different.
    """
    found = Counter(answer for answer in answers if answer is not None)
    common = found.most_common(1)[0][0] if found else None
    return [common if answer is None else answer for answer in answers]

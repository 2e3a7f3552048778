"""One vocabulary for every level, so that a policy trained on one level can read the missions of another."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 1  # 0 is padding

# The BabyAI language, then the words that only MiniGrid's own missions use. Add new words at the end: ids are stored
# with policies.
WORDS = (
    *("<padding>", "<unknown>"),
    *("go", "to", "pick", "up", "open", "put", "next", "the", "a", "and", "then", "after", "you"),
    *("object", "ball", "box", "key", "door"),
    *("red", "green", "blue", "purple", "yellow", "grey"),
    *("in", "front", "of", "behind", "on", "your", "left", "right"),
    *("get", "goal", "square", "avoid", "lava", "use", "reach", "find", "opening", "traverse", "rooms"),
    *("from", "room", "unlock", "fetch", "must", "near", "matching", "at", "end", "hallway", "maze"),
)
VOCABULARY = {word: token for token, word in enumerate(WORDS)}


def mission_words(mission: str) -> list[str]:
    """The words of a mission in order; case and punctuation are dropped."""
    return re.findall(r"[^\W\d_]+", mission.lower())


def unknown_words(mission: str) -> list[str]:
    """The words of a mission that have no token."""
    return [word for word in mission_words(mission) if word not in VOCABULARY]


def tokenize(mission: str) -> list[int]:
    """The ids of a mission's words in order; unknown words become `UNKNOWN`."""
    return [VOCABULARY.get(word, UNKNOWN) for word in mission_words(mission)]


def token_table(missions: Sequence[str], length: int | None = None) -> NDArray[np.int32]:
    """[missions, length] token ids, padded with 0; `length` defaults to the longest mission's (at least 1)."""
    tokens = [tokenize(mission) for mission in missions]
    longest = max(1, *(len(row) for row in tokens))
    table = np.zeros((len(tokens), longest if length is None else length), np.int32)
    for row, ids in zip(table, tokens, strict=True):
        row[: len(ids)] = ids
    return table

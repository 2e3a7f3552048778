"""Does a policy read the cells and the words of a grid world correctly?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def cells_misfit(
    header: Mapping[str, Any], image_shape: Sequence[int], code_triples: Any, observation: str, num_actions: int
) -> str:
    """Why a network cannot read these cells; empty if it can. `header` is the header of the policy's file."""
    architecture, shown = header["architecture"], header["observation"]
    if shown and shown != observation:
        return f"observation is '{shown}', the world shows '{observation}'"
    if architecture.get("num_actions", num_actions) != num_actions:
        return f"num_actions is {architecture['num_actions']}, the world has {num_actions}"
    width, height = image_shape[:2]
    cells = architecture.get("cells") or architecture.get("width", width) * architecture.get("height", height)
    if cells != width * height:
        return f"the network sees {cells} cells, the world shows {width} × {height}"
    triples = architecture.get("code_triples")
    if triples is not None and not np.array_equal(triples, code_triples):
        return "code_triples differ from those of the world: its codes mean something else"
    if "num_tokens" in architecture:
        return "the network reads tokens, the world shows the cells of a grid"
    return ""


def words_misfit(header: Mapping[str, Any], world_words: Sequence[str], missions: Sequence[str], tokens: Any) -> str:
    """Why a network would misread these missions; empty if it would not."""
    num_words = header["architecture"].get("num_words")
    if num_words is None:
        return ""
    words = header["vocabulary"]
    if len(words) != num_words:
        return f"vocabulary has {len(words)} words, the network's num_words is {num_words}"
    # Every token id must mean the same word to both; the world may have more words at the end.
    for token, word in enumerate(words):
        other = world_words[token] if token < len(world_words) else None
        if word != other:
            return (
                f"vocabulary: token {token} is {word!r}, to the world it is {other!r}: its missions would be "
                "read as other words"
            )
    return unseen_word(header, missions, tokens)


def unseen_word(header: Mapping[str, Any], missions: Sequence[str], tokens: Any) -> str:
    """The first word of a mission that a policy has no token for or was never trained on; empty if there is none."""
    vocabulary = header["vocabulary"]
    words_seen = set(header["words_seen"] or vocabulary) - {"<padding>", "<unknown>"}
    seen = {token for token, word in enumerate(vocabulary) if word in words_seen}
    for mission, row in zip(missions, np.asarray(tokens), strict=True):
        words = [token for token in row.tolist() if token]
        strange = [place for place, token in enumerate(words) if token not in seen]
        if strange:
            word = vocabulary[words[strange[0]]] if words[strange[0]] < len(vocabulary) else "?"
            return (
                f"words_seen has no '{word}', word {strange[0] + 1} of the mission '{mission}'; "
                "the policy was never trained on it"
            )
    return ""

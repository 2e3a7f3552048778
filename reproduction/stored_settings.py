"""What stored settings mean today: fields come and go, and results outlive them.

A field that a stored run does not have counts as the value that runs had before it came. A field that is gone is
ignored where it changed nothing. A value that is gone is written as the same thing is written now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from polychromic.finetuning.config import Config

# field -> its value in runs from before it came. Needed only where that is not the default of `Config` any more.
ADDED: dict[str, Any] = {}
# field that is gone -> the value that changed nothing.
REMOVED: dict[str, Any] = {}
# (field, value) that is gone -> how the same is said now.
REPLACED: dict[tuple[str, Any], dict[str, Any]] = {
    ("fork_rule", "none"): {"fork_rule": "spaced", "forks_per_rollout": 0},
}


def current_words(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings in today's words; those that are not there stay away."""
    current = {name: value for name, value in settings.items() if name not in REMOVED or value != REMOVED[name]}
    for (name, value), instead in REPLACED.items():
        if name in settings and settings[name] == value:
            current |= instead
    return current


def complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a stored run, with a value for every field of today's `Config`."""
    known = {field.name: field.default for field in fields(Config) if field.default is not MISSING}
    before = {name: list(value) if isinstance(value, tuple) else value for name, value in {**known, **ADDED}.items()}
    stored = current_words(config)
    return {**stored, **{name: value for name, value in before.items() if name not in stored}}

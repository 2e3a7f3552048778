"""Translate stored settings to the current fields: fields come and go, and results outlive them.

A field that a stored run lacks has the value that runs had before it was added. A removed field is ignored if it had no
effect. A removed value is translated to its current form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from polychromic.finetuning.config import Config

# field -> its value in runs from before it was added. Only needed if that is no longer the default of `Config`.
ADDED: dict[str, Any] = {}
# removed field -> the value that had no effect.
REMOVED: dict[str, Any] = {}
# removed (field, value) -> the same setting now.
REPLACED: dict[tuple[str, Any], dict[str, Any]] = {
    ("fork_rule", "none"): {"fork_rule": "spaced", "forks_per_rollout": 0},
}


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings in current terms; missing fields stay missing."""
    current = {name: value for name, value in settings.items() if name not in REMOVED or value != REMOVED[name]}
    for (name, value), instead in REPLACED.items():
        if name in settings and settings[name] == value:
            current |= instead
    return current


def complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a stored run, with a value for every field of today's `Config`."""
    known = {field.name: field.default for field in fields(Config) if field.default is not MISSING}
    before = {name: list(value) if isinstance(value, tuple) else value for name, value in {**known, **ADDED}.items()}
    stored = current_settings(config)
    return {**stored, **{name: value for name, value in before.items() if name not in stored}}

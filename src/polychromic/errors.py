"""The one exception for mistakes in what a user gave: its text is all that the user needs to see."""

from __future__ import annotations


class UserError(ValueError):
    """An argument, file or setting is wrong; the message names it, its value and what would be right."""

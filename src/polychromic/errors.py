"""Exceptions whose text is all that the user needs to see."""

from __future__ import annotations


class UserError(ValueError):
    """An argument, file or setting is wrong; the message names it, its value and what would be right."""


class Diverged(UserError):
    """A run whose losses, parameters or rewards are no longer finite: a result, not a mishap."""


class Untrusted(UserError):
    """A file names a function that nobody has allowed to be imported."""

"""Exceptions whose message is all that the user needs to see."""

from __future__ import annotations


class UserError(ValueError):
    """An argument, file or setting is wrong; the message names it, its value and what would be right."""


class Diverged(UserError):
    """A run whose losses, parameters or rewards are no longer finite: a result, not a fault of the user."""


class Untrusted(UserError):
    """A file names a function that the user has not allowed to be imported."""


class MissingExtra(UserError, ImportError):
    """A part of the package needs libraries that are not installed."""


class Notice(UserWarning):
    """Something about a run that its user should know, though nothing is wrong; commands show the text alone."""


def missing(what: str, error: ModuleNotFoundError, extra: str) -> Exception:
    """Which extra to install for a missing library; the error itself if the missing module is our own."""
    if not error.name or error.name.partition(".")[0] == "polychromic":
        return error
    return MissingExtra(f"{what} needs {error.name}, which is not installed: pip install 'polychromic[{extra}]'")

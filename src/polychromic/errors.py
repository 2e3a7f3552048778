"""Exceptions whose message is all that the user needs to see."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import re

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Errors of the system about a file that are the user's to solve.
_OF_FILES = {*NO_SPACE, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR, errno.EISDIR}
_OF_FILES |= {errno.ENAMETOOLONG, errno.ELOOP, errno.EEXIST}


class UserError(ValueError):
    """An argument, file or setting is wrong; the message names it, its value and what would be right."""


class Diverged(UserError):
    """A run whose losses, parameters or rewards are no longer finite: a result, not a fault of the user."""


class Untrusted(UserError):
    """A file names a function that the user has not allowed to be imported."""


class MissingExtra(UserError, ImportError):
    """A part of the package needs libraries that are not installed."""


def _libraries() -> set[str]:
    """The modules that the extras bring, by the names of their distributions."""
    required = importlib.metadata.requires("polychromic") or []
    names = {re.split(r"[^\w.-]", one, maxsplit=1)[0].lower().replace("-", "_") for one in required}
    return names | {"jaxlib", "tensorboardx"}


class Notice(UserWarning):
    """Something about a run that its user should know, though nothing is wrong; commands show the text alone."""


def missing(what: str, error: ModuleNotFoundError, extra: str) -> Exception:
    """Which extra to install for a missing library; the error itself if the missing module is our own.

    A library that no extra brings was asked for by the user's own code.
    """
    library = (error.name or "").partition(".")[0]
    if library in ("", "polychromic"):
        return error
    if library.lower() not in _libraries():
        return MissingExtra(f"{library} is not installed, which code of your own imports (polychromic does not use it)")
    return MissingExtra(f"{what} needs {error.name}, which is not installed: pip install 'polychromic[{extra}]'")


def problem_with_file(error: OSError) -> str:
    """A full disk, a folder that cannot be written and the like in one line; empty for any other error."""
    if error.errno not in _OF_FILES or (error.filename is None and error.errno not in NO_SPACE):
        return ""
    named = f"cannot write {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else "cannot write"
    advice = "free some space; the same command then resumes" if error.errno in NO_SPACE else "give another place"
    return f"{named} ({error.strerror}); {advice}"

"""Keep freed memory for the next call instead of returning it to the system each time.

Evaluating a policy allocates the same few megabytes at every step. By default glibc takes blocks of that size from the
system and returns them at once, and their pages have to be zeroed again: more than half of the time of an evaluation.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # names of glibc's malloc.h
MEGABYTE = 1 << 20


def keep_freed_memory() -> None:
    """Configure the C library; does nothing where it has no such setting. For programs, not for libraries."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    # 32 MB is glibc's maximum for the last one.
    for name, value in ((_TRIM_THRESHOLD, 1024), (_TOP_PAD, 64), (_MMAP_THRESHOLD, 32)):
        mallopt(name, value * MEGABYTE)

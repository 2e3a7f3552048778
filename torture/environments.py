"""Hostile environments: what the fork check says about each, and whether `from_gymnasium` alone is as strict."""

from __future__ import annotations

import contextlib
import io
import logging
from typing import Any

import polychromic
from polychromic.envs.gymnasium.probe import maker_of
from polychromic.errors import UserError
from torture import gallery


def judge(make: Any, options: dict[str, Any]) -> tuple[bool, str]:
    """Whether the fork check passes, and its report."""
    try:
        report = polychromic.check_fork(make, **({"fork": "copy"} | options))
    except UserError as error:
        return False, str(error)
    return report.ok, str(report)


def chosen(make: Any) -> str | None:
    """The way of forking that `from_gymnasium` chooses; None if it refuses."""
    try:
        with polychromic.from_gymnasium(make, range(3), horizon=64) as world:
            return world.recipe.method
    except UserError:
        return None


def attack(small: bool = False) -> dict[str, Any]:
    """Every environment of the gallery; with `small` every fifth."""
    every = 5 if small else 1
    logging.getLogger("torture.gallery").setLevel(logging.WARNING)
    missed, wrong, lax, seen_now = [], [], [], []
    detectable: dict[str, int] = {gallery.STEPS: 0, gallery.FIELDS: 0, gallery.OUTSIDE: 0}
    unseen: dict[str, str] = {}
    faulty, sound = gallery.faulty()[::every], gallery.sound()[::every]
    with contextlib.redirect_stdout(io.StringIO()):
        for row in faulty:
            ok, _ = judge(row.make, row.options)
            if row.seen == gallery.NEVER:
                unseen[row.name] = row.reason
                if not ok:
                    seen_now.append(row.name)
                continue
            detectable[row.seen] += 1
            if ok:
                missed.append(row.name)
            if not row.options and chosen(row.make) == "copy":
                lax.append(row.name)
        for environment in sound:
            ok, _ = judge(maker_of(environment.make), {})
            if not ok or chosen(maker_of(environment.make)) != "copy":
                wrong.append(environment.name)
    return {
        "part": "environments",
        "attacks": len(faulty) + len(sound),
        "faulty": len(faulty),
        "detectable": detectable,
        "sound": len(sound),
        "false negatives": missed,
        "false positives": wrong,
        "accepted by from_gymnasium alone": lax,
        "undetectable": unseen,
        "undetectable, but found": seen_now,
        "failures": len(missed) + len(wrong) + len(lax),
    }

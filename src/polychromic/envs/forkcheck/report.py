"""The result of a fork check, as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polychromic.errors import UserError


@dataclass(frozen=True)
class Check:
    """One property of a faithful fork."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class ForkReport:
    """Every check of one way of forking; `rejected` holds the reports of ways that were tried before it."""

    subject: str
    method: Any
    checks: tuple[Check, ...]
    rejected: tuple[ForkReport, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether forks are faithful."""
        return all(check.ok for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.ok)

    def raise_if_failed(self) -> None:
        """Raise a `UserError` with the whole report unless every check passed."""
        if not self.ok:
            raise UserError(f"forks of {self.subject} are not faithful.\n{self}")

    def __str__(self) -> str:
        lines = []
        for report in (*self.rejected, self):
            lines.append(f"{report.subject}, forked by {report.method}:")
            for check in report.checks:
                lines.append(f"  {'ok    ' if check.ok else 'FAILED'} {check.name}: {check.found}")
                if check.remedy:
                    lines.append(f"         what to do: {check.remedy}")
        return "\n".join(lines)

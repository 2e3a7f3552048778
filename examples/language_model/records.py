"""How runs of these examples are kept: results whole or not at all, and where they came from."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any


def store(file: Path, result: dict[str, Any], indent: int | None = None) -> None:
    """Write a result as JSON, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(result, indent=indent) + "\n")
    part.replace(file)


def commit() -> str:
    """The commit of this checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        shown = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return shown.stdout.strip() or "unknown"


def say(text: str) -> None:
    """A line with the time."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)

"""python -m torture [--small] [--only environments kills disks damage trust ray adapters] [--out FILE]

Attacks this package and prints the outcome. Takes an hour or more, less with `--small`. Exit code 0 if nothing failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torture.page import fill_page, table

PARTS = ("environments", "kills", "disks", "damage", "trust", "ray", "adapters")
RESULTS = Path(__file__).parent / "results.json"


def main(given: list[str] | None = None) -> int:
    """Run the parts, print the table, write the results."""
    parser = argparse.ArgumentParser(
        prog="python -m torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="run only these parts")
    parser.add_argument("--small", action="store_true", help="a few attacks of each part")
    parser.add_argument("--kills", type=int, help="number of kills (210, small: 4)")
    parser.add_argument("--mutations", type=int, help="number of damaged files (2300, small: 40)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="attacks at the same time")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results go")
    parser.add_argument("--page", type=Path, help="a page to write the table into, between its markers")
    options = parser.parse_args(given)
    parts: dict[str, Any] = {}
    if options.out.exists() and set(options.only) != set(PARTS):
        parts = json.loads(options.out.read_text(encoding="utf-8"))["parts"]
    for part in options.only:
        print(f"{part} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        parts[part] = run(part, options.small, options.kills, options.mutations, options.jobs)
        parts[part] |= {"minutes": round((time.monotonic() - began) / 60, 1), **origin(part, options.small)}
    results = {"parts": {part: parts[part] for part in PARTS if part in parts}}
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))
    if options.page:
        fill_page(options.page, results)
    return int(any(part["failures"] for part in parts.values()))


def run(part: str, small: bool, kills: int | None, mutations: int | None, jobs: int) -> dict[str, Any]:
    """One part; its modules are imported only when needed."""
    from torture import adapters, clusters, damage, disks, environments, trust
    from torture import kills as killing

    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "environments": lambda: environments.attack(small),
        "kills": lambda: killing.attack(kills or (4 if small else 210), jobs),
        "damage": lambda: damage.attack(mutations or (40 if small else 2300), jobs),
        "trust": lambda: trust.attack(small),
        "disks": lambda: disks.attack(small),
        "ray": lambda: clusters.attack(small),
        "adapters": lambda: adapters.attack(),
    }
    return parts[part]()


def origin(part: str, small: bool) -> dict[str, str]:
    """The command and the commit."""
    root = Path(__file__).parents[1]

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    changed = git("status", "--porcelain", "--untracked-files=no", "src", "torture/*.py")
    return {
        "command": f"python -m torture --only {part}{' --small' if small else ''}",
        "commit": git("rev-parse", "--short", "HEAD") + (" with changes" if changed else ""),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())

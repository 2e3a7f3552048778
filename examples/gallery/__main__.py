"""`python -m examples.gallery`: run what is missing, then write the page. `run exits` runs one, `page` writes alone."""

from __future__ import annotations

import sys
from pathlib import Path

from examples.gallery.run import run_study
from examples.gallery.studies import STUDIES

RESULTS = Path("results/gallery.json")


def main(args: list[str]) -> int:
    """Run studies, then write their page."""
    what, names = (args[0], args[1:]) if args else ("all", [])
    if what not in ("all", "run", "page") or any(name not in STUDIES for name in names):
        print(f"usage: python -m examples.gallery [run|page] [{'|'.join(STUDIES)}]", file=sys.stderr)
        return 2
    if what != "page":
        for name in names or STUDIES:
            run_study(STUDIES[name], Path("runs/gallery"), RESULTS)
    if what != "run":
        from examples.gallery.page import write_gallery

        write_gallery(RESULTS, Path("docs"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Writes what the paper's tables need into docs/scale.md, from the costs that `python -m benchmarks.costs` measured.

python -m benchmarks.scale
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reproduction.estimates import needs_table
from reproduction.tables_command import FULL, QUICK, Scale, cells_of

from polychromic.report.tables import as_markdown

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
SCALES = {"seeds-3": replace(FULL, seeds=3), "seeds-20": replace(FULL, seeds=20), "quick": QUICK}


def table_of(scale: Scale) -> str:
    """The rows of `polychromic reproduce table1 --estimate-only`, without their heading."""
    text = as_markdown([needs_table(cells_of("all", scale))])
    return text[text.index("| task") :].strip()


def main() -> None:
    """Replace what stands between the marks."""
    page = PAGE.read_text(encoding="utf-8")
    for name, scale in SCALES.items():
        before, rest = page.split(f"<!-- {name} -->", 1)
        after = rest.split("<!-- end -->", 1)[1]
        page = f"{before}<!-- {name} -->\n\n{table_of(scale)}\n\n<!-- end -->{after}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

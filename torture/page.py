"""The table of results, for the terminal and for the page in the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BEGIN, END = "<!-- torture: begin -->", "<!-- torture: end -->"
WORDS = {
    "environments": "hostile and sound environments",
    "kills": "SIGKILLs in runs, sweeps, pretraining and recordings",
    "disks": "full disks",
    "damage": "damaged and crafted files of every format",
    "trust": "planted modules and links",
    "ray": "SIGKILLs in sweeps on Ray",
    "adapters": "hostile rewards, labels, judges and embeddings for TRL and verl",
}


def table(results: dict[str, Any]) -> str:
    """A row per part, then the faults that no check can detect."""
    lines = ["| attack | count | outcome | failures | command, commit |", "|---|---:|---|---:|---|"]
    for name, part in results["parts"].items():
        origin = f"`{part['command']}`, {part['commit']}"
        lines.append(f"| {WORDS[name]} | {part['attacks']} | {outcome(part)} | {part['failures']} | {origin} |")
    missing = [WORDS[name] for name in WORDS if name not in results["parts"]]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    unseen = results["parts"].get("environments", {}).get("undetectable", {})
    if unseen:
        lines += ["", f"{len(unseen)} faults of environments are inherently out of sight of a fork check:", ""]
        lines += ["| environment | why it cannot be seen |", "|---|---|"]
        lines += [f"| {name} | {reason} |" for name, reason in unseen.items()]
    return "\n".join(lines)


def outcome(part: dict[str, Any]) -> str:
    """The outcome of one part."""
    if part["part"] == "environments":
        seen = sum(part["detectable"].values())
        return (
            f"{seen - len(part['false negatives'])} of {seen} faulty ones refused, "
            f"{len(part['undetectable'])} out of sight, "
            f"{part['sound'] - len(part['false positives'])} of {part['sound']} sound ones accepted"
        )
    if part["part"] == "kills":
        rounds = sum(story["rounds compared"] for story in part["by story"].values())
        return f"{rounds} resumed to the end and compared byte by byte"
    if part["part"] == "damage":
        outcomes = sorted(part["outcomes"].items(), key=lambda item: -item[1])
        return ", ".join(f"{count} {name}" for name, count in outcomes)
    if part["part"] == "disks":
        full = sum(story["refused"] for story in part["by story"].values())
        stories = ", ".join(part["by story"])
        return f"{full} times full{held(part, ': one line, and resumed to the same bytes')} ({stories}; {part['way']})"
    if part["part"] == "ray":
        if "not run" in part:
            return f"not run: {part['not run']}"
        kills = ", ".join(f"{name} {count} times" for name, count in part["kills"].items())
        return f"killed: {kills}{held(part, '; all ended in the same bytes')}"
    if part["part"] == "adapters":
        places = ", ".join(f"{count} in {name}" for name, count in part["by place"].items())
        missing = f"; not run: {', '.join(part['not run'])}" if part["not run"] else ""
        return places + held(part, ": one line each, or the documented fallback") + missing
    return f"{part['attacks'] - len({failure['plant'] for failure in part['bad']})} held off"


def held(part: dict[str, Any], words: str) -> str:
    """What holds if nothing failed."""
    return "" if part["failures"] else words


def fill_page(page: Path, results: dict[str, Any]) -> None:
    """Put the table between the markers of a page."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} has no markers {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", encoding="utf-8")

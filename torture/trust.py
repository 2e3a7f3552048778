"""Planted modules: nothing in a received folder may be imported, followed or run without consent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torture.commands import FINETUNE, SWEEP, call

EVIL = """from pathlib import Path
Path({mark!r}).write_text("ran")

def boom(returns, diversity):
    return returns.mean(axis=-1) * diversity
"""
# Names that Python or the package imports anyway: a file of that name must not shadow the real module.
SHADOWS = (
    "queue",
    "random",
    "secrets",
    "numpy",
    "jax",
    "matplotlib",
    "rich",
    "polychromic",
    "sitecustomize",
    "usercustomize",
)


class Plant(NamedTuple):
    """A folder with something planted, a command to run in it, and the same command with consent."""

    name: str
    arguments: list[str]
    consent: list[str] | None = None  # the command that must run the module, or the attack proves nothing


def attack(small: bool = False) -> dict[str, Any]:
    """Every plant; with `small` one of each kind."""
    bad: list[dict[str, str]] = []
    names: list[str] = []
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        scratch = Path(place)
        mark = scratch / "mark"
        _send(scratch, small)
        for plant, folder in _plants(scratch, small):
            names.append(plant.name)
            mark.unlink(missing_ok=True)
            done = call(plant.arguments, scratch, cwd=folder)
            if mark.exists():
                bad.append({"plant": plant.name, "what": "the module was run"})
            if "Traceback" in done.stderr + done.stdout:
                bad.append({"plant": plant.name, "what": f"a traceback: {done.stderr[-300:]}"})
            if plant.consent is not None:
                mark.unlink(missing_ok=True)
                call(plant.consent, scratch, cwd=folder)
                if not mark.exists():
                    bad.append({"plant": plant.name, "what": "even with consent the module was not run"})
        for name, wrong in _links(scratch, () if small else LINKED):
            names.append(name)
            if wrong:
                bad.append({"plant": name, "what": wrong})
    return {"part": "trust", "attacks": len(names), "plants": names, "bad": bad, "failures": len(bad)}


def _send(scratch: Path, small: bool) -> None:
    """A valid run and sweep that ask for a function, as an attacker would make them."""
    sender = scratch / "sent"
    sender.mkdir()
    (sender / "evil.py").write_text(EVIL.format(mark=str(scratch / "mark")))

    def make(*arguments: str) -> None:
        done = call(list(arguments), scratch, cwd=sender)
        if done.returncode:
            raise RuntimeError(f"polychromic {' '.join(arguments)}: {done.stderr}")

    make("finetune", *FINETUNE, "--objective", "evil:boom", "--out", "run")
    (sender / "settings.toml").write_text('objective = "evil:boom"\n')
    if not small:
        make("sweep", *SWEEP, "--set", "objective=evil:boom", "--out", "sweep", "--workers", "1")
        for done in (sender / "sweep").glob("*/*"):  # so that there is work left
            if done.name in ("done.json", "figures.json", "evaluation.json", "checkpoint.safetensors", "metrics.jsonl"):
                done.unlink()


def _plants(scratch: Path, small: bool) -> Iterator[tuple[Plant, Path]]:
    evil = EVIL.format(mark=str(scratch / "mark"))

    def received(beside: str = "evil") -> Path:
        folder = scratch / "received"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(scratch / "sent", folder, ignore=shutil.ignore_patterns("evil.py", "__pycache__"))
        for place in (folder, folder / "run", folder / "sweep"):
            if place.exists():
                (place / f"{beside}.py").write_text(evil)
        return folder

    # 1. A function that a file asks for.
    settings = ["finetune", *FINETUNE, "--settings", "settings.toml", "--out", "new"]
    yield Plant("a settings file asks for evil:boom", settings, [*settings, "--objective", "evil:boom"]), received()
    reads = [["report", "run"], ["evaluate", "run", "--attempts", "2"], ["watch", "run"]]
    for arguments in reads[:1] if small else reads:
        yield Plant(f"config.json asks for evil:boom, {arguments[0]}", arguments), received()
    if not small:
        sweep = ["sweep", "--out", "sweep", "--workers", "1"]
        yield Plant("cell.json asks for evil:boom", sweep, [*sweep, "--trust"]), received()
        folder = received() / "sweep"
        yield Plant("cell.json asks for evil:boom, in its own folder", ["sweep", "--out", "."]), folder
    # 2. A module with the name of one that is imported anyway, beside each kind of file.
    places = {
        "run": [["report", "."], ["evaluate", ".", "--attempts", "2"], ["finetune", *FINETUNE, "--out", "new"]],
        "sweep": [["sweep", *SWEEP, "--out", "new", "--workers", "1"], ["report", "."]],
    }
    for place, lists in places.items():
        for arguments in lists:
            for shadow in SHADOWS:
                folder = received(shadow) / place
                if folder.exists():
                    yield Plant(f"{shadow}.py beside a {place}, {arguments[0]}", arguments), folder
                if small:
                    return


LINKED = (".lock", "metrics.jsonl", "evaluations.jsonl", "timing.jsonl", "checkpoint.safetensors", "policy.safetensors")


def _links(scratch: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Symbolic links in a received folder that point to a file of the user's."""
    for name in names:
        folder, precious = scratch / "linked", scratch / "precious"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        precious.write_text("precious\n")
        (folder / name).symlink_to(precious)
        call(["finetune", *FINETUNE, "--out", str(folder)], scratch)
        changed = precious.read_text() != "precious\n"
        yield f"{name} of a run is a link", "the file it points to was changed" if changed else ""

"""Planted modules: nothing in a received folder may be imported, followed or run without consent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from polychromic.policies.files import policy_path
from torture.commands import DEMOS, FINETUNE, SWEEP, call, prepare_demonstrations, pretrain_arguments

EVIL = """with open({mark!r}, "a") as mark:
    mark.write(__name__ + " ")

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
    modules: int = 1  # planted at once


def attack(small: bool = False) -> dict[str, Any]:
    """Every plant; with `small` one of each kind."""
    bad: list[dict[str, str]] = []
    names: list[str] = []
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        scratch = Path(place)
        mark = scratch / "mark"
        _send(scratch, small)
        for plant, folder in _plants(scratch, small):
            names += [plant.name] * plant.modules
            mark.unlink(missing_ok=True)
            done = call(plant.arguments, cwd=folder)
            if mark.exists():
                bad.append({"plant": plant.name, "what": f"run: {mark.read_text()}"})
            if plant.modules > 1 and done.returncode:
                bad.append({"plant": plant.name, "what": f"ended with {done.returncode}: {done.stderr[-300:]}"})
            if "Traceback" in done.stderr + done.stdout:
                bad.append({"plant": plant.name, "what": f"a traceback: {done.stderr[-300:]}"})
            if plant.consent is not None:
                mark.unlink(missing_ok=True)
                call(plant.consent, cwd=folder)
                if not mark.exists():
                    bad.append({"plant": plant.name, "what": "even with consent the module was not run"})
        for name, wrong in _links(scratch, () if small else LINKED):
            names.append(name)
            if wrong:
                bad.append({"plant": name, "what": wrong})
    plants = sorted(set(names))
    return {"part": "trust", "attacks": len(names), "plants": plants, "bad": bad, "failures": len(bad)}


def _send(scratch: Path, small: bool) -> None:
    """A valid run and sweep that ask for a function, as an attacker would make them."""
    sender = scratch / "sent"
    sender.mkdir()
    (sender / "evil.py").write_text(EVIL.format(mark=str(scratch / "mark")))

    def make(*arguments: str) -> None:
        done = call(list(arguments), cwd=sender)
        if done.returncode:
            raise RuntimeError(f"polychromic {' '.join(arguments)}: {done.stderr}")

    make("finetune", *FINETUNE, "--objective", "evil:boom", "--out", "run")
    shutil.copy(policy_path("fourrooms"), sender / "policy.safetensors")
    prepare_demonstrations(sender)
    (sender / "settings.toml").write_text('objective = "evil:boom"\n')
    if not small:
        make("sweep", *SWEEP, "--set", "objective=evil:boom", "--out", "sweep", "--workers", "1")
        for done in (sender / "sweep").glob("*/*"):  # so that there is work left
            if done.name in ("done.json", "figures.json", "evaluation.json", "checkpoint.safetensors", "metrics.jsonl"):
                done.unlink()


def _plants(scratch: Path, small: bool) -> Iterator[tuple[Plant, Path]]:
    evil = EVIL.format(mark=str(scratch / "mark"))

    def received(*beside: str) -> Path:
        folder = scratch / "received"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(scratch / "sent", folder, ignore=shutil.ignore_patterns("evil.py", "__pycache__"))
        for place in (folder, folder / "run", folder / "sweep"):
            for name in beside or ("evil",):
                if place.exists():
                    (place / f"{name}.py").write_text(evil)
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
    # 2. Modules with the names of those that are imported anyway, beside each kind of file.
    folder = received(*SHADOWS)
    plain = ["finetune", *FINETUNE, "--out", "new"]
    beside = [
        ("a run", folder / "run", ["report", ".", "--out", "../page.html"]),
        ("a run", folder, plain),
        (
            "a policy",
            folder,
            ["evaluate", "policy.safetensors", "--attempts", "2", "--scan", "never", "--out", "e.json"],
        ),
        ("a policy", folder, ["watch", "policy.safetensors", "--gif", "episode.gif"]),
        ("demonstrations", folder, ["pretrain", *pretrain_arguments(Path()), "--out", "cloned"]),
        ("an evaluation", folder, ["report", "e.json"]),
        ("a recording", folder, ["demos", *DEMOS, "--out", "demos.npz"]),
        ("a sweep", folder, ["sweep", *SWEEP, "--out", "cells", "--workers", "1"]),
    ]
    for what, where, arguments in beside[:2] if small else beside:
        yield Plant(f"beside {what}, {arguments[0]}", arguments, modules=len(SHADOWS)), where


LINKED = (".lock", "metrics.jsonl", "evaluations.jsonl", "timing.jsonl", "checkpoint.safetensors", "policy.safetensors")


def _links(scratch: Path, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Symbolic links in a received folder that point to a file of the user's."""
    for name in names:
        folder, precious = scratch / "linked", scratch / "precious"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        precious.write_text("precious\n")
        (folder / name).symlink_to(precious)
        call(["finetune", *FINETUNE, "--out", str(folder)])
        changed = precious.read_text() != "precious\n"
        yield f"{name} of a run is a link", "the file it points to was changed" if changed else ""

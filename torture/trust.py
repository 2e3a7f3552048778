"""Planted modules: nothing in a received folder may be imported, followed or run without a word of consent."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torture.commands import FINETUNE, SWEEP, call, must

EVIL = "from pathlib import Path\nPath({mark!r}).write_text('ran')\n\ndef boom(*_, **__):\n    return 0\n"
# Names that Python or the package imports anyway: a file of that name must not be taken for it.
SHADOWS = ("queue", "random", "secrets", "numpy", "jax", "matplotlib", "rich", "polychromic", "sitecustomize", "usercustomize")


class Plant(NamedTuple):
    """A folder with something planted, a command that is run in it, and the same with consent."""

    name: str
    arguments: list[str]
    consent: list[str] | None = None  # what must run the module, or the attack proves nothing


def attack(small: bool = False) -> dict[str, Any]:
    """Every plant; with `small` one of each kind."""
    bad: list[dict[str, str]] = []
    names: list[str] = []
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        scratch = Path(place)
        _received(scratch)
        for plant, folder in _plants(scratch, small):
            names.append(plant.name)
            mark = scratch / "mark"
            done = call(plant.arguments, scratch, cwd=folder)
            if mark.exists():
                bad.append({"plant": plant.name, "what": "the module was run"})
            if "Traceback" in done.stderr + done.stdout:
                bad.append({"plant": plant.name, "what": f"a traceback: {done.stderr[-300:]}"})
            mark.unlink(missing_ok=True)
            if plant.consent is not None:
                call(plant.consent, scratch, cwd=folder)
                if not mark.exists():
                    bad.append({"plant": plant.name, "what": "even with consent the module was not run"})
                mark.unlink(missing_ok=True)
        for name, wrong in _links(scratch):
            names.append(name)
            if wrong:
                bad.append({"plant": name, "what": wrong})
    return {"part": "trust", "attacks": len(names), "plants": names, "bad": bad, "failures": len(bad)}


def _received(scratch: Path) -> None:
    """A run, a sweep and an evaluation, as somebody may send them."""
    must(["finetune", *FINETUNE, "--out", str(scratch / "run")], scratch)
    must(["sweep", *SWEEP, "--out", str(scratch / "sweep"), "--workers", "1"], scratch)
    out = str(scratch / "run" / "evaluation.json")
    must(["evaluate", str(scratch / "run"), "--attempts", "2", "--out", out], scratch)


def _plants(scratch: Path, small: bool) -> Iterator[tuple[Plant, Path]]:
    evil = EVIL.format(mark=str(scratch / "mark"))

    def fresh(source: str, **files: str) -> Path:
        folder = scratch / "received"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(scratch / source, folder)
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        return folder

    # 1. A module with the name of one that is imported anyway, beside each kind of file.
    commands = {
        "sweep": [["sweep", *SWEEP, "--out", ".", "--workers", "1"], ["report", "."]],
        "run": [["finetune", *FINETUNE, "--out", "."], ["evaluate", ".", "--attempts", "2"], ["report", "."]],
    }
    for source, lists in commands.items():
        for arguments in lists[:1] if small else lists:
            for shadow in SHADOWS[:1] if small else SHADOWS:
                folder = fresh(source, **{shadow: evil})
                for done in folder.glob("*/done.json"):  # so that there is something to do
                    done.unlink()
                yield Plant(f"{shadow}.py beside a {source}, {arguments[0]}", arguments), folder
    # 2. A function that a file asks for.
    fields = ("objective",) if small else ("objective", "diversity", "set_former", "task", "policy")
    for field in fields:
        folder = fresh("sweep", evil=evil)
        for cell in folder.glob("*/cell.json"):
            _ask_for(cell, field)
            (cell.parent / "done.json").unlink(missing_ok=True)
        arguments = ["sweep", "--out", "."]
        consent = [*arguments, "--trust"] if field == "objective" else None
        yield Plant(f"{field} = 'evil:boom' in the cells of a sweep", arguments, consent), folder
        for command in ("evaluate", "report", "watch"):
            folder = fresh("run", evil=evil)
            _ask_for(folder / "config.json", field)
            yield Plant(f"{field} = 'evil:boom' in config.json of a run, {command}", [command, "."]), folder
            if small:
                break
    folder = fresh("run", evil=evil)
    arguments = ["finetune", "--config", "evil.json", *FINETUNE, "--out", "new"]
    (folder / "evil.json").write_text(json.dumps({"objective": "evil:boom"}))
    yield Plant("objective = 'evil:boom' in a file given as --config", arguments), folder
    # 3. Python files where a run, a sweep or TensorBoard would put others.
    for name in ("sitecustomize", "conftest"):
        folder = fresh("run", **{name: evil})
        yield Plant(f"{name}.py beside a run, report", ["report", "."]), folder


def _ask_for(path: Path, field: str) -> None:
    """Put the name of a function wherever a JSON file has the field, and beside its settings."""

    def put(value: Any) -> Any:
        if isinstance(value, dict):
            found = {key: put(inner) for key, inner in value.items()}
            if field in found or "budget" in found:
                found[field] = "evil:boom"
            return found
        return [put(inner) for inner in value] if isinstance(value, list) else value

    path.write_text(json.dumps(put(json.loads(path.read_text()))))
    assert "evil:boom" in path.read_text(), f"{path} has no place for {field}"


def _links(scratch: Path) -> Iterator[tuple[str, str]]:
    """Symbolic links in a received folder that point to a file of the user's."""
    for name in (".lock", "metrics.jsonl", "evaluations.jsonl", "timing.jsonl", "checkpoint.safetensors", "policy.safetensors"):
        folder, precious = scratch / "linked", scratch / "precious"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        precious.write_text("precious\n")
        (folder / name).symlink_to(precious)
        call(["finetune", *FINETUNE, "--out", str(folder)], scratch)
        yield f"{name} of a run is a link", "" if precious.read_text() == "precious\n" else "the file it points to was changed"



"""The import rule, and what `import polychromic` may cost."""

import os
import re
import subprocess
import sys
from pathlib import Path

import grimp

import polychromic
from polychromic import cli

PACKAGE = Path(polychromic.__file__).parent
ROOT = Path(__file__).parents[1]

HEAVY = ("jax", "numba", "minigrid", "gymnasium", "torch", "matplotlib", "scipy.stats", "optax", "tyro", "rich")


def test_arrows_point_one_way():
    """The contracts in pyproject.toml."""
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    shown = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert shown.returncode == 0, shown.stdout


def test_nothing_imports_a_command():
    graph = grimp.build_graph("polychromic", "reproduction")
    commands = {target.partition(":")[0] for target, _ in cli.COMMANDS.values() if target.startswith("polychromic.")}
    importers = {name: graph.find_modules_that_directly_import(name) for name in {*commands, "polychromic.cli"}}
    assert {name: found for name, found in importers.items() if found} == {}


def test_the_root_has_few_modules():
    assert len(list(PACKAGE.glob("*.py"))) <= 8


def test_no_world_is_asked_what_it_is_and_no_argv_is_written():
    """The protocol carries the differences of worlds; the registry those of tasks."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(hasattr|getattr)\((self\.)?world|world: Any", text), path
        assert not re.search(r"sys\.argv\s*=", text), path
        if "tasks" not in path.relative_to(PACKAGE).parts:
            assert not re.search(r"[!=]= *[\"'](triangle|goto|fourrooms|pickup|synthseq|bosslevel)[\"']", text), path


def test_importing_the_core_loads_nothing_heavy():
    code = f"import polychromic, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_public_name_can_be_imported_and_explains_itself():
    for name in [*polychromic.__all__, *polychromic._LAZY]:
        assert getattr(polychromic, name).__doc__, name
        assert name in dir(polychromic)

"""The import rule, and what `import polychromic` may cost."""

import ast
import subprocess
import sys
from pathlib import Path

import polychromic

PACKAGE = Path(polychromic.__file__).parent

# Which rooms of the package a room may import from, besides itself. The arrows point one way only.
ALLOWED = {
    "errors": set(),
    "memory": set(),
    "core": {"errors"},
    "theory": {"core", "errors"},
    "envs": {"core", "errors"},
    "gym": {"envs"},
    "policies": {"core", "errors"},
    "pretrain": {"evaluate", "policies", "envs", "integrations", "core", "errors"},
    "types": set(),
    "config_check": {"errors"},
    "tuned": set(),
    "config": {"config_check", "tuned", "errors"},
    "describe": set(),
    "collect": {"types", "policies", "core", "errors"},
    "advantages": {"types", "config", "config_check", "policies", "core", "errors"},
    "update": {"types", "config", "policies"},
    "exact": {"policies", "errors"},
    "runs": {"policies", "errors"},
    "evaluate": {"collect", "exact", "runs", "envs", "policies", "core", "errors"},
    "train": {"evaluate", "types", "config", "describe", "collect", "advantages", "update", "runs", "policies"}
    | {"core", "errors"},
    "train_command": {"train", "config", "config_check", "integrations", "runs", "envs", "policies", "errors"},
    "seeds": {"train", "config", "advantages", "update", "runs", "policies", "errors"},
    "sweep": {"train_command", "evaluate", "config", "config_check", "runs", "policies", "memory", "errors"},
    # Nothing imports report and demo but the command line, by name.
    "report": {"evaluate", "config", "runs", "envs", "policies", "core", "errors"},
    "demo": {"memory", "report", "evaluate", "train", "config", "envs", "policies", "errors"},
    "results": {"sweep", "report", "evaluate", "pretrain", "config", "tuned", "runs", "policies", "core", "errors"},
    "reproduce": {"results", "sweep", "report", "evaluate", "policies", "errors"},
    "integrations": {"core", "errors"},
    "cli": {"memory", "errors"},
}
HEAVY = ("jax", "numba", "minigrid", "gymnasium", "torch", "matplotlib", "scipy.stats", "optax", "tyro", "rich")


def imported_rooms(path):
    """Rooms of this package that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "polychromic":
            inside = node.module.split(".")[1:]
            yield from [inside[0]] if inside else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("polychromic."))


def test_arrows_point_one_way():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        assert room in ALLOWED, f"{room} has no line in the import rule"
        rooms = set(imported_rooms(path)) - {room, "__version__"}
        wrong += [f"{path.relative_to(PACKAGE)} imports {other}" for other in rooms - ALLOWED[room]]
    assert not wrong


def test_importing_the_core_loads_nothing_heavy():
    code = f"import polychromic, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_public_name_can_be_imported_and_explains_itself():
    for name in [*polychromic.__all__, *polychromic._LAZY]:
        assert getattr(polychromic, name).__doc__, name
        assert name in dir(polychromic)

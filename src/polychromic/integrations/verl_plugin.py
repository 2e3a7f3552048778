"""What verl loads by itself, through the entry point group `verl.plugins`, in every process that imports verl.

It costs next to nothing: the estimator and the trainers are imported when verl's own registries are.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# verl's module -> ours, imported right after it.
AFTER = {
    "verl.trainer.ppo.core_algos": "polychromic.integrations.verl_estimator",
    "verl.trainer.ppo.v1": "polychromic.integrations.verl",
}


class ImportAfter(MetaPathFinder):
    """Finds verl's modules as everyone else does, and has ours imported when they are complete."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, with a loader that does one thing more."""
        if name not in AFTER:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target))), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader  # an object of this module alone
            execute = loader.exec_module

            def execute_both(module: ModuleType) -> None:
                execute(module)
                register(AFTER[name])

            loader.exec_module = execute_both
        return spec


def register(module: str) -> None:
    """Import a part of the plug-in; if that fails, verl works on without it."""
    try:
        importlib.import_module(module)
    except Exception as error:
        logging.getLogger(__name__).warning(
            "polychromic's plug-in is not there, %s: %s; see polychromic verl-check", type(error).__name__, error
        )


for theirs, ours in AFTER.items():
    if theirs in sys.modules:
        register(ours)
if not any(isinstance(finder, ImportAfter) for finder in sys.meta_path):
    sys.meta_path.insert(0, ImportAfter())

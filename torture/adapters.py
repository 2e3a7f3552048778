"""Hostile rewards, labels, judges and embeddings (`torture.hostile`) in the adapters for TRL and verl.

Their tests run in the environments of the adapters, which `make test-trl` and `make test-verl` set up; what has no
environment is named as not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
# name -> (Python, tests)
PLACES = {
    "functions": (Path(sys.executable), "tests/integrations/test_hostile.py"),
    "TRL": (ROOT / ".venv-trl" / "bin" / "python", "tests_trl/test_hostile.py"),
    "verl": (ROOT / ".venv-verl" / "bin" / "python", "tests_verl/test_hostile.py"),
}


def attack() -> dict[str, Any]:
    """All tests of all places that there are."""
    counts: dict[str, int] = {}
    bad: list[dict[str, str]] = []
    for name, (python, tests) in PLACES.items():
        if not python.exists():
            continue
        found, failed = run_tests(python, tests)
        counts[name] = found
        bad += [{"place": name, "what": what} for what in failed]
    return {
        "part": "adapters",
        "attacks": sum(counts.values()),
        "by place": counts,
        "not run": [name for name in PLACES if name not in counts],
        "bad": bad,
        "failures": len(bad),
    }


def run_tests(python: Path, tests: str) -> tuple[int, list[str]]:
    """How many tests there are, and those that failed."""
    with tempfile.TemporaryDirectory(prefix="scratch-") as place:
        path = Path(place) / "results.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={path}", tests]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if not path.exists():
            return 0, [f"no tests were run: {(done.stdout + done.stderr)[-300:]}"]
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    failed = [
        case.get("name", "?") for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    return len(cases), failed or ([] if done.returncode == 0 else [done.stdout[-300:]])

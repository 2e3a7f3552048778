"""Triangle discovery: name a triangle of a hidden graph, token by token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polychromic.envs.registry import Later, Metric, Section, TaskSpec, Viewer, register


def _settings(method: str, _preset: str, _changes: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's vines: other ways of set credit were not tried here. A window of 0: answers are a few tokens long."""
    from polychromic.finetuning.config import VINES  # here, as it asks the registry for tasks

    return {"window": 0, **(VINES if method.startswith("poly") else {})}


register(
    TaskSpec(
        name="triangle",
        make=Later("polychromic.tasks.triangle.answers:triangle_world"),
        about="name a triangle of a hidden graph, token by token",
        title="Triangle discovery",
        base_policy="triangle",
        settings=_settings,
        attempts=1000,
        metrics=(
            Metric(
                "triangle",
                Later("polychromic.tasks.triangle.discoveries:measure"),
                Later("polychromic.tasks.triangle.discoveries:in_words"),
            ),
        ),
        section=Section(
            "triangle",
            Later("polychromic.tasks.triangle.report:pooled_discoveries"),
            Later("polychromic.tasks.triangle.report:discovery_table"),
            Later("polychromic.tasks.triangle.report:check_discoveries"),
            ("polychromic.tasks.triangle", "section.js"),
            {
                "attempts": "answers",
                "finds": "names",
                "solves": "is right in",
                "successes": "triangles",
                "success": "valid",
            },
        ),
        viewer=Viewer(
            "graph",
            Later("polychromic.tasks.triangle.episodes:replay"),
            Later("polychromic.tasks.triangle.episodes:backdrop"),
            ("polychromic.tasks.triangle", "viewer.js"),
            most=400,
        ),
        pretrain=Later("polychromic.tasks.triangle.pretrain:make_triangle_policy"),
    )
)

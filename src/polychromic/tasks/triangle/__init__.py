"""Triangle discovery: name a triangle of a hidden graph, token by token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polychromic.envs.registry import Later, Metric, Section, TaskSpec, register


def _settings(method: str, preset: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Answers are a few tokens long, so the window of the polychromic advantage is the first of them."""
    del method, preset, changes
    return {"window": 0}


register(
    TaskSpec(
        name="triangle",
        make=Later("polychromic.tasks.triangle.answers:triangle_world"),
        about="name a triangle of a hidden graph, token by token",
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
            Later("polychromic.tasks.triangle.report:in_sentences"),
            Later("polychromic.tasks.triangle.report:check_discoveries"),
            ("polychromic.tasks.triangle", "section.js"),
        ),
        pretrain=Later("polychromic.tasks.triangle.pretrain:make_triangle_policy"),
    )
)

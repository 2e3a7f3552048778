"""Triangle discovery: name a triangle of a hidden graph, token by token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polychromic.envs.registry import Metric, Section, TaskSpec, later, register


def _settings(method: str, preset: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Answers are a few tokens long, so the window of the polychromic advantage is the first of them."""
    del method, preset, changes
    return {"window": 0}


register(
    TaskSpec(
        name="triangle",
        make=later("polychromic.tasks.triangle.answers:triangle_world"),
        about="name a triangle of a hidden graph, token by token",
        base_policy="triangle",
        settings=_settings,
        attempts=1000,
        metrics=(
            Metric(
                "triangle",
                later("polychromic.tasks.triangle.discoveries:measure"),
                later("polychromic.tasks.triangle.discoveries:in_words"),
            ),
        ),
        section=Section(
            "triangle",
            later("polychromic.tasks.triangle.report:pooled_discoveries"),
            later("polychromic.tasks.triangle.report:discovery_table"),
            later("polychromic.tasks.triangle.report:in_sentences"),
            ("polychromic.tasks.triangle", "section.js"),
        ),
        pretrain=later("polychromic.tasks.triangle.pretrain:make_triangle_policy"),
    )
)

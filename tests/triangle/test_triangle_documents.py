"""What docs/triangle.md says is what was measured."""

import importlib.util
import json
from pathlib import Path

import pytest

from polychromic.tasks.triangle.graphs import graph_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/triangle.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("triangle_study", ROOT / "benchmarks/triangle_study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_study_shows_its_results(study):
    results = json.loads((ROOT / "docs/figures/triangle.json").read_text(encoding="utf-8"))
    assert f"{study.MARKS[0]}\n{study.table(results)}\n{study.MARKS[1]}" in PAGE
    assert f"{results['iterations']} iterations" in PAGE


def test_the_settings_of_the_study_are_settings(study):
    for name in study.RUNS:
        config = study.config_of(name, 1, 5)
        assert config.seed == 1
        assert config.trajectories == 136


def test_figures_at_a_validity_lie_between_the_nearest_temperatures(study):
    points = [
        {"validity": 0.9, "distinct": 10.0},
        {"validity": 0.7, "distinct": 30.0},
        {"validity": 0.5, "distinct": 0.0},
    ]
    assert study.at_validity(points, 0.85, "distinct") == pytest.approx(15.0)
    assert study.at_validity(points, 0.95, "distinct") is None


def test_the_table_of_graphs():
    for number in range(3):
        graph = graph_of(number)
        seen = len(graph.known_triangles) / len(graph.triangles)
        cells = (
            number,
            f"{graph.num_edges:,}",
            f"{len(graph.triangles):,}",
            f"{100 * seen:.1f} %",
            graph.num_undiscovered,
        )
        assert f"| {' | '.join(map(str, cells))} |" in PAGE

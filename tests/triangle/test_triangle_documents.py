"""What the pages about triangles say is what was measured."""

from pathlib import Path

import numpy as np
import pytest
from reproduction.lines import Stored
from reproduction.page import triangle_blocks
from reproduction.plan import Chosen, expand
from reproduction.plans import FULL, TRIANGLE, TRIANGLE_VINES
from reproduction.triangles import at_temperature, at_validity

from polychromic.tasks.triangle.graphs import graph_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/triangle.md").read_text(encoding="utf-8")
DETAILS = (ROOT / "docs/triangle-task.md").read_text(encoding="utf-8")


def test_the_table_of_the_study_shows_its_results():
    stored = Stored(ROOT / "results", FULL)
    table = triangle_blocks(stored)["triangle"]
    assert f"<!-- triangle -->\n\n{table}\n\n<!-- end -->" in PAGE
    run = [line for line in stored.lines(TRIANGLE, "triangle") if line.records]
    for part in table.split("\n\n"):
        assert len(part.splitlines()) == 2 + len(run) + 1  # the base policy is there twice
    [iterations] = {record["settings"]["iterations"] for line in run[1:] for record in line.records}
    assert f"{iterations} iterations" in PAGE


def test_what_the_page_says_about_ucb():
    assert "PPO and REINFORCE with it end on a handful of triangles" in PAGE
    lines = {line.label: line for line in Stored(ROOT / "results", FULL).lines(TRIANGLE, "triangle")}

    def mean(label, metric):
        return np.mean([at_temperature(record["points"], 1.0)[metric] for record in lines[label].records])

    assert mean("PPO with UCB", "distinct_of_1000") < 6
    assert mean("REINFORCE with UCB", "distinct_of_1000") < 6
    for metric in ("validity", "distinct_of_1000"):
        assert mean("Poly-PPO, vines, with UCB", metric) < mean(TRIANGLE_VINES, metric)
    with_ucb = [record for line in lines.values() if line.method.endswith("-ucb") for record in line.records]
    assert {record["config"]["ucb"] for record in with_ucb} == {0.1}


def test_the_settings_of_the_study_are_settings():
    trained = [one for one in expand(TRIANGLE, FULL, Chosen({})) if one.label != "pretrained"]
    assert len(trained) == 12 * 3
    for planned in trained:
        config = planned.cell.config()
        assert config.seed == planned.cell.seed
        assert config.trajectories == 136


def test_metrics_at_a_validity_are_between_the_nearest_temperatures():
    points = [
        {"validity": 0.9, "distinct": 10.0},
        {"validity": 0.7, "distinct": 30.0},
        {"validity": 0.5, "distinct": 0.0},
    ]
    assert at_validity(points, 0.85, "distinct") == pytest.approx(15.0)
    assert at_validity(points, 0.95, "distinct") is None


def test_the_table_of_graphs():
    for number in range(3):
        graph = graph_of(number)
        seen = len(graph.known_triangles) / len(graph.triangles)
        cells = (
            number,
            f"{graph.adjacent.sum() // 2:,}",
            f"{len(graph.triangles):,}",
            f"{100 * seen:.1f} %",
            graph.num_undiscovered,
        )
        assert f"| {' | '.join(map(str, cells))} |" in DETAILS

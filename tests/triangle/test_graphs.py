"""Graphs and samples have the statistics of the benchmark's data, on seeds that were never looked at."""

import numpy as np
import pytest

from polychromic.tasks.triangle.graphs import all_triangles, draw_graph, draw_samples, graph_of, triangle_numbers

FRESH = (1234, 98765)


@pytest.mark.parametrize("number", FRESH)
def test_a_graph_has_the_size_that_the_recipe_gives(number):
    graph = graph_of(number)
    degree = graph.adjacent.sum(axis=1)
    assert graph.num_nodes == 999
    assert 3650 <= graph.adjacent.sum() // 2 <= 3850
    assert degree.min() == 3
    assert 15 <= degree.max() <= 24
    assert 2250 <= len(graph.triangles) <= 2450
    assert (graph.adjacent == graph.adjacent.T).all()
    assert not graph.adjacent.diagonal().any()


@pytest.mark.parametrize("number", FRESH)
def test_samples_show_most_of_a_graph_and_leave_some_triangles_to_discover(number):
    graph = graph_of(number)
    assert len(graph.triangle_samples) + len(graph.edge_samples) == 15_000
    assert abs(len(graph.triangle_samples) - 5000) < 4 * (15_000 * 2 / 9) ** 0.5
    seen_triangles = len(graph.known_triangles) / len(graph.triangles)
    seen_edges = len(np.unique(np.sort(graph.edge_samples, axis=1), axis=0)) / (graph.adjacent.sum() // 2)
    assert 0.80 <= seen_triangles <= 0.86
    assert 0.89 <= seen_edges <= 0.94
    assert 340 <= graph.num_undiscovered <= 470
    a, b, c = graph.triangle_samples.T
    assert (graph.adjacent[a, b] & graph.adjacent[b, c] & graph.adjacent[c, a]).all()
    assert graph.adjacent[graph.edge_samples[:, 0], graph.edge_samples[:, 1]].all()


def test_before_triangles_are_closed_nodes_have_about_three_and_a_half_edges(monkeypatch):
    monkeypatch.setattr("polychromic.tasks.triangle.graphs.TRIANGLES_PER_NODE", 0)
    edges = draw_graph(np.random.default_rng(5)).sum() // 2
    assert 1780 <= edges <= 1880


def test_all_triangles_are_found_once():
    adjacent = np.zeros((5, 5), bool)
    for one, other in ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (2, 4), (1, 3)):
        adjacent[one, other] = adjacent[other, one] = True
    assert all_triangles(adjacent).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_the_same_number_gives_the_same_graph_and_another_another():
    first, again, other = draw_graph(np.random.default_rng([3, 0])), graph_of(3).adjacent, graph_of(4).adjacent
    assert (first == again).all()
    assert (first != other).any()


def test_triangles_are_drawn_from_a_uniform_node_and_two_of_its_neighbours():
    # In a triangle with a tail, the tail's end has no two adjacent neighbours: only nodes of the triangle come first.
    adjacent = np.zeros((4, 4), bool)
    for one, other in ((0, 1), (1, 2), (0, 2), (2, 3)):
        adjacent[one, other] = adjacent[other, one] = True
    triples, _ = draw_samples(adjacent, np.random.default_rng(0), 30_000)
    # Nodes 0 and 1 accept half of their pairs (with replacement), node 2 two of nine.
    share = np.bincount(triples[:, 0], minlength=4) / len(triples)
    np.testing.assert_allclose(share, np.array([1 / 2, 1 / 2, 2 / 9, 0]) / (1 + 2 / 9), atol=0.02)
    assert len(np.unique(triangle_numbers(triples, 4))) == 1

"""Advantages from degrees of likeness, clusters from a kernel, and the mean score of the sets of a group."""

from itertools import combinations

import numpy as np
import pytest

from polychromic import (
    UserError,
    clusters_from_kernel,
    kernel_from_embeddings,
    mean_pairwise_distance,
    mean_set_score,
    polychromic_advantages,
    polychromic_kernel_advantages,
    vendi_diversity,
)


def kernel_of_labels(labels):
    return np.equal.outer(labels, labels).astype(float)


def test_kernel_advantages_by_hand():
    rng = np.random.default_rng(0)
    returns, kernel = rng.random(6), kernel_from_embeddings(rng.normal(size=(6, 3)))
    sets = list(combinations(range(6), 3))
    scores = np.array([returns[list(g)].mean() * vendi_diversity(kernel[np.ix_(g, g)]) for g in sets])
    expected = [np.mean([s for g, s in zip(sets, scores, strict=True) if i in g]) - scores.mean() for i in range(6)]
    np.testing.assert_allclose(polychromic_kernel_advantages(returns, kernel, set_size=3), expected, atol=1e-12)
    np.testing.assert_allclose(mean_set_score(returns, kernel=kernel, set_size=3), scores.mean(), atol=1e-12)


def test_kernel_of_labels_agrees_with_labels_where_diversities_do():
    # For pairs, distinct fraction with the d = 0 rule and mean pairwise distance are the same number.
    rng = np.random.default_rng(1)
    returns, labels = rng.random((3, 7)), rng.integers(0, 3, (3, 7))
    kernel = (labels[:, :, None] == labels[:, None, :]).astype(float)
    found = polychromic_kernel_advantages(returns, kernel, set_size=2, diversity=mean_pairwise_distance)
    np.testing.assert_allclose(found, polychromic_advantages(returns, labels, set_size=2), atol=1e-12)


def test_random_sets_are_seeded_and_add_up_to_zero():
    rng = np.random.default_rng(2)
    returns, kernel = rng.random((2, 8)), kernel_from_embeddings(rng.normal(size=(2, 8, 4)))
    first, second, other = (
        polychromic_kernel_advantages(returns, kernel, set_size=4, num_sets=5, rng=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)
    np.testing.assert_allclose(first.sum(axis=-1), 0, atol=1e-12)


@pytest.mark.parametrize("homogeneous_zero", [True, False])
def test_mean_set_score_of_labels_by_enumeration(homogeneous_zero):
    rng = np.random.default_rng(5)
    returns, labels = rng.random(7), rng.integers(0, 3, 7)
    scores = []
    for members in combinations(range(7), 3):
        distinct = len(set(labels[list(members)]))
        scores.append(returns[list(members)].mean() * (0 if homogeneous_zero and distinct == 1 else distinct / 3))
    found = mean_set_score(returns, labels, set_size=3, homogeneous_zero=homogeneous_zero)
    np.testing.assert_allclose(found, np.mean(scores), atol=1e-12)


def test_mean_set_score_needs_labels_or_kernel():
    with pytest.raises(UserError, match="exactly one"):
        mean_set_score(np.ones(4), set_size=2)
    with pytest.raises(UserError, match="exactly one"):
        mean_set_score(np.ones(4), np.zeros(4), kernel=np.eye(4), set_size=2)


def test_kernel_advantages_refuse_what_makes_no_sense():
    with pytest.raises(UserError, match="square"):
        polychromic_kernel_advantages(np.ones(4), np.ones((4, 3)), set_size=2)
    with pytest.raises(UserError, match="num_sets"):
        polychromic_kernel_advantages(np.ones(4), np.eye(4), set_size=2, num_sets="some")
    with pytest.raises(UserError, match=r"\[0, 1\]"):
        polychromic_kernel_advantages(np.full(4, 2.0), np.eye(4), set_size=2)


def test_clusters_are_chains_whatever_the_order():
    # 0 - 1 - 2 is a chain (0 and 2 are not alike themselves), 3 and 4 a pair, 5 alone.
    kernel = np.eye(6)
    for i, j in ((0, 1), (1, 2), (3, 4)):
        kernel[i, j] = kernel[j, i] = 0.9
    np.testing.assert_array_equal(clusters_from_kernel(kernel, threshold=0.9), [0, 0, 0, 3, 3, 5])
    np.testing.assert_array_equal(clusters_from_kernel(kernel, threshold=0.91), np.arange(6))
    order = np.random.default_rng(0).permutation(6)
    shuffled = clusters_from_kernel(kernel[np.ix_(order, order)], threshold=0.9)
    same = np.equal.outer(shuffled, shuffled)
    np.testing.assert_array_equal(same, kernel_of_labels(np.array([0, 0, 0, 3, 3, 5])[order]) == 1)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "0.5", True, None, 1.5, [0.5]])
def test_a_threshold_that_no_similarity_can_be_compared_with_is_refused(threshold):
    with pytest.raises(UserError, match=r"^threshold is "):
        clusters_from_kernel(np.eye(3), threshold=threshold)


def test_clusters_of_many_groups_at_once():
    kernel = np.stack([np.eye(3), np.ones((3, 3))])
    np.testing.assert_array_equal(clusters_from_kernel(kernel, threshold=0.5), [[0, 1, 2], [0, 0, 0]])

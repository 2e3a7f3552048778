import numpy as np
import pytest

from polychromic import (
    UserError,
    distinct_fraction,
    kernel_from_embeddings,
    kernel_from_places,
    mean_pairwise_distance,
    vendi_diversity,
)


def test_distinct_fraction_by_hand():
    labels = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 2, 2], [3, 1, 0, 2]]
    np.testing.assert_array_equal(distinct_fraction(labels), [0.0, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(distinct_fraction(labels, homogeneous_zero=False), [0.25, 0.5, 0.75, 1.0])


def test_distinct_fraction_reads_strings_and_keeps_leading_axes():
    labels = np.array([[["a", "b"], ["a", "a"]]])
    np.testing.assert_array_equal(distinct_fraction(labels), [[1.0, 0.0]])


def test_vendi_of_identical_and_of_orthogonal_members():
    np.testing.assert_allclose(vendi_diversity(np.ones((4, 4))), 0.0, atol=1e-9)
    np.testing.assert_allclose(vendi_diversity(np.eye(4)), 1.0)


@pytest.mark.parametrize("order", [0.5, 1.0, 2.0, np.inf])
def test_vendi_counts_equal_clusters(order):
    # Two clusters of two identical members: an effective number of 2 at every order, (2 - 1) / (4 - 1).
    kernel = np.kron(np.eye(2), np.ones((2, 2)))
    np.testing.assert_allclose(vendi_diversity(kernel, order=order), 1 / 3, atol=1e-9)


@pytest.mark.parametrize("order", [0.01, 0.1, 0.5, 1.0, 1.0 + 1e-15, 3.0, 1e4])
def test_vendi_at_extreme_orders(order):
    np.testing.assert_allclose(vendi_diversity(np.ones((64, 64)), order=order), 0.0, atol=1e-9)
    np.testing.assert_allclose(vendi_diversity(np.kron(np.eye(2), np.ones((2, 2))), order=order), 1 / 3, atol=1e-9)


def test_vendi_is_the_exponential_of_the_entropy_of_the_eigenvalues():
    kernel = np.array([[1.0, 0.5], [0.5, 1.0]])
    weights = np.array([0.25, 0.75])  # eigenvalues of kernel / 2
    expected = np.exp(-(weights * np.log(weights)).sum()) - 1
    np.testing.assert_allclose(vendi_diversity(kernel), expected)


def test_vendi_is_vectorised_over_sets():
    kernels = np.stack([np.eye(3), np.ones((3, 3))])
    np.testing.assert_allclose(vendi_diversity(kernels), [1.0, 0.0], atol=1e-9)


def test_mean_pairwise_distance_by_hand():
    kernel = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]])
    np.testing.assert_allclose(mean_pairwise_distance(kernel), (0.5 + 1.0 + 0.8) / 3)


def test_a_set_of_one_has_no_diversity():
    assert distinct_fraction([3]) == 0
    assert vendi_diversity([[1.0]]) == 0
    assert mean_pairwise_distance([[1.0]]) == 0


def test_kernel_from_embeddings_is_a_valid_kernel():
    embeddings = np.random.default_rng(0).normal(size=(2, 6, 3))
    kernel = kernel_from_embeddings(embeddings)
    first, second = embeddings[1, 2], embeddings[1, 4]
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    np.testing.assert_allclose(kernel[1, 2, 4], cosine)
    assert (vendi_diversity(kernel) > 0).all()


def test_cosines_suit_the_mean_distance_after_the_shift_that_its_error_names():
    kernel = kernel_from_embeddings([[1.0, 0.0], [-1.0, 0.1], [0.0, 1.0]])
    with pytest.raises(UserError, match=r"give \(1 \+ kernel\) / 2"):
        mean_pairwise_distance(kernel)
    assert 0 < mean_pairwise_distance((1 + kernel) / 2) < 1


@pytest.mark.parametrize("function", [vendi_diversity, mean_pairwise_distance])
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (np.ones((3, 2)), r"kernel has shape \(3, 2\).*square"),
        ([[1.0, 0.2], [0.3, 1.0]], r"not symmetric: kernel\[0, 1\] is 0.2, kernel\[1, 0\] is 0.3"),
        ([[2.0, 0.0], [0.0, 2.0]], "diagonal"),
        (np.ones((0, 0)), "not empty"),
        ([[1.0], [1.0, 2.0]], "kernel cannot be read"),
        ([[1.0, np.nan], [np.nan, 1.0]], r"kernel\[0, 1\] is nan"),
    ],
)
def test_bad_kernels_are_named(function, kernel, message):
    with pytest.raises(UserError, match=message):
        function(kernel)


def test_more_bad_input():
    with pytest.raises(UserError, match=r"eigenvalue.*positive semi-definite"):
        vendi_diversity([[1.0, 3.0], [3.0, 1.0]])
    with pytest.raises(UserError, match=r"spans \[-0.5, 1\]"):
        mean_pairwise_distance([[1.0, -0.5], [-0.5, 1.0]])
    with pytest.raises(UserError, match="labels cannot be read"):
        distinct_fraction([(0, 1), (0,)])
    with pytest.raises(UserError, match="homogeneous_zero is 'no'"):
        distinct_fraction([0, 1], homogeneous_zero="no")
    with pytest.raises(UserError, match="order is '2'"):
        vendi_diversity(np.eye(2), order="2")
    with pytest.raises(UserError, match="order is 0"):
        vendi_diversity(np.eye(2), order=0)
    with pytest.raises(UserError, match=r"embeddings\[0\] is a row of zeros"):
        kernel_from_embeddings([[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(UserError, match=r"labels has shape \(\)"):
        distinct_fraction(3)
    with pytest.raises(UserError, match="labels holds NaN"):
        distinct_fraction(np.array([1.0, np.nan]))


def test_the_kernel_of_places_is_jaccard_by_hand():
    visited = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]], bool)
    expected = [[1, 1 / 3, 1, 0, 0], [1 / 3, 1, 1 / 3, 0, 0], [1, 1 / 3, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 1, 1]]
    np.testing.assert_allclose(kernel_from_places(visited), expected)
    np.testing.assert_allclose(
        kernel_from_places(np.stack([visited, visited[::-1]]))[1], np.array(expected)[::-1, ::-1]
    )
    assert 0 < vendi_diversity(kernel_from_places(visited)) < 1  # positive semi-definite
    with pytest.raises(UserError, match="must be booleans"):
        kernel_from_places(visited.astype(int))

"""How different are the members of a set? Numbers in [0, 1], from labels [..., n] or from a kernel [..., n, n].

A diversity is any callable on labels or on a kernel; these three are ready to use. `kernel_from_embeddings` and
`kernel_from_places` make a kernel, `clusters_from_kernel` turns one into labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polychromic.core.checks import (
    ROUNDING,
    Floats,
    Ints,
    flag,
    float_array,
    label_array,
    read_array,
    real_number,
    square_kernel,
)
from polychromic.errors import UserError


def distinct_fraction(labels: Any, *, homogeneous_zero: bool = True) -> Floats:
    """d(s, τ_{1:n}): the share of semantically distinct trajectories in a set (paper, section 4).

        d = |{labels}| / n,   and d = 0 if all labels are alike

    Args:
        labels: [..., n]; equal labels mark trajectories that count as the same (the same set of rooms, say). A list
            of equally long tuples is read as an array; `score_sets`, which knows the number of rollouts, takes
            tuples as labels.
        homogeneous_zero: the paper's rule for a set whose members are all alike. Without it such a set has
            d = 1/n, as in Poly-EPO, the authors' follow-up for language models.

    Returns:
        [...], each in {0, 2/n, …, 1} (or {1/n, …, 1} without the rule).
    """
    flag("homogeneous_zero", homogeneous_zero)
    array = read_array("labels", labels)
    if array.ndim < 1 or array.shape[-1] < 1:
        raise UserError(f"labels has shape {array.shape}; it must be [..., set_size] with at least one member")
    ordered = np.sort(label_array(labels, array.shape), axis=-1)
    distinct = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(axis=-1)
    fraction = distinct / array.shape[-1]
    return np.asarray(np.where(distinct == 1, 0.0, fraction) if homogeneous_zero else fraction, np.float64)


def vendi_diversity(kernel: ArrayLike, *, order: float = 1.0) -> Floats:
    """The Vendi score of a set, mapped to [0, 1].

        V_q = exp(H_q(eigenvalues of K / n)) ∈ [1, n],   d = (V_q − 1) / (n − 1)

    with H_q the Rényi entropy of order q (Shannon's at q = 1): an effective number of different members.

    Args:
        kernel: [..., n, n] similarities, symmetric and positive semi-definite, with ones on the diagonal.
        order: q > 0; larger values look only at the most common members.

    Returns:
        [...], 0 when all members are alike and 1 when all are orthogonal. A set of one has diversity 0.
    """
    array = square_kernel("kernel", kernel)
    order = real_number("order", order, 0.0, np.inf)
    if order == 0:
        raise UserError("order is 0; the Vendi score needs an order above 0")
    size = array.shape[-1]
    if size == 1:
        return np.zeros(array.shape[:-2])
    eigenvalues = np.linalg.eigvalsh(array / size)
    if eigenvalues.min(initial=0.0) < -1e-6:
        raise UserError(f"kernel has the eigenvalue {eigenvalues.min() * size:.6g}; it must be positive semi-definite")
    # Eigenvalues that are zero up to rounding would count as members at small orders.
    weights = np.where(eigenvalues > size * np.finfo(np.float64).eps, eigenvalues, 0.0)
    weights /= weights.sum(axis=-1, keepdims=True)
    largest = weights.max(axis=-1, keepdims=True)
    relative = weights / largest
    logs = np.log(np.where(relative > 0, relative, 1.0)) + np.log(largest)
    if np.isinf(order):
        entropy = -np.log(largest[..., 0])
    elif abs(order - 1.0) < 1e-6:
        entropy = -(weights * logs).sum(axis=-1)
    else:
        # Powers of w / largest, so that no order underflows.
        total = np.log(np.where(relative > 0, relative**order, 0.0).sum(axis=-1))
        entropy = (total + order * np.log(largest[..., 0])) / (1.0 - order)
    return np.asarray(np.clip((np.exp(entropy) - 1.0) / (size - 1), 0.0, 1.0))


def mean_pairwise_distance(kernel: ArrayLike) -> Floats:
    """The mean of 1 − k(i, j) over the n(n − 1)/2 pairs of a set.

    Args:
        kernel: [..., n, n] similarities in [0, 1], symmetric, with ones on the diagonal.

    Returns:
        [...] in [0, 1]. A set of one has diversity 0.
    """
    array = square_kernel("kernel", kernel)
    low, high = array.min(initial=0.0), array.max(initial=1.0)
    if low < -ROUNDING or high > 1 + ROUNDING:
        raise UserError(
            f"kernel spans [{low:.8g}, {high:.8g}]; similarities must be in [0, 1] (for cosines give (1 + kernel) / 2)"
        )
    size = array.shape[-1]
    if size == 1:
        return np.zeros(array.shape[:-2])
    off_diagonal = array.sum(axis=(-2, -1)) - size
    return np.asarray(np.clip(1.0 - off_diagonal / (size * (size - 1)), 0.0, 1.0))


def kernel_from_embeddings(embeddings: ArrayLike) -> Floats:
    """Cosine similarities of embeddings [..., N, features], as a kernel [..., N, N].

    It suits `vendi_diversity` as it is; cosines can be negative, so give `mean_pairwise_distance` (1 + kernel) / 2.
    """
    array = float_array("embeddings", embeddings, ndim_at_least=2)
    length = np.linalg.norm(array, axis=-1, keepdims=True)
    if (length == 0).any():
        where = [int(i) for i in np.argwhere(length[..., 0] == 0)[0]]
        raise UserError(f"embeddings{where} is a row of zeros, which has no direction, as cosine similarity needs")
    unit = array / length
    kernel = unit @ np.swapaxes(unit, -1, -2)
    diagonal = np.arange(kernel.shape[-1])
    kernel[..., diagonal, diagonal] = 1.0
    return np.asarray(kernel)


def kernel_from_places(visited: ArrayLike) -> Floats:
    """Jaccard similarities of sets of places: |A ∩ B| / |A ∪ B|, as a kernel [..., N, N].

    It suits `vendi_diversity` and `mean_pairwise_distance` as it is.

    Args:
        visited: booleans [..., N, places]: which of the places each rollout visited. Two that visited none are alike.
    """
    array = read_array("visited", visited)
    if array.ndim < 2 or array.dtype != np.bool_:
        raise UserError(f"visited has {array.dtype} {array.shape}; it must be booleans [..., rollouts, places]")
    member = array.astype(np.float64)
    both = member @ np.swapaxes(member, -1, -2)
    size = member.sum(axis=-1)
    either = size[..., :, None] + size[..., None, :] - both
    return np.where(either > 0, both / np.maximum(either, 1.0), 1.0)


def clusters_from_kernel(kernel: ArrayLike, *, threshold: float) -> Ints:
    """Labels [..., N]: rollouts joined by a chain of similarities of at least `threshold` get the same one.

    Single linkage, so the clusters do not depend on the order of the rollouts; each is named after its first member.

    Args:
        kernel: [..., N, N] similarities, symmetric, with ones on the diagonal.
        threshold: two rollouts whose similarity reaches it count as the same.
    """
    array = square_kernel("kernel", kernel)
    size = array.shape[-1]
    joined = array >= real_number("threshold", threshold, -1.0, 1.0)
    joined[..., np.arange(size), np.arange(size)] = True
    labels = np.broadcast_to(np.arange(size), array.shape[:-1])
    while True:
        # Every rollout takes the smallest label among its neighbours, until none changes.
        smaller = np.where(joined, labels[..., None, :], size).min(axis=-1)
        if (smaller == labels).all():
            return np.asarray(labels, np.int64)
        labels = smaller

"""Which trajectories make a set? Every function returns rollout indices [..., num_sets, set_size]."""

from __future__ import annotations

from itertools import chain, combinations
from math import comb

import numpy as np

from polychromic.core.checks import Ints, Seed, generator, group_axes, set_size_of, whole_number
from polychromic.errors import UserError

MOST_ENUMERATED_SETS = 1_000_000
# Graded similarity has no closed form. Groups with more sets than this are sampled unless all are asked for: 2,000 sets
# of a group of 32 give advantages that correlate 0.99 with those of all 35,960, in a thirtieth of the time.
MOST_GRADED_SETS = 2_000


def random_sets(
    num_rollouts: int, set_size: int, num_sets: int, *, groups: tuple[int, ...] = (), rng: Seed = None
) -> Ints:
    """M sets drawn independently and uniformly, without replacement inside a set (paper, section 3.3).

    Sets may overlap and repeat; a rollout is in none of them with probability (1 − n/N)^M, 6.25 % at the
    paper's N = 8, n = 4, M = 4.

    Args:
        num_rollouts: N, the rollouts of a group.
        set_size: n, the members of a set.
        num_sets: M, the sets per group.
        groups: leading axes of the result, one independent draw per group.
        rng: a generator or a seed.

    Returns:
        Indices [*groups, M, n], ascending inside a set.
    """
    num_rollouts = whole_number("num_rollouts", num_rollouts, at_least=1)
    set_size = set_size_of(set_size, num_rollouts)
    num_sets = whole_number("num_sets", num_sets, at_least=1)
    keys = generator(rng).random((*group_axes(groups), num_sets, num_rollouts))
    # The n smallest of N independent uniform keys are a uniformly random n-subset.
    chosen = np.argpartition(keys, set_size - 1, axis=-1)[..., :set_size]
    return np.sort(chosen, axis=-1).astype(np.int64, copy=False)


def all_sets(num_rollouts: int, set_size: int) -> Ints:
    """All C(N, n) sets in lexicographic order, [C(N, n), n].

    For the polychromic objective `polychromic_advantages(..., num_sets="all")` gives the same answer without
    enumerating anything.
    """
    num_rollouts = whole_number("num_rollouts", num_rollouts, at_least=1)
    set_size = set_size_of(set_size, num_rollouts)
    count = comb(num_rollouts, set_size)
    if count > MOST_ENUMERATED_SETS:
        raise UserError(
            f"num_rollouts = {num_rollouts} with set_size = {set_size} has {count:.3g} sets; enumeration stops at "
            f"{MOST_ENUMERATED_SETS:,}: use polychromic_advantages(..., num_sets='all'), which is exact in closed form"
        )
    flat = np.fromiter(chain.from_iterable(combinations(range(num_rollouts), set_size)), dtype=np.int64)
    return flat.reshape(count, set_size)


def disjoint_sets(num_rollouts: int, set_size: int, *, groups: tuple[int, ...] = (), rng: Seed = None) -> Ints:
    """A random partition into ⌊N/n⌋ sets that share no rollout, [*groups, ⌊N/n⌋, n].

    Where n does not divide N, the N mod n leftover rollouts are in no set.
    """
    num_rollouts = whole_number("num_rollouts", num_rollouts, at_least=1)
    set_size = set_size_of(set_size, num_rollouts)
    num_sets = num_rollouts // set_size
    groups = group_axes(groups)
    order = np.argsort(generator(rng).random((*groups, num_rollouts)), axis=-1)
    sets = order[..., : num_sets * set_size].reshape(*groups, num_sets, set_size)
    return np.sort(sets, axis=-1).astype(np.int64, copy=False)

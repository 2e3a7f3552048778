"""A policy that walks about at random but not blindly: some goals are reached often, others seldom."""

import functools

import jax
import numpy as np

from polychromic.envs.grid.codes import CODE_TRIPLES
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.networks import mlp_policy


@functools.cache
def network():
    """One policy and its parameters for all tests, so that it is compiled once."""
    policy = mlp_policy(cells=49, code_triples=CODE_TRIPLES)
    params = jax.tree.map(np.array, policy.init(jax.random.key(1)))
    params["actor"]["head"]["kernel"] *= 60
    params["actor"]["head"]["bias"] = np.array([0.6, 0.6, 2.0, -2.0, -2.0, 0.0, -2.0], np.float32)
    return policy, params


def walker(world):
    """The policy, said to be made for this world."""
    info = PolicyInfo(task=world.task, observation="partial", configurations=tuple(world.level_seeds))
    return SavedPolicy(*network(), info)

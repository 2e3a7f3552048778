"""A policy that walks about at random but not blindly: some goals are reached often, others seldom."""

import jax
import numpy as np

from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.networks import mlp_policy


def walker(world, key=1):
    policy = mlp_policy(cells=49, code_triples=world.code_triples)
    params = jax.tree.map(np.array, policy.init(jax.random.key(key)))
    params["actor"]["head"]["kernel"] *= 60
    params["actor"]["head"]["bias"] = np.array([0.6, 0.6, 2.0, -2.0, -2.0, 0.0, -2.0], np.float32)
    info = PolicyInfo(task=world.task, observation="partial", configurations=tuple(world.seeds))
    return SavedPolicy(policy, params, info)

"""A policy that does not fit its world is refused in one line, before anything is computed or written."""

import jax
import numpy as np
import pytest
from small_worlds import cross, table_policy

import polychromic
from polychromic import UserError, evaluate_policy, finetune
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.protocol import Policy

WORLD = cross()
RIGHT = table_policy(WORLD)
TABLES = RIGHT.params


def read(params, obs):
    return params["actor"]["table"][obs["cell"]], params["critic"]["table"][obs["cell"]]


def remembering(params, obs, memory):
    logits, value = read(params, obs)
    return logits, value, memory[:, :1]


WRONG = {
    "3 logits for 4 actions": (
        read,
        {**TABLES, "actor": {"table": np.zeros((13, 3), np.float32)}},
        0,
        "apply returns logits of shape [B, 3]; it must be [B, 4]: the world has 4 actions",
    ),
    "no groups": (
        lambda params, obs: (params["table"][obs["cell"]], params["table"][obs["cell"], 0]),
        {"table": TABLES["actor"]["table"]},
        0,
        "its parameters are grouped as table; they must have the two groups actor and critic",
    ),
    "a group too many": (
        read,
        {**TABLES, "shared": {}},
        0,
        "its parameters are grouped as actor, critic, shared; they must have the two groups actor and critic",
    ),
    "no value": (
        lambda params, obs: params["actor"]["table"][obs["cell"]],
        TABLES,
        0,
        "apply returns 1 array; it must return logits and value",
    ),
    "value [B, 1]": (
        lambda params, obs: (read(params, obs)[0], read(params, obs)[1][:, None]),
        TABLES,
        0,
        "apply returns value of shape [B, 1]; it must be [B]",
    ),
    "one value for all": (
        lambda params, obs: (read(params, obs)[0], read(params, obs)[1].mean()),
        TABLES,
        0,
        "apply returns value of shape []; it must be [B]",
    ),
    "a memory that shrinks": (
        remembering,
        TABLES,
        3,
        "apply returns memory of shape [B, 1]; it must be [B, 3]",
    ),
    "a memory that is not returned": (
        lambda params, obs, _: read(params, obs),
        TABLES,
        3,
        "apply returns 2 arrays; it must return logits, value and memory",
    ),
    "another observation": (
        lambda params, obs: read(params, {"cell": obs["codes"]}),
        TABLES,
        0,
        "its network cannot read what the world shows (cell int64 [B]): KeyError: 'codes'",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_policy_is_refused_in_one_line(name, tmp_path):
    apply, params, memory_size, message = WRONG[name]
    policy = Policy("mine", lambda _key: params, apply, {"network": "mine"}, memory_size=memory_size)
    saved = SavedPolicy(policy, params, PolicyInfo())
    for call in (
        lambda: finetune(WORLD, (policy, params), method="ppo", iterations=1, out=tmp_path / "run"),
        lambda: finetune(WORLD, saved, iterations=1),
        lambda: evaluate_policy(WORLD, saved, attempts=2),
    ):
        with pytest.raises(UserError) as refused:
            call()
        assert str(refused.value) == f"policy 'mine': {message}"
    assert not (tmp_path / "run").exists()


def test_another_view_is_refused_in_one_line(tmp_path):
    saved = polychromic.load_policy("fourrooms")
    whole = polychromic.make("fourrooms", seeds=saved.info.configurations[:2], observation="full")
    with pytest.raises(UserError, match=r"fourrooms.*: observation is 'partial', the world shows 'full'$"):
        finetune(whole, saved, method="ppo", iterations=1, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"^policy 'mlp': the network sees 49 cells, the world shows 19 × 19$"):
        finetune(whole, (saved.policy, saved.params), method="ppo", iterations=1, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"the world shows 'full'$"):
        evaluate_policy(whole, saved, attempts=2)
    assert not (tmp_path / "run").exists()


def test_a_network_of_ones_own_for_another_view_is_refused_by_its_shapes():
    def apply(params, obs):
        cells = obs["codes"] / 50
        return cells @ params["actor"], cells @ params["critic"]

    params = {"actor": np.zeros((49, 7), np.float32), "critic": np.zeros(49, np.float32)}
    linear = Policy("linear", lambda _key: params, apply, {"kind": "linear"})
    world = {"seeds": [0], "horizon": 5}
    settings = {"method": "ppo", "iterations": 1, "budget": 2, "evaluation_rollouts": 1}
    with pytest.raises(UserError, match=r"^policy 'linear': its network cannot read .*codes uint8 \[B, 361\]") as said:
        finetune(polychromic.make("fourrooms", observation="full", **world), (linear, params), **settings)
    assert "\n" not in str(said.value)
    # The view that it is made for.
    found = finetune(polychromic.make("fourrooms", **world), (linear, params), **settings)
    assert jax.tree.map(np.shape, found.policy.params) == {"actor": (49, 7), "critic": (49,)}

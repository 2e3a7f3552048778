"""A task from outside the package: say two digits with a given sum. `sums:task` is its name for every command."""

import jax
import numpy as np

import polychromic as poly
from polychromic.policies.files import PolicyInfo
from polychromic.pretrain.sequences import Corpus, SequenceCloning, learn_sequences

END, FIRST_SUM, WORDS = 10, 11, (*"0123456789", "end", "=7", "=8", "=9")


def make(seeds=(7, 8, 9)):
    wanted = np.array(list(seeds))

    def right(configurations, answers):
        """1 for two digits with the sum of the prompt, and the end."""
        digits = (answers[:, :2] >= 0) & (answers[:, :2] < 10)
        return (
            digits.all(axis=1) & (answers[:, :2].sum(axis=1) == wanted[configurations]) & (answers[:, 2] == END)
        ) * 1.0

    return poly.token_world(
        prompts=[[FIRST_SUM + total - 7] for total in wanted],
        num_tokens=len(WORDS),
        end=END,
        max_tokens=3,
        reward=right,
        label=lambda _, answers: answers[:, 0] * 100 + answers[:, 1],
        vocabulary=WORDS,
        seeds=wanted.tolist(),
    )


def pretrain(name, *, out, command="", steps=250):
    """Learn to say any two digits, which is right once in ten."""
    policy = poly.transformer_policy(num_tokens=len(WORDS), context=4, width=16, layers=1, heads=2, critic_width=16)
    rng = np.random.default_rng(0)
    prompts, digits = rng.integers(0, 3, (500, 1)) + FIRST_SUM, rng.integers(0, 10, (500, 2))
    corpus = Corpus(np.concatenate([prompts, digits, np.full((500, 1), END)], axis=1).astype(np.int32), 1)
    params, _ = learn_sequences(policy, (corpus, corpus), SequenceCloning(steps=steps, batch=32))
    info = PolicyInfo(task=name, vocabulary=WORDS, configurations=(7, 8, 9), made={"command": command})
    path = out / "sums" / "policy.safetensors"
    poly.save_policy(path, policy, jax.tree.map(np.asarray, params), info)
    return f"{name}: {path}"


def shares(world, evaluator, attempts, temperature):
    """Which share of the attempts begins with an odd digit."""
    del world, evaluator, temperature
    return {"odd": float(np.mean(attempts.actions[:, 0] % 2))}


task = poly.TaskSpec(
    name="sums",
    make=make,
    about="say two digits with a given sum",
    base_policy="base-policies/sums/policy.safetensors",
    settings={"window": -1, "minibatch_size": 96},
    attempts=24,
    metrics=(poly.Metric("parity", shares, lambda found: f"{found['odd']:.2f} begin with an odd digit"),),
    pretrain=pretrain,
)

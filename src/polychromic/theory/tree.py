"""Set value functions of a small deterministic tree MDP (paper, section 3.1 and its appendix), by enumeration.

A state is the tuple of actions taken so far; from every state n actions are drawn, and each leads to a child. States at
the full depth end the process: their set value is 0. A policy maps every inner state to probabilities [K].
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from polychromic.core.checks import Floats, Ints
from polychromic.theory.bandit import action_sets, polychromic_scores, set_probabilities, softmax

State = tuple[int, ...]
Policy = dict[State, Floats]


@dataclass(frozen=True)
class TreeMDP:
    """Rewards r(s, a) of every inner state, and the other parameters of set RL."""

    rewards: dict[State, Floats]
    depth: int
    set_size: int
    discount: float

    @property
    def num_actions(self) -> int:
        """K."""
        return len(self.rewards[()])

    def inner_states(self) -> list[State]:
        """All states in which actions are taken, parents before children."""
        return [s for t in range(self.depth) for s in product(range(self.num_actions), repeat=t)]

    def sets(self) -> Ints:
        """All ordered action sets, [Kⁿ, n]."""
        return action_sets(self.num_actions, self.set_size)

    def scores(self, state: State) -> Floats:
        """f_poly(s, a_{1:n}) of every action set, [Kⁿ]."""
        return polychromic_scores(self.rewards[state], self.sets())


def random_tree(rng: np.random.Generator, *, num_actions: int, depth: int, set_size: int, discount: float) -> TreeMDP:
    """A tree with random rewards 0 and 1."""
    states = [s for t in range(depth) for s in product(range(num_actions), repeat=t)]
    rewards = {state: rng.integers(0, 2, num_actions).astype(np.float64) for state in states}
    return TreeMDP(rewards, depth, set_size, discount)


def random_policy(tree: TreeMDP, rng: np.random.Generator) -> Policy:
    """Independent random softmax probabilities in every inner state."""
    return {state: softmax(rng.normal(size=tree.num_actions)) for state in tree.inner_states()}


def set_q_values(tree: TreeMDP, values: dict[State, float], state: State) -> Floats:
    """Q♯(s, a_{1:n}) = f(s, a_{1:n}) + γ Σ_i V♯(s_i), for every action set, [Kⁿ]."""
    child = np.array([values.get((*state, action), 0.0) for action in range(tree.num_actions)])
    return np.asarray(tree.scores(state) + tree.discount * child[tree.sets()].sum(axis=-1))


def set_values(tree: TreeMDP, policy: Policy) -> dict[State, float]:
    """V♯(s) = E_{a_{1:n}}[Q♯(s, a_{1:n})], from the leaves up."""
    values: dict[State, float] = {}
    for state in reversed(tree.inner_states()):
        weights = set_probabilities(policy[state], tree.sets())
        values[state] = float(weights @ set_q_values(tree, values, state))
    return values


def set_value_by_trees(tree: TreeMDP, policy: Policy) -> float:
    """V♯(s_0) again, from Definition 3.1 itself: a sum over every whole tree that can be drawn.

    E[Σ_t γ^t Σ_{i=1}^{n^t} f(s_t^(i), (a_t)^(i)_{1:n})], with n^t nodes at depth t.
    """
    sets = tree.sets()
    scores = {state: tree.scores(state) for state in tree.inner_states()}
    weights = {state: set_probabilities(policy[state], sets) for state in tree.inner_states()}
    num_nodes = sum(tree.set_size**t for t in range(tree.depth))
    total = 0.0
    for choice in product(range(len(sets)), repeat=num_nodes):
        level: list[State] = [()]
        probability, value, node = 1.0, 0.0, 0
        for t in range(tree.depth):
            children: list[State] = []
            for state in level:
                drawn = choice[node]
                node += 1
                probability *= weights[state][drawn]
                value += tree.discount**t * scores[state][drawn]
                children.extend((*state, int(action)) for action in sets[drawn])
            level = children
        total += probability * value
    return float(total)


def set_visitation(tree: TreeMDP, policy: Policy) -> dict[State, float]:
    """d♯(s) / (1 − γn) = Σ_t γ^t Σ_{i=1}^{n^t} P(s_t^(i) = s), for every inner state.

    Each of the n^t nodes at depth t is, by itself, an ordinary rollout under π, so the inner sum is n^t P(s_t = s).
    """
    reach: dict[State, float] = {(): 1.0}
    for state in tree.inner_states():
        for action in range(tree.num_actions):
            reach[(*state, action)] = reach[state] * float(policy[state][action])
    factor = tree.discount * tree.set_size
    return {state: factor ** len(state) * reach[state] for state in tree.inner_states()}


def summed_advantage(tree: TreeMDP, new: Policy, old: Policy, *, discounted: bool = True) -> float:
    """E over trees drawn under π_θ of Σ_t γ^t Σ_i A♯_{π_β}: the right side of Lemma 3.2, whose 1/(1 − γn) cancels d♯'s.

    Without `discounted` the factor γ^t is left out, as the paper's proof prints it.
    """
    values = set_values(tree, old)
    total = 0.0
    for state, mass in set_visitation(tree, new).items():
        weights = set_probabilities(new[state], tree.sets())
        advantage = float(weights @ (set_q_values(tree, values, state) - values[state]))
        total += advantage * (mass if discounted else mass / tree.discount ** len(state))
    return float(total)

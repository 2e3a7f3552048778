"""Worlds and policies small enough to reason about: arms of a bandit, a walk with several goals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from polychromic.envs.actions import Vector
from polychromic.envs.protocol import StepResult, World
from polychromic.policies.files import PolicyInfo, SavedPolicy
from polychromic.policies.protocol import Policy


class WalkState:
    """cell, steps taken, whether it has ended; one row per episode."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, rows):
        return WalkState(np.array(self.rows[rows]))


class Walk(World):
    """A table of moves: `moves[cell, action]` is the next cell; a cell c with `pays[c]` > 0 ends the episode."""

    names_places = True

    def __init__(self, moves, pays, horizon, num_configurations=1, start=0):
        self.moves, self.pays = np.asarray(moves), np.asarray(pays, np.float32)
        self.num_actions = self.moves.shape[1]
        self.num_configurations, self.horizon, self.start_cell = num_configurations, horizon, start

    def start(self, configurations):
        rows = np.zeros((len(configurations), 3), np.int64)
        rows[:, 0] = self.start_cell
        return WalkState(rows)

    def observe(self, state):
        return {"cell": state.rows[:, 0].copy()}

    def step(self, state, actions):
        rows, live = state.rows, state.rows[:, 2] == 0
        rows[live, 0] = self.moves[rows[live, 0], np.asarray(actions)[live]]
        rows[live, 1] += 1
        reward = np.where(live, self.pays[rows[:, 0]], 0).astype(np.float32)
        terminated = self.pays[rows[:, 0]] > 0
        truncated = (rows[:, 1] >= self.horizon) & ~terminated
        rows[:, 2] = terminated | truncated
        return StepResult(reward, terminated, truncated)

    def places(self, state):
        return state.rows[:, 0].copy()

    def succeeded(self, state):
        return self.pays[state.rows[:, 0]] > 0

    def concatenate(self, states):
        return WalkState(np.concatenate([state.rows for state in states]))


def bandit(num_arms=6, num_right=4):
    """One step: arm a leads to cell a + 1, and the first `num_right` of them pay 1."""
    moves = np.zeros((num_arms + 1, num_arms), np.int64)
    moves[0] = np.arange(1, num_arms + 1)
    return Walk(moves, [0.0] + [1.0] * num_right + [0.0] * (num_arms - num_right), horizon=1)


def cross(arm_length=3):
    """A crossing of four roads with a goal at the end of each; four actions, horizon twice the shortest way."""
    cells = {(0, 0): 0}
    steps = [(1, 0), (-1, 0), (0, 1), (0, -1)]
    for dx, dy in steps:
        for distance in range(1, arm_length + 1):
            cells[dx * distance, dy * distance] = len(cells)
    moves = [[cells.get((x + dx, y + dy), cell) for dx, dy in steps] for (x, y), cell in cells.items()]
    pays = [1.0 if max(abs(x), abs(y)) == arm_length else 0.0 for x, y in cells]
    return Walk(moves, pays, horizon=2 * arm_length + 2)


def table_policy(world, logits=None):
    """A softmax table as actor, a table as critic."""
    num_cells = len(world.moves)
    first = np.zeros((num_cells, world.num_actions), np.float32) if logits is None else np.asarray(logits, np.float32)

    def init(key):
        del key
        return {"actor": {"table": jnp.asarray(first)}, "critic": {"table": jnp.zeros(num_cells)}}

    def apply(params, obs):
        return params["actor"]["table"][obs["cell"]], params["critic"]["table"][obs["cell"]]

    policy = Policy("table", init, apply, {"network": "table"})
    return SavedPolicy(policy, jax.tree.map(np.asarray, init(None)), PolicyInfo())


class Line(World):
    """Continuous: push a point along a line; after `horizon` steps it pays the more the nearer it is to −1 or to 1."""

    names_places = True
    actions = Vector([-1.0], [1.0])

    def __init__(self, horizon=3, num_configurations=2, cells=1):
        self.horizon, self.num_configurations, self.cells = horizon, num_configurations, cells
        self.played = []  # what `step` was given

    def start(self, configurations):
        rows = np.zeros((len(configurations), 2))
        rows[:, 0] = 0.1 * (np.asarray(configurations) - 0.5)
        return WalkState(rows)

    def observe(self, state):
        return {"position": state.rows.astype(np.float32)}

    def step(self, state, actions):
        self.played.append(np.asarray(actions))
        rows, live = state.rows, state.rows[:, 1] < self.horizon
        rows[live, 0] += 0.5 * np.clip(actions[live, 0], -1, 1)
        rows[live, 1] += 1
        ended = rows[:, 1] >= self.horizon
        reward = np.where(live & ended, np.exp(-8 * (np.abs(rows[:, 0]) - 1) ** 2), 0)
        return StepResult(reward.astype(np.float32), ended, np.zeros(len(rows), bool))

    def places(self, state):
        return np.rint(state.rows[:, 0] * self.cells).astype(np.int64)

    def succeeded(self, state):
        return np.abs(np.abs(state.rows[:, 0]) - 1) < 0.3

    def concatenate(self, states):
        return WalkState(np.concatenate([state.rows for state in states]))

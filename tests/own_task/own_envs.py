"""Environments of a user's own, and tasks of them: what people have who do not come for grids."""

import gymnasium
import numpy as np
from gymnasium import spaces

import polychromic as poly

TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-"))


class Rooms(gymnasium.Env):
    """A corridor with a goal at both ends, seen as a Dict of everything; it says itself when it has succeeded."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {
            "cell": spaces.Discrete(9, start=-4),
            "flags": spaces.MultiBinary(2),
            "kinds": spaces.MultiDiscrete([3, 2]),
            "speed": spaces.Box(-np.inf, np.inf, (2,), np.float32),
        }
    )

    def reset(self, seed=None, **_options):
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(-1, 2))
        return self._seen(), {}

    def step(self, action):
        self.cell += 2 * int(action) - 1
        over = abs(self.cell) == 4
        return self._seen(), float(over), over, False, {"is_success": over}

    def _seen(self):
        flags = np.array([self.cell > 0, self.cell < 0], np.int8)
        kinds = np.array([abs(self.cell) % 3, self.cell % 2])
        return {"cell": self.cell, "flags": flags, "kinds": kinds, "speed": np.array([self.cell, 100.0], np.float32)}


class Picture(gymnasium.Env):
    """Go to the bright corner of an image; it cannot be copied, and its luck is not seeded: no fork is faithful."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 255, (12, 12, 3), np.uint8)

    def __deepcopy__(self, memo):
        raise TypeError("holds a window")

    def reset(self, seed=None, **_options):
        super().reset(seed=seed)
        self.place, self.luck = 6, np.random.default_rng()
        return self._seen(), {}

    def step(self, action):
        self.place = int(np.clip(self.place + 2 * int(action) - 1, 0, 11))
        noise = self.luck.normal() * 1e-3
        over = self.place in (0, 11)
        return self._seen(), float(over) * 10 - 1 + noise, over, False, {}

    def _seen(self):
        image = np.zeros((12, 12, 3), np.uint8)
        image[:, self.place] = 255
        return image


class Push(gymnasium.Env):
    """Continuous: push a point out of an interval at either end; pushes beyond 2 count as 2."""

    action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(self, seed=None, **_options):
        super().reset(seed=seed)
        self.place, self.speed = float(self.np_random.uniform(-0.2, 0.2)), 0.0
        return self._seen(), {}

    def step(self, action):
        self.speed += 0.1 * float(action[0])
        self.place += self.speed
        over = abs(self.place) >= 2
        return self._seen(), float(over), over, False, {"is_success": over}

    def _seen(self):
        return np.array([self.place, self.speed], np.float32)


def onward(seen):
    """An expert of Push: go on to where it is going."""
    return np.array([2.0 * np.sign(seen[0] + 3 * seen[1])], np.float32)


def balance(seen):
    """An expert of CartPole."""
    return int(seen[2] + 0.3 * seen[3] > 0)


class Model:
    """What Stable-Baselines3 calls a model: it predicts an action and a state of its own."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        del episode_start, deterministic
        return np.array(int(observation["cell"] >= 0)), state


# FrozenLake without ice: down, down, right, down, right, right is a way.
WAY = {0: 1, 4: 1, 8: 2, 9: 1, 13: 2, 14: 2}


def walk(seen):
    """An expert of FrozenLake."""
    return WAY.get(int(seen), 2)


def episodes():
    """Recorded episodes of Taxi: whatever they are, they can be cloned."""
    env = gymnasium.make(TAXI)
    found = []
    for seed in range(3):
        seen, actions, rng = [env.reset(seed=seed)[0]], [], np.random.default_rng(seed)
        for _ in range(20):
            actions.append(int(rng.integers(6)))
            seen.append(env.step(actions[-1])[0])
        found.append((np.array(seen), np.array(actions)))
    return found


def side(env):
    return int(env.unwrapped.state[0] > 0)


def state_number(env):
    return int(env.unwrapped.s)


cartpole = poly.task_from_gymnasium(
    "CartPole-v1", name="cartpole", seeds=range(3), place=side, horizon=40, demonstrations=balance, attempts=4
)
lake = poly.task_from_gymnasium(
    "FrozenLake-v1", name="lake", seeds=range(2), place=state_number, horizon=12, attempts=4, return_range=(0, 1),
    success=lambda env: env.unwrapped.s == 15, demonstrations=walk,
)  # fmt: skip
taxi = poly.task_from_gymnasium(
    TAXI, name="taxi", seeds=range(2), place=state_number, horizon=15, attempts=4, demonstrations=episodes,
    fork="none",
)  # fmt: skip
rooms = poly.task_from_gymnasium(
    Rooms, name="rooms", seeds=range(3), place=lambda env: env.unwrapped.cell, horizon=20, demonstrations=Model(),
    attempts=4,
)  # fmt: skip
picture = poly.task_from_gymnasium(
    Picture, name="picture", seeds=range(2), place=lambda env: env.unwrapped.place, horizon=8, attempts=4, fork="none"
)
push = poly.task_from_gymnasium(
    Push, name="push", seeds=range(3), place=lambda env: int(env.unwrapped.place // 1), horizon=15, attempts=4,
    demonstrations=onward, return_range=(0, 1),
)  # fmt: skip

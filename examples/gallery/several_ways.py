"""A round room with five doors: a point mass with momentum leaves through any of them, without touching the wall.

Actions push it, so what it does in its first steps decides which door it can still reach. Each seed is another start
near the middle. `SeveralWays(locked=(2,))` locks a door, which does not show until the mass hits it: only a policy
that knows several ways gets out of the room whatever is locked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

DOORS = 5
DOOR_ANGLES = tuple(math.pi / 2 + 2 * math.pi * door / DOORS for door in range(DOORS))
DOOR_WIDTHS = (0.3, 0.24, 0.2, 0.2, 0.24)  # of the whole opening, along the wall of a room of radius 1
PUSH = 0.03  # velocity that one step at full strength adds
FRICTION = 0.05  # share of the velocity that is lost in a step
START = 0.04  # starts are this far from the middle at most, in each direction
HORIZON = 50
PIXELS = 192
SLOW = 0.5  # what success after HORIZON steps costs
CARE = 0.35  # how soon the demonstrator corrects its velocity, as a share of a step


class SeveralWays(gymnasium.Env[np.ndarray, np.ndarray]):
    """Observations: position and velocity. Actions: the push, in [-1, 1]². Success pays 1 − SLOW · t / HORIZON."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = gymnasium.spaces.Box(
        np.array([-1.2, -1.2, -0.6, -0.6], np.float32), np.array([1.2, 1.2, 0.6, 0.6], np.float32)
    )

    def __init__(self, locked: tuple[int, ...] = (), render_mode: str | None = None) -> None:
        self.locked = locked
        self.render_mode = render_mode
        self.position = np.zeros(2)
        self.velocity = np.zeros(2)
        self.steps = 0
        self.door = -1  # the one that it left through

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        del options
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-START, START, 2)
        self.velocity = np.zeros(2)
        self.steps, self.door = 0, -1
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        push = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        self.velocity = (1 - FRICTION) * self.velocity + PUSH * push
        self.position = self.position + self.velocity
        self.steps += 1
        at_wall = math.hypot(*self.position) >= 1.0
        if at_wall:
            self.door = open_door(self.position, self.locked)
        out = self.door >= 0
        reward = 1.0 - SLOW * self.steps / HORIZON if out else 0.0
        return self._seen(), reward, at_wall, self.steps >= HORIZON, {"is_success": out}

    def render(self) -> np.ndarray:  # type: ignore[override]
        """The room from above: the wall, its open doors, and the mass."""
        x, y = np.meshgrid(np.linspace(-1.2, 1.2, PIXELS), np.linspace(1.2, -1.2, PIXELS))
        picture = np.full((PIXELS, PIXELS, 3), 255, np.uint8)
        wall = np.abs(np.hypot(x, y) - 1.0) < 0.03
        for door, (angle, width) in enumerate(zip(DOOR_ANGLES, DOOR_WIDTHS, strict=True)):
            if door not in self.locked:
                wall &= np.abs((np.arctan2(y, x) - angle + math.pi) % (2 * math.pi) - math.pi) > width / 2
        picture[wall] = (60, 60, 60)
        picture[np.hypot(x - self.position[0], y - self.position[1]) < 0.05] = (200, 60, 40)
        return picture

    def _seen(self) -> np.ndarray:
        return np.concatenate([self.position, self.velocity]).astype(np.float32)


def open_door(position: np.ndarray, locked: tuple[int, ...] = ()) -> int:
    """The open door at this direction of the wall, or −1."""
    direction = math.atan2(position[1], position[0])
    for door, (angle, width) in enumerate(zip(DOOR_ANGLES, DOOR_WIDTHS, strict=True)):
        off = abs((direction - angle + math.pi) % (2 * math.pi) - math.pi)
        if door not in locked and off <= width / 2:
            return door
    return -1


def place(env: gymnasium.Env[Any, Any]) -> int:
    """What diversity reads: 0 inside the room, and the number of the door, from 1, outside."""
    return env.unwrapped.door + 1  # type: ignore[attr-defined, no-any-return]


def demonstrator(noise: float = 0.8, seed: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """A player that heads for the door which its momentum takes it to, with noise on every push.

    The noise of the first pushes chooses the door, so all of them are used from every start.
    """
    rng = np.random.default_rng(seed)
    doors = np.array([[math.cos(angle), math.sin(angle)] for angle in DOOR_ANGLES])

    def play(seen: np.ndarray) -> np.ndarray:
        position, velocity = seen[:2].astype(np.float64), seen[2:].astype(np.float64)
        drawn_to = doors[np.argmax(doors @ (position + 6.0 * velocity))]
        speed = min(0.06, 0.3 * math.hypot(*(position + 6.0 * velocity)))
        way = 1.15 * drawn_to - position
        wanted = speed * way / max(math.hypot(*way), 1e-9)
        push = CARE * (wanted - velocity) / PUSH + rng.normal(0.0, noise, 2)
        return np.clip(push, -1.0, 1.0).astype(np.float32)

    return play

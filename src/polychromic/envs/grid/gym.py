"""The engine as ordinary Gymnasium environments, for use with other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from polychromic.core.checks import read_array, whole_number
from polychromic.envs.grid.missions import WORDS
from polychromic.envs.grid.world import GridWorld, make
from polychromic.errors import UserError


class GridEnv(gymnasium.Env[dict[str, Any], Any]):
    """One episode at a time. The arguments are those of `polychromic.make`.

    Each reset draws one of the configurations; `options={"configuration": 7}` chooses one. Observations: `image`,
    `direction`, `mission` (token ids, padded with 0); `info` has the mission's text and the configuration's
    index.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        task: str,
        *,
        seeds: Iterable[int] = range(50),
        horizon: int | None = 100,
        time_penalty: float | None = None,
        reward: Literal["penalty", "package"] = "penalty",
        observation: Literal["partial", "full"] = "partial",
        mission_length: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        _check_render_mode(render_mode)
        self.world = make(
            task,
            seeds=seeds,
            horizon=horizon,
            time_penalty=time_penalty,
            reward=reward,
            observation=observation,
            mission_length=mission_length,
        )
        self.observation_space = observation_space(self.world)
        self.action_space = spaces.Discrete(self.world.num_actions)
        self.render_mode = render_mode
        self.state = self.world.start([0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode of a configuration drawn at random, or of `options["configuration"]`."""
        chosen = _chosen_configuration(self.world, options)
        super().reset(seed=None if seed is None else whole_number("seed", seed, at_least=0))
        number = int(self.np_random.integers(self.world.num_configurations)) if chosen is None else chosen
        self.state = self.world.start([number])
        return self._observation(), {"mission": self.world.missions[number], "configuration": number}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """One action, 0 … 6."""
        result = self.world.step(self.state, np.atleast_1d(read_array("actions", action)))
        terminated, truncated = bool(result.terminated[0]), bool(result.truncated[0])
        return self._observation(), float(result.reward[0]), terminated, truncated, {}

    def render(self) -> NDArray[np.uint8] | None:
        """The whole grid with the agent, where `render_mode` is "rgb_array"."""
        return self.world.render(self.state) if self.render_mode else None

    def _observation(self) -> dict[str, Any]:
        seen = self.world.observe(self.state)
        return {
            "image": seen["image"][0],
            "direction": np.int64(seen["direction"][0]),
            "mission": seen["mission"][0].copy(),
        }


class GridVectorEnv(VectorEnv[dict[str, Any], Any, Any]):
    """Many episodes in one call, the same as a `SyncVectorEnv` of `GridEnv` (an ended row restarts in the next step),
    but faster. `infos["configuration"]` has the configuration of every row."""

    metadata: dict[str, Any] = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(self, num_envs: int, task: str, *, render_mode: str | None = None, **options: Any) -> None:
        _check_render_mode(render_mode)
        self.num_envs = num_envs = whole_number("num_envs", num_envs, at_least=1)
        self.world = make(task, **options)
        self.single_observation_space = observation_space(self.world)
        self.single_action_space = spaces.Discrete(self.world.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.render_mode = render_mode
        self._generators = [seeding.np_random(None)[0] for _ in range(num_envs)]
        self.state = self.world.start(np.zeros(num_envs, np.int64))
        self._ended = np.zeros(num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start every row; an integer seed gives row i the seed `seed + i`."""
        chosen = _chosen_configuration(self.world, options)
        for row, row_seed in enumerate(_row_seeds(seed, self.num_envs)):
            if row_seed is not None:
                self._generators[row] = seeding.np_random(row_seed)[0]
        numbers = [self._draw(row) if chosen is None else chosen for row in range(self.num_envs)]
        self.state = self.world.start(numbers)
        self._ended[:] = False
        return self._observation(), {"configuration": np.array(numbers)}

    def step(self, actions: Any) -> tuple[dict[str, Any], Any, Any, Any, dict[str, Any]]:
        """One action per row; rows that ended in the step before restart instead."""
        reward, terminated, truncated = self.world.step(self.state, actions)
        fresh = np.flatnonzero(self._ended)
        if len(fresh):
            self.world.restart(self.state, fresh, [self._draw(row) for row in fresh.tolist()])
            terminated[fresh] = truncated[fresh] = False
        self._ended = terminated | truncated
        info = {"configuration": self.world.configurations(self.state)}
        return self._observation(), reward.astype(np.float64), terminated, truncated, info

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """The whole grid of every row, where `render_mode` is "rgb_array"."""
        if not self.render_mode:
            return None
        return tuple(self.world.render(self.state, row) for row in range(self.num_envs))

    def _draw(self, row: int) -> int:
        return int(self._generators[row].integers(self.world.num_configurations))

    def _observation(self) -> dict[str, Any]:
        seen = self.world.observe(self.state)
        return {**seen, "direction": seen["direction"].astype(np.int64)}


def observation_space(world: GridWorld) -> spaces.Dict:
    """The space of one row's observation."""
    return spaces.Dict(
        {
            "image": spaces.Box(0, 255, world.image_shape, np.uint8),
            "direction": spaces.Discrete(4),
            "mission": spaces.Box(0, len(WORDS) - 1, world.mission_tokens.shape[1:], np.int32),
        }
    )


def _check_render_mode(render_mode: str | None) -> None:
    if render_mode not in (None, "rgb_array"):
        raise UserError(f"render_mode: expected None or 'rgb_array', got {render_mode!r}")


def _chosen_configuration(world: GridWorld, options: dict[str, Any] | None) -> int | None:
    """The configuration that `options` ask for; None draws one at random."""
    if options is None or options == {}:
        return None
    if not isinstance(options, dict) or set(options) != {"configuration"}:
        raise UserError(f"options is {options!r}; the only option is 'configuration', such as {{'configuration': 0}}")
    return whole_number(
        "options['configuration']", options["configuration"], at_least=0, at_most=world.num_configurations - 1
    )


def _row_seeds(seed: Any, rows: int) -> list[int | None]:
    if seed is None:
        return [None] * rows
    if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str):
        if len(seed) != rows:
            raise UserError(f"seed: expected {rows} seeds, got {len(seed)}")
        return [None if row_seed is None else whole_number("seed", row_seed, at_least=0) for row_seed in seed]
    first = whole_number("seed", seed, at_least=0)
    return [first + row for row in range(rows)]

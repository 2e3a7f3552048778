"""What is measured. Each function sets up its world, then yields (count, seconds), one repetition at a time.

Seconds are processor time of the whole process (all threads, pinned to one core): on an idle machine that is the time
on the clock, on a busy one it is what the clock would have shown.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import warnings
from collections.abc import Callable, Iterator
from time import process_time

import numpy as np

HORIZON = 100
CONFIGURATIONS = 50  # the levels of seeds 0 … 49, each of them in every repetition
TASKS = {
    "fourrooms": "MiniGrid-FourRooms-v0",
    "goto": "BabyAI-GoTo-v0",
    "bosslevel": "BabyAI-BossLevel-v0",
}
Measurement = Iterator[tuple[float, float]]


def engine(task: str, worlds: int, read: str = "image") -> Measurement:
    """Episodes on one clock, as rollouts are collected: a start, then H calls of `step` and of `observe` (image,
    direction, mission) or `codes`. Worlds that end earlier stay; only steps of live worlds count."""
    import polychromic

    env = polychromic.make(task, seeds=range(CONFIGURATIONS))
    rng = np.random.default_rng(0)
    tasks = np.arange(worlds) % env.num_configurations
    look = env.observe if read == "image" else env.codes
    while True:
        actions = rng.integers(0, env.num_actions, (HORIZON, worlds))
        began = process_time()
        state = env.start(tasks)
        for row in actions:
            env.step(state, row)
            look(state)
        seconds = process_time() - began
        yield int(env.steps(state).sum()), seconds


def engine_fork(task: str, worlds: int) -> Measurement:
    """Rows copied: `state[rows]` with as many rows as worlds, in random order with repetitions."""
    import polychromic

    env = polychromic.make(task)
    rng = np.random.default_rng(0)
    state = env.start(np.arange(worlds) % env.num_configurations)
    rows = rng.integers(0, worlds, worlds)
    while True:
        began = process_time()
        for _ in range(100):
            state[rows]
        yield 100 * worlds, process_time() - began


def _minigrid(task: str):
    import gymnasium
    import minigrid  # noqa: F401

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        env = gymnasium.make(TASKS[task], max_steps=HORIZON, disable_env_checker=True).unwrapped
        env.reset(seed=0)
    return env


def minigrid(task: str, _worlds: int) -> Measurement:
    """Steps of one bare environment, which return its observation, in an episode of each of the configurations that the
    engine plays, as levels differ in speed. Resets are not counted, in minigrid's favour."""
    env = _minigrid(task)
    rng = np.random.default_rng(0)
    while True:
        steps, seconds = 0, 0.0
        for seed in range(CONFIGURATIONS):
            with contextlib.redirect_stdout(io.StringIO()):
                env.reset(seed=seed)
            actions = rng.integers(0, 7, HORIZON).tolist()
            began = process_time()
            for action in actions:
                steps += 1
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    break
            seconds += process_time() - began
        yield steps, seconds


def minigrid_fork(task: str, _worlds: int) -> Measurement:
    """`copy.deepcopy` of one environment."""
    env = _minigrid(task)
    while True:
        began = process_time()
        for _ in range(5):
            copy.deepcopy(env)
        yield 5, process_time() - began


def envpool(task: str, worlds: int) -> Measurement:
    """EnvPool with one thread; it resets ended worlds by itself, within these times."""
    import envpool as package

    env = package.make_gymnasium(TASKS[task], num_envs=worlds, num_threads=1, seed=0, max_episode_steps=HORIZON)
    env.reset()
    rng = np.random.default_rng(0)
    steps = max(2, 4096 // worlds)
    while True:
        actions = rng.integers(0, 7, (steps, worlds)).astype(np.int32)
        began = process_time()
        for row in actions:
            env.step(row)
        yield steps * worlds, process_time() - began


def navix(_: str, worlds: int) -> Measurement:
    """NAVIX: one compiled scan over the steps of all worlds."""
    import jax
    import navix as package

    env = package.make(
        "Navix-FourRooms-v0", max_steps=HORIZON, observation_fn=package.observations.symbolic_first_person
    )
    reset, step = jax.vmap(env.reset), jax.vmap(env.step)

    @jax.jit
    def run(timestep, actions):
        def one(carry, action):
            carry = step(carry, action)
            return carry, (carry.observation.sum(), carry.reward.sum())

        return jax.lax.scan(one, timestep, actions)

    timestep = jax.jit(reset)(jax.random.split(jax.random.PRNGKey(0), worlds))
    return _scanned(jax, run, timestep, worlds)


def xland(_: str, worlds: int) -> Measurement:
    """XLand-MiniGrid: one compiled scan over the steps of all worlds (its observation is 5 × 5 × 2 unless told 7)."""
    import jax
    import xminigrid

    env, parameters = xminigrid.make("MiniGrid-FourRooms")
    parameters = parameters.replace(view_size=7, max_steps=HORIZON)
    reset = jax.vmap(env.reset, in_axes=(None, 0))
    step = jax.vmap(env.step, in_axes=(None, 0, 0))

    @jax.jit
    def run(timestep, actions):
        def one(carry, action):
            carry = step(parameters, carry, action)
            return carry, (carry.observation.sum(), carry.reward.sum())

        return jax.lax.scan(one, timestep, actions)

    timestep = jax.jit(reset)(parameters, jax.random.split(jax.random.PRNGKey(0), worlds))
    return _scanned(jax, run, timestep, worlds, actions=6)


def _scanned(jax, run, timestep, worlds: int, actions: int = 7) -> Measurement:
    rng = np.random.default_rng(0)
    while True:
        chosen = jax.numpy.asarray(rng.integers(0, actions, (HORIZON, worlds)))
        began = process_time()
        timestep, sums = run(timestep, chosen)
        jax.block_until_ready(sums)
        yield HORIZON * worlds, process_time() - began


def first_call() -> float:
    """Seconds that the first `step` and `observe` take in this process: compilation, or the cache."""
    import polychromic

    env = polychromic.make("goto", seeds=range(2))
    state = env.start([0, 1])
    began = process_time()
    env.step(state, [0, 1])
    env.observe(state)
    return process_time() - began


CONTENDERS: dict[str, Callable[..., Measurement]] = {
    "polychromic": engine,
    "polychromic, codes": lambda task, worlds: engine(task, worlds, "codes"),
    "polychromic, fork": engine_fork,
    "minigrid": minigrid,
    "minigrid, fork": minigrid_fork,
    "EnvPool": envpool,
    "NAVIX": navix,
    "XLand-MiniGrid": xland,
}

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

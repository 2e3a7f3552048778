"""Rows in worker processes: the same as rows in this one, and clear errors."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
from faulty_envs import Failing, NoisyWalk, Walk

import polychromic
from polychromic.errors import UserError


class Dying(Walk):
    def step(self, action):
        if self.count == 5:
            os._exit(3)
        return super().step(action)


class Slow(Walk):
    """In a worker, action 2 says that it has begun and waits until it may end."""

    def __init__(self, folder):
        self.folder = folder

    def step(self, action):
        if action == 2 and multiprocessing.parent_process():
            (self.folder / "begun").touch()
            wait_for(self.folder / "may end")
        return super().step(action)


def wait_for(file):
    deadline = time.monotonic() + 30
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def make_with_lock(lock):
    with lock:
        return Walk()


def run(world):
    """A schedule of starts, forks, forks of forks, drops; everything that is seen."""
    rng = np.random.default_rng(0)
    seen = []
    states = [world.start([0, 1, 2, 0, 1])]
    for _ in range(12):
        states.append(states[rng.integers(len(states))][rng.integers(5, size=5)])
        if len(states) > 4:
            states.pop(0)
        for state in states:
            result = world.step(state, rng.integers(3, size=5))
            seen += [world.observe(state)["observation"], *result, world.places(state)]
    return seen


@pytest.mark.parametrize("fork", ["copy", "replay"])
def test_workers_see_what_one_process_sees(fork):
    given = {"horizon": 20, "fork": fork, "place": lambda env: ("cell", env.cell), "seed": 4}
    alone = run(polychromic.from_gymnasium(NoisyWalk, [5, 6, 7], **given))
    with polychromic.from_gymnasium(NoisyWalk, [5, 6, 7], num_workers=2, **given) as world:
        together = run(world)
        processes = [pool._process for pool in world._pools]
        assert all(process.is_alive() for process in processes)
    for left, right in zip(alone, together, strict=True):
        assert np.array_equal(left, right)
    for process in processes:
        with pytest.raises(ValueError, match="closed"):
            process.is_alive()


def test_errors_of_workers_come_home():
    with polychromic.from_gymnasium(Failing, [0, 1], horizon=9, fork="copy", num_workers=2) as world:
        state = world.start([0, 1, 0])
        for _ in range(4):
            world.step(state, [1, 1, 1])
        with pytest.raises(RuntimeError, match=r"(?s)ArithmeticError: the fifth.*In the worker.*faulty_envs"):
            world.step(state, [1, 1, 1])
        with pytest.raises(UserError, match="not usable any more"):
            world.step(state, [1, 1, 1])
        fresh = world.start([0, 1])  # the workers are still in step with us
        assert world.step(fresh, [1, 1]).reward.shape == (2,)


def test_a_worker_that_dies_is_reported():
    with polychromic.from_gymnasium(Dying, [0], horizon=9, fork="replay", num_workers=1) as world:
        state = world.start([0])
        for _ in range(5):
            world.step(state, [1])
        with pytest.raises(RuntimeError, match=r"worker 0 has ended \(exit code 3\)"):
            world.step(state, [1])


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(UserError, match="cannot be pickled"):
        polychromic.from_gymnasium(partial(make_with_lock, threading.Lock()), [0], horizon=9, num_workers=1)


@pytest.fixture
def _interruptible():
    """Background jobs of a shell ignore control-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_between_question_and_answer_closes_the_world(tmp_path, capfd):
    with polychromic.from_gymnasium(partial(Slow, tmp_path), range(4), horizon=9, fork="copy", num_workers=1) as world:
        state, other = world.start([0]), world.start([1])
        world.step(state, [1])
        worker = world._pools[0]._process.pid

        def interrupt():
            wait_for(tmp_path / "begun")
            os.kill(worker, signal.SIGINT)  # control-C reaches the workers too
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            (tmp_path / "may end").touch()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            world.step(state, [2])
        thread.join()
        # Without it this start would show what the interrupted step saw.
        with pytest.raises(UserError, match=r"closed \(KeyboardInterrupt came while its workers were busy\)"):
            world.start([2])
        with pytest.raises(UserError, match="closed"):
            world.step(other, [1])
    assert "Traceback" not in capfd.readouterr().err, "a worker whose answer nobody waits for ends quietly"

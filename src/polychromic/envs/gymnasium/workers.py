"""A pool of rows in a process of its own, spoken to over a pipe.

Processes are spawned, never forked: a fork of a process with threads (JAX, numba) can hang.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import traceback
import weakref
from collections import deque
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # Gymnasium depends on it

from polychromic.envs.gymnasium.episodes import EnvironmentFailed, Recipe, describe
from polychromic.envs.gymnasium.pool import Begin, Drop, Fork, Move, Pool, Seen
from polychromic.errors import UserError


def pack(recipe: Recipe) -> bytes:
    """The recipe as bytes; lambdas and functions of notebooks are fine, open handles are not."""
    try:
        return bytes(cloudpickle.dumps(recipe))
    except Exception as error:
        raise UserError(
            "num_workers > 0 needs make_env, place, clone, restore, reseed and tokenize to be sent to other "
            f"processes, and one of them cannot be pickled ({describe(error)}). Build what it "
            "holds inside the function, or use num_workers=0"
        ) from error


class RemotePool:
    """`Pool` in another process. `send` and `receive` are apart so that all workers run at once."""

    def __init__(self, recipe: bytes, index: int) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, recipe), daemon=True, name=f"polychromic-worker-{index}")
        process.start()
        theirs.close()
        self._index = index
        self._process = process
        self._pipe = ours
        self._pending: deque[Fork | Drop] = deque()
        self.close = weakref.finalize(self, _stop, process, ours)

    def tell(self, message: Fork | Drop) -> None:
        self._pending.append(message)

    def send(self, messages: list[Begin | Move]) -> None:
        # Popped one by one: finalizers may append while this runs.
        told = [self._pending.popleft() for _ in range(len(self._pending))]
        try:
            self._pipe.send_bytes(pickle.dumps((told, messages), protocol=pickle.HIGHEST_PROTOCOL))
        except OSError as error:
            raise self._died() from error

    def receive(self) -> list[Seen] | Exception:
        """The answers, or the error that the worker met."""
        try:
            answer: list[Seen] | Exception = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            return self._died()
        return answer

    def hang_up(self) -> None:
        """Let the worker end as soon as it has finished what it does; `close` waits for that."""
        self._pipe.close()

    def _died(self) -> EnvironmentFailed:
        self._process.join(timeout=5)
        return EnvironmentFailed(
            f"worker {self._index} has ended (exit code {self._process.exitcode}). If it ended at once: a script "
            'that uses num_workers must keep what it runs under `if __name__ == "__main__":`. Otherwise the '
            "environment crashed its process; num_workers=0 shows where"
        )


def _stop(process: Any, pipe: Connection) -> None:
    """End a worker: ask, wait, then end it by force."""
    pipe.close()
    process.join(timeout=5)
    if process.is_alive():
        process.terminate()
        process.join()
    process.close()


def _serve(pipe: Connection, recipe: bytes) -> None:
    """The worker's loop; it ends when the other side closes the pipe."""
    # Control-C reaches every process of a terminal; the other side decides what becomes of the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pool: Pool | None = None
    while True:
        try:
            told, messages = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            break
        answer: list[Seen] | Exception
        try:
            if pool is None:
                pool = Pool(pickle.loads(recipe))
            for message in told:
                pool.tell(message)
            answer = pool.ask(messages)
        except UserError as error:
            answer = UserError(str(error))
        except Exception as error:
            answer = EnvironmentFailed(f"{error}\n\nIn the worker:\n{traceback.format_exc()}")
        try:
            payload = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            payload = pickle.dumps(EnvironmentFailed(f"what `place` returned cannot be pickled: {error}"))
        try:
            pipe.send_bytes(payload)
        except OSError:  # nobody waits for it any more
            break
    if pool is not None:
        pool.close()

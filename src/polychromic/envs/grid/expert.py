"""minigrid's expert for BabyAI missions, made safe to follow: it can be copied and interrupted, opens boxes, and puts
down what it is handed at the start."""

from __future__ import annotations

import contextlib
import copy
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_SECONDS = 1.0  # processor time for one decision
_RIGHT, _DROP, _TOGGLE = 1, 4, 5
_AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction


@dataclass
class Expert:
    """The bot of an environment. Copy it together with its environment (`copy.deepcopy((env, expert))`)."""

    planner: Any
    last: int | None = None  # the action taken since the last call of `advice`
    script: list[int] = field(default_factory=list)  # actions to take before the bot is asked

    def advice(self) -> int | None:
        """The next action, or None if the bot is stuck (random actions can bring it into such states)."""
        if self.script:
            return self.script[0]
        try:
            with _time_limit(_SECONDS):
                return int(self.planner.replan(self.last))
        except Exception:  # the bot fails in many ways: assertions, missing attributes, endless plans
            return None

    def told(self, action: int) -> None:
        """The environment was stepped with this action."""
        if self.script and self.script[0] == action:
            self.script.pop(0)
        elif self.script:
            self.script.clear()
        else:
            self.last = action


def expert_for(env: Any) -> Expert:
    """An expert for a freshly reset BabyAI environment."""
    return Expert(_planner(env), script=_putting_down(env) or _opening_of_boxes(env))


def _planner(env: Any) -> Any:
    from minigrid.utils import baby_ai_bot

    bot: Any = baby_ai_bot.BabyAIBot
    return bot(env)


def _putting_down(env: Any) -> list[int]:
    """The bot looks on the floor for an object that it is carrying (the *Carrying levels): turn to a free cell and drop
    it. [] if nothing is carried."""
    if env.carrying is None:
        return []
    for turns in range(4):
        x, y = (int(at) + by for at, by in zip(env.agent_pos, _AHEAD[(env.agent_dir + turns) % 4], strict=True))
        if env.grid.get(x, y) is None:
            return [_RIGHT] * turns + [_DROP]
    return []


def _opening_of_boxes(env: Any) -> list[int]:
    """The bot never opens boxes: walk to the first box that holds something and toggle it. [] if there is none."""
    from minigrid.envs.babyai.core import verifier

    full = [cell for cell in env.grid.grid if cell is not None and cell.contains is not None]
    if not full:
        return []
    twin = copy.deepcopy(env)
    language: Any = verifier
    twin.instrs = language.GoToInstr(language.ObjDesc(full[0].type, full[0].color))
    twin.instrs.reset_verifier(twin)
    guide = Expert(_planner(twin))
    actions: list[int] = []
    done = False
    while not done:
        action = guide.advice()
        if action is None:
            return []
        _, _, terminated, truncated, _ = twin.step(action)
        guide.told(action)
        actions.append(action)
        done = terminated or truncated
    return [*actions, _TOGGLE]


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Interrupt a decision that takes forever."""

    def interrupt(*_: Any) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)

"""Episodes that people can look at: of every configuration, one attempt for each distinct strategy.

An attempt is replayed from its actions, so nothing but these has to be kept while thousands are played. A replay that
does not visit the places of the attempt (a world with noise) is left out.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.protocol import World
from polychromic.finetuning.attempts import Attempts

MOST_STRATEGIES = 6
# Of worlds that are shown as text: episodes in Python are slow, and texts are long.
MOST_TEXTS = 3
TEXT_CONFIGURATIONS = 12
TEXT_MOMENTS = 40
TEXT_LENGTH = 600
ACTION_DIGITS = 4
# Pictures are larger still: of the first configurations, small, and of fewer moments.
PICTURE_CONFIGURATIONS = 3
PICTURE_MOMENTS = 12
PICTURE_SIZE = 200
GRID, TEXT = "grid", "text"


def viewer_of(world: World) -> str:
    """The name of the viewer that draws the episodes of a world."""
    if world.spec is not None and world.spec.viewer is not None:
        return str(world.spec.viewer.name)
    return GRID if world.scenery() else TEXT


def record(world: World, attempts: Attempts) -> list[dict[str, Any]]:
    """For every configuration its strategies, most successful first, each with its quickest attempt.

    Each is a dict in JSON's types: `rooms` (the places in the order of the first visit), `count` and `successes` of the
    attempts with this strategy, `solved` (where success is known), `return` and `steps` of the one shown, and what the
    viewer of the task, the `replay` and `backdrop` of the world, or its `text` say.
    """
    viewer = world.spec.viewer if world.spec is not None else None
    if viewer is not None:
        recordings, episodes = _choose(world, attempts, viewer.most)
        _extend(recordings, viewer.replay(world, *episodes.moves))
    elif world.scenery():
        recordings, episodes = _choose(world, attempts, MOST_STRATEGIES)
        _extend(recordings, world.replay(*episodes.moves))
        for number, recording in enumerate(recordings):
            recording |= world.backdrop(number)
    else:
        recordings, episodes = _choose(world, attempts, MOST_TEXTS, TEXT_CONFIGURATIONS)
        _extend(recordings, _texts(world, episodes, attempts))
    return recordings


class _Episodes:
    """The attempts that are shown."""

    def __init__(self, numbers: list[int], each: int, attempts: Attempts) -> None:
        self.numbers = np.array(numbers, np.int64)
        self.configurations = self.numbers // each
        self.lengths = attempts.lengths[self.numbers]
        self.actions = attempts.actions[self.numbers]

    @property
    def moves(self) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
        """Configurations, actions and lengths."""
        return self.configurations, self.actions, self.lengths


def _choose(
    world: World, attempts: Attempts, most: int, configurations: int | None = None
) -> tuple[list[dict[str, Any]], _Episodes]:
    """Recordings without what is drawn, and the attempts that they show, in order."""
    each = len(attempts) // world.num_configurations
    known = attempts.success
    chosen: list[int] = []
    recordings: list[dict[str, Any]] = []
    for number in range(world.num_configurations):
        own = np.arange(number * each, (number + 1) * each)
        kinds = []
        for label in np.unique(attempts.strategies[own]):
            members = own[attempts.strategies[own] == label]
            solved = np.zeros(len(members), bool) if known is None else known[members]
            # The quickest success, or without one the first attempt.
            shown = members[np.argmin(np.where(solved, attempts.lengths[members], np.iinfo(np.int64).max))]
            kinds.append((-int(solved.sum()), -len(members), int(shown)))
        kinds.sort()
        recordings.append({"distinct": len(kinds), "strategies": []})
        if configurations is not None and number >= configurations:
            continue
        failed = [kind for kind in kinds if not kind[0]]
        for successes, count, shown in [*(kind for kind in kinds if kind[0]), *failed[:MOST_STRATEGIES]][:most]:
            visited = attempts.visited(shown)
            _, first = np.unique(visited, return_index=True)
            recordings[-1]["strategies"].append(
                {
                    "rooms": visited[np.sort(first)].tolist(),
                    "count": -count,
                    "successes": -successes,
                    **({} if known is None else {"solved": bool(known[shown])}),
                    "return": round(float(attempts.rewards[shown]), 6),
                    "steps": int(attempts.lengths[shown]),
                }
            )
            chosen.append(shown)
    return recordings, _Episodes(chosen, each, attempts)


def _extend(recordings: list[dict[str, Any]], moments: list[dict[str, Any]]) -> None:
    following = iter(moments)
    for recording in recordings:
        for strategy in recording["strategies"]:
            strategy |= next(following)


def _texts(world: World, episodes: _Episodes, attempts: Attempts) -> list[dict[str, Any]]:
    """Of each episode `actions`, and `texts` (and `pictures`) of the moments `at`; none where the replay differed."""
    lengths = episodes.lengths
    rows: list[dict[str, Any]] = [
        {"actions": np.round(taken[:length], ACTION_DIGITS).tolist(), "at": [], "texts": []}
        for taken, length in zip(episodes.actions, lengths, strict=True)
    ]
    try:
        faithful = _replay_texts(world, episodes, attempts, rows)
    except Exception:  # the world is someone else's; episodes to look at must not cost an evaluation that is done
        faithful = np.zeros(len(rows), bool)
    for row in np.flatnonzero(~faithful):
        rows[row] = {"actions": rows[row]["actions"], "at": [], "texts": []}
    return rows


def _replay_texts(
    world: World, episodes: _Episodes, attempts: Attempts, rows: list[dict[str, Any]]
) -> NDArray[np.bool_]:
    """Fill in texts; returns which episodes had the places, the length and the return of their attempts."""
    lengths, places = episodes.lengths, attempts.places[episodes.numbers]
    drawn = world.can_draw & (episodes.configurations < PICTURE_CONFIGURATIONS)
    moments = np.where(drawn, PICTURE_MOMENTS, TEXT_MOMENTS)
    shown = [
        set(np.linspace(0, length, count).round().astype(int).tolist())
        for length, count in zip(lengths, moments, strict=True)
    ]
    state = world.start(episodes.configurations)
    faithful, earned = np.ones(len(lengths), bool), np.zeros(len(lengths))
    last = int(lengths.max(initial=0))
    for step in range(last + 1):
        faithful &= (step > lengths) | (world.places(state) == places[:, step])
        for row in np.flatnonzero(faithful & (step <= lengths)):
            if step in shown[row]:
                rows[row]["at"].append(step)
                rows[row]["texts"].append(world.text(state, int(row))[:TEXT_LENGTH])
                if drawn[row]:
                    rows[row].setdefault("pictures", []).append(_as_url(world.picture(state, int(row))))
        if step < last:
            live = step < lengths
            # Rows that are over stay as they are, whatever the action, but it must be one.
            actions = episodes.actions[np.arange(len(live)), np.where(live, step, 0)]
            result = world.step(state, actions)
            earned += np.where(live, result.reward, 0)
            faithful &= ~live | ((result.terminated | result.truncated) == (step + 1 == lengths))
    return np.asarray(faithful & np.isclose(earned, attempts.rewards[episodes.numbers], rtol=1e-4, atol=1e-5))


def _as_url(picture: NDArray[np.uint8]) -> str:
    """A small PNG as a data URL."""
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((PICTURE_SIZE, PICTURE_SIZE))
    with io.BytesIO() as file:
        image.save(file, format="PNG", optimize=True)
        return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()

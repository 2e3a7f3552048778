"""`polychromic watch`: episodes of a policy in the terminal, or as an animated GIF."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from polychromic.envs.grid import codes
from polychromic.errors import UserError
from polychromic.finetuning.attempts import Attempts, play
from polychromic.evaluate.targets import find_target, world_of
from polychromic.files import whole_file
from polychromic.policies.inference import Evaluator

_SIGNS = {"empty": "  ", "goal": "▓▓", "lava": "≈≈", "wall": "██", "floor": "··"}
_THINGS = {
    codes.KEY: "k ",
    codes.BALL: "● ",
    codes.BOX: "□ ",
    codes.OPEN_DOOR: "┆┆",
    codes.CLOSED_DOOR: "▒▒",
    codes.LOCKED_DOOR: "╬╬",
}
_AGENT = ("▶ ", "▼ ", "◀ ", "▲ ")
_ANSI = {"red": 31, "green": 32, "blue": 34, "purple": 35, "yellow": 33, "grey": 90}


def watch(
    target: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN_OR_POLICY")],
    /,
    *,
    configuration: int = 1,
    episodes: int = 1,
    temperature: float = 1.0,
    seed: int = 0,
    gif: Path | None = None,
    tile_size: int = 16,
    seconds_per_step: float = 0.12,
) -> int:
    """See a policy act.

    Args:
        target: a run directory, a policy file, or a shipped base policy by name.
        configuration: which one, from 1 on, as the report numbers them.
        episodes: how many, one after another.
        temperature: sampling temperature; 0 takes the most likely action.
        seed: of the actions.
        gif: write an animated GIF instead of showing it in the terminal.
        tile_size: pixels of a cell in the GIF.
        seconds_per_step: how long a step is shown.
    """
    found = find_target(target)
    world = world_of(found)
    if not 1 <= configuration <= world.num_configurations:
        raise UserError(f"configuration is {configuration}; {found.name} has 1 … {world.num_configurations}")
    for name, value in (("episodes", episodes), ("tile_size", tile_size)):
        if value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1")
    if not seconds_per_step >= 0:
        raise UserError(f"seconds_per_step is {seconds_per_step}; it must be a number from 0 on")
    if seed < 0:
        raise UserError(f"seed is {seed}; it must be 0 or more")
    if gif is not None and not hasattr(world, "render"):
        raise UserError(f"gif is {gif}; {found.name} acts in a world of tokens, which has no pictures")
    task = configuration - 1
    evaluator = Evaluator(found.saved.policy, found.saved.params, getattr(world, "mission_tokens", None))
    tasks = np.full(episodes, task)
    attempts = play(evaluator, world, world.start(tasks), np.random.default_rng(seed), temperature=temperature)
    print(f"configuration {configuration}, level seed {world.seeds[task]}: {world.missions[task]}")
    if gif is not None:
        _write_gif(world, task, attempts, gif, tile_size, seconds_per_step)
    for episode in range(episodes):
        if hasattr(world, "word"):
            said = attempts.actions[episode, : attempts.lengths[episode]].tolist()
            print(" ".join(world.word(token) for token in said))
        elif gif is None:
            _show(world, task, attempts, episode, seconds_per_step)
        ended = "solved" if attempts.success[episode] else "not solved"
        print(f"episode {episode + 1}: {ended} after {attempts.lengths[episode]} steps")
    if gif is not None:
        print(f"gif: {gif}")
    return 0


def _states(world: Any, task: int, attempts: Attempts, episode: int) -> Any:
    """Every moment of an episode, replayed from its actions."""
    state = world.start([task])
    yield state
    for action in attempts.actions[episode, : attempts.lengths[episode]].tolist():
        world.step(state, [action])
        yield state


def _write_gif(world: Any, task: int, attempts: Attempts, path: Path, tile_size: int, seconds: float) -> None:
    from PIL import Image

    frames = [
        Image.fromarray(world.render(state, tile_size=tile_size))
        for episode in range(len(attempts))
        for state in _states(world, task, attempts, episode)
    ]
    try:
        with whole_file(path) as partial:
            frames[0].save(
                partial,
                format="GIF",
                save_all=True,
                append_images=frames[1:],
                duration=max(20, round(1000 * seconds)),
                loop=0,
            )
    except OSError as error:
        raise UserError(f"gif: cannot write {path} ({error.strerror}); give a file that can be written") from error


def _show(world: Any, task: int, attempts: Attempts, episode: int, seconds: float) -> None:
    """Step by step on a terminal; elsewhere the last moment alone."""
    live = sys.stdout.isatty()
    picture = ""
    for moment, state in enumerate(_states(world, task, attempts, episode)):
        picture = terminal_picture(world, state, colours=live)
        if live:
            back = f"\033[{picture.count(chr(10)) + 1}A" if moment else ""
            print(f"{back}{picture}", flush=True)
            time.sleep(seconds)
    if not live:
        print(picture)


def terminal_picture(world: Any, state: Any, *, colours: bool = False) -> str:
    """The whole grid of the first row, two characters a cell."""
    grid: NDArray[np.uint8] = world.grids(state)[0]
    x, y = world.positions(state)[0].tolist()
    lines = []
    for row in range(grid.shape[1]):
        cells = [_sign(int(grid[column, row]), colours) for column in range(grid.shape[0])]
        if row == y:
            agent = _AGENT[int(world.directions(state)[0])]
            cells[x] = f"\033[1;31m{agent}\033[0m" if colours else agent
        lines.append("".join(cells))
    return "\n".join(lines)


def _sign(code: int, colours: bool) -> str:
    plain = {codes.EMPTY: "empty", codes.GOAL: "goal", codes.LAVA: "lava", codes.WALL: "wall"}
    if code in plain:
        sign, colour = _SIGNS[plain[code]], {"goal": "green", "lava": "red"}.get(plain[code], "")
    elif codes.FLOOR <= code < codes.KEY:
        sign, colour = _SIGNS["floor"], codes.COLOURS[code - codes.FLOOR]
    else:
        first = max((start for start in _THINGS if start <= code), default=codes.KEY)
        sign, colour = _THINGS[first], codes.COLOURS[(code - first) % len(codes.COLOURS)]
    return f"\033[{_ANSI[colour]}m{sign}\033[0m" if colours and colour else sign

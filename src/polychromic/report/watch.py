"""`polychromic watch`: episodes of a policy in the terminal, or as an animated GIF."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from polychromic.envs.protocol import World
from polychromic.errors import UserError
from polychromic.evaluate.targets import find_target, world_of
from polychromic.files import whole_file
from polychromic.finetuning.attempts import Attempts, attempt
from polychromic.policies.inference import Evaluator


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
        configuration: its number, from 1, as in the report.
        episodes: how many, one after another.
        temperature: sampling temperature; 0 takes the most likely action.
        seed: of the sampled actions.
        gif: write an animated GIF instead of showing it in the terminal.
        tile_size: pixels per cell in the GIF.
        seconds_per_step: how long each step is shown.
    """
    player = find_target(target)
    world = world_of(player)
    if not 1 <= configuration <= world.num_configurations:
        raise UserError(f"configuration is {configuration}; {player.name} has 1 … {world.num_configurations}")
    for name, value in (("episodes", episodes), ("tile_size", tile_size)):
        if value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1")
    if not seconds_per_step >= 0:
        raise UserError(f"seconds_per_step is {seconds_per_step}; it must be at least 0")
    if seed < 0:
        raise UserError(f"seed is {seed}; it must be 0 or more")
    if gif is not None and not world.can_draw:
        raise UserError(f"gif is {gif}; {player.name} acts in a world that has no pictures; leave it out for text")
    number = configuration - 1
    evaluator = Evaluator(player.saved.policy, player.saved.params, world.tables())
    state = world.start(np.full(episodes, number))
    attempts = attempt(evaluator, world, state, np.random.default_rng(seed), temperature=temperature)
    seeds = f", level seed {world.level_seeds[number]}" if world.level_seeds else ""
    print(f"configuration {configuration}{seeds}: {world.missions[number]}")
    if gif is not None:
        _write_gif(world, number, attempts, gif, tile_size, seconds_per_step)
    for episode in range(episodes):
        if gif is None:
            _show(world, number, attempts, episode, seconds_per_step)
        ended = "solved" if attempts.success[episode] else "not solved"
        print(f"episode {episode + 1}: {ended} after {attempts.lengths[episode]} steps")
    if gif is not None:
        print(f"gif: {gif}")
    return 0


def _states(world: World, configuration: int, attempts: Attempts, episode: int) -> Any:
    """Every state of an episode, replayed from its actions."""
    state = world.start([configuration])
    yield state
    for action in attempts.actions[episode, : attempts.lengths[episode]].tolist():
        world.step(state, [action])
        yield state


def _write_gif(
    world: World, configuration: int, attempts: Attempts, path: Path, tile_size: int, seconds: float
) -> None:
    from PIL import Image

    frames = [
        Image.fromarray(world.picture(state, tile_size=tile_size))
        for episode in range(len(attempts))
        for state in _states(world, configuration, attempts, episode)
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


def _show(world: World, configuration: int, attempts: Attempts, episode: int, seconds: float) -> None:
    """Step by step on a terminal; otherwise only the last state."""
    live = sys.stdout.isatty()
    picture = ""
    for moment, state in enumerate(_states(world, configuration, attempts, episode)):
        picture = world.text(state, colours=live)
        if live:
            back = f"\033[{picture.count(chr(10)) + 1}A" if moment else ""
            print(f"{back}{picture}", flush=True)
            time.sleep(seconds)
    if not live:
        print(picture)

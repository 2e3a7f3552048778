"""`polychromic watch`: episodes of a policy in the terminal, or as an animated GIF."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray

from polychromic.envs.protocol import World
from polychromic.errors import UserError
from polychromic.evaluate.targets import find_target, world_of
from polychromic.files import whole_file
from polychromic.finetuning.play import Successes, play
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
    seeds = f", level seed {world.level_seeds[number]}" if world.level_seeds else ""
    mission = f": {world.missions[number]}" if world.missions[number] else ""
    print(f"configuration {configuration}{seeds}{mission}")
    evaluator = Evaluator(player.saved.policy, player.saved.params, world.tables())
    rng = np.random.default_rng(seed)
    if world.has_noise:
        world.reseed(seed)
    live = gif is None and sys.stdout.isatty()
    ends, frames = [], []
    for _ in range(episodes):
        episode = _Episode(world, number)
        for moment, state in enumerate(episode.states(evaluator, rng, temperature)):
            if gif is not None:
                frames.append(world.picture(state, tile_size=tile_size))
            elif live:
                _show(world.text(state, colours=True), moment, seconds_per_step)
        if gif is None and not live:
            print(episode.last)
        ends.append(episode.end)
        if gif is None:
            print(f"episode {len(ends)}: {ends[-1]}")
    if gif is not None:
        _write_gif(frames, gif, seconds_per_step)
        for count, end in enumerate(ends, start=1):
            print(f"episode {count}: {end}")
        print(f"gif: {gif}")
    return 0


class _Episode:
    """One episode, shown while it is played: a world with noise would not replay it from its actions."""

    def __init__(self, world: World, configuration: int) -> None:
        self._world = world
        self._configuration = configuration
        self.last = ""  # its last moment as text
        self.end = ""  # how it ended, in words

    def states(self, evaluator: Evaluator, rng: np.random.Generator, temperature: float) -> Iterator[Any]:
        """Every moment, from the first on."""
        world = self._world
        state = world.start([self._configuration])
        successes = Successes(world, state)
        yield state
        earned, steps = 0.0, 0
        for moment in play(evaluator, world, state, rng, temperature=temperature):
            successes.note(moment)
            earned, steps = earned + float(moment.result.reward[0]), steps + 1
            state = moment.state
            yield state
        self.last = world.text(state)
        known = successes.known
        said = f"return {earned:.4g}" if known is None else "solved" if known[0] else "not solved"
        self.end = f"{said} after {steps} steps"


def _show(picture: str, moment: int, seconds: float) -> None:
    """A moment on a terminal, over the one before."""
    back = f"\033[{picture.count(chr(10)) + 1}A" if moment else ""
    print(f"{back}{picture}", flush=True)
    time.sleep(seconds)


def _write_gif(pictures: Sequence[NDArray[np.uint8]], path: Path, seconds: float) -> None:
    from PIL import Image

    frames = [Image.fromarray(picture) for picture in pictures]
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

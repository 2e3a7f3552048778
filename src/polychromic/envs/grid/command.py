"""`polychromic check-grid`: compare the engine with the installed minigrid, level by level, and save the results."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import multiprocessing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import tyro

from polychromic.envs.grid.differential import Player, Tally, compare_level
from polychromic.envs.grid.load import load_level
from polychromic.envs.grid.tasks import NotCovered, level_id, registered_levels
from polychromic.envs.gymnasium.episodes import describe
from polychromic.errors import UserError

_SEEDS_PER_JOB = 50
_ROUNDS_WITH_RANDOM = 3  # of BabyAI levels; only the bot plays later rounds
_ROUNDS_WITH_FORKS = 4
_ROUNDS_WITHOUT_BOT = 4  # of the other levels, which have no bot


def check_grid(
    levels: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    bot_missions: int = 100,
    out: Path | None = None,
    processes: int = 2,
) -> int:
    """Play minigrid and the engine side by side, with forks in the middle of episodes, and compare image, direction,
    reward, flags, position and what is carried at every step.

    Args:
        levels: tasks or minigrid ids; all that the engine covers if none is given.
        bot_missions: continue until the expert bot has solved this many missions of each BabyAI level.
        out: a JSON file that keeps the results; an interrupted run resumes from it.
        processes: how many levels to play at the same time.
    """
    if bot_missions < 1 or processes < 1:
        raise UserError(f"bot_missions and processes must be at least 1, got {bot_missions} and {processes}")
    before = _read(out) if out and out.exists() else {}
    chosen = list(dict.fromkeys(level_id(level) for level in levels))
    for level in chosen:
        load_level(level, 0)  # refuses what is not covered
    chosen = chosen or covered_levels()
    tallies = {level: (0, Tally()) for level in chosen} | before
    if out:
        _write(out, tallies)
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        while jobs := [level for level in chosen if not _finished(level, *tallies[level], bot_missions)]:
            rounds = [(level, tallies[level][0]) for level in jobs]
            for level, tally in pool.imap_unordered(_job, rounds):
                done, total = tallies[level]
                total.add(tally)
                tallies[level] = (done + 1, total)
                if out:
                    _write(out, tallies)
                if tally.mismatches:
                    print(f"{level}: {tally.first_mismatch}", flush=True)
    results = {level: tallies[level][1] for level in chosen}
    print("\n".join(table(results)))
    short = [f"{level} ({tally.bot_solved})" for level, tally in results.items() if _short(level, tally, bot_missions)]
    if short:
        print(f"\nfewer than {bot_missions} missions solved by the bot: {', '.join(short)}")
    return int(bool(short) or any(tally.mismatches for tally in results.values()))


def covered_levels() -> list[str]:
    """Every registered minigrid level that the engine runs."""
    return [level for level in registered_levels() if refusal(level) is None]


def refusal(level: str) -> str | None:
    """Why the engine does not run this level, or None."""
    try:
        load_level(level, 0)
    except NotCovered as error:
        return str(error)
    return None


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    """A line per level, then the sums and the kinds of missions that were forked."""
    yield f"{'level':36} {'episodes':>8} {'steps':>9} {'bot solved':>10} {'forks':>7} {'mismatches':>10}"
    total = Tally()
    for level, tally in tallies.items():
        total.add(tally)
        yield _line(level, tally)
    yield _line(f"{len(tallies)} levels", total)
    yield ""
    yield f"{'forks in missions of this kind':58} {'forks':>7} {'carrying':>8} {'half done':>9}"
    for kind, forks in sorted(_by_shape(total.forks).items(), key=lambda item: -item[1]):
        carrying, half = _by_shape(total.forks_carrying)[kind], _by_shape(total.forks_half_done)[kind]
        yield f"{kind:58} {forks:7d} {carrying:8d} {half:9d}"


def _line(name: str, tally: Tally) -> str:
    forks, wrong = tally.forks.total(), tally.mismatches.total()
    return f"{name:36} {tally.episodes:8d} {tally.steps:9d} {tally.bot_solved:10d} {forks:7d} {wrong:10d}"


def _by_shape(counts: Counter[str]) -> Counter[str]:
    """Group missions of several clauses by how the clauses are joined, the others by their clause."""
    shapes: Counter[str] = Counter()
    for kind, count in counts.items():
        shape = kind
        if "(" in kind:
            for clause in ("GoTo", "Open", "Pickup", "PutNext"):
                shape = shape.replace(clause, "·")
        shapes[shape] += count
    return shapes


def _finished(level: str, rounds: int, tally: Tally, bot_missions: int) -> bool:
    if not level.startswith("BabyAI-"):
        return rounds >= _ROUNDS_WITHOUT_BOT
    # The bot solves a third of some levels; a level that it never solves must not run forever.
    most = 10 * (bot_missions // _SEEDS_PER_JOB + 2)
    return rounds >= most or (rounds >= 2 and not _short(level, tally, bot_missions))


def _short(level: str, tally: Tally, bot_missions: int) -> bool:
    return level.startswith("BabyAI-") and tally.bot_solved < bot_missions


def _job(job: tuple[str, int]) -> tuple[str, Tally]:
    """One round of a level: seeds and players."""
    level, done = job
    seeds = range(done * _SEEDS_PER_JOB, (done + 1) * _SEEDS_PER_JOB)
    plays: list[tuple[Player, int | None]] = [("random", (None, 64)[done % 2])]
    if level.startswith("BabyAI-"):
        extra: list[tuple[Player, int | None]] = [("noisy bot", (100, None)[done % 2])]
        plays = [("bot", None), *(plays + extra if done < _ROUNDS_WITH_RANDOM else [])]
    tally = Tally()
    for player, horizon in plays:
        perturbed = done % 2 == 1 and player != "bot"
        tally.add(
            compare_level(
                level,
                seeds,
                player,
                horizon=horizon,
                check_full=done == 0,
                perturbed=perturbed,
                fork=done < _ROUNDS_WITH_FORKS,
                random_seed=done,
            )
        )
    return level, tally


@functools.cache
def _origin() -> dict[str, str]:
    """The versions behind the results; results of different engines are never added up."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + source.read_bytes())
    return {"minigrid": importlib.metadata.version("minigrid"), "engine": digest.hexdigest()}


def _write(path: Path, tallies: dict[str, tuple[int, Tally]]) -> None:
    """Write to a temporary file first: an interruption leaves the old file or the new one."""
    levels = {level: {"rounds": rounds, **vars(tally)} for level, (rounds, tally) in tallies.items()}
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(json.dumps({**_origin(), "levels": levels}, indent=1), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise UserError(f"out: {path} cannot be written ({error.strerror})") from error


def _read(path: Path) -> dict[str, tuple[int, Tally]]:
    advice = "remove it or choose another file"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"out: {path} cannot be read ({error}); {advice}") from error
    if not isinstance(data, dict) or not {"minigrid", "engine", "levels"} <= set(data):
        raise UserError(f"out: {path} does not name its minigrid and engine; {advice}")
    for what, now in _origin().items():
        if data[what] != now:
            raise UserError(f"out: {path} was made with {what} {data[what]}, this is {what} {now}; {advice}")
    try:
        return {level: _tally(fields) for level, fields in data["levels"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"out: {path} has incomplete results ({describe(error)}); {advice}") from error


def _tally(fields: dict[str, Any]) -> tuple[int, Tally]:
    """The number of rounds and their counts; every field must be present and of the right type."""
    empty: dict[str, Any] = {"rounds": 0, **vars(Tally())}
    read: dict[str, Any] = {
        name: Counter(fields[name]) if isinstance(kind, Counter) else fields[name] for name, kind in empty.items()
    }
    for name, kind in empty.items():
        if type(read[name]) is not type(kind):
            raise TypeError(f"{name} is {read[name]!r}")
        counts = read[name].values() if isinstance(kind, Counter) else [read[name]]
        if any(isinstance(count, int) and count < 0 for count in counts):
            raise ValueError(f"{name} is {read[name]!r}")
    return read.pop("rounds"), Tally(**read)

"""From a minigrid level to bytes: minigrid generates the level and its mission; the kernels take it from there."""

from __future__ import annotations

import contextlib
import functools
import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes, rooms
from polychromic.envs.grid.tasks import NotCovered, step_rule
from polychromic.errors import UserError


@dataclass(frozen=True)
class Level:
    """One configuration: the first state of its episodes and what its mission asks."""

    mission: str
    width: int
    height: int
    see_through_walls: bool
    own_horizon: int
    agent: tuple[int, int, int]  # x, y, direction
    carried: int  # object number + 1, or 0
    grid: NDArray[np.uint8]  # [width, height] codes
    rooms: NDArray[np.uint8]  # [width, height] room of each cell
    objects: NDArray[np.uint8]  # [objects, 2]: code, and number + 1 of what is inside (a box), or 0
    positions: NDArray[np.uint8]  # [objects, 2]: x and y, NOWHERE where it is not in the grid
    tracked: NDArray[np.uint8]  # [objects, 2]: x and y as the mission's verifier last saw them
    program: NDArray[np.int64]  # [PROGRAM], without the horizon
    members: tuple[tuple[int, ...], ...]  # the objects that fit each of the mission's DESCRIPTIONS


@functools.lru_cache(maxsize=8192)
def load_level(level: str, seed: int) -> Level:
    """The level that `gymnasium.make(level)` shows after `reset(seed=seed)`."""
    env = make_minigrid(level)
    with quiet():
        env.reset(seed=seed)
    return read_level(level, env)


def make_minigrid(level: str, **options: Any) -> Any:
    """The bare minigrid environment of an id; refuses levels that the engine does not cover."""
    import gymnasium
    import minigrid  # noqa: F401  (registers its levels)

    with quiet():
        try:
            env = gymnasium.make(level, disable_env_checker=True, **options).unwrapped
        except gymnasium.error.DependencyNotInstalled as error:
            raise NotCovered(level, f"minigrid cannot generate it here ({error})") from error
    step_rule(level, env)
    return env


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence minigrid, which prints rejected samples, and Gymnasium, which warns of older versions of an id."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read_level(level: str, env: Any) -> Level:
    """The state of a freshly reset minigrid environment as a `Level`."""
    rule = step_rule(level, env)
    width, height = env.width, env.height
    grid = np.full((width, height), codes.EMPTY, np.uint8)
    cells: list[tuple[Any, tuple[int, int]]] = []  # objects and their positions
    for x in range(width):
        for y in range(height):
            thing = env.grid.get(x, y)
            if thing is None:
                continue
            grid[x, y] = _code(level, thing)
            if thing.type in ("door", "key", "ball", "box"):
                cells.append((thing, (x, y)))
    # Objects not in the grid: the contents of boxes, and what is carried from the start.
    nowhere = (codes.NOWHERE, codes.NOWHERE)
    if env.carrying is not None:
        cells.append((env.carrying, nowhere))
    for thing, _ in cells:  # grows as contents are found, so boxes in boxes are found too
        if thing.contains is not None:
            cells.append((thing.contains, nowhere))
    if len(cells) > codes.MAX_OBJECTS:
        raise NotCovered(level, f"it has {len(cells)} objects, more than {codes.MAX_OBJECTS}")
    if max(width, height) > 250:
        raise NotCovered(level, f"its grid is {width} × {height}")
    number = {id(thing): index for index, (thing, _) in enumerate(cells)}
    objects = np.zeros((len(cells), 2), np.uint8)
    for index, (thing, _) in enumerate(cells):
        inside = 0 if thing.contains is None else number[id(thing.contains)] + 1
        objects[index] = (_code(level, thing), inside)
    positions = np.array([where for _, where in cells], np.uint8).reshape(len(cells), 2)
    tracked = positions.copy()
    program = np.zeros(codes.PROGRAM, np.int64)
    program[codes.RULE] = rule
    members: list[tuple[int, ...]] = [()] * codes.DESCRIPTIONS
    if rule == codes.RULE_BABYAI:
        _read_mission(level, env.instrs, number, program, members, tracked)
    else:
        _read_parameters(env, rule, number, program)
    return Level(
        mission=env.mission,
        width=width,
        height=height,
        see_through_walls=bool(env.see_through_walls),
        own_horizon=int(env.max_steps),
        agent=(int(env.agent_pos[0]), int(env.agent_pos[1]), int(env.agent_dir)),
        carried=0 if env.carrying is None else number[id(env.carrying)] + 1,
        grid=grid,
        rooms=rooms.room_map(env, grid),
        objects=objects,
        positions=positions,
        tracked=tracked,
        program=program,
        members=tuple(members),
    )


def _code(level: str, thing: Any) -> int:
    triple = tuple(int(part) for part in thing.encode())
    code = codes.CODE_OF_TRIPLE.get(triple)
    if code is None:
        raise NotCovered(level, f"it has a {thing.color} {thing.type}")
    if thing.type == "door" and thing.is_open and thing.is_locked:
        raise NotCovered(level, "it has a door that is open and locked at once")
    return code


def _read_parameters(env: Any, rule: int, number: dict[int, int], program: NDArray[np.int64]) -> None:
    """The targets of the levels that are not BabyAI missions."""
    from minigrid.core.constants import COLOR_TO_IDX

    first = {"key": codes.KEY, "ball": codes.BALL, "box": codes.BOX}
    values: tuple[int, ...] = ()
    if rule == codes.RULE_PICK_UP:
        values = (number[id(env.obj)] + 1,)
    elif rule == codes.RULE_UNLOCK:
        values = _cell_of(env, env.door)
    elif rule == codes.RULE_FETCH:
        values = (first[env.targetType] + COLOR_TO_IDX[env.targetColor],)
    elif rule == codes.RULE_DONE_AT:
        values = tuple(env.target_pos)
    elif rule == codes.RULE_MEMORY:
        values = (*env.success_pos, *env.failure_pos)
    elif rule == codes.RULE_PUT_NEAR:
        values = (first[env.move_type] + COLOR_TO_IDX[env.moveColor], *env.target_pos)
    elif rule == codes.RULE_TWO_DOORS:
        values = (*_cell_of(env, env.red_door), *_cell_of(env, env.blue_door))
    program[codes.PARAMETERS : codes.PARAMETERS + len(values)] = values


def _cell_of(env: Any, thing: Any) -> tuple[int, int]:
    index = next(index for index, cell in enumerate(env.grid.grid) if cell is thing)
    return index % env.width, index // env.width


def _read_mission(
    level: str,
    instruction: Any,
    number: dict[int, int],
    program: NDArray[np.int64],
    members: list[tuple[int, ...]],
    tracked: NDArray[np.uint8],
) -> None:
    """Write a BabyAI instruction into `program` and the positions that its verifier knows into `tracked`."""
    from minigrid.envs.babyai.core import verifier

    if verifier.use_done_actions:
        raise UserError("BABYAI_DONE_ACTIONS is set: the grid engine does not support it; unset the variable")
    sides = [instruction]
    if type(instruction) in (verifier.BeforeInstr, verifier.AfterInstr):
        program[codes.SEQUENCE] = codes.BEFORE if type(instruction) is verifier.BeforeInstr else codes.AFTER
        program[codes.SEQUENCE_STRICT] = instruction.strict
        sides = [instruction.instr_a, instruction.instr_b]
    for side, part in enumerate(sides):
        clauses = [part.instr_a, part.instr_b] if type(part) is verifier.AndInstr else [part]
        for place, clause in enumerate(clauses):
            _read_clause(level, clause, 2 * side + place, number, program, members, tracked)


def _read_clause(
    level: str,
    clause: Any,
    slot: int,
    number: dict[int, int],
    program: NDArray[np.int64],
    members: list[tuple[int, ...]],
    tracked: NDArray[np.uint8],
) -> None:
    from minigrid.envs.babyai.core import verifier

    kinds: dict[Any, int] = {
        verifier.GoToInstr: codes.GO_TO,
        verifier.OpenInstr: codes.OPEN,
        verifier.PickupInstr: codes.PICK_UP,
        verifier.PutNextInstr: codes.PUT_NEXT,
    }
    if type(clause) not in kinds:
        raise NotCovered(level, f"its mission has a {type(clause).__name__}")
    kind = kinds[type(clause)]
    program[codes.CLAUSE_KIND + slot] = kind
    program[codes.CLAUSE_STRICT + slot] = getattr(clause, "strict", False)
    descriptions = [clause.desc_move, clause.desc_fixed] if kind == codes.PUT_NEXT else [clause.desc]
    for second, description in enumerate(descriptions):
        matching = []
        for thing, (x, y) in zip(description.obj_set, description.obj_poss, strict=True):
            if id(thing) in number:
                matching.append(number[id(thing)])
                tracked[number[id(thing)]] = (x, y)
            # "a grey object" matches the walls too; what cannot be carried cannot fulfil such a clause.
            elif second or kind not in (codes.PICK_UP, codes.PUT_NEXT):
                raise NotCovered(level, f"its mission is about a {thing.type}")
        members[4 * second + slot] = tuple(matching)
    bits = sum(1 << index for index in members[slot])
    program[codes.MASK + slot] = np.array(bits, np.uint64).view(np.int64)

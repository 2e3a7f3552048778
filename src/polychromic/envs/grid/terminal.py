"""A grid as text, two characters per cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polychromic.envs.grid import codes

_PLAIN = {codes.EMPTY: ("  ", ""), codes.GOAL: ("▓▓", "green"), codes.LAVA: ("≈≈", "red"), codes.WALL: ("██", "")}
_THINGS = {
    codes.FLOOR: "··",
    codes.KEY: "k ",
    codes.BALL: "● ",
    codes.BOX: "□ ",
    codes.OPEN_DOOR: "┆┆",
    codes.CLOSED_DOOR: "▒▒",
    codes.LOCKED_DOOR: "╬╬",
}
_AGENT = ("▶ ", "▼ ", "◀ ", "▲ ")
_ANSI = {"red": 31, "green": 32, "blue": 34, "purple": 35, "yellow": 33, "grey": 90}


def grid_text(grid: NDArray[np.uint8], x: int, y: int, direction: int, *, colours: bool = False) -> str:
    """The codes of a grid [width, height] with the agent in it."""
    lines = []
    for row in range(grid.shape[1]):
        cells = [_sign(int(grid[column, row]), colours) for column in range(grid.shape[0])]
        if row == y:
            cells[x] = f"\033[1;31m{_AGENT[direction]}\033[0m" if colours else _AGENT[direction]
        lines.append("".join(cells))
    return "\n".join(lines)


def _sign(code: int, colours: bool) -> str:
    if code in _PLAIN:
        sign, colour = _PLAIN[code]
    else:
        first = max(start for start in _THINGS if start <= code)
        sign, colour = _THINGS[first], codes.COLOURS[(code - first) % len(codes.COLOURS)]
    return f"\033[{_ANSI[colour]}m{sign}\033[0m" if colours and colour else sign

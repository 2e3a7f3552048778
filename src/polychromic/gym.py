"""Registers the grid engine with Gymnasium: `polychromic/goto-v0` and the like, single and vectorised.

`import polychromic` does this if Gymnasium was imported before it; importing this module always does.
"""

from __future__ import annotations

from polychromic.envs.grid.register import register_grid_envs

register_grid_envs()

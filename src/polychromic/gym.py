"""Registers the grid engine with Gymnasium: `polychromic/goto-v0` and its kin, one at a time or as a vector.

`import polychromic` does this by itself where Gymnasium was imported before it; importing this module always does.
"""

from __future__ import annotations

from polychromic.envs.grid.register import register_grid_envs

register_grid_envs()

"""Repeatable attacks: hostile environments, kills, damaged files and planted modules. `python -m torture`."""

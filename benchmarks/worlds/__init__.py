"""The grid engine against other people's grid worlds, on one core, in one run."""

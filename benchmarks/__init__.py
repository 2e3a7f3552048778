"""Measurements behind the project's claims of speed: ratios taken side by side in one run, never timed tests."""

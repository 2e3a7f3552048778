"""Set reinforcement learning as pure functions on arrays: no environment, no network, no files, no configuration."""

"""Is a fork of an environment faithful? A proof by playing episodes, and what to do if it is not."""

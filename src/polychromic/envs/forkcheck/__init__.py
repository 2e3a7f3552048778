"""Is a fork of an environment faithful? A proof by playing, and what to do if it is not."""

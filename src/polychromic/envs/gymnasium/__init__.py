"""Anyone's Gymnasium environment as a world that can be forked."""

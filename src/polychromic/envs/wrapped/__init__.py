"""How other people's Gymnasium environments become rows of a forkable world."""

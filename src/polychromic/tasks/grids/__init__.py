"""The paper's grid tasks and every other level of minigrid."""

"""The grid engine: MiniGrid and BabyAI levels as forkable worlds, bit-exact and a thousand times faster."""

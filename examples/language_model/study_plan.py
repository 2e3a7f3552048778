"""What the language study runs: its main rows, their seeds and temperatures. Read by the runs and by the tables."""

# The rows that the claim is about come first, so that an interrupted study has them for every family.
MAIN_ROWS = ("pretrained", "stock", "polychromic-4", "polychromic-4-annealed")
SEEDS = tuple(range(8))
OTHER_SEEDS = 5  # of the other rows, the last ones: they show a trend; the claim has more
LAST_ROWS = ("polychromic-4-kl-unscaled", "stock-entropy-batch", "polychromic-8-kl", "polychromic-16-kl")
LAST_SEEDS = 3  # of these
TEMPERATURES = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5)  # at which the main rows are asked too


def planned_seeds(row: str) -> int:
    """How many seeds a row has when the study is complete."""
    if row in MAIN_ROWS:
        return len(SEEDS)
    return LAST_SEEDS if row in LAST_ROWS else OTHER_SEEDS

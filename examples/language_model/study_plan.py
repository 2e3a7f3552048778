"""What the language study runs: its main rows, their seeds and temperatures. Read by the runs and by the tables."""

# The rows that the claim is about come first, so that an interrupted study has them for every family.
MAIN_ROWS = ("pretrained", "stock", "polychromic-4", "polychromic-4-annealed")
SEEDS = tuple(range(8))
OTHER_SEEDS = 5  # of the other rows, the last ones: they show a trend; the claim has more
TEMPERATURES = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5)  # at which the main rows are asked too


def planned_seeds(row: str) -> int:
    """How many seeds a row has when the study is complete."""
    return len(SEEDS) if row in MAIN_ROWS else OTHER_SEEDS

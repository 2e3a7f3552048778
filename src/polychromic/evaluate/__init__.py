"""How good and how diverse is a policy? Many attempts in one batch, scores with intervals, perturbed starts."""

"""Worlds made of tokens: a state is the tokens so far, an action is the next one, a fork is a copied prefix."""

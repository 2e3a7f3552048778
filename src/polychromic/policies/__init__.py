"""Policies in JAX: plain pytrees and pure functions, their files, and fast calls from the host."""

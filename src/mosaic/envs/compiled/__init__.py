"""Envs as plain arrays: the compiled twins of reference environments."""

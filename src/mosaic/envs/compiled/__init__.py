"""Compiled versions of reference environments, as plain arrays."""

"""Runners that play episodes of an env with controllers."""

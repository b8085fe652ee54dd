"""Env wrappers by name: `time_limit:max_steps=200` around any Env."""

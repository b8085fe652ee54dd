"""Environments behind one protocol: adapters, compiled versions, vector envs and wrappers."""

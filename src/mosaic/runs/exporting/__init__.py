"""Exports as background jobs, with the same supervisor, states and logs as runs."""

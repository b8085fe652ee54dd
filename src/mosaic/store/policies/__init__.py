"""Policies loaded from the checkpoints of runs."""
